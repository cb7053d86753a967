"""The last look before a pack leaves, cached or not: today's policy, whatever made the pack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from agentloop.config import Policy
from agentloop.errors import AgentloopError, ErrorCode, Stage
from agentloop.pack import Pack
from agentloop.request import Classification


def _refusal(message: str) -> AgentloopError:
    return AgentloopError(ErrorCode.POLICY_REDACTION_REQUIRED, message, Stage.POLICY)


def screen(pack: Mapping[str, Any], policy: Policy) -> None:
    """Pass a pack that policy allows to leave.

    Raises:
        AgentloopError: RAG_SCHEMA_INVALID, it is no pack; POLICY_REDACTION_REQUIRED, it holds excerpts of
            protected inputs or where excerpts are forbidden, or paths where those are.
    """
    try:
        found = Pack.model_validate(pack)
    except ValidationError as exc:
        raise AgentloopError(
            ErrorCode.RAG_SCHEMA_INVALID,
            f"The stored pack is not one of this release's schema ({exc.error_count()} errors).",
            Stage.VALIDATION,
        ) from None
    level = Classification(found.payload.input_scope.classification)
    for item in found.payload.evidence:
        if item.excerpt is not None and (level.protected or not policy.allow_excerpts):
            raise _refusal(f"Evidence {item.id} holds an excerpt, which policy doesn't release.")
        if not policy.allow_paths and any(ref.path is not None for ref in item.source_refs):
            raise _refusal(f"Evidence {item.id} names a path, which policy doesn't release; submit again.")
