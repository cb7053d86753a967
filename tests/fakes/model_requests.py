"""Requests over a small folder of real files, answered with a model behind the misbehaving endpoint."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentloop.api import compress, make_request
from agentloop.loop.endpoint import EndpointModel
from agentloop.loop.profiles import Profile
from agentloop.pipeline import Environment, Outcome
from tests.fakes import endpoint as fake
from tests.fakes.endpoint import FakeEndpoint, Step

QUESTION = "How long does connect wait for the host?"


def write_data(tmp_path: Path) -> Path:
    """A folder with one module and one page."""
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "net.py").write_text(
        'def connect(host, timeout=30):\n    """Open a connection; waits at most 30 seconds '
        'for the host."""\n    return dial(host, timeout)\n'
    )
    (folder / "guide.md").write_text("# Guide\n\nThe pool keeps 8 connections. It never opens a ninth.\n")
    return folder


def profile(url: str, **more: Any) -> Profile:
    """A profile of the endpoint."""
    return Profile(name="fake", endpoint=url, **{"wire": "native", "timeout_seconds": 5, **more})


async def ask(
    data: Path, steps: Sequence[Step], *, params: dict[str, Any] | None = None, **more: Any
) -> tuple[Outcome, FakeEndpoint]:
    """The outcome of one request, and the endpoint that it used."""
    repeat = bool(more.pop("repeat_last", False))
    runtime = more.pop("max_runtime_seconds", 60)
    async with FakeEndpoint(steps, repeat_last=repeat).serving() as server:
        model = EndpointModel(profile(server.url, **more))
        request = make_request(
            QUESTION, [data], task_params=params, constraints={"max_runtime_seconds": runtime}
        )
        return await compress(request, Environment(model=model)), server


def codes(outcome: Outcome) -> list[str]:
    """Codes of the warnings of a pack."""
    return [w["code"] for w in outcome.released["payload"]["warnings"]]


def claims(outcome: Outcome) -> list[str]:
    """Claims of a pack, in order."""
    return [item["claim"] for item in outcome.released["payload"]["evidence"]]


def final(*made: tuple[str, Sequence[str]], answer: Sequence[tuple[str, Sequence[str]]] = ()) -> Step:
    """A last reply with these claims and sentences."""
    stated: dict[str, Any] = {"claims": [{"claim": c, "refs": list(r)} for c, r in made]}
    if answer:
        stated["answer"] = [{"text": t, "refs": list(r)} for t, r in answer]
    return fake.says(json.dumps(stated))


async def ref_of(data: Path, path: str) -> str:
    """The ref of the first chunk of a file: chunk ids are the same in every run."""
    outcome = await compress(make_request(QUESTION, [data]))
    file = next(f.index for f in outcome.corpus.files if f.path == path)
    return f"c{next(n for n, chunk in enumerate(outcome.chunks) if chunk.file == file)}"
