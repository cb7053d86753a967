"""What a caller has from earlier packs: `exclude_evidence` by `chunk_hash`, by evidence id, by pack id."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from agentloop.request import HASH, InputType
from agentloop.types import Corpus

MAX_PACK_BYTES = 4 << 20  # a pack of 16,000 tokens has some 100 KB


@dataclass(frozen=True, slots=True)
class Seen:
    """Chunk hashes that were seen, files that are packs named, and entries that stand for nothing."""

    hashes: tuple[str, ...]
    files: frozenset[int]
    odd: tuple[str, ...]


def seen_before(named: Sequence[str], corpus: Corpus) -> Seen:
    """What the entries of `exclude_evidence` stand for.

    A hash stands for itself. `evpack_…` stands for all items of that pack and `ev_001` for that item of the
    only pack, where the pack is an input of type `artifact` of the request: packs are looked up nowhere
    else. A pack that is named is no evidence itself.
    """
    packs = {name: (file, items) for file, name, items in _packs(corpus)} if named else {}
    files: set[int] = set()
    hashes: dict[str, None] = {}
    odd = []
    for name in named:
        if name in packs:
            file, items = packs[name]
            files.add(file)
            hashes.update(dict.fromkeys(items.values()))
        elif len(packs) == 1 and name in (only := next(iter(packs.values())))[1]:
            files.add(only[0])
            hashes.setdefault(only[1][name])
        elif HASH.fullmatch(name):
            hashes.setdefault(name)
        else:
            odd.append(name)
    return Seen(tuple(hashes), frozenset(files), tuple(odd))


def _packs(corpus: Corpus) -> Iterator[tuple[int, str, Mapping[str, str]]]:
    """File, id and chunk hashes by evidence id of each pack among the inputs; other artifacts are none."""
    artifacts = {i.input_id for i in corpus.inputs if i.type is InputType.ARTIFACT}
    for file in corpus.files:
        if file.input_id not in artifacts or file.size > MAX_PACK_BYTES:
            continue
        try:
            pack = json.loads(file.content.read(0, file.size))
            name = pack["provenance"]["pack_id"]
            items = {e["id"]: e["source_refs"][0]["chunk_hash"] for e in pack["payload"]["evidence"]}
        except (ValueError, KeyError, IndexError, TypeError, RecursionError):
            continue
        if isinstance(name, str) and all(isinstance(h, str) and HASH.fullmatch(h) for h in items.values()):
            yield file.index, name, items
