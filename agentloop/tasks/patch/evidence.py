"""The evidence of a patch proposal: where to change, and the checked diff where a model made one."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from agentloop.budget import Ledger
from agentloop.compress import EvidenceId
from agentloop.config import Policy
from agentloop.errors import Stage, WarningCode
from agentloop.request import CompressRequest, Confidentiality
from agentloop.tasks.model import TaskEvidence
from agentloop.tasks.patch.edits import allowed
from agentloop.tasks.patch.propose import Proposed
from agentloop.tasks.patch.validation import Validation
from agentloop.types import Corpus, Draft, FileKind

PLAN_STEPS = 4
DIFF_FILE = "patch.diff"


@dataclass(frozen=True, slots=True)
class _Step:
    path: str
    first: int
    last: int
    draft: Draft


def patch_evidence(
    evidence: TaskEvidence,
    proposed: Proposed | None,
    corpus: Corpus,
    request: CompressRequest,
    policy: Policy,
    ledger: Ledger,
    validation: Validation,
) -> TaskEvidence:
    """`evidence` with a plan and, where one was made, a patch.

    Args:
        evidence: what explains the problem, best first.
        proposed: the outcome of the model's tries; None where no model is configured.
        validation: what the caller's commands said of it.
    """
    steps = _plan(evidence.drafts, corpus, request.task_params.allowed_paths)
    patch = proposed.patch if proposed else None
    if patch is None:
        _warn(proposed, ledger)
    show = (
        policy.allow_diffs
        and request.constraints.confidentiality is Confidentiality.EVIDENCE_ONLY
        and not corpus.classification.protected
    )

    def details(evidence_id: EvidenceId) -> dict[str, Any]:
        plan = [
            {"path": s.path, "lines": f"{s.first}-{s.last}", "evidence": [found]}
            for s in steps
            if (found := evidence_id(s.draft))
        ]
        base = evidence.details(evidence_id) if evidence.details else {}
        commands = list(request.task_params.validation_commands)
        told = {**base, "plan": plan, **_told(proposed, show=show), "validation_commands": commands}
        return {**told, "validation": validation.details()} if validation.ran else told

    artifacts = {DIFF_FILE: patch.diff.encode("utf-8")} if patch else {}
    artifacts |= validation.artifacts
    return replace(evidence, details=details, artifacts=artifacts)


def _plan(drafts: Sequence[Draft], corpus: Corpus, allowed_paths: Sequence[str]) -> list[_Step]:
    """The places in code that may be changed, best first."""
    steps = []
    for draft in drafts:
        place = draft.places[0]
        file = corpus.files[place.file]
        if file.kind is FileKind.CODE and not file.historic and allowed(file.path, allowed_paths):
            steps.append(_Step(file.path, place.line_start, place.line_end, draft))
        if len(steps) == PLAN_STEPS:
            break
    return steps


def _warn(proposed: Proposed | None, ledger: Ledger) -> None:
    if proposed is None:
        message = (
            "No model is configured, so the pack holds a located plan and no diff; name a model profile."
        )
    else:
        why = "; ".join(proposed.refused) or "it gave no reply"
        message = f"The model {proposed.model} gave no patch that passes the checks: {why}"
    ledger.warn(WarningCode.MODEL_UNAVAILABLE, message, Stage.COMPRESSION)


def _told(proposed: Proposed | None, *, show: bool) -> dict[str, Any]:
    if proposed is None or proposed.patch is None or proposed.proposal is None:
        return {}
    patch, proposal = proposed.patch, proposed.proposal
    steps = [f"git apply --check {DIFF_FILE}"]
    steps += [f"read {shlex.quote(path)}" for path in sorted(patch.files)]
    told: dict[str, Any] = {
        "files": sorted(patch.files),
        "lines_added": patch.added,
        "lines_removed": patch.removed,
        "artifact": DIFF_FILE,
        "by": proposed.model,
    }
    if show:
        told |= {"diff": patch.diff, "rationale": proposal.rationale, "risks": list(proposal.risks)}
    return {"patch": {k: v for k, v in told.items() if v}, "validation_steps": steps}
