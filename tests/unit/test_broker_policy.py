"""What a request may read, and what may leave."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from agentloop.config import Policy
from agentloop.errors import AgentloopError, ErrorCode
from agentloop.request import Classification, parse_request
from broker.policy import authorise, recheck, verify_declared
from broker.release import screen
from broker.values import NamespaceRules
from tests.fakes.broker_parts import pack


def ask(uri: str, **more: Any) -> Any:
    return parse_request({"query": "q", "input_refs": [{"type": "file", "uri": uri, **more}]})


@pytest.fixture
def roots(tmp_path: Path) -> NamespaceRules:
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "in" / "a.txt").write_text("a")
    (tmp_path / "out.txt").write_text("secret")
    (tmp_path / "in" / "link").symlink_to(tmp_path / "out.txt")
    (tmp_path / "in" / "folder").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "in" / "pipe")
    return NamespaceRules(roots=(str(tmp_path / "in"),))


def reason(request: Any, rules: NamespaceRules, home: str) -> str:
    with pytest.raises(AgentloopError) as refusal:
        authorise(request, rules, {}, home)
    assert refusal.value.code is ErrorCode.INPUT_DISCOVERY_FAILED
    return str(refusal.value.details["reason"])


@pytest.mark.req("B1")
@pytest.mark.req("F4")
@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("{root}/in/../out.txt", "path_not_allowed"),
        ("in/a.txt", "path_not_allowed"),
        ("file://{root}/in/%2e%2e/out.txt", "path_not_allowed"),
        ("file://{root}/in/%252e%252e/out.txt", "path_not_allowed"),
        ("file://host{root}/in/a.txt", "path_not_allowed"),
        ("~/a.txt", "path_not_allowed"),
        ("{root}/in/a.txt\0", "path_not_allowed"),
        ("{root}\\in\\a.txt", "path_not_allowed"),
        ("{root}/out.txt", "path_not_allowed"),
        ("{root}/in-other", "path_not_allowed"),
        ("{root}/in/link", "path_not_allowed"),
        ("{root}/in/folder/out.txt", "path_not_allowed"),
        ("{root}/in/none", "not_found"),
        ("{root}/in/pipe", "not_a_file"),
        ("/etc/passwd", "path_not_allowed"),
        ("/proc/self/environ", "path_not_allowed"),
        ("http://127.0.0.1:1/x", "path_not_allowed"),
        ("https://example.com/x", "path_not_allowed"),
        ("ssh://host/x", "path_not_allowed"),
        ("git@host:x", "path_not_allowed"),
        ("artifact://none", "not_found"),
        ("-", "path_not_allowed"),
    ],
)
def test_refs_outside_the_roots_or_not_local_are_refused(
    roots: NamespaceRules, tmp_path: Path, uri: str, why: str
) -> None:
    assert reason(ask(uri.replace("{root}", str(tmp_path))), roots, str(tmp_path / "home")) == why


def test_refs_inside_become_real_paths_and_levels_only_rise(roots: NamespaceRules, tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    found = authorise(ask(f"file://{tmp_path}/in/a.txt", classification="phi"), roots, {}, home)
    assert found.request.input_refs[0].uri == str(tmp_path / "in" / "a.txt")
    assert found.classification is Classification.PHI
    strict = NamespaceRules(roots=roots.roots, default_classification=Classification.RESTRICTED)
    lowered = authorise(ask(f"{tmp_path}/in/a.txt", classification="public"), strict, {}, home)
    assert lowered.classification is Classification.RESTRICTED
    assert lowered.request.input_refs[0].classification is Classification.RESTRICTED


def test_without_roots_nothing_is_read(tmp_path: Path) -> None:
    assert reason(ask(str(tmp_path)), NamespaceRules(), str(tmp_path / "h")) == "path_not_allowed"


def test_the_brokers_own_folder_is_never_an_input(tmp_path: Path) -> None:
    (tmp_path / "home" / "runs").mkdir(parents=True)
    rules = NamespaceRules(roots=(str(tmp_path),))
    for path in (tmp_path, tmp_path / "home", tmp_path / "home" / "runs"):
        assert reason(ask(str(path)), rules, str(tmp_path / "home")) == "path_not_allowed"


def test_roots_are_checked_again_before_a_run(roots: NamespaceRules, tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    request = authorise(ask(f"{tmp_path}/in/a.txt"), roots, {}, home).request
    recheck(request, roots, home)
    with pytest.raises(AgentloopError):
        recheck(request, NamespaceRules(roots=(str(tmp_path / "in" / "deep"),)), home)
    (tmp_path / "in" / "a.txt").unlink()
    (tmp_path / "in" / "a.txt").symlink_to(tmp_path / "out.txt")
    with pytest.raises(AgentloopError):
        recheck(request, roots, home)


def test_a_declared_hash_is_compared(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"abc")
    right = "sha256:" + hashlib.sha256(b"abc").hexdigest()
    verify_declared(ask(str(file), content_hash=right))
    verify_declared(ask(str(file), content_hash=right[: len("sha256:") + 16]))
    with pytest.raises(AgentloopError) as refusal:
        verify_declared(ask(str(file), content_hash="sha256:" + "0" * 64))
    assert refusal.value.code is ErrorCode.INPUT_HASH_MISMATCH


def test_a_pack_leaves_only_as_todays_policy_allows() -> None:
    good = pack()
    screen(good, Policy())
    with pytest.raises(AgentloopError) as refusal:
        screen(good, Policy(allow_paths=False))
    assert refusal.value.code is ErrorCode.POLICY_REDACTION_REQUIRED
    raw = pack()
    raw["payload"]["evidence"][0]["excerpt"] = "text"
    screen(raw, Policy())
    for changed, policy in (
        ({**raw, "payload": {**raw["payload"]}}, Policy(allow_excerpts=False)),
        (
            {
                **raw,
                "payload": {
                    **raw["payload"],
                    "input_scope": {"classification": "phi", "source_refs": []},
                },
            },
            Policy(),
        ),
    ):
        with pytest.raises(AgentloopError):
            screen(changed, policy)
    with pytest.raises(AgentloopError) as invalid:
        screen({"payload": {}}, Policy())
    assert invalid.value.code is ErrorCode.RAG_SCHEMA_INVALID
