"""What a caller asks: one model for the command line, HTTP, MCP and the library.

Shapes follow the specification's tool schemas. Unknown fields are refused with their path.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from agentloop.errors import AgentloopError, ErrorCode, Stage
from agentloop.reasons import OURS, faults, told

BUILTIN = "builtin"
REPLAY = "replay:"
"""Names of models that are no profiles: the built-in planner, and `replay:FILE` for a recorded run."""


class TaskType(StrEnum):
    """The five tasks of the specification."""

    RAG_COMPRESS = "rag_compress"
    DEBUG = "debug_with_local_context"
    SUMMARIZE_LOGS = "summarize_logs"
    INSPECT_REPO = "inspect_repo"
    PROPOSE_PATCH = "propose_patch"


class InputType(StrEnum):
    """A hint of what an input is; discovery looks for itself."""

    REPO = "repo"
    DIRECTORY = "directory"
    FILE = "file"
    LOG = "log"
    DOCUMENT = "document"
    RECORDS = "records"
    ARTIFACT = "artifact"
    STDIN = "stdin"


class InputRole(StrEnum):
    """`baseline` is a passing run to compare with."""

    PRIMARY = "primary"
    BASELINE = "baseline"


class Classification(StrEnum):
    """Sensitivity, lowest first; combining inputs takes the highest."""

    PUBLIC = "public"
    INTERNAL = "internal"
    PROPRIETARY = "proprietary"
    RESTRICTED = "restricted"
    SECRET_ADJACENT = "secret_adjacent"  # noqa: S105
    PHI = "phi"

    @property
    def rank(self) -> int:
        """Position in the order of sensitivity, 0 for `public`."""
        return _RANKS[self]

    @property
    def protected(self) -> bool:
        """Whether only derived claims may leave: proprietary, restricted, secret-adjacent, PHI."""
        return self.rank >= 2


_RANKS = {level: rank for rank, level in enumerate(Classification)}  # asked for each file of a corpus


class Mode(StrEnum):
    """How evidence is found: a bounded tool loop, one retrieval pass, or the newest items unindexed."""

    AGENTIC = "agentic"
    SINGLE_SHOT = "single_shot"
    COMPLETION = "completion"


class Strategy(StrEnum):
    """Retrieval strategies that a request may name."""

    RIPGREP = "ripgrep"
    BM25 = "bm25"
    TREE_SITTER = "tree_sitter"
    STACK_TRACE_PATH = "stack_trace_path"
    GIT_DIFF_HISTORY = "git_diff_history"
    EMBEDDINGS = "embeddings"


class Confidentiality(StrEnum):
    """`local_only`: no excerpt and no raw text whatever else is asked; `evidence_only`: policy decides."""

    LOCAL_ONLY = "local_only"
    EVIDENCE_ONLY = "evidence_only"


class Priority(StrEnum):
    """Queue order: interactive jobs start before background jobs."""

    INTERACTIVE = "interactive"
    BACKGROUND = "background"


class PatchStyle(StrEnum):
    """How far a proposed patch may go."""

    MINIMAL = "minimal"
    COMPLETE = "complete"


def _number(value: Any) -> Any:
    """JSON has numbers of its own: neither "5" nor true is one."""
    if isinstance(value, bool | str):
        raise ValueError("must be a whole number")
    return value


def _truth(value: Any) -> Any:
    """Neither 1 nor "yes" is true."""
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def _fault(field: str, reason: str) -> PydanticCustomError:
    return PydanticCustomError(OURS, "{reason}", {"field": field, "reason": reason})


WHOLE = BeforeValidator(_number)
Flag = Annotated[bool, BeforeValidator(_truth)]
HASH = re.compile(r"sha256:[0-9a-f]{16,64}")
MAX_QUESTION_CHARS = 100_000


class Strict(BaseModel):
    """Base of all request models: frozen, unknown fields refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class InputRef(Strict):
    """One input: a `file://` URI or a path, with an optional declared hash and classification."""

    type: InputType
    uri: Annotated[str, Field(min_length=1, max_length=4096)]
    content_hash: str | None = None
    classification: Classification | None = None
    role: InputRole = InputRole.PRIMARY

    @field_validator("content_hash")
    @classmethod
    def _hash_form(cls, value: str | None) -> str | None:
        if value is not None and not HASH.fullmatch(value):
            raise ValueError("a content_hash is `sha256:` and 16 to 64 lower-case hex digits")
        return value


