"""Steps of the fake endpoint for `/v1/embeddings` and `/v1/rerank`: deterministic, and broken by kind."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from aiohttp import web

from tests.fakes.endpoint import Step

DIMENSIONS = 8
CONCEPTS = {
    "boiler": 0, "piec": 0, "piecem": 0, "kopciuch": 0, "heating": 0,
    "noise": 1, "hałas": 1, "hałasuje": 1, "rzęzi": 1, "banging": 1,
    "train": 2, "pociąg": 2, "station": 2,
    "bread": 3, "chleb": 3, "dough": 3,
    "bike": 4, "rower": 4, "tyre": 4,
}  # fmt: skip


def meaning(text: str) -> list[float]:
    """A vector of what a text is about, whichever language says it; the last axis is the same for all."""
    vector = [0.0] * (DIMENSIONS - 1) + [0.1]
    for word in re.findall(r"\w+", text.lower()):
        if word in CONCEPTS:
            vector[CONCEPTS[word]] += 1.0
    return vector


def vectors(change: Callable[[list[dict[str, Any]]], Any] = lambda rows: rows) -> Step:
    """Answer with the texts' vectors, last first: clients must look at `index`. `change` breaks the rows."""

    async def step(request: web.Request, asked: dict[str, Any]) -> web.StreamResponse:
        rows = [
            {"object": "embedding", "index": place, "embedding": meaning(text)}
            for place, text in enumerate(asked["input"])
        ]
        return web.json_response({"object": "list", "model": "fake", "data": change(rows[::-1])})

    return step


def scores(change: Callable[[list[dict[str, Any]]], Any] = lambda rows: rows) -> Step:
    """Answer with logits that prefer documents which hold the word `wanted`. `change` breaks the rows."""

    async def step(request: web.Request, asked: dict[str, Any]) -> web.StreamResponse:
        rows = [
            {"index": place, "relevance_score": 4.5 if "wanted" in text else -3.25}
            for place, text in enumerate(asked["documents"])
        ]
        return web.json_response({"results": change(rows[::-1])})

    return step
