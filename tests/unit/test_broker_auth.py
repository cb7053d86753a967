"""Tokens, roles and what a wrong one learns."""

from __future__ import annotations

import hmac
import json
from pathlib import Path

import pytest

from broker.auth import (
    LOCAL,
    Authenticator,
    Principal,
    Role,
    create_token,
    list_tokens,
    local_token,
    revoke_token,
)
from broker.errors import BrokerCode, BrokerError


def test_a_token_is_stored_as_a_hash_and_resolves(tmp_path: Path) -> None:
    token = create_token(tmp_path, "ci", namespace="red", roles=["user", "priority"])
    text = (tmp_path / "tokens.json").read_text()
    assert token not in text
    assert (tmp_path / "tokens.json").stat().st_mode & 0o77 == 0
    found = Authenticator(tmp_path / "tokens.json").principal([f"Bearer {token}"])
    assert found == Principal("ci", "red", frozenset({Role.USER, Role.PRIORITY}))
    assert token[:8] not in json.dumps(list_tokens(tmp_path))


@pytest.mark.req("F7")
@pytest.mark.parametrize(
    "headers",
    [
        [],
        ["Bearer wrong-token-wrong-token-wrong"],
        ["Bearer"],
        ["Bearer "],
        ["Basic dXNlcjpwYXNz"],
        ["Bearer tökentökentökentöken"],
        ["Bearer a b"],
        ["{good}", "{good}"],
        ["{good} "],
        ["Bearer " + "x" * 100_000],
    ],
)
def test_missing_duplicate_odd_and_wrong_tokens_get_one_answer(tmp_path: Path, headers: list[str]) -> None:
    good = f"Bearer {create_token(tmp_path, 'a')}"
    auth = Authenticator(tmp_path / "tokens.json")
    with pytest.raises(BrokerError) as refusal:
        auth.principal([h.replace("{good}", good) for h in headers])
    assert refusal.value.code is BrokerCode.UNAUTHENTICATED
    assert str(refusal.value) == "This needs a valid bearer token."


@pytest.mark.req("F7")
def test_every_grant_is_compared_in_constant_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = [create_token(tmp_path, f"n{n}") for n in range(5)]
    auth = Authenticator(tmp_path / "tokens.json")
    real, calls = hmac.compare_digest, []

    def counted(a: str, b: str) -> bool:
        calls.append(1)
        return real(a, b)

    monkeypatch.setattr("broker.auth.hmac.compare_digest", counted)
    for token in (tokens[0], tokens[4]):
        calls.clear()
        auth.resolve(token)
        assert len(calls) == 5


def test_a_new_or_revoked_token_counts_without_a_restart(tmp_path: Path) -> None:
    first = create_token(tmp_path, "a")
    auth = Authenticator(tmp_path / "tokens.json")
    auth.resolve(first)
    second = create_token(tmp_path, "b")
    assert auth.resolve(second).name == "b"
    assert revoke_token(tmp_path, "a") == 1
    with pytest.raises(BrokerError):
        auth.resolve(first)
    assert not auth.still_granted("a", "local")
    assert auth.still_granted("b", "local")


def test_roles_bound_what_a_caller_may_do() -> None:
    reader = Principal("r", "n", frozenset({Role.READER}))
    reader.require(Role.READER)
    with pytest.raises(BrokerError) as refusal:
        reader.require(Role.USER)
    assert refusal.value.code is BrokerCode.POLICY_DENIED
    Principal("o", "n", frozenset({Role.OPERATOR})).require(Role.PRIORITY)
    LOCAL.require(Role.OPERATOR)
    Principal("u", "n", frozenset({Role.USER})).require(Role.READER)


def test_the_local_token_is_made_once_and_private(tmp_path: Path) -> None:
    assert local_token(tmp_path) == local_token(tmp_path)
    assert (tmp_path / "local-token").stat().st_mode & 0o77 == 0


@pytest.mark.parametrize("name", ["", "a b", "../x", "x" * 65, "-x", "a\nb"])
def test_odd_names_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError):
        create_token(tmp_path, name)
