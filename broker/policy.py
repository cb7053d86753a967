"""What a request may read: the paths behind its refs, inside the roots of its namespace.

Checked at submit here and again in the worker. Nothing outside the roots is opened, nor told apart from
what doesn't exist; no link is followed below a root.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass

from agentloop.errors import AgentloopError, ErrorCode, Stage
from agentloop.request import Classification, CompressRequest, InputRef, InputType
from agentloop.sources.uri import absolute_path
from broker.values import NamespaceRules

ARTIFACT_SCHEME = "artifact://"
HASH_AT_SUBMIT = 16 << 20  # bytes: 10 ms of hashing; larger files are compared by the worker


@dataclass(frozen=True, slots=True)
class Authorised:
    """A request with refs that name real paths, the roots that its worker may open, its classification."""

    request: CompressRequest
    roots: tuple[str, ...]
    classification: Classification


def refusal(index: int, reason: str, message: str) -> AgentloopError:
    """INPUT_DISCOVERY_FAILED for an input; the reason is for programs."""
    return AgentloopError(
        ErrorCode.INPUT_DISCOVERY_FAILED,
        f"Input in{index + 1} {message}",
        Stage.DISCOVERY,
        {"input_id": f"in{index + 1}", "reason": reason},
    )


def _below(path: str, root: str) -> str | None:
    """`path` relative to `root`, None when it lies elsewhere."""
    if path == root:
        return ""
    prefix = root.rstrip("/") + "/"
    return path[len(prefix) :] if path.startswith(prefix) else None


def inside(path: str, roots: Iterable[str], index: int) -> str:
    """`path` with its root's own links resolved, when it lies in a root and no component is a link.

    Raises:
        AgentloopError: INPUT_DISCOVERY_FAILED, `path_not_allowed` or `not_found`.
    """
    for root in roots:
        real = os.path.realpath(root)
        for base in (root, real):
            rest = _below(path, base)
            if rest is not None:
                return _walk(real, rest, index)
    raise refusal(
        index,
        "path_not_allowed",
        "lies outside the folders that this namespace may read "
        "(the operator sets them: BROKER_ALLOWED_ROOTS).",
    )


def roots_of(request: CompressRequest, roots: Iterable[str]) -> tuple[str, ...]:
    """The roots that a request's refs name by their text; nothing is opened. Other refs have none."""
    named = [ref.uri.removeprefix("file://") for ref in request.input_refs]
    return tuple(root for root in roots if any(_below(path, root) is not None for path in named))


def _walk(root: str, rest: str, index: int) -> str:
    whole = root
    for part in [p for p in rest.split("/") if p]:
        whole = os.path.join(whole, part)
        try:
            mode = os.lstat(whole).st_mode
        except OSError:
            raise refusal(index, "not_found", "does not exist or can't be read.") from None
        if stat.S_ISLNK(mode):
            raise refusal(index, "path_not_allowed", "passes a symbolic link, which is not followed.")
    mode = os.lstat(whole).st_mode if os.path.lexists(whole) else 0
    if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
        raise refusal(index, "not_a_file", "is neither a file nor a folder.")
    return whole


def _apart_from(home: str, path: str, index: int) -> str:
    """`path`, unless it holds, or lies in, the broker's own folder: tokens, other jobs' artifacts."""
    real = os.path.realpath(home)
    if _below(path, real) is not None or _below(real, path) is not None:
        raise refusal(index, "path_not_allowed", "overlaps the broker's own folder, which is never read.")
    return path


def recheck(request: CompressRequest, rules: NamespaceRules, home: str) -> None:
    """The check of a job that is about to run: its namespace's roots may have changed since its submit.

    Raises:
        AgentloopError: INPUT_DISCOVERY_FAILED.
    """
    for index, ref in enumerate(request.input_refs):
        if ref.type is InputType.ARTIFACT and _below(ref.uri, os.path.realpath(home)) is not None:
            continue  # resolved by the broker itself, from an artifact of the namespace
        _apart_from(home, inside(ref.uri, rules.roots, index), index)


def authorise(
    request: CompressRequest,
    rules: NamespaceRules,
    artifacts: dict[str, tuple[str, Classification]],
    home: str,
) -> Authorised:
    """Check every ref of a request; `artifacts` maps `artifact://` ids of the namespace to files.

    Raises:
        AgentloopError: INPUT_DISCOVERY_FAILED for the first ref that may not be read.
    """
    refs: list[InputRef] = []
    roots = [os.path.realpath(root) for root in rules.roots]
    level = rules.default_classification
    for index, ref in enumerate(request.input_refs):
        if ref.type is InputType.STDIN or ref.uri == "-":
            raise refusal(index, "path_not_allowed", "is standard input, which a broker doesn't have.")
        if ref.uri.startswith(ARTIFACT_SCHEME):
            found = artifacts.get(ref.uri.removeprefix(ARTIFACT_SCHEME))
            if found is None:
                raise refusal(index, "not_found", "names an artifact that does not exist or is not yours.")
            path, inherited = found
            roots.append(path)
            level = max(level, inherited, key=lambda c: c.rank)
            named = {"uri": path, "type": InputType.ARTIFACT, "classification": inherited}
            refs.append(ref.model_copy(update=named))
            continue
        path = inside(absolute_path(ref.uri, f"in{index + 1}"), rules.roots, index)
        path = _apart_from(home, path, index)
        declared = ref.classification or rules.default_classification
        least = max(declared, rules.default_classification, key=lambda c: c.rank)
        level = max(level, least, key=lambda c: c.rank)
        refs.append(ref.model_copy(update={"uri": path, "classification": least}))
    authorised = request.model_copy(update={"input_refs": tuple(refs)})
    return Authorised(authorised, tuple(dict.fromkeys(roots)), level)


def verify_declared(request: CompressRequest) -> None:
    """Compare the declared hashes of single files with the files; folders are compared by the worker.

    Raises:
        AgentloopError: INPUT_HASH_MISMATCH.
    """
    for index, ref in enumerate(request.input_refs):
        if ref.content_hash is None or not os.path.isfile(ref.uri):
            continue
        if os.path.getsize(ref.uri) > HASH_AT_SUBMIT:
            continue
        with open(ref.uri, "rb") as file:
            found = "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()
        if not found.startswith(ref.content_hash):
            raise AgentloopError(
                ErrorCode.INPUT_HASH_MISMATCH,
                f"Input in{index + 1} is not the content that its content_hash declares; "
                "send the hash of the file as it is now, or none.",
                Stage.DISCOVERY,
                {"input_id": f"in{index + 1}", "found": found[: len("sha256:") + 16]},
            )
