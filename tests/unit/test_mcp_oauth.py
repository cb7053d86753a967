"""Access tokens of an issuer: signed by its keys, for this resource, not expired, or refused."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from broker.auth import Authenticator, Principal, Role
from broker.config import load
from broker.errors import BrokerError
from broker.oauth import JwtVerifier
from broker.values import SettingsError

ISSUER = "https://login.example"
RESOURCE = "https://broker.example/mcp"
KEY = ec.generate_private_key(ec.SECP256R1())
OTHER_KEY = ec.generate_private_key(ec.SECP256R1())


def jwks(key: Any, kid: str = "k1") -> str:
    public = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(key.public_key()))
    return json.dumps({"keys": [{**public, "kid": kid, "use": "sig"}]})


@pytest.fixture
def auth(tmp_path: Path) -> Authenticator:
    file = tmp_path / "keys.json"
    file.write_text(jwks(KEY))
    return Authenticator(tmp_path / "tokens.json", issuer=JwtVerifier(ISSUER, RESOURCE, file))


def claims(**changed: Any) -> dict[str, Any]:
    now = int(time.time())
    base = {
        "iss": ISSUER,
        "aud": RESOURCE,
        "sub": "alice",
        "exp": now + 300,
        "scope": "agentloop:user openid",
    }
    return {k: v for k, v in {**base, **changed}.items() if v is not None}


def token(key: Any = KEY, algorithm: str = "ES256", kid: str | None = "k1", **changed: Any) -> str:
    headers = {"kid": kid} if kid else None
    return jwt.encode(claims(**changed), key, algorithm=algorithm, headers=headers)


def caller(auth: Authenticator, value: str) -> Principal:
    return auth.principal([f"Bearer {value}"])


def test_a_good_token_is_a_caller_with_its_scopes(auth: Authenticator) -> None:
    found = caller(auth, token())
    assert found.roles == {Role.USER}
    assert found.namespace.startswith("sub-")
    assert found == caller(auth, token(kid=None))
    assert found.name != caller(auth, token(sub="bob")).name
    assert auth.still_granted(found.name, found.namespace)
    assert caller(auth, token(agentloop_namespace="team")).namespace == "team"
    assert caller(auth, token(agentloop_namespace="../x")).namespace.startswith("sub-")


def test_without_our_scopes_there_is_nothing_to_do(auth: Authenticator) -> None:
    found = caller(auth, token(scope="openid user"))
    with pytest.raises(BrokerError):
        found.require(Role.READER)


@pytest.mark.req("F7")
@pytest.mark.parametrize(
    "changed",
    [
        {"aud": "https://other.example/mcp"},
        {"aud": None},
        {"iss": "https://evil.example"},
        {"exp": int(time.time()) - 60},
        {"exp": None},
        {"sub": None},
        {"nbf": int(time.time()) + 3600},
    ],
)
def test_wrong_claims_are_refused(auth: Authenticator, changed: dict[str, Any]) -> None:
    with pytest.raises(BrokerError) as refused:
        caller(auth, token(**changed))
    assert refused.value.code == "UNAUTHENTICATED"


@pytest.mark.req("F7")
def test_wrong_signatures_are_refused(auth: Authenticator) -> None:
    good = token()
    head, body, signature = good.split(".")
    forged = [
        token(OTHER_KEY),
        token(kid="k2"),
        token(rsa.generate_private_key(65537, 2048), "RS256"),
        jwt.encode(claims(), None, algorithm="none", headers={"kid": "k1"}) + "x",
        jwt.encode(claims(), "k" * 32, algorithm="HS256", headers={"kid": "k1"}),
        f"{head}.{body}.{signature[:-4]}AAAA",
        f"{head}.{body[:-4]}AAAA.{signature}",
        "a.b.c",
    ]
    for value in forged:
        with pytest.raises(BrokerError) as refused:
            caller(auth, value)
        assert refused.value.code == "UNAUTHENTICATED"


def test_keys_are_read_again_when_they_change(auth: Authenticator) -> None:
    assert isinstance(auth.issuer, JwtVerifier)
    caller(auth, token())
    auth.issuer.file.write_text(jwks(OTHER_KEY, "k20"))
    with pytest.raises(BrokerError):
        caller(auth, token())
    assert caller(auth, token(OTHER_KEY, kid="k20")).roles
    auth.issuer.file.write_text("broken")
    with pytest.raises(BrokerError):
        caller(auth, token())


def test_our_own_tokens_still_work_and_others_don_t(auth: Authenticator) -> None:
    with pytest.raises(BrokerError):
        caller(auth, "an-opaque-token-of-nobody")


def test_metadata_and_challenge(tmp_path: Path) -> None:
    verifier = JwtVerifier(ISSUER, RESOURCE, tmp_path)
    assert verifier.metadata["resource"] == RESOURCE
    assert verifier.metadata["authorization_servers"] == [ISSUER]
    where = "https://broker.example/.well-known/oauth-protected-resource/mcp"
    assert verifier.challenge == f'Bearer resource_metadata="{where}"'


@pytest.mark.parametrize(
    "changed",
    [
        {"BROKER_OAUTH_RESOURCE": ""},
        {"BROKER_OAUTH_RESOURCE": "ftp://x"},
        {"BROKER_OAUTH_JWKS_FILE": "/nonexistent"},
        {"BROKER_AUTH": "none"},
    ],
)
def test_half_a_configuration_is_refused(tmp_path: Path, changed: dict[str, str]) -> None:
    file = tmp_path / "keys.json"
    file.write_text(jwks(KEY))
    good = {
        "BROKER_HOME": str(tmp_path),
        "BROKER_OAUTH_ISSUER": ISSUER,
        "BROKER_OAUTH_RESOURCE": RESOURCE,
        "BROKER_OAUTH_JWKS_FILE": str(file),
    }
    assert load(good).oauth_issuer == ISSUER
    with pytest.raises(SettingsError):
        load({**good, **changed})
