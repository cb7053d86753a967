"""One evidence item: the draft's claim made fit to leave, its refs, and the shapes it can take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agentloop import tokens
from agentloop.compress.refs import collapsed_ref, place_text, source_ref
from agentloop.compress.region import bounded
from agentloop.compress.wording import MAX_RUN, WITHHELD, clip, longest_run
from agentloop.config import Policy
from agentloop.pack import (
    MAX_REFS,
    Collapsed,
    EvidenceItem,
    Redaction,
    SourceRef,
    canonical,
    to_json,
    with_short_hashes,
)
from agentloop.redact import Redactor, instruction_like
from agentloop.redact.patterns import known_form
from agentloop.request import Classification, CompressRequest, Confidentiality
from agentloop.types import Corpus, Draft

MAX_EXCERPT_LINES = 12
MAX_EXCERPT_TOKENS = 160
LEAST_CLAIM_TOKENS = 6


@dataclass(frozen=True, slots=True)
class Prepared:
    """A draft that may leave: cleaned claim, refs with whole hashes, and why it looks as it does."""

    draft: Draft
    claim: str
    refs: tuple[SourceRef, ...]
    redaction: Redaction
    source_tokens: int
    secrets: int
    flags: tuple[str, ...]
    excerpt: str | None
    excerpt_withheld: bool
    collapsed: tuple[Collapsed, ...]


def protected(draft: Draft, corpus: Corpus) -> bool:
    """Whether a draft may only be told by a derived claim.

    Inputs are combined to the highest of their classifications; a file that a rule raised protects the
    drafts that cite it.
    """
    found = [info.classification for info in corpus.inputs]
    found += [corpus.files[p.file].classification for p in draft.places]
    return max(found, key=lambda c: c.rank, default=Classification.INTERNAL).protected


def prepare(
    draft: Draft, corpus: Corpus, request: CompressRequest, policy: Policy, redactor: Redactor
) -> Prepared:
    """A draft's claim, refs, excerpt and flags under the policy."""
    draft = replace(draft, places=tuple(bounded(corpus, place) for place in draft.places))
    texts = [place_text(corpus, place) for place in draft.places]
    source = "\n".join(texts)
    redactor.learn(source)
    guarded = protected(draft, corpus)
    cleaned = redactor.clean(derived_claim(draft, source) if guarded else draft.claim)
    text = cleaned.text
    flags = [*draft.flags, *cleaned.flags, *redactor.clean(_plain_lines(texts)).flags]
    if instruction_like(text):
        text = redactor.clean(f"{draft.derived_claim or draft.kind}; {WITHHELD}").text
        flags.append("instruction_like")
    refs = _refs(draft, corpus, policy)
    excerpt, withheld = _excerpt(draft, corpus, request, policy, redactor, guarded)
    redaction = Redaction.NO_RAW_EXCERPT if excerpt is None else Redaction.NONE
    if cleaned.secrets or (excerpt is not None and "[redacted]" in excerpt):
        redaction = Redaction.SECRETS_REMOVED
    if guarded:
        redaction = Redaction.DERIVED_ONLY if policy.allow_paths else Redaction.REFERENCE_ONLY
    return Prepared(
        draft,
        text,
        refs,
        redaction,
        tokens.count(source),
        cleaned.secrets,
        tuple(dict.fromkeys(flags)),
        excerpt,
        withheld,
        _collapsed(draft, corpus, refs[0]),
    )


def _plain_lines(texts: Sequence[str]) -> str:
    """Texts of places with line ends of any system as `\\n`: they are no hidden characters."""
    return "\n".join(text.replace("\r\n", "\n").removesuffix("\r") for text in texts)


def derived_claim(draft: Draft, source: str) -> str:
    """A claim without the source's sentences: at most five of its words in a row."""
    claim = draft.derived_claim or draft.kind.replace("_", " ")
    if longest_run(claim, source) > MAX_RUN:
        lines = draft.places[0].line_end - draft.places[0].line_start + 1
        claim = f"{draft.kind.replace('_', ' ')}, {lines} line{'s' if lines > 1 else ''}"
    if draft.collapsed_count:
        claim += f", {draft.collapsed_count + 1} occurrences"
    return claim


