"""Parameters that were given and can do nothing for this task or these inputs: told, never passed over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agentloop.budget import Ledger
from agentloop.errors import Stage, WarningCode
from agentloop.request import CompressRequest, Mode, TaskParams, TaskType
from agentloop.tasks.narrowing import under
from agentloop.types import Corpus

_LOGS = (TaskType.SUMMARIZE_LOGS, TaskType.DEBUG, TaskType.PROPOSE_PATCH)
_OF_TASKS: Mapping[str, tuple[TaskType, ...]] = {
    "suspect_paths": (TaskType.DEBUG, TaskType.PROPOSE_PATCH),
    "include_dependency_edges": (TaskType.INSPECT_REPO,),
    "patch_style": (TaskType.PROPOSE_PATCH,),
    "allowed_paths": (TaskType.PROPOSE_PATCH,),
    "validation_commands": (TaskType.PROPOSE_PATCH,),
    "deduplicate_repeated_lines": _LOGS,
    "cluster_stack_traces": _LOGS,
}
"""Which tasks look at a parameter; those that are not here count in all."""
_PLAIN = TaskParams()


def tell_unused(request: CompressRequest, corpus: Corpus, ledger: Ledger, *, has_model: bool) -> None:
    """Warn with PARAM_IGNORED of parameters that were given and that nothing looks at, and of empty `paths`.

    Args:
        corpus: what was found of the inputs, within `paths` and `languages`.
        has_model: whether a model drives the loop; the built-in planner writes no answers.
    """
    told = [
        *_of_other_tasks(request),
        *_without_effect(request, has_model),
        *_of_other_inputs(request.task_params, corpus),
    ]
    if told:
        ledger.warn(WarningCode.PARAM_IGNORED, "; ".join(told) + ".", Stage.REQUEST)
    paths = request.task_params.paths
    gone = [path for path in paths if not any(under(file, (path,)) for file in corpus.files)]
    if gone:  # the others narrow the inputs all the same
        missing = f"task_params.paths: nothing that can be searched lies at {', '.join(gone)}."
        ledger.warn(WarningCode.INPUTS_SKIPPED, missing, Stage.DISCOVERY)


def _of_other_tasks(request: CompressRequest) -> Iterator[str]:
    for name, tasks in _OF_TASKS.items():
        if request.task_type not in tasks and _given(request.task_params, name):
            yield f"{name} is for {' and '.join(tasks)}"


def _without_effect(request: CompressRequest, has_model: bool) -> Iterator[str]:
    params = request.task_params
    if params.mode is not Mode.AGENTIC and _given(params, "max_tool_calls"):
        yield f"max_tool_calls: mode {params.mode} makes no tool calls"
    if params.answer and not (has_model and params.mode is Mode.AGENTIC):
        yield "answer needs a model and mode agentic"


def _of_other_inputs(params: TaskParams, corpus: Corpus) -> Iterator[str]:
    if params.changed_since and not any(info.commit for info in corpus.inputs):
        yield "changed_since: no input is a repository with a commit"
    spoken = {file.language.lower() for file in corpus.files}
    if params.languages and spoken.isdisjoint(language.lower() for language in params.languages):
        yield f"languages: no file is {' or '.join(params.languages)}"


def _given(params: TaskParams, name: str) -> Any:
    return getattr(params, name) != getattr(_PLAIN, name)
