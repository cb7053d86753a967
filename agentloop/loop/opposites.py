"""Words that turn a claim around when one takes the other's place."""

from __future__ import annotations

from agentloop.loop.statements import stem

_OPPOSITES = """before after|increase decrease|raise lower|more less fewer|greater smaller|higher lower
above below|enable disable|enabled disabled|allow deny forbid prevent|accept reject|include exclude|open close
start stop end|begin end|first last|minimum maximum|min max|true false|success failure|succeed fail
add remove delete|append prepend|create delete destroy|insert remove|push pop|read write
load store save|send receive|input output|source target destination|left right|up down|top bottom
ascending descending|always never sometimes|all none some|every no|required optional
mandatory optional|public private|known unknown|valid invalid|safe unsafe|equal unequal
same different|positive negative|even odd|local remote global|oldest newest|client server
parent child|encode decode|encoder decoder
encoding decoding|reader writer|encrypt decrypt|compress decompress|lock unlock|mutable immutable
ordered unordered|sorted unsorted|synchronous asynchronous|sync async|blocking nonblocking
inclusive exclusive|shallow deep|default explicit|early late earlier later|fast slow faster slower
long short longer shorter|old new older newer|inside outside|internal external|win lose won lost
buy sell|import export|acquire release|upper lower|uppercase lowercase|within beyond|with without
directly indirectly|inner outer|large small|larger smaller|many few|import export|connect disconnect
present absent|present missing|empty nonempty|supported unsupported|defined undefined
cached uncached|signed unsigned|strict lenient|case-sensitive|case-insensitive|north south|east west
husband wife|father mother|son daughter|brother sister|wczoraj jutro|przed po|więcej mniej
włącz wyłącz"""


def _opposite_table() -> dict[str, frozenset[str]]:
    table: dict[str, set[str]] = {}
    for group in _OPPOSITES.replace("\n", "|").split("|"):
        members = group.split()
        for word in members:
            others = {form for m in members if m != word for form in (m, stem(m))}
            for form in (word, stem(word)):
                table.setdefault(form, set()).update(others)
    return {word: frozenset(others) for word, others in table.items()}


OPPOSITE = _opposite_table()
"""A word or its stem -> its opposites and their stems."""
