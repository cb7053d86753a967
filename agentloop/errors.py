"""Error and warning codes of the engine, and the one exception that carries them.

The codes and their `retryable` flags are those of the specification's table; the codes below the
comment are ours, for what the specification leaves unnamed.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any


class ErrorCode(StrEnum):
    """Machine-readable reasons why a request gave no pack."""

    INPUT_DISCOVERY_FAILED = "INPUT_DISCOVERY_FAILED"
    INPUT_HASH_MISMATCH = "INPUT_HASH_MISMATCH"
    CHUNKING_FAILED = "CHUNKING_FAILED"
    INDEX_BUILD_FAILED = "INDEX_BUILD_FAILED"
    RETRIEVAL_BUDGET_EXCEEDED = "RETRIEVAL_BUDGET_EXCEEDED"
    RERANK_FAILED = "RERANK_FAILED"
    COMPRESSION_FAILED = "COMPRESSION_FAILED"
    EVIDENCE_REF_INVALID = "EVIDENCE_REF_INVALID"
    EVIDENCE_PACK_OVER_BUDGET = "EVIDENCE_PACK_OVER_BUDGET"
    RAG_SCHEMA_INVALID = "RAG_SCHEMA_INVALID"
    POLICY_REDACTION_REQUIRED = "POLICY_REDACTION_REQUIRED"
    REMOTE_CONTEXT_BUDGET_EXCEEDED = "REMOTE_CONTEXT_BUDGET_EXCEEDED"
    GPU_TIER_UNAVAILABLE = "GPU_TIER_UNAVAILABLE"
    # ours
    REQUEST_INVALID = "REQUEST_INVALID"
    MODEL_UNAVAILABLE = "MODEL_UNAVAILABLE"
    POLICY_DENIED = "POLICY_DENIED"
    CANCELLED = "CANCELLED"
    TIMED_OUT = "TIMED_OUT"
    INTERNAL = "INTERNAL"


RETRYABLE = frozenset(
    {
        ErrorCode.CHUNKING_FAILED,
        ErrorCode.INDEX_BUILD_FAILED,
        ErrorCode.RERANK_FAILED,
        ErrorCode.COMPRESSION_FAILED,
        ErrorCode.GPU_TIER_UNAVAILABLE,
        ErrorCode.MODEL_UNAVAILABLE,
    }
)


class WarningCode(StrEnum):
    """Partial trouble that a pack reports in `warnings[]`."""

    INPUTS_SKIPPED = "INPUTS_SKIPPED"
    INPUT_TRUNCATED = "INPUT_TRUNCATED"
    INPUT_UNREADABLE = "INPUT_UNREADABLE"
    CHUNKING_DEGRADED = "CHUNKING_DEGRADED"
    STRATEGY_UNAVAILABLE = "STRATEGY_UNAVAILABLE"
    PARAM_IGNORED = "PARAM_IGNORED"
    RETRIEVAL_BUDGET_REACHED = "RETRIEVAL_BUDGET_REACHED"
    EVIDENCE_TRIMMED = "EVIDENCE_TRIMMED"
    LOW_COVERAGE = "LOW_COVERAGE"
    INLINE_EXCERPTS_WITHHELD = "INLINE_EXCERPTS_WITHHELD"
    SECRETS_REDACTED = "SECRETS_REDACTED"
    INSTRUCTION_LIKE_TEXT = "INSTRUCTION_LIKE_TEXT"
    CLAIM_REJECTED = "CLAIM_REJECTED"
    MODEL_UNAVAILABLE = "MODEL_UNAVAILABLE"
    LOOP_LIMIT_REACHED = "LOOP_LIMIT_REACHED"
    QUESTION_TRUNCATED = "QUESTION_TRUNCATED"
    TIER_SUBSTITUTED = "TIER_SUBSTITUTED"
    RERANK_FAILED = "RERANK_FAILED"
    VALIDATION_UNAVAILABLE = "VALIDATION_UNAVAILABLE"


class Stage(StrEnum):
    """The pipeline stage that an error, a warning or a heartbeat belongs to."""

    REQUEST = "request"
    DISCOVERY = "input_discovery"
    CHUNKING = "chunking"
    INDEXING = "local_indexing"
    RETRIEVAL = "retrieval"
    RERANKING = "reranking"
    DEDUPLICATION = "deduplication"
    LOOP = "tool_loop"
    COMPRESSION = "compression"
    VALIDATION = "json_validation"
    POLICY = "pre_release_policy"
    DISPATCH = "dispatch"


class AgentloopError(Exception):
    """A request that can't be answered: a code, a sentence that says what to do, and details.

    Args:
        code: the machine-readable reason.
        message: one sentence that names the input, the reason and what to do.
        stage: the stage that failed.
        details: JSON values that help a program react; never raw input text.
    """

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        stage: Stage,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.stage = stage
        self.details: dict[str, Any] = dict(details or {})

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later, by the specification's table."""
        return self.code in RETRYABLE

    def to_json(self) -> dict[str, Any]:
        """The specification's error response: `{"error": {...}}`."""
        return {
            "error": {
                "code": str(self.code),
                "message": self.message,
                "retryable": self.retryable,
                "stage": str(self.stage),
                "details": self.details,
            }
        }
