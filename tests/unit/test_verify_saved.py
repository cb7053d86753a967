"""A saved pack, checked later: ok, stale or invalid for each ref."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agentloop.config import Caps
from agentloop.errors import AgentloopError, ErrorCode
from agentloop.pack import canonical
from agentloop.verify import verify_saved
from tests.unit.pack_case import PackCase

FILES = {
    "zoo/otters.md": "# Otters\n\nOtters sleep holding hands in the kelp.\n",
    "zoo/seals.md": "# Seals\n\nSeals sleep on the rocks, otters do not.\n",
}


def saved(root: Path, files: dict[str, Any] | None = None) -> tuple[Any, Any]:
    """The released pack and the artifact, as a later reader has them."""
    built = PackCase(root, files or FILES, "How do otters sleep?").build()
    return json.loads(canonical(built.released)), json.loads(built.artifacts["evidence_pack.json"])


def statuses(pack: Any, root: Path) -> dict[str, str]:
    """Path -> status of its refs."""
    return {r.place.rsplit(":", 1)[0]: r.status for r in verify_saved(pack, [str(root)], Caps())}


def test_nothing_changed(tmp_path: Path) -> None:
    for pack in saved(tmp_path):
        assert set(statuses(pack, tmp_path).values()) == {"ok"}


@pytest.mark.req("B5")
def test_an_edit_makes_the_refs_of_that_file_stale(tmp_path: Path) -> None:
    pack, _ = saved(tmp_path)
    (tmp_path / "zoo/otters.md").write_text(FILES["zoo/otters.md"] + "Edited.\n")
    assert statuses(pack, tmp_path) == {"zoo/otters.md": "stale", "zoo/seals.md": "ok"}
    reasons = [r.reason for r in verify_saved(pack, [str(tmp_path)], Caps()) if r.reason]
    assert reasons == ["the file changed, the cited span did not"]


def test_a_deleted_file_is_stale(tmp_path: Path) -> None:
    pack, _ = saved(tmp_path)
    (tmp_path / "zoo/seals.md").unlink()
    assert statuses(pack, tmp_path)["zoo/seals.md"] == "stale"


@pytest.mark.parametrize(
    ("field", "value"),
    [("byte_start", 1), ("byte_end", 10**9), ("line_start", 1), ("line_end", 7),
     ("chunk_hash", "sha256:" + "0" * 16),
     ("byte_start", "x"), ("content_hash", "sha256:ab"), ("input_id", "in7"), ("path", "../zoo/otters.md"),
     ("path", "/etc/passwd")],
)  # fmt: skip
def test_an_altered_ref_is_invalid(tmp_path: Path, field: str, value: Any) -> None:
    pack, _ = saved(tmp_path)
    pack["payload"]["evidence"][0]["source_refs"][0][field] = value
    first = verify_saved(pack, [str(tmp_path)], Caps())[0]
    assert first.status == "invalid"
    assert first.reason


@pytest.mark.req("B2")
def test_a_link_put_in_place_of_a_file_is_not_followed(tmp_path: Path) -> None:
    root, outside = tmp_path / "in", tmp_path / "outside"
    root.mkdir()
    pack, _ = saved(root)
    outside.mkdir()
    (outside / "otters.md").write_text(FILES["zoo/otters.md"])
    (root / "zoo/otters.md").unlink()
    (root / "zoo/otters.md").symlink_to(outside / "otters.md")
    assert statuses(pack, root)["zoo/otters.md"] == "stale"


@pytest.mark.req("B4")
def test_a_fifo_put_in_place_of_a_file_never_blocks(tmp_path: Path) -> None:
    pack, _ = saved(tmp_path)
    (tmp_path / "zoo/otters.md").unlink()
    os.mkfifo(tmp_path / "zoo/otters.md")
    assert statuses(pack, tmp_path)["zoo/otters.md"] == "stale"


def test_derived_text_is_extracted_again(tmp_path: Path) -> None:
    line = "2024-01-01 10:00:00 ERROR otters sleep no more\n"
    pack, _ = saved(tmp_path, {"zoo.log.gz": gzip.compress(line.encode() * 3, mtime=0)})
    ref = pack["payload"]["evidence"][0]["source_refs"][0]
    assert ref["derived"]["text_hash"].startswith("sha256:")
    assert set(statuses(pack, tmp_path).values()) == {"ok"}
    ref["derived"]["char_end"] -= 1
    assert set(statuses(pack, tmp_path).values()) == {"invalid"}


def test_utf16_text_is_extracted_again(tmp_path: Path) -> None:
    text = "first line\r\notters sleep holding hands\r\nlast line\r\n"
    pack, _ = saved(tmp_path, {"zoo.txt": text.encode("utf-16")})
    item = pack["payload"]["evidence"][0]
    assert "holding hands" in item["claim"]
    assert set(statuses(pack, tmp_path).values()) == {"ok"}


def test_a_ref_of_a_commit_is_read_from_git_objects(tmp_path: Path) -> None:
    def git(*args: str) -> str:
        env = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "PATH": os.environ["PATH"]}
        author = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        done = subprocess.run(["git", *author, *args], cwd=tmp_path, env=env, capture_output=True, check=True)
        return done.stdout.decode().strip()

    pack, _ = saved(tmp_path)
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "zoo")
    commit = git("rev-parse", "HEAD")
    for item in pack["payload"]["evidence"]:
        item["source_refs"][0]["commit"] = commit
    (tmp_path / "zoo/otters.md").unlink()
    assert set(statuses(pack, tmp_path).values()) == {"ok"}
    pack["payload"]["evidence"][0]["source_refs"][0]["commit"] = "1" * 40
    assert "stale" in statuses(pack, tmp_path).values()


@pytest.mark.parametrize("data", [None, [], "x", {}, {"payload": {}}, {"payload": {"evidence": [1]}}])
def test_json_that_is_no_pack_is_refused(data: Any) -> None:
    with pytest.raises(AgentloopError) as caught:
        verify_saved(data, ["."], Caps())
    assert caught.value.code is ErrorCode.RAG_SCHEMA_INVALID


@pytest.mark.req("N3")
def test_a_missing_input_is_named(tmp_path: Path) -> None:
    pack, _ = saved(tmp_path)
    with pytest.raises(AgentloopError) as caught:
        verify_saved(pack, [str(tmp_path / "nowhere")], Caps())
    assert "nowhere" in caught.value.message
