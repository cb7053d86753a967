"""What the caller's validation commands say of a proposed patch, run where the operator allows it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from agentloop.budget import Ledger
from agentloop.clock import Clock
from agentloop.config import Caps, Policy
from agentloop.errors import Stage, WarningCode
from agentloop.pack import short_hash
from agentloop.request import CompressRequest, InputRole
from agentloop.sandbox import Ran, SandboxError, run_commands
from agentloop.sources.opening import Refused, open_file, open_parent, read_stable
from agentloop.tasks.patch.edits import Patch
from agentloop.types import Corpus, FileKind, InputInfo, SkipReason

MAX_COMMANDS = 8
_ALSO_COPIED = frozenset({SkipReason.BINARY, SkipReason.EMPTY, SkipReason.FILTERED})
"""What is no text to search but may be needed to build or test: pictures, fixtures, empty `__init__.py`."""


@dataclass(frozen=True, slots=True)
class Validation:
    """Commands that ran, whether with the patch, and their outputs as local artifacts by name."""

    ran: tuple[Ran, ...] = ()
    patched: bool = False

    @property
    def artifacts(self) -> dict[str, bytes]:
        """What the commands printed."""
        return {_artifact(n): ran.output for n, ran in enumerate(self.ran, 1)}

    def details(self) -> list[dict[str, Any]]:
        """The rows of `details.validation`."""
        return [
            {
                "command": ran.command,
                **({} if ran.exit_status is None else {"exit_status": ran.exit_status}),
                **({"stopped": ran.stopped} if ran.stopped else {}),
                "seconds": ran.seconds,
                "output_hash": short_hash(ran.output_hash),
                "output_bytes": len(ran.output),
                **({"truncated": True} if ran.truncated else {}),
                "artifact": _artifact(n),
                "patched": self.patched,
            }
            for n, ran in enumerate(self.ran, 1)
        ]


def _artifact(number: int) -> str:
    return f"validation_{number}.log"


def validate(
    patch: Patch | None,
    corpus: Corpus,
    request: CompressRequest,
    policy: Policy,
    caps: Caps,
    clock: Clock,
    deadline: float,
    ledger: Ledger,
) -> Validation:
    """Run the request's commands on a copy of its tree with the patch, or without one where there is none.

    Nothing runs without `policy.sandbox`; what keeps commands from running is told as VALIDATION_UNAVAILABLE.
    """
    commands = request.task_params.validation_commands
    if not commands or policy.sandbox is None:
        return Validation()
    info = _tree(corpus, patch)
    if info is None:
        _warn(ledger, "no folder is among the inputs")
        return Validation()
    files = _files(corpus, info, caps)
    for path, text in patch.files.items() if patch else ():
        files[path] = text.encode("utf-8")
    try:
        ran = run_commands(files, commands[:MAX_COMMANDS], policy.sandbox, clock, deadline)
    except SandboxError as exc:
        _warn(ledger, f"this machine can't shut them off ({exc})")
        return Validation()
    if len(ran) < len(commands):
        _warn(
            ledger, f"{len(commands) - len(ran)} of them did not run: {MAX_COMMANDS} at most, within the time"
        )
    return Validation(tuple(ran), patch is not None)


def _warn(ledger: Ledger, why: str) -> None:
    ledger.warn(
        WarningCode.VALIDATION_UNAVAILABLE, f"validation_commands were not all run: {why}.", Stage.VALIDATION
    )


def _tree(corpus: Corpus, patch: Patch | None) -> InputInfo | None:
    """The folder that the patch changes, or the one with most code."""
    counted: dict[str, int] = {}
    for file in corpus.files:
        weight = 1_000_000 if patch and file.path in patch.files else file.kind is FileKind.CODE
        counted[file.input_id] = counted.get(file.input_id, 0) + weight
    folders = [i for i in corpus.inputs if i.is_dir and i.role is InputRole.PRIMARY]
    return max(folders, key=lambda i: counted.get(i.input_id, 0), default=None)


def _files(corpus: Corpus, info: InputInfo, caps: Caps) -> dict[str, bytes]:
    """The bytes that discovery read, and those of files that are no text, opened as safely."""
    found: dict[str, bytes] = {}
    for file in corpus.files:
        if file.input_id == info.input_id and file.ref_path not in found and not file.historic:
            found[file.ref_path] = file.content.read(0, file.content.size)
    for left in corpus.excluded:
        if left.input_id == info.input_id and left.reason in _ALSO_COPIED and not left.is_dir:
            data = _plain(info.root, left.path, caps)
            if data is not None:
                found[left.path] = data
    return found


def _plain(root: str, path: str, caps: Caps) -> bytes | None:
    """A regular file's bytes, no link followed; None where it can't be read."""
    try:
        parent = open_parent(f"{root}/{path}", root)
    except Refused:
        return None
    try:
        descriptor, status = open_file(os.path.basename(path), parent)
    except Refused:
        return None
    finally:
        os.close(parent)
    try:
        if status.st_size > caps.max_file_bytes:
            return None
        return read_stable(descriptor, status, caps.max_file_bytes)[0]
    except Refused:
        return None
    finally:
        os.close(descriptor)
