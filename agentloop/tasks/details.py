"""`payload.details` of each task, field by field: what the JSON Schema of a pack says of them.

Every field may be missing: it is left out where there is nothing to tell. Evidence ids refer to
`payload.evidence` of the same pack.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from agentloop.pack import Out
from agentloop.request import TaskType

EvidenceIds = tuple[Annotated[str, Field(pattern=r"^ev_\d{3,}$")], ...]
Count = Annotated[int, Field(ge=0)]
Text = Annotated[str, Field(description="Of the inputs, cleaned; `[withheld]` where policy keeps it back.")]


class FailingTest(Out):
    """A test that a log or a pasted trace reports as failed."""

    test: Text
    assertion: Text = ""


class Cause(Out):
    """A definition that may hold the fault; the list is best first."""

    symbol: Text
    path: str
    evidence: EvidenceIds


class RuledOut(Out):
    """A definition that the failing tests reach too, and why it is hardly the cause."""

    symbol: Text
    why: str


class DebugDetails(Out):
    """Of `debug_evidence_pack_v1`."""

    failures: Count = 0
    failing_tests: tuple[FailingTest, ...] = ()
    likely_causes: tuple[Cause, ...] = ()
    ruled_out: tuple[RuledOut, ...] = ()
    next_steps: tuple[Text, ...] = ()


class Step(Out):
    """A phase or step of a run, by the line of its mark."""

    name: Text
    line: Annotated[int, Field(ge=1)]


class LineCluster(Out):
    """Lines of one template that speak of trouble. Times stand where the lines have them."""

    template: Text
    level: str
    count: Annotated[int, Field(ge=1)]
    first_line: Annotated[int, Field(ge=1)]
    last_line: Annotated[int, Field(ge=1)]
    first: Text = ""
    last: Text = ""
    peak_per_minute: Count = 0


class LogSummary(Out):
    """One log: the worst first."""

    path: str
    lines: Count
    unread: Count = 0
    failures: Count
    root_line: Annotated[int, Field(ge=1)] | None = None
    root_path: str = ""
    rotated: Count = 0
    phases: tuple[Step, ...] = ()
    clusters: tuple[LineCluster, ...] = ()
    bursts: Count = 0


class LogDetails(Out):
    """Of `log_evidence_pack_v1`."""

    logs: tuple[LogSummary, ...] = ()


class Subsystem(Out):
    """A folder that evidence lies in."""

    path: str
    files: Count
    evidence: EvidenceIds


class Entry(Out):
    """Where a run begins: `how` is `declared`, `main`, `guard` or `command`."""

    name: Text
    how: str
    place: str


class SymbolCalls(Out):
    """A definition in the evidence with who calls it and what it calls, by name."""

    symbol: Text
    kind: str
    evidence: EvidenceIds
    callers: tuple[Text, ...] = ()
    callees: tuple[Text, ...] = ()


class Edge(Out):
    """A file that imports another."""

    source: Annotated[str, Field(alias="from")]
    target: Annotated[str, Field(alias="to")]


class InspectDetails(Out):
    """Of `repo_inspection_pack_v1`."""

    subsystems: tuple[Subsystem, ...] = ()
    entry_points: tuple[Entry, ...] = ()
    symbols: tuple[SymbolCalls, ...] = ()
    dependency_edges: tuple[Edge, ...] = ()


class PlanStep(Out):
    """A place to change, best first. `lines` is `first-last`."""

    path: str
    lines: str
    evidence: EvidenceIds


class PatchDetails(Out):
    """A patch that was proposed and passed the checks."""

    files: tuple[str, ...]
    lines_added: Count = 0
    lines_removed: Count = 0
    artifact: str
    by: str = ""
    diff: Text = ""
    rationale: Text = ""
    risks: tuple[Text, ...] = ()


class Validated(Out):
    """A validation command that was run: how it ended, its seconds, and its output by hash and artifact.

    `stopped` is `time`, `memory` or `processes` where it passed a bound.
    """

    command: Text
    exit_status: int | None = None
    stopped: str = ""
    seconds: float
    output_hash: str
    output_bytes: Count = 0
    truncated: bool = False
    artifact: str
    patched: bool


class ProposalDetails(DebugDetails):
    """Of `patch_proposal_pack_v1`: the plan, the patch if there is one, and what the causes are."""

    plan: tuple[PlanStep, ...] = ()
    patch: PatchDetails | None = None
    validation_steps: tuple[Text, ...] = ()
    validation_commands: tuple[Text, ...] = ()
    validation: tuple[Validated, ...] = ()


class NoDetails(Out):
    """Of `rag_evidence_pack_v1`: nothing of its own."""


DETAILS: dict[TaskType, type[Out]] = {
    TaskType.RAG_COMPRESS: NoDetails,
    TaskType.DEBUG: DebugDetails,
    TaskType.SUMMARIZE_LOGS: LogDetails,
    TaskType.INSPECT_REPO: InspectDetails,
    TaskType.PROPOSE_PATCH: ProposalDetails,
}