class TimeWindow(Strict):
    """Bounds in ISO 8601; either end may be open."""

    start: str | None = None
    end: str | None = None


class TaskParams(Strict):
    """Parameters of a task; each names the tasks that use it in `docs/tasks.md`."""

    query: Annotated[str, Field(max_length=MAX_QUESTION_CHARS)] | None = None
    mode: Mode = Mode.AGENTIC
    max_tool_calls: Annotated[int, Field(ge=0, le=64), WHOLE] = 6
    retrieval_strategies: tuple[Strategy, ...] | None = None
    include_inline_excerpts: Flag = False
    evidence_kinds: tuple[str, ...] = ()
    answer: Flag = False
    exclude_evidence: tuple[str, ...] = ()
    stack_trace: str | None = None
    failing_tests: tuple[str, ...] = ()
    changed_since: str | None = None
    suspect_paths: tuple[str, ...] = ()
    time_window: TimeWindow | None = None
    deduplicate_repeated_lines: Flag = True
    cluster_stack_traces: Flag = True
    paths: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    include_dependency_edges: Flag = False
    patch_style: PatchStyle = PatchStyle.MINIMAL
    allowed_paths: tuple[str, ...] = ()
    validation_commands: tuple[str, ...] = ()
    continue_in_background: Flag = False


class Constraints(Strict):
    """The four token budgets, the wall time in seconds, and the confidentiality."""

    retrieved_chunk_budget: Annotated[int, Field(ge=256, le=10_000_000), WHOLE] = 64_000
    per_chunk_compression_budget: Annotated[int, Field(ge=16, le=8192), WHOLE] = 384
    final_evidence_pack_budget: Annotated[int, Field(ge=1, le=1_000_000), WHOLE] = 4_000
    remote_model_context_budget: Annotated[int, Field(ge=1, le=10_000_000), WHOLE] = 12_000
    max_runtime_seconds: Annotated[int, Field(ge=1, le=86_400), WHOLE] = 900
    confidentiality: Confidentiality = Confidentiality.LOCAL_ONLY


class ExecutionProfile(Strict):
    """Where and with which model a job runs; the engine itself uses `model_profile` only."""

    backend: str | None = None
    tier: str | None = None
    qos: str | None = None
    priority: Priority = Priority.INTERACTIVE
    model_profile: str | None = None


DEFAULT_STRATEGIES: dict[TaskType, tuple[Strategy, ...]] = {
    TaskType.RAG_COMPRESS: (
        Strategy.RIPGREP,
        Strategy.BM25,
        Strategy.TREE_SITTER,
        Strategy.STACK_TRACE_PATH,
    ),
    TaskType.DEBUG: (
        Strategy.STACK_TRACE_PATH,
        Strategy.RIPGREP,
        Strategy.BM25,
        Strategy.TREE_SITTER,
        Strategy.GIT_DIFF_HISTORY,
    ),
    TaskType.SUMMARIZE_LOGS: (Strategy.RIPGREP, Strategy.BM25, Strategy.STACK_TRACE_PATH),
    TaskType.INSPECT_REPO: (Strategy.TREE_SITTER, Strategy.BM25, Strategy.RIPGREP),
    TaskType.PROPOSE_PATCH: (
        Strategy.STACK_TRACE_PATH,
        Strategy.RIPGREP,
        Strategy.BM25,
        Strategy.TREE_SITTER,
        Strategy.GIT_DIFF_HISTORY,
    ),
}

