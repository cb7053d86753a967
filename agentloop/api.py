"""The library's front: a request from a question and paths, and its answer, async or not."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from agentloop.errors import AgentloopError, ErrorCode, Stage
from agentloop.pipeline import Environment, Outcome, run
from agentloop.request import QUESTION_FIELD, CompressRequest, InputType, TaskType, parse_request

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


async def compress(request: CompressRequest, env: Environment | None = None) -> Outcome:
    """Answer a request. CPU-bound stages run in threads, so the caller's event loop stays free.

    Raises:
        AgentloopError: no pack can be made; `code`, `stage` and `details` say why.
    """
    return await run(request, env or Environment())


def compress_sync(request: CompressRequest, env: Environment | None = None) -> Outcome:
    """`compress` for callers without an event loop.

    Raises:
        AgentloopError: as `compress`.
        RuntimeError: an event loop runs in this thread: `await compress(...)` there.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise RuntimeError("An event loop runs here: use `await compress(request)`, not `compress_sync`.")
    return asyncio.run(compress(request, env))


def make_request(
    question: str,
    paths: Sequence[str | Path],
    *,
    task: TaskType = TaskType.RAG_COMPRESS,
    baselines: Sequence[str | Path] = (),
    task_params: dict[str, Any] | None = None,
    constraints: dict[str, Any] | None = None,
    execution_profile: dict[str, Any] | None = None,
) -> CompressRequest:
    """A request over local paths (`-` is standard input), the question put where the task wants it.

    Raises:
        AgentloopError: REQUEST_INVALID, naming each field that is off.
    """
    try:
        task = TaskType(task)
    except ValueError:
        reason = f"must be one of {', '.join(TaskType)}"
        raise AgentloopError(
            ErrorCode.REQUEST_INVALID,
            f"The request is not valid: task_type: {reason}.",
            Stage.REQUEST,
            {"fields": [{"field": "task_type", "reason": reason}]},
        ) from None
    refs = [_ref(path, "primary") for path in paths] + [_ref(path, "baseline") for path in baselines]
    params = dict(task_params or {})
    data: dict[str, Any] = {
        "task_type": task,
        "input_refs": refs,
        "constraints": constraints or {},
        "execution_profile": execution_profile or {},
    }
    place = QUESTION_FIELD[task]
    if place == "task_params.query":
        params["query"] = question
    else:
        data[place] = question
    return parse_request({**data, "task_params": params})


def _ref(path: str | Path, role: str) -> dict[str, str]:
    text = str(path)
    if text == "-":
        return {"type": InputType.STDIN, "uri": "-", "role": role}
    if "\0" in text:
        raise AgentloopError(
            ErrorCode.INPUT_DISCOVERY_FAILED,
            "A path holds a NUL byte, which no file name can.",
            Stage.DISCOVERY,
            {"reason": "path_not_allowed"},
        )
    uri = input_uri(text)
    whole = Path(uri)
    kind = InputType.DIRECTORY if whole.is_dir() else InputType.FILE
    if kind is InputType.DIRECTORY and (whole / ".git").exists():
        kind = InputType.REPO
    return {"type": kind, "uri": uri, "role": role}


def input_uri(path: str) -> str:
    """What a request takes for a path as people type it: absolute, `~` expanded, without `.` and `..`.

    Links are left for discovery to refuse. An address (`file:///…`, which discovery takes, or another, which
    it refuses) stays as it is; a path that is not UTF-8 becomes a `file:` URI.
    """
    if _ADDRESS.match(path) and not os.path.lexists(path):
        return path
    found = os.path.normpath(Path(path).expanduser().absolute())
    try:
        found.encode("utf-8")
    except UnicodeEncodeError:
        return f"file://{quote(os.fsencode(found))}"
    return found
