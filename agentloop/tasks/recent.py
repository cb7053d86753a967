"""`recent_change` items: commits and uncommitted edits that touch what the evidence shows.

They cite the lines as they are in the input now, so that each ref can be verified without git.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentloop.compress.region import place_of, span_region
from agentloop.request import CompressRequest, Strategy, TaskType
from agentloop.sources.git import HistoryLimits, Touched, recent_changes
from agentloop.types import Corpus, Draft, Place, SourceFile, Span

MOST = 3
LOOKED_AT = 12  # drafts, best first, whose files count
UNDATED = HistoryLimits(max_commits=30)  # without `changed_since`
RELEVANCE = 0.5
CONFIDENCE = 0.6  # that the lines changed is certain; that it matters is not
SUBJECT_CHARS = 100
_SHORT_ID = 10


def recent_drafts(found: Sequence[Draft], corpus: Corpus, request: CompressRequest) -> list[Draft]:
    """The newest changes of lines that drafts cite, then of their files: `MOST`, one per change and file.

    Nothing unless the request asks for `git_diff_history` or `changed_since`; debug and patch requests do so
    by themselves.

    Raises:
        AgentloopError: REQUEST_INVALID; `changed_since` names no commit of a repository.
    """
    since = request.task_params.changed_since or ""
    own = request.task_type in (TaskType.DEBUG, TaskType.PROPOSE_PATCH)
    asked = Strategy.GIT_DIFF_HISTORY in request.strategies
    if not (asked or (since and not own)) or not any(info.commit for info in corpus.inputs):
        return []
    changes = recent_changes(corpus, since=since, limits=None if since else UNDATED)
    cited: dict[int, list[Place]] = {}
    for draft in found[:LOOKED_AT]:
        cited.setdefault(draft.places[0].file, []).append(draft.places[0])
    ranked: dict[tuple[int, str], tuple[tuple[bool, int, int], Touched]] = {}
    for order, (file, places) in enumerate(cited.items()):
        for span in changes.files.get(file, ()):
            if span.commit.commit and not span.commit.parent:
                continue  # the first commit of a history is no change
            inside = any(p.line_start <= span.line_end and span.line_start <= p.line_end for p in places)
            key = (not inside, -span.commit.seconds, order)
            held = ranked.get((file, span.commit.commit))
            if held is None or key < held[0]:
                ranked[file, span.commit.commit] = (key, span)
    best = sorted(ranked.items(), key=lambda entry: (entry[1][0], entry[0]))[:MOST]
    made = (_draft(corpus, file, span, inside=not key[0]) for (file, _), (key, span) in best)
    return [draft for draft in made if draft is not None]


def _draft(corpus: Corpus, index: int, span: Touched, *, inside: bool) -> Draft | None:
    file = corpus.files[index]
    lines = _span(file, span.line_start, span.line_end)
    if file.derived is not None or lines is None:
        return None
    region = span_region(corpus, index, lines)
    commit = span.commit
    name = commit.commit[:_SHORT_ID]
    what = f"Changed in {name} ({commit.time[:10]})" if name else "Changed by uncommitted edits"
    touched = "lines that the evidence cites" if inside else "the file that the evidence cites"
    removed = "; lines before it were removed" if span.removed_only else ""
    subject = f": {commit.subject[:SUBJECT_CHARS]}" if name and commit.subject else ""
    return Draft(
        kind="recent_change",
        claim=f"{what}, {touched}{removed}{subject}",
        places=(place_of(corpus, region, 0, len(region.lines) - 1),),
        relevance=RELEVANCE,
        confidence=CONFIDENCE,
        derived_claim=f"{what}, {touched}{removed}",
    )


def _span(file: SourceFile, first: int, last: int) -> Span | None:
    """The bytes of lines `first..last`, without the last line's end; None where the file has none of them."""
    data = file.content.read(0, file.size)
    start = 0
    for _ in range(first - 1):
        at = data.find(b"\n", start)
        if at < 0:
            break
        start = at + 1
    end = start
    for _ in range(last - first + 1):
        at = data.find(b"\n", end)
        end = len(data) if at < 0 else at + 1
        if at < 0:
            break
    stop = end - 1 if data[end - 1 : end] == b"\n" else end
    if start >= stop:
        return None
    return Span(start, stop, first, first + data.count(b"\n", start, stop))
