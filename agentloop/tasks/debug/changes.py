"""Functions that recent commits or uncommitted edits touched: the strongest sign of a new fault."""

from __future__ import annotations

from agentloop.request import CompressRequest, Strategy
from agentloop.sources.git import HistoryLimits, Touched, recent_changes
from agentloop.tasks.codegraph import CodeGraph, Function
from agentloop.types import Corpus, FileKind

UNASKED = HistoryLimits(max_commits=3)
"""Without `changed_since` only the newest commit that is no merge counts, beside uncommitted edits."""
MOST_UNASKED = 40  # functions; a change of more is an import or a reformatting and says nothing
MOST_ASKED = 400
_SHORT_ID = 10
_UNCOMMITTED = "uncommitted edits"


def changed_functions(
    corpus: Corpus, graph: CodeGraph, request: CompressRequest
) -> dict[Function, list[str]]:
    """Each touched function with the changes that touched it, newest first: short commit ids.

    The first commit of a repository is no change. Nothing is returned when too many functions are touched.

    Raises:
        AgentloopError: REQUEST_INVALID; `changed_since` names no commit of a repository.
    """
    if Strategy.GIT_DIFF_HISTORY not in request.strategies:
        return {}
    since = request.task_params.changed_since or ""
    found = recent_changes(corpus, since=since, limits=None if since else UNASKED)
    told = [change.commit for change in found.commits if change.parent]
    counted = set(told if since else told[:1])
    functions: dict[Function, list[str]] = {}
    for index, spans in sorted(found.files.items()):
        if corpus.files[index].kind is not FileKind.CODE:
            continue
        for span in sorted(spans, key=lambda s: (-s.commit.seconds, s.line_start)):
            if span.commit.commit and span.commit.commit not in counted:
                continue
            name = span.commit.commit[:_SHORT_ID] or _UNCOMMITTED
            for function in _functions(graph, index, span):
                changes = functions.setdefault(function, [])
                if name not in changes:
                    changes.append(name)
    return functions if len(functions) <= (MOST_ASKED if since else MOST_UNASKED) else {}


def _functions(graph: CodeGraph, file: int, span: Touched) -> list[Function]:
    """The innermost definitions around the lines of a span, each once."""
    around = (graph.at_line(file, line) for line in range(span.line_start, span.line_end + 1))
    return list(dict.fromkeys(function for function in around if function is not None))
