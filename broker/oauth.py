"""This broker as an OAuth 2.1 resource server: access tokens (JWT) of one issuer, RFC 9728 metadata.

A token is accepted when its signature is by a key of the issuer's set, it was issued by that issuer *for
this resource* (`aud`), and it hasn't expired. A token for another service, which a client or that service
might pass on, is refused. Keys come from a file that the operator keeps current; it is read again when it
changes, so no request of a stranger makes the broker call out.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from broker.auth import JWT_PREFIX, NAME_FORM, Principal, Role, unauthenticated

if TYPE_CHECKING:
    from broker.config import Settings

METADATA_PATH = "/.well-known/oauth-protected-resource"
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
SCOPE_PREFIX = "agentloop:"
NAMESPACE_CLAIM = "agentloop_namespace"
LEEWAY_SECONDS = 10
KEYS_FORM = 'a JWK set, {"keys": [...]}'


@dataclass(slots=True)
class JwtVerifier:
    """Verifies access tokens of `issuer` for `audience` with the keys in `file`."""

    issuer: str
    audience: str
    file: Path
    _seen: tuple[int, int, int] = field(default=(0, 0, 0))
    _keys: dict[str, Any] = field(default_factory=dict)

    def principal(self, token: str) -> Principal:
        """The caller behind a token.

        Raises:
            BrokerError: UNAUTHENTICATED, whatever is wrong with it.
        """
        import jwt

        try:
            key = self._key(jwt.get_unverified_header(token).get("kid"))
            claims = jwt.decode(
                token,
                key=key,
                algorithms=list(ALGORITHMS),
                audience=self.audience,
                issuer=self.issuer,
                leeway=LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except (jwt.PyJWTError, OSError, ValueError, KeyError, TypeError):
            raise unauthenticated() from None
        return principal_of(claims)

    def _key(self, kid: Any) -> Any:
        """The key that a token names; the only one where it names none.

        Raises:
            KeyError: there is no such key. OSError, ValueError: the file can't be used.
        """
        import jwt

        found = self.file.stat()
        seen = (found.st_mtime_ns, found.st_size, found.st_ino)
        if seen != self._seen:
            keys = jwt.PyJWKSet.from_json(self.file.read_text("utf-8")).keys
            self._keys, self._seen = {str(key.key_id): key for key in keys}, seen
        if kid is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys[str(kid)]

    @property
    def metadata(self) -> dict[str, Any]:
        """What RFC 9728 has a client find."""
        return {
            "resource": self.audience,
            "authorization_servers": [self.issuer],
            "scopes_supported": [f"{SCOPE_PREFIX}{role}" for role in Role],
            "bearer_methods_supported": ["header"],
            "resource_name": "agentloop broker",
        }

    @property
    def challenge(self) -> str:
        """The `WWW-Authenticate` header of a refusal: where the metadata is."""
        parts = urlsplit(self.audience)
        url = f"{parts.scheme}://{parts.netloc}{METADATA_PATH}{parts.path.rstrip('/')}"
        return f'Bearer resource_metadata="{url}"'


def principal_of(claims: dict[str, Any]) -> Principal:
    """The caller that verified claims describe.

    Roles are scopes `agentloop:ROLE`. The namespace is the claim `agentloop_namespace`, else one of the
    subject's own.
    """
    subject = str(claims["sub"])
    digest = hashlib.sha256(f"{claims['iss']}\n{subject}".encode()).hexdigest()[:16]
    scope = claims.get("scope", claims.get("scp", ""))
    words = scope.split() if isinstance(scope, str) else [str(word) for word in scope]
    roles = {role for role in Role if f"{SCOPE_PREFIX}{role}" in words}
    namespace = claims.get(NAMESPACE_CLAIM)
    own = isinstance(namespace, str) and NAME_FORM.fullmatch(namespace)
    return Principal(f"{JWT_PREFIX}{digest}", str(namespace) if own else f"sub-{digest}", frozenset(roles))


def verifier_of(settings: Settings) -> JwtVerifier | None:
    """The verifier that the settings ask for."""
    if not settings.oauth_issuer:
        return None
    return JwtVerifier(settings.oauth_issuer, settings.oauth_resource, Path(settings.oauth_jwks_file))


def check_settings(settings: Settings) -> str:
    """What is wrong with the OAuth settings; empty when nothing is."""
    if not settings.oauth_issuer:
        return ""
    if settings.auth != "token":
        return "BROKER_OAUTH_ISSUER needs BROKER_AUTH=token"
    parts = urlsplit(settings.oauth_resource)
    if parts.scheme not in {"https", "http"} or not parts.netloc or parts.fragment or parts.query:
        return "BROKER_OAUTH_RESOURCE is the URL of /mcp that clients use"
    try:
        keys = json.loads(Path(settings.oauth_jwks_file).read_text("utf-8"))["keys"]
    except (OSError, ValueError, KeyError, TypeError):
        return f"BROKER_OAUTH_JWKS_FILE is a file with {KEYS_FORM}"
    return "" if isinstance(keys, list) else f"BROKER_OAUTH_JWKS_FILE is a file with {KEYS_FORM}"
