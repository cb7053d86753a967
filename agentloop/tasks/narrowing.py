"""`paths` and `languages` of a request: what else was found counts as filtered, never as missing."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase

from agentloop.budget import Ledger
from agentloop.errors import AgentloopError, ErrorCode, Stage
from agentloop.request import CompressRequest
from agentloop.types import Corpus, Exclusion, FileKind, SkipReason, SourceFile


def narrowed(corpus: Corpus, request: CompressRequest, ledger: Ledger) -> Corpus:
    """The corpus within `task_params.paths` and `languages`, and of its records those in `time_window`.

    A path is a file, a folder or a glob, relative to its input. A language narrows code only: docs and
    data of the paths stay. Inputs that are single files stay whatever the filters say.

    Raises:
        AgentloopError: INPUT_DISCOVERY_FAILED, no file of the inputs passes the filters.
    """
    params = request.task_params
    if params.time_window is not None:
        from agentloop.tasks.when import within_window

        corpus = within_window(corpus, params.time_window, ledger)
    paths = params.paths
    languages = {name.lower() for name in params.languages}
    if not paths and not languages:
        return corpus
    folders = {i.input_id for i in corpus.inputs if i.is_dir}
    kept: list[SourceFile] = []
    left_out: list[Exclusion] = []
    for file in corpus.files:
        if file.input_id not in folders or (under(file, paths) and _speaks(file, languages)):
            kept.append(replace(file, index=len(kept)))
        else:
            left_out.append(Exclusion(file.input_id, file.path, SkipReason.FILTERED))
    if not kept:
        raise AgentloopError(
            ErrorCode.INPUT_DISCOVERY_FAILED,
            f"None of the {len(corpus.files)} files passes task_params paths={list(params.paths)} "
            f"languages={list(params.languages)}; widen them.",
            Stage.DISCOVERY,
            {"reason": "filtered", "files": len(corpus.files)},
        )
    ledger.add(Stage.DISCOVERY, filtered=len(left_out))
    return replace(corpus, files=tuple(kept), excluded=(*corpus.excluded, *left_out))


def under(file: SourceFile, paths: tuple[str, ...]) -> bool:
    """Whether a file is one of `paths`, lies in one, or matches one; all do where there are none."""
    plain = (p.strip("/").removeprefix("./") for p in paths)
    return not paths or any(
        file.path == p or file.path.startswith(p + "/") or p in ("", ".") or fnmatchcase(file.path, p)
        for p in plain
    )


def _speaks(file: SourceFile, languages: set[str]) -> bool:
    return not languages or file.kind is not FileKind.CODE or file.language.lower() in languages
