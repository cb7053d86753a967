"""The evidence of a repository inspection: what the question found, then structure, risks and doubts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from agentloop.chunks import Chunks
from agentloop.compress import EvidenceId
from agentloop.compress.code import qualified
from agentloop.index.symbols import SymbolParser
from agentloop.request import CompressRequest
from agentloop.tasks.codegraph import CodeGraph
from agentloop.tasks.debug.reachable import Reachable
from agentloop.tasks.inspect.docs import Mismatch, mismatches
from agentloop.tasks.inspect.edges import ImportMap
from agentloop.tasks.inspect.entry_points import EntryPoint, entry_points
from agentloop.tasks.inspect.risks import Risk, risks
from agentloop.tasks.logs import distinct
from agentloop.tasks.model import TaskEvidence
from agentloop.types import Corpus, Draft, FileKind, Place, SourceFile, Symbol

LEADING = 8  # drafts of the question before those of structure
CERTAIN = 3  # of them, whatever structure says of the same lines
CENTRAL_FILES = 12  # files whose edges, risks and calls are told
MOST = {"entry_point": 3, "risk": 3, "doc_mismatch": 2}
TOLD_SUBSYSTEMS = 6
TOLD_EDGES = 16
TOLD_SYMBOLS = 6
TOLD_CALLS = 4
SURE = 0.5  # share of a call's weight from which its target is told
CONFIDENCE = {"entry_point": 0.6, "risk": 0.4, "doc_mismatch": 0.4}


def inspect_evidence(
    found: Sequence[Draft],
    corpus: Corpus,
    chunks: Chunks,
    request: CompressRequest,
    parser: SymbolParser,
) -> TaskEvidence:
    """What the question found, best first, with the structure around it."""
    central = _central(found, corpus)
    docs = [corpus.files[d.places[0].file] for d in found]
    points = _nearest(entry_points(corpus), central)
    doubts = list(mismatches(docs, corpus))[: MOST["doc_mismatch"]]
    extra = [
        *[_point(p) for p in points[: MOST["entry_point"]]],
        *[_risk(r) for r in list(risks(central))[: MOST["risk"]]],
        *[_mismatch(m) for m in doubts],
    ]
    own = distinct([*found[:CERTAIN], *[d for d in found[CERTAIN:] if not _covers(d, extra)]], corpus)
    drafts = [*own[:LEADING], *extra, *own[LEADING:]]
    graph = CodeGraph(corpus, chunks, parser)
    edges = ImportMap(corpus) if request.task_params.include_dependency_edges else None

    def details(evidence_id: EvidenceId) -> dict[str, Any]:
        symbols = _symbols(found, corpus, graph, central, evidence_id)
        graph.tell_bounds()
        return {
            "subsystems": _subsystems(drafts, corpus, evidence_id),
            "entry_points": [
                {"name": p.name, "how": p.how, "place": f"{p.file.path}:{p.line}"}
                for p in points[:TOLD_SUBSYSTEMS]
            ],
            "symbols": symbols,
            "dependency_edges": _edges(central, edges) if edges else [],
        }

    return TaskEvidence(drafts, details)


def _covers(draft: Draft, extra: Sequence[Draft]) -> bool:
    """Whether a draft of data (a manifest) cites what an entry point says more of."""
    own = draft.places[0]
    others = [e.places[0] for e in extra if e.kind == "entry_point"]
    return draft.kind == "data" and any(
        own.file == o.file and own.byte_start < o.byte_end and o.byte_start < own.byte_end for o in others
    )


def _central(found: Sequence[Draft], corpus: Corpus) -> list[SourceFile]:
    """The code files that the evidence is about, in its order."""
    files = dict.fromkeys(d.places[0].file for d in found)
    return [corpus.files[f] for f in files if corpus.files[f].kind is FileKind.CODE][:CENTRAL_FILES]


def _nearest(points: Sequence[EntryPoint], central: Sequence[SourceFile]) -> list[EntryPoint]:
    """Entry points, those that share the most folders with the central files first."""
    folders = [set(f.path.split("/")[:-1]) for f in central]

    def near(point: EntryPoint) -> int:
        own = set(point.file.path.split("/")[:-1])
        return max((len(own & folder) for folder in folders), default=0)

    return sorted(points, key=lambda p: (-near(p), p.how != "declared", p.file.path, p.line))


def _point(point: EntryPoint) -> Draft:
    says = {"guard": "runs as a script", "main": "main function", "command": "container command"}
    told = says.get(point.how, "declared in the manifest")
    claim = f"Entry point {point.name}: {told}."
    return _line("entry_point", point.file, point.byte_start, point.byte_end, point.line, claim, point.how)


def _risk(risk: Risk) -> Draft:
    claim = f"{risk.rule}: {risk.text[:200]}"
    return _line("risk", risk.file, risk.byte_start, risk.byte_end, risk.line, claim, risk.rule)


def _mismatch(doubt: Mismatch) -> Draft:
    claim = f"The docs name {doubt.name}(), which is in no code file."
    return _line("doc_mismatch", doubt.file, doubt.byte_start, doubt.byte_end, doubt.line, claim, doubt.name)


def _line(kind: str, file: SourceFile, start: int, end: int, line: int, claim: str, derived: str) -> Draft:
    last = line + file.content.read(start, max(start, end - 1)).count(b"\n")
    return Draft(
        kind=kind,
        claim=claim,
        places=(Place(file.index, start, end, line, last),),
        relevance=0.5,
        confidence=CONFIDENCE[kind],
        derived_claim=f"{kind.replace('_', ' ')}: {derived}",
    )


def _subsystems(drafts: Sequence[Draft], corpus: Corpus, evidence_id: EvidenceId) -> list[dict[str, Any]]:
    """Folders that the released evidence lies in, most items first, with their number of files."""
    ids: dict[str, list[str]] = {}
    for draft in drafts:
        found = evidence_id(draft)
        if found:
            ids.setdefault(_folder(corpus.files[draft.places[0].file].path), []).append(found)
    sizes = Counter(_folder(f.path) for f in corpus.files)
    ranked = sorted(ids, key=lambda folder: (-len(ids[folder]), folder))[:TOLD_SUBSYSTEMS]
    return [{"path": folder or ".", "files": sizes[folder], "evidence": ids[folder]} for folder in ranked]


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _symbols(
    found: Sequence[Draft],
    corpus: Corpus,
    graph: CodeGraph,
    central: Sequence[SourceFile],
    evidence_id: EvidenceId,
) -> list[dict[str, Any]]:
    """The definitions that the evidence shows, with their callers among the central files and callees."""
    told = []
    reachable = Reachable(graph)
    for draft in found:
        place, found_id = draft.places[0], evidence_id(draft)
        file = corpus.files[place.file]
        if not found_id or file.kind is not FileKind.CODE:
            continue
        function = graph.at_line(place.file, place.line_start)
        if function is None:
            continue
        symbol = graph.symbol(function)
        callees = [qualified(graph.symbol(f)) for f, w in reachable.step(function, 0) if w >= SURE]
        told.append(
            {
                "symbol": qualified(symbol),
                "kind": symbol.kind,
                "evidence": [found_id],
                "callers": _callers(graph, symbol, central),
                "callees": callees[:TOLD_CALLS],
            }
        )
        if len(told) == TOLD_SYMBOLS:
            break
    return [{key: value for key, value in row.items() if value} for row in told]


def _callers(graph: CodeGraph, symbol: Symbol, central: Sequence[SourceFile]) -> list[str]:
    callers: dict[str, None] = {}
    for file in central:
        for at in graph.calls(file).get(symbol.name, ()):
            owner = graph.around(file.index, at)
            if owner is not None and owner.name != symbol.name:
                callers.setdefault(qualified(owner))
    return list(callers)[:TOLD_CALLS]


def _edges(central: Sequence[SourceFile], imports: ImportMap) -> list[dict[str, str]]:
    pairs = [(f.path, t.path) for f in central for t in imports.targets(f)]
    return [{"from": source, "to": target} for source, target in pairs[:TOLD_EDGES]]
