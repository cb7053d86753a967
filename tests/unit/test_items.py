"""Packed items: the same sequence as a tuple of items, over blocks, joined runs and other names."""

from __future__ import annotations

import pickle

import pytest

from agentloop import items as module
from agentloop.items import Item, PackedItems
from agentloop.types import Derived


def some(count: int, first: int = 0) -> list[Item]:
    """Items of all sizes, with lone surrogates, empty texts and every field."""
    return [
        Item(
            f"żółw {n} \ud800 " * (n % 7), n * 10, n * 10 + 9, n + 1, n + 2, f"id{n}" if n % 3 else "",
            f"thread {n // 5}", f"2024-01-{n % 28 + 1:02}" if n % 2 else "", "Ada" if n % 4 else "Bo", n % 3,
            "h",
        )
        for n in range(first, first + count)
    ]  # fmt: skip


@pytest.mark.parametrize("block", [1, 50, 100_000])
def test_it_is_the_sequence_that_was_put_in(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(module, "BLOCK_CHARS", block)
    plain = some(300)
    packed = PackedItems(plain)
    assert packed == plain
    assert tuple(packed) == tuple(plain)
    assert [packed[n] for n in (0, 7, 299, -1)] == [plain[n] for n in (0, 7, 299, -1)]
    assert packed[3:9] == tuple(plain[3:9])
    assert [packed.text(n) for n in range(300)] == [item.text for item in plain]
    assert [packed.size(n) for n in range(300)] == [len(item.text) for item in plain]
    assert packed.chars == sum(len(item.text) for item in plain)
    spans = [(i.byte_start, i.byte_end, i.line_start, i.line_end) for i in plain]
    assert list(packed.spans()) == spans
    with pytest.raises(IndexError):
        packed[300]
    assert pickle.loads(pickle.dumps(packed)) == plain


@pytest.mark.parametrize("sizes", [(0, 5), (5, 0), (7, 30), (100, 100)])
def test_runs_are_joined(monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, int]) -> None:
    monkeypatch.setattr(module, "BLOCK_CHARS", 90)
    one, other = some(sizes[0]), some(sizes[1], sizes[0])
    whole = PackedItems(one)
    whole.extend(PackedItems(other))
    more = some(3, sum(sizes))
    for item in more:
        whole.append(item)
    assert whole == [*one, *other, *more]


def test_other_names_leave_text_and_spans() -> None:
    packed = PackedItems(some(20))
    named = packed.regrouped(lambda group: (group[0], group[1].upper(), group[2], group[3]))
    assert [item.speaker for item in named] == [item.speaker.upper() for item in packed]
    assert [item.text for item in named] == [item.text for item in packed]
    assert {item.speaker for item in packed} == {"Ada", "Bo"}


def test_derived_text_is_the_same_over_both_forms() -> None:
    plain = some(40)
    loose, packed = Derived("t", "1", tuple(plain)), Derived("t", "1", PackedItems(plain))
    assert loose.joined(3, 3) == packed.joined(3, 3)
    assert loose.joined(3, 11) == packed.joined(3, 11)
    assert list(loose.spans()) == list(packed.spans())
    assert [loose.size(n) for n in range(40)] == [packed.size(n) for n in range(40)]
