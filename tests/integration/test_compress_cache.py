"""`agentloop compress` and its private cache: what is kept, what is seen, what never is taken from it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from broker.commands import kept
from broker.commands.environment import compress_environment
from tests.integration.broker_server import small_tree

QUESTION = "how long does it back off?"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An own BROKER_HOME, the cache on."""
    found = tmp_path / "home"
    monkeypatch.setenv("BROKER_HOME", str(found))
    monkeypatch.setenv("AGENTLOOP_CACHE", "on")
    return found


def ask(*paths: Path, question: str = QUESTION, **more: Any) -> kept.Answer:
    """One request as the command makes it."""
    from agentloop.api import make_request

    with compress_environment(model=None, record=None, progress=None) as env:
        return kept.answered(make_request(question, paths, **more), env, "", cached=True)


def from_cache(answer: kept.Answer) -> bool:
    return bool(answer.released["provenance"].get("cache") == {"evidence_pack": "hit"})


def content(answer: kept.Answer) -> dict[str, Any]:
    return {name: value for name, value in answer.released.items() if name != "provenance"}


def test_the_same_question_is_answered_from_the_cache(tmp_path: Path, home: Path) -> None:
    root = small_tree(tmp_path / "data")
    first, again = ask(root), ask(root)
    assert (from_cache(first), from_cache(again)) == (False, True)
    assert content(first) == content(again)
    assert first.artifacts == again.artifacts
    assert not from_cache(ask(root, question="header colon"))
    assert not from_cache(ask(root, constraints={"final_evidence_pack_budget": 900}))
    assert from_cache(ask(root)), "files that were just written are told apart by their hashes"


@pytest.mark.req("B5")
def test_an_edit_is_seen_whatever_its_time_says(tmp_path: Path, home: Path) -> None:
    root = small_tree(tmp_path / "data")
    first = ask(root)
    file = root / "src" / "retry.py"
    times = file.stat()
    file.write_text(file.read_text().replace("30", "45"))
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    changed = ask(root)
    assert not from_cache(changed)
    assert content(changed) != content(first), "its hash is another one"
    (root / "src" / "more.py").write_text("def back_off_more():\n    return 60\n")
    assert not from_cache(ask(root))


def test_a_declared_hash_is_compared_before_a_pack_is_taken_from_the_cache(
    tmp_path: Path, home: Path
) -> None:
    from agentloop.api import make_request
    from agentloop.errors import AgentloopError

    root = small_tree(tmp_path / "data")
    ask(root)
    request = make_request(QUESTION, [root])
    (ref,) = request.input_refs
    wrong = request.model_copy(
        update={"input_refs": (ref.model_copy(update={"content_hash": "sha256:" + "0" * 64}),)}
    )
    with (
        compress_environment(model=None, record=None, progress=None) as env,
        pytest.raises(AgentloopError, match="what was declared"),
    ):
        kept.answered(wrong, env, "", cached=True)


def test_filters_are_kept_apart(tmp_path: Path, home: Path) -> None:
    root = small_tree(tmp_path / "data")
    ask(root)
    narrow = ask(root, task_params={"paths": ["src"]})
    assert not from_cache(narrow)
    assert from_cache(ask(root, task_params={"paths": ["src"]}))
    assert from_cache(ask(root))


def test_conversations_are_not_kept(tmp_path: Path, home: Path) -> None:
    talk = tmp_path / "talk.jsonl"
    talk.write_text('{"speaker": "a", "text": "canary-42 is our fee code"}\n' * 3)
    ask(talk, question="fee code")
    assert not from_cache(ask(talk, question="fee code"))
    files = [p for p in (home / "cache").rglob("*") if p.is_file()]
    assert b"canary-42" not in b"".join(p.read_bytes() for p in files)


