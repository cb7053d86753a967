"""Errors of the service, in the specification's shape, with the HTTP status that each has."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from agentloop.errors import AgentloopError, ErrorCode


class BrokerCode(StrEnum):
    """Machine-readable reasons beside the engine's `ErrorCode`."""

    BAD_REQUEST = "BAD_REQUEST"
    UNAUTHENTICATED = "UNAUTHENTICATED"
    POLICY_DENIED = "POLICY_DENIED"
    NOT_FOUND = "NOT_FOUND"
    METHOD_NOT_ALLOWED = "METHOD_NOT_ALLOWED"
    UNSUPPORTED_MEDIA_TYPE = "UNSUPPORTED_MEDIA_TYPE"
    IDEMPOTENCY_CONFLICT = "IDEMPOTENCY_CONFLICT"
    RESULT_NOT_READY = "RESULT_NOT_READY"
    NO_RESULT = "NO_RESULT"
    ARTIFACT_CORRUPT = "ARTIFACT_CORRUPT"
    BODY_TOO_LARGE = "BODY_TOO_LARGE"
    QUEUE_FULL = "QUEUE_FULL"
    STORAGE_FULL = "STORAGE_FULL"
    STORE_BUSY = "STORE_BUSY"
    NO_BACKEND = "NO_BACKEND"
    DRAINING = "DRAINING"
    INTERNAL = "INTERNAL"


STATUS: dict[str, int] = {
    BrokerCode.BAD_REQUEST: 400,
    BrokerCode.UNAUTHENTICATED: 401,
    BrokerCode.POLICY_DENIED: 403,
    BrokerCode.NOT_FOUND: 404,
    BrokerCode.METHOD_NOT_ALLOWED: 405,
    BrokerCode.UNSUPPORTED_MEDIA_TYPE: 415,
    BrokerCode.IDEMPOTENCY_CONFLICT: 409,
    BrokerCode.RESULT_NOT_READY: 409,
    BrokerCode.NO_RESULT: 409,
    BrokerCode.ARTIFACT_CORRUPT: 410,
    BrokerCode.BODY_TOO_LARGE: 413,
    BrokerCode.QUEUE_FULL: 429,
    BrokerCode.STORAGE_FULL: 507,
    BrokerCode.STORE_BUSY: 503,
    BrokerCode.NO_BACKEND: 503,
    BrokerCode.DRAINING: 503,
    BrokerCode.INTERNAL: 500,
    ErrorCode.REQUEST_INVALID: 422,
    ErrorCode.INPUT_DISCOVERY_FAILED: 422,
    ErrorCode.INPUT_HASH_MISMATCH: 422,
    ErrorCode.REMOTE_CONTEXT_BUDGET_EXCEEDED: 422,
    ErrorCode.POLICY_REDACTION_REQUIRED: 403,
    ErrorCode.GPU_TIER_UNAVAILABLE: 503,
}

RETRYABLE = frozenset(
    {
        BrokerCode.RESULT_NOT_READY,
        BrokerCode.QUEUE_FULL,
        BrokerCode.STORAGE_FULL,
        BrokerCode.STORE_BUSY,
        BrokerCode.NO_BACKEND,
        BrokerCode.DRAINING,
        BrokerCode.INTERNAL,
    }
)


class BrokerError(Exception):
    """A call that the service refuses: a code, a sentence, and when to try again (seconds)."""

    def __init__(
        self,
        code: BrokerCode,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details: dict[str, Any] = dict(details or {})
        self.retry_after = retry_after

    def to_json(self) -> dict[str, Any]:
        """The specification's error response: `{"error": {...}}`."""
        return {
            "error": {
                "code": str(self.code),
                "message": self.message,
                "retryable": self.code in RETRYABLE,
                "stage": "broker",
                "details": self.details,
            }
        }


def http_status(exc: BrokerError | AgentloopError) -> int:
    """The status that DESIGN gives a refusal; 500 for an engine code that no call should raise."""
    return STATUS.get(str(exc.code), 500)


def not_found() -> BrokerError:
    """The same answer for an id that doesn't exist and for another namespace's."""
    return BrokerError(BrokerCode.NOT_FOUND, "There is no such id, or it is not yours.")
