"""Refusals as an agent gets them: the specification's error object, and what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NEXT: Mapping[str, str] = {
    "REQUEST_INVALID": "Correct the named fields and call again.",
    "INPUT_HASH_MISMATCH": "Leave content_hash out, or send the hash of the file as it is now.",
    "IDEMPOTENCY_CONFLICT": "Use another idempotency_key, or none.",
    "RESULT_NOT_READY": "Call get_job_status, then fetch_result.",
    "NO_RESULT": "Call get_job_status: its error says why.",
    "NOT_FOUND": "Use the id exactly as an earlier answer gave it.",
    "ARTIFACT_CORRUPT": "Run the request again.",
    "REMOTE_CONTEXT_BUDGET_EXCEEDED": "The pack is kept: call fetch_result with a larger "
    "remote_model_context_budget, or ask again with a smaller constraints.final_evidence_pack_budget.",
    "EVIDENCE_PACK_OVER_BUDGET": "Ask again with a larger constraints.final_evidence_pack_budget.",
    "QUEUE_FULL": "Try again later, or cancel jobs that are no longer needed.",
    "DRAINING": "Try again in a few seconds.",
    "STORE_BUSY": "Try again in a few seconds.",
    "POLICY_DENIED": "Call list_capabilities; the operator grants roles.",
    "POLICY_REDACTION_REQUIRED": "Ask without inline excerpts; the operator sets the policy.",
    "UNAUTHENTICATED": "The user must configure a valid token for this server.",
    "NO_BROKER": "Ask the user to look at the message; then call again.",
    "TIMED_OUT": "Narrow the inputs or the question, or raise constraints.max_runtime_seconds.",
    "CANCELLED": "Submit it again if it is still wanted.",
}
OUTSIDE_ROOTS = (
    "Only folders that the user allowed are read: call list_capabilities for the roots. The user adds one by "
    "setting BROKER_ALLOWED_ROOTS (folders separated by `:`), or `--root DIR` of `agentloop mcp`, and "
    "restarting the broker."
)


class Failure(Exception):
    """A call that gave no answer: the specification's error, in a tool error."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(str(error.get("message", "")))
        self.error = dict(error)

    @classmethod
    def of(cls, code: str, message: str, *, retryable: bool = False, **details: Any) -> Failure:
        """A failure that begins here."""
        return cls(
            {"code": code, "message": message, "retryable": retryable, "stage": "mcp", "details": details}
        )

    @property
    def code(self) -> str:
        """Its code."""
        return str(self.error.get("code", ""))


def next_step(error: Mapping[str, Any]) -> str:
    """What an agent can do about an error; empty where nothing is known."""
    if error.get("code") == "REMOTE_CONTEXT_BUDGET_EXCEEDED" and error.get("stage") != "mcp":
        return "Ask again with a larger constraints.remote_model_context_budget: no pack was made."
    if error.get("code") == "INPUT_DISCOVERY_FAILED":
        reason = error.get("details", {}).get("reason", "")
        if reason == "path_not_allowed" and "outside" in str(error.get("message", "")):
            return OUTSIDE_ROOTS
        return "Send the absolute path of a local file or folder, without links."
    found = NEXT.get(str(error.get("code", "")), "")
    return found or ("Try again." if error.get("retryable") else "")
