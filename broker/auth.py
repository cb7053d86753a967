"""Who is calling: bearer tokens, kept as hashes in `BROKER_HOME/tokens.json`, and what each may do.

A token is 256 random bits, so a plain SHA-256 of it is enough. The file is read again when it changes.
`BROKER_HOME/local-token` holds the token that the command line uses on this machine.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from agentloop.rundir import publish
from broker.errors import BrokerCode, BrokerError

TOKEN_FORM = re.compile(r"[A-Za-z0-9._~+/=-]{16,512}")
NAME_FORM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
LOCAL_NAMESPACE = "local"
JWT_PREFIX = "jwt."  # of the names of callers with an issuer's access token
JWT_FORM = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")


class Role(StrEnum):
    """`reader` sees jobs and results, `user` also submits and cancels, `priority` may ask for a
    higher QoS, `operator` also reads metrics and clears caches."""

    READER = "reader"
    USER = "user"
    PRIORITY = "priority"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller: its name, the one namespace that it works in, and its roles."""

    name: str
    namespace: str
    roles: frozenset[Role]

    def require(self, role: Role) -> None:
        """Pass, or refuse.

        Raises:
            BrokerError: POLICY_DENIED.
        """
        granted = self.roles | ({Role.READER} if self.roles else set())
        if role not in granted and Role.OPERATOR not in granted:
            raise BrokerError(
                BrokerCode.POLICY_DENIED,
                f"This needs the role `{role}`, which your token doesn't have; ask the operator for it.",
                details={"role": str(role)},
            )


LOCAL = Principal("local", LOCAL_NAMESPACE, frozenset(Role))
"""Everybody, when BROKER_AUTH is `none`."""


@dataclass(frozen=True, slots=True)
class Grant:
    """One entry of the token file."""

    sha256: str
    principal: Principal


def _parse(text: str) -> tuple[Grant, ...]:
    return tuple(
        Grant(
            entry["sha256"],
            Principal(entry["name"], entry["namespace"], frozenset(Role(role) for role in entry["roles"])),
        )
        for entry in json.loads(text)["tokens"]
    )


def unauthenticated() -> BrokerError:
    """The one answer to a missing, malformed or wrong token."""
    return BrokerError(BrokerCode.UNAUTHENTICATED, "This needs a valid bearer token.")


class Verifier(Protocol):
    """Resolves the access tokens of an OAuth issuer."""

    def principal(self, token: str) -> Principal:
        """The caller; UNAUTHENTICATED when anything is wrong."""
        ...


@dataclass(slots=True)
class Authenticator:
    """Resolves tokens. With `enabled` False everybody is `LOCAL`."""

    file: Path
    enabled: bool = True
    issuer: Verifier | None = None
    _grants: tuple[Grant, ...] = ()
    _seen: tuple[int, int, int] = field(default=(0, 0, 0))

    def _current(self) -> tuple[Grant, ...]:
        try:
            found = self.file.stat()
        except FileNotFoundError:
            return ()
        seen = (found.st_mtime_ns, found.st_size, found.st_ino)
        if seen != self._seen:
            self._grants, self._seen = _parse(self.file.read_text("utf-8")), seen
        return self._grants

    def principal(self, headers: Sequence[str]) -> Principal:
        """The caller behind the `Authorization` headers of one request.

        Every grant is compared, in constant time, so that the time tells nothing of which one matched.

        Raises:
            BrokerError: UNAUTHENTICATED.
        """
        if not self.enabled:
            return LOCAL
        if len(headers) != 1:
            raise unauthenticated()
        scheme, _, token = headers[0].partition(" ")
        if self.issuer is not None and scheme.lower() == "bearer" and JWT_FORM.fullmatch(token):
            return self.issuer.principal(token)
        if scheme.lower() != "bearer" or not TOKEN_FORM.fullmatch(token):
            raise unauthenticated()
        return self.resolve(token)

    def resolve(self, token: str) -> Principal:
        """The caller that holds a token.

        Raises:
            BrokerError: UNAUTHENTICATED.
        """
        digest = hashlib.sha256(token.encode("ascii")).hexdigest()
        found: Principal | None = None
        for grant in self._current():
            if hmac.compare_digest(grant.sha256, digest):
                found = grant.principal
        if found is None:
            raise unauthenticated()
        return found

    def still_granted(self, name: str, namespace: str) -> bool:
        """Whether a principal that submitted a job still has a token for its namespace."""
        if not self.enabled:
            return True
        if self.issuer is not None and name.startswith(JWT_PREFIX):
            return True  # what the issuer grants it withdraws by letting tokens expire
        return any(
            grant.principal.name == name and grant.principal.namespace == namespace
            for grant in self._current()
        )


def _entries(file: Path) -> list[dict[str, Any]]:
    try:
        found: list[dict[str, Any]] = json.loads(file.read_text("utf-8"))["tokens"]
    except FileNotFoundError:
        return []
    return found


def create_token(
    home: Path, name: str, *, namespace: str = LOCAL_NAMESPACE, roles: Sequence[str] = (Role.USER,)
) -> str:
    """Make a token, store its hash, return the token: it can't be read again.

    Raises:
        ValueError: a name, namespace or role is not allowed.
    """
    for label, value in (("name", name), ("namespace", namespace)):
        if not NAME_FORM.fullmatch(value):
            raise ValueError(f"a {label} is 1 to 64 letters, digits, dots, dashes, underscores or @")
    if wrong := [role for role in roles if role not in list(Role)]:
        raise ValueError(f"there is no role {wrong[0]!r}; roles are {', '.join(Role)}")
    token = secrets.token_urlsafe(32)
    entry = {
        "name": name,
        "namespace": namespace,
        "roles": sorted(str(Role(role)) for role in roles),
        "sha256": hashlib.sha256(token.encode()).hexdigest(),
    }
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = home / "tokens.json"
    publish(file, json.dumps({"tokens": [*_entries(file), entry]}, indent=1).encode())
    return token


def list_tokens(home: Path) -> list[dict[str, Any]]:
    """Names, namespaces and roles of all tokens, with the first digits of their hashes."""
    return [{**entry, "sha256": entry["sha256"][:8]} for entry in _entries(home / "tokens.json")]


def revoke_token(home: Path, name: str) -> int:
    """Remove all tokens of a name; returns how many there were."""
    file = home / "tokens.json"
    entries = _entries(file)
    kept = [entry for entry in entries if entry["name"] != name]
    if len(kept) != len(entries):
        publish(file, json.dumps({"tokens": kept}, indent=1).encode())
    return len(entries) - len(kept)


def local_token(home: Path) -> str:
    """The token of this machine's command line, made on first use (mode 0600)."""
    file = home / "local-token"
    try:
        return file.read_text("ascii").strip()
    except FileNotFoundError:
        token = create_token(home, "local", roles=[str(role) for role in Role])
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w") as opened:
            opened.write(token + "\n")
        return token