def test_off_is_off(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTLOOP_CACHE", "off")
    root = small_tree(tmp_path / "data")
    ask(root)
    assert not from_cache(ask(root))
    assert not (home / "cache").exists()


def test_the_second_question_keeps_chunks_and_index_for_the_third(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agentloop import checkpoint

    monkeypatch.setattr(checkpoint, "LEAST_BYTES", 0)
    root = small_tree(tmp_path / "data")
    ask(root)
    ask(root, question="header colon")
    (place,) = (home / "cache" / "stages").glob("*/*")
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "chunk_corpus", lambda *_: pytest.fail("it was chunked again"))
        third = ask(root, question="which error?")
    monkeypatch.setenv("AGENTLOOP_CACHE", "off")
    assert content(third) == content(ask(root, question="which error?"))
    monkeypatch.setenv("AGENTLOOP_CACHE", "on")
    segment = max((place / "index").iterdir(), key=lambda path: path.stat().st_size)
    segment.write_bytes(segment.read_bytes()[:-1] + b"!")
    fourth = ask(root, question="what is said at a colon?")
    monkeypatch.setenv("AGENTLOOP_CACHE", "off")
    assert content(fourth) == content(ask(root, question="what is said at a colon?")), "a broken index"


def commit(root: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", str(root), *identity, *arguments], check=True, capture_output=True)


@pytest.mark.parametrize("branch", ["main", "topic/nested"])
def test_a_new_head_with_the_same_files_is_another_input(tmp_path: Path, home: Path, branch: str) -> None:
    root = small_tree(tmp_path / "data")
    commit(root, "init", "-q", "-b", branch)
    commit(root, "config", "core.logAllRefUpdates", "false")
    commit(root, "add", ".")
    commit(root, "commit", "-q", "-m", "first")
    first = ask(root, task="debug_with_local_context")
    assert from_cache(ask(root, task="debug_with_local_context"))
    commit(root, "commit", "-q", "--allow-empty", "-m", "second")
    renewed = ask(root, task="debug_with_local_context")
    assert not from_cache(renewed)
    assert content(first)["payload"]["evidence"]


def test_the_command_says_where_its_pack_came_from(tmp_path: Path) -> None:
    root = small_tree(tmp_path / "data")
    environ = {**os.environ, "BROKER_HOME": str(tmp_path / "home"), "AGENTLOOP_CACHE": "on"}
    argv = [sys.executable, "-m", "broker.cli", "compress", QUESTION, str(root), "--format", "json"]
    packs = [
        json.loads(subprocess.run(argv, env=environ, check=True, capture_output=True).stdout)
        for _ in range(2)
    ]
    assert [pack["provenance"].get("cache") for pack in packs] == [None, {"evidence_pack": "hit"}]
    assert packs[0]["payload"] == packs[1]["payload"]
    assert packs[0]["provenance"]["pack_id"] == packs[1]["provenance"]["pack_id"]


@pytest.mark.parametrize("form", ["file", "folder", "zip"])
def test_no_word_of_an_export_is_kept(tmp_path: Path, home: Path, form: str) -> None:
    """Records are asked about twice, as the command does it; nothing of them lies in the state folder."""
    canary = "zanzibarquux"
    rows = [
        {"id": n, "author": "Ada", "text": f"Remark {n} on the {canary} " + "weather of May " * 60}
        for n in range(9000)
    ]
    folder = tmp_path / "export"
    folder.mkdir()
    if form == "zip":
        with zipfile.ZipFile(folder / "export.zip", "w", zipfile.ZIP_STORED) as archive:
            archive.writestr("messages.json", json.dumps(rows))
    else:
        (folder / "messages.json").write_text(json.dumps(rows))
        (folder / "notes.md").write_text("# Notes\n\nNothing of note.\n")
    asked = {"file": folder / "messages.json", "folder": folder, "zip": folder / "export.zip"}[form]
    for question in (f"which remark on the {canary}?", "what of the weather?"):
        assert ask(asked, question=question).released["payload"]["evidence"]
    kept_files = [file for file in home.rglob("*") if file.is_file()]
    assert not [file for file in kept_files if canary.encode() in file.read_bytes()]
    assert not [file for file in kept_files if "stages" in file.parts], "an index holds all words"