QUESTION_FIELD = {
    TaskType.RAG_COMPRESS: "query",
    TaskType.DEBUG: "problem",
    TaskType.PROPOSE_PATCH: "problem",
    TaskType.SUMMARIZE_LOGS: "task_params.query",
    TaskType.INSPECT_REPO: "task_params.query",
}


class CompressRequest(Strict):
    """A whole request. The question lies where the task has it: see `question`."""

    task_type: TaskType = TaskType.RAG_COMPRESS
    query: Annotated[str, Field(max_length=MAX_QUESTION_CHARS)] | None = None
    problem: Annotated[str, Field(max_length=MAX_QUESTION_CHARS)] | None = None
    input_refs: Annotated[tuple[InputRef, ...], Field(min_length=1, max_length=256)]
    task_params: TaskParams = TaskParams()
    constraints: Constraints = Constraints()
    execution_profile: ExecutionProfile = ExecutionProfile()
    idempotency_key: Annotated[str, Field(min_length=1, max_length=256)] | None = None

    @model_validator(mode="after")
    def _question_in_its_place(self) -> CompressRequest:
        place = QUESTION_FIELD[self.task_type]
        have = {"query": self.query, "problem": self.problem, "task_params.query": self.task_params.query}
        for name, value in have.items():
            if value is not None and name != place:
                raise _fault(name, f"{self.task_type} takes its question in `{place}`, not in `{name}`")
        if not (have[place] or "").strip():
            raise _fault(place, f"{self.task_type} needs a question in `{place}`")
        return self

    @model_validator(mode="after")
    def _one_stdin(self) -> CompressRequest:
        if sum(ref.type is InputType.STDIN for ref in self.input_refs) > 1:
            raise _fault("input_refs", "standard input can be named once")
        return self

    @property
    def question(self) -> str:
        """The question, wherever the task keeps it."""
        return self.query or self.problem or self.task_params.query or ""

    @property
    def strategies(self) -> tuple[Strategy, ...]:
        """The strategies asked for, or the task's default."""
        return self.task_params.retrieval_strategies or DEFAULT_STRATEGIES[self.task_type]


def parse_request(data: Any) -> CompressRequest:
    """A request from decoded JSON.

    Raises:
        AgentloopError: REQUEST_INVALID, with the path and reason of every field that is off.
    """
    try:
        return CompressRequest.model_validate(data)
    except ValidationError as exc:
        raise invalid_request(exc, missing=_unasked(data)) from None


def _unasked(data: Any) -> str:
    """Where a request lacks its question; empty where it has one, or is too far off to tell."""
    if not isinstance(data, dict) or data.get("task_type", TaskType.RAG_COMPRESS) not in list(TaskType):
        return ""
    place = QUESTION_FIELD[TaskType(data.get("task_type", TaskType.RAG_COMPRESS))]
    holder = data.get("task_params", {}) if "." in place else data
    value = holder.get(place.rpartition(".")[2], "") if isinstance(holder, dict) else "?"
    return place if value is None or (isinstance(value, str) and not value.strip()) else ""


def invalid_request(
    exc: ValidationError, model: type[BaseModel] = CompressRequest, missing: str = ""
) -> AgentloopError:
    """REQUEST_INVALID that names each field of `model`; input values are not repeated.

    Args:
        missing: the place of a question that is not there, which counts although other fields are off.
    """
    fields = faults(exc, model, "request")
    if missing and all(fault["field"] != missing for fault in fields):
        fields.append({"field": missing, "reason": "the question is missing"})
    for fault in fields:
        if re.fullmatch(r"input_refs\.\d+", fault["field"]) and fault["reason"] == "must be an object":
            fault["reason"] += ' like {"type": "file", "uri": "/absolute/path"}'
    if len(fields) > 1:  # an item that is off is also counted as missing
        short = {"field": "input_refs", "reason": "must hold at least 1 item"}
        fields = [fault for fault in fields if fault != short]
    return AgentloopError(
        ErrorCode.REQUEST_INVALID,
        f"The request is not valid: {told(fields)}",
        Stage.REQUEST,
        {"fields": fields},
    )
