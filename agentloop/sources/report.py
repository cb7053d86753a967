"""What discovery says to people: refusals, what was left out, hashes that differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from agentloop.errors import AgentloopError, ErrorCode, Stage, WarningCode
from agentloop.request import InputRef
from agentloop.sources.opening import Refused
from agentloop.sources.uri import path_error
from agentloop.types import Exclusion, InputInfo, SkipReason

_WORDS = {
    SkipReason.BINARY: "binary",
    SkipReason.IGNORED: "ignored by .gitignore or .agentloopignore",
    SkipReason.TOO_LARGE: "over the size cap",
    SkipReason.SYMLINK: "symbolic links",
    SkipReason.HARD_LINK: "hard links with names outside",
    SkipReason.SPECIAL_FILE: "special files",
    SkipReason.UNREADABLE: "unreadable",
    SkipReason.VANISHED: "gone before they were read",
    SkipReason.CHANGED: "changed while they were read",
    SkipReason.FILE_LIMIT: "over the limit of files",
    SkipReason.BYTE_LIMIT: "over the limit of bytes",
    SkipReason.DEPTH_LIMIT: "too deep",
    SkipReason.EMPTY: "empty",
    SkipReason.VCS: "version control data",
    SkipReason.FILTERED: "filtered out",
    SkipReason.MALFORMED: "malformed",
    SkipReason.BOMB: "over the limits of extraction",
}
_WARNED = {
    SkipReason.UNREADABLE: WarningCode.INPUT_UNREADABLE,
    SkipReason.VANISHED: WarningCode.INPUT_UNREADABLE,
    SkipReason.CHANGED: WarningCode.INPUT_UNREADABLE,
    SkipReason.FILE_LIMIT: WarningCode.INPUT_TRUNCATED,
    SkipReason.BYTE_LIMIT: WarningCode.INPUT_TRUNCATED,
    SkipReason.DEPTH_LIMIT: WarningCode.INPUT_TRUNCATED,
    SkipReason.TOO_LARGE: WarningCode.INPUTS_SKIPPED,
    SkipReason.BOMB: WarningCode.INPUTS_SKIPPED,
    SkipReason.MALFORMED: WarningCode.INPUTS_SKIPPED,
}
_EXAMPLES = 3
CUT_OFF = ("are left out: the text is over the cap", "the records there are left out", " are cut at ")
_REFUSALS = {
    SkipReason.VANISHED: ("not_found", "does not exist"),
    SkipReason.SYMLINK: (
        "symlink",
        "is or leads through a symbolic link, which is never followed; name its target",
    ),
    SkipReason.SPECIAL_FILE: ("special_file", "is no regular file or folder"),
    SkipReason.UNREADABLE: ("unreadable", "can't be read"),
}


def shown(path: str) -> str:
    """A path for a message: control, bidi and undecodable characters as escapes, at most 120 characters."""
    text = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in path)
    return text if len(text) <= 120 else f"{text[:58]}…{text[-58:]}"


def refusal(input_id: str, path: str, exc: Refused) -> AgentloopError:
    """INPUT_DISCOVERY_FAILED for an input that can't be opened."""
    reason, words = _REFUSALS.get(exc.reason, (str(exc.reason), _WORDS[exc.reason]))
    detail = f" ({exc.detail})" if exc.detail else ""
    return path_error(input_id, reason, f"{shown(path)} {words}{detail}.")


def check_declared(ref: InputRef, input_id: str, digest: str) -> None:
    """Compare with the hash that the caller declared, whole or its first 16 digits or more.

    Raises:
        AgentloopError: INPUT_HASH_MISMATCH.
    """
    if ref.content_hash is not None and not digest.startswith(ref.content_hash):
        raise AgentloopError(
            ErrorCode.INPUT_HASH_MISMATCH,
            f"{input_id}: the input is not what was declared: its hash is {digest[:23]}…, "
            f"not {ref.content_hash[:23]}…. Hash it again (`agentloop hash`) or leave content_hash out.",
            Stage.DISCOVERY,
            {"input_id": input_id, "declared": ref.content_hash, "actual": digest},
        )


def _by_reason(excluded: Sequence[Exclusion]) -> dict[SkipReason, list[str]]:
    found: dict[SkipReason, list[str]] = defaultdict(list)
    for left in excluded:
        found[left.reason].append(shown(left.path) + ("/" if left.is_dir and left.path != "." else ""))
    return {reason: found[reason] for reason in SkipReason if reason in found}


def _told(reason: SkipReason, paths: list[str]) -> str:
    more = ", …" if len(paths) > _EXAMPLES else ""
    return f"{len(paths)} {_WORDS[reason]} ({', '.join(paths[:_EXAMPLES])}{more})"


def _with_details(excluded: Sequence[Exclusion]) -> dict[SkipReason, list[str]]:
    """As `_by_reason`, each path with its detail: for messages about a few files."""
    return _by_reason(
        [replace(left, path=f"{left.path}: {left.detail}") if left.detail else left for left in excluded]
    )


def nothing_left(inputs: Sequence[InputInfo], excluded: Sequence[Exclusion]) -> AgentloopError:
    """INPUT_DISCOVERY_FAILED that says what was skipped and why."""
    names = ", ".join(shown(info.root) for info in inputs)
    skipped = _with_details(excluded) if len(excluded) <= _EXAMPLES else _by_reason(excluded)
    why = "; ".join(_told(reason, paths) for reason, paths in skipped.items())
    return AgentloopError(
        ErrorCode.INPUT_DISCOVERY_FAILED,
        f"Nothing to index in {names}: " + (f"skipped {why}." if why else "it holds no file."),
        Stage.DISCOVERY,
        {
            "reason": "nothing_to_index",
            "skipped": {str(reason): len(paths) for reason, paths in skipped.items()},
            "examples": {str(reason): paths[:_EXAMPLES] for reason, paths in skipped.items()},
        },
    )


def warn_of(excluded: Sequence[Exclusion]) -> Iterator[tuple[WarningCode, str]]:
    """Warnings for what a user would miss; what rules leave out on purpose is in the coverage only."""
    missed = [left for left in excluded if left.reason in _WARNED]
    for reason, paths in _by_reason(missed).items():
        yield _WARNED[reason], f"Left out: {_told(reason, paths)}."


def warn_of_notes(notes: Sequence[str]) -> Iterator[tuple[WarningCode, str]]:
    """INPUT_TRUNCATED for records that a cap cut off, or that are no JSON."""
    for note in notes:
        if any(told in note for told in CUT_OFF):
            yield WarningCode.INPUT_TRUNCATED, note
