"""The engine's embeddings and reranker inside the harness, over a real socket."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from eval.cli import main
from tests.fakes.endpoint import FakeEndpoint
from tests.fakes.meaning import DIMENSIONS, scores, vectors

TEXTS = {"m0": "Beside the station stands a bus.", "m1": "chleb", "m2": "Nothing is wanted here, he said."}


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    folder = tmp_path / "small"
    folder.mkdir()
    corpus = [{"id": name, "text": text} for name, text in TEXTS.items()]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in corpus), "utf-8")
    question = {"id": "q", "question": "Is dough beside the station, he said?", "gold": ["m1"]}
    (folder / "questions.jsonl").write_text(json.dumps(question) + "\n", "utf-8")
    return folder


async def first(golden: Path, out: Path, *more: str) -> str:
    """The first document of the run of `single_shot`."""
    command = ["run", str(golden), "--rungs", "single_shot", "--out", str(out), "--no-plots", *more]
    assert await asyncio.to_thread(main, command) == 0
    return (out / "single_shot.trec").read_text().split()[2]


async def test_profiles_give_the_engine_its_models(
    golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    (home / "models").mkdir(parents=True)
    monkeypatch.setenv("BROKER_HOME", str(home))
    async with (
        FakeEndpoint([vectors()], repeat_last=True).serving() as meaning,
        FakeEndpoint([scores()], repeat_last=True).serving() as ranker,
    ):
        common = 'model = "fake"\nendpoint = '
        (home / "models" / "e.toml").write_text(
            f'kind = "embeddings"\ndimensions = {DIMENSIONS}\n{common}"{meaning.url}"\n'
        )
        (home / "models" / "r.toml").write_text(f'kind = "rerank"\n{common}"{ranker.url}"\n')
        assert await first(golden, tmp_path / "words") == "m0"
        assert not meaning.asked
        await first(golden, tmp_path / "meaning", "--embeddings-profile", "e")
        assert meaning.asked
        assert await first(golden, tmp_path / "ranked", "--rerank-profile", "r") == "m2"
    out = tmp_path / "none"
    command = ["run", str(golden), "--rungs", "single_shot", "--out", str(out), "--no-plots"]
    assert await asyncio.to_thread(main, [*command, "--rerank-profile", "nobody"]) != 0
    assert "There is no model profile nobody" in capsys.readouterr().err