def _refs(draft: Draft, corpus: Corpus, policy: Policy) -> tuple[SourceRef, ...]:
    refs = []
    for place in draft.places[:MAX_REFS]:
        shown = policy.allow_paths and not known_form(corpus.files[place.file].path)
        refs.append(source_ref(corpus, place, with_path=shown))
    return tuple(refs)


def _excerpt(
    draft: Draft,
    corpus: Corpus,
    request: CompressRequest,
    policy: Policy,
    redactor: Redactor,
    guarded: bool,
) -> tuple[str | None, bool]:
    """The decisive lines as they are, bounded; and whether one was asked for and withheld."""
    if not request.task_params.include_inline_excerpts:
        return None, False
    local = request.constraints.confidentiality is Confidentiality.LOCAL_ONLY
    if local or guarded or not policy.allow_excerpts:
        return None, True
    lines = place_text(corpus, draft.places[0]).split("\n")[:MAX_EXCERPT_LINES]
    text = "\n".join(lines)
    if instruction_like(text):
        return None, True
    while len(lines) > 1 and tokens.count(text) > MAX_EXCERPT_TOKENS:
        lines.pop()
        text = "\n".join(lines)
    cleaned = redactor.clean(clip(text, 4 * MAX_EXCERPT_TOKENS))
    return cleaned.text, False


def _collapsed(draft: Draft, corpus: Corpus, decisive: SourceRef) -> tuple[Collapsed, ...]:
    if not draft.collapsed_count:
        return ()
    ends = draft.collapsed[:1] + draft.collapsed[-1:] if len(draft.collapsed) > 1 else draft.collapsed
    refs = tuple(collapsed_ref(corpus, place, decisive) for place in ends)
    return (Collapsed(count=draft.collapsed_count, source_refs=refs),)


def shape(prepared: Prepared, number: int, claim_tokens: int, refs: int, limit: int) -> EvidenceItem:
    """The item with at most so many claim tokens and refs, no larger than `limit` tokens where that can be.

    Refs go first, last one first; then the excerpt, then words of the claim. `tokens` tells what came of it.
    """
    cited = prepared.refs[:refs]
    excerpt = prepared.excerpt
    claim = clip_tokens(prepared.claim, claim_tokens)
    while True:
        item = EvidenceItem(
            id=f"ev_{number:03d}",
            kind=prepared.draft.kind,
            claim=claim,
            source_refs=cited,
            relevance=_share(prepared.draft.relevance),
            confidence=_share(prepared.draft.confidence),
            redaction=prepared.redaction if excerpt or prepared.excerpt is None else _without(prepared),
            tokens=100,
            source_tokens=prepared.source_tokens,
            excerpt=excerpt,
            flags=prepared.flags,
            collapsed=prepared.collapsed,
        )
        size = item_tokens(item)
        if size <= limit or not (len(cited) > 1 or excerpt or claim_tokens > LEAST_CLAIM_TOKENS):
            return item.model_copy(update={"tokens": size})
        if len(cited) > 1:
            cited = cited[:-1]
        elif excerpt:
            excerpt = None
        else:
            claim_tokens = max(
                LEAST_CLAIM_TOKENS, min(claim_tokens - 4, tokens.count(claim) - (size - limit))
            )
            claim = clip_tokens(prepared.claim, claim_tokens)


def _share(value: float) -> float:
    """A number in 0..1 with two decimals."""
    return round(min(1.0, max(0.0, value)), 2)


def _without(prepared: Prepared) -> Redaction:
    """The redaction of an item whose excerpt was dropped for room."""
    return Redaction.SECRETS_REMOVED if prepared.secrets else Redaction.NO_RAW_EXCERPT


def item_tokens(item: EvidenceItem) -> int:
    """Tokens of an item as it is released."""
    return tokens.count(canonical(with_short_hashes(to_json(item))))


def clip_tokens(text: str, limit: int) -> str:
    """`text` of at most `limit` tokens, cut at a word."""
    size = tokens.count(text)
    while size > limit and len(text) > 1:
        text = clip(text.rstrip("…"), max(1, min(len(text) - 1, int(len(text) * limit / size))))
        size = tokens.count(text)
    return text


def number(items: Sequence[EvidenceItem]) -> tuple[EvidenceItem, ...]:
    """Items with ids by their position."""
    return tuple(item.model_copy(update={"id": f"ev_{n:03d}"}) for n, item in enumerate(items, 1))
