"""Profiles of embeddings and rerankers: what they need, where they are found, what takes which kind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agentloop.api import make_request
from agentloop.cache import packs as packcache
from agentloop.config import Policy
from agentloop.errors import AgentloopError
from agentloop.jobspec import JobSpec
from agentloop.loop.brains import open_model
from agentloop.loop.places import ModelPlaces
from agentloop.loop.profiles import read
from agentloop.loop.semantic import open_embedder, open_reranker
from broker.commands.environment import compress_environment

VECTORS = 'kind = "embeddings"\nendpoint = "http://127.0.0.1:1/v1"\ndimensions = 384\nmodel = "e5"\n'
SCORES = 'kind = "rerank"\nendpoint = "http://127.0.0.1:1/v1"\nmodel = "jina"\n'
CHAT = 'endpoint = "http://127.0.0.1:1/v1"\n'


@pytest.fixture
def places(tmp_path: Path) -> ModelPlaces:
    folder = tmp_path / "models"
    folder.mkdir()
    for name, text in (("vectors", VECTORS), ("scores", SCORES), ("chat", CHAT)):
        (folder / f"{name}.toml").write_text(text)
    return ModelPlaces.under(tmp_path)


def test_each_kind_opens_what_it_is(places: ModelPlaces) -> None:
    embedder, reranker = open_embedder("vectors", places), open_reranker("scores", places)
    assert (embedder.name, embedder.dimensions, embedder.candidates) == ("e5", 384, 200)
    assert (reranker.name, reranker.candidates) == ("jina", 40)


@pytest.mark.parametrize("name", ["vectors", "scores", "chat"])
def test_another_kind_is_refused(places: ModelPlaces, name: str) -> None:
    if name != "vectors":
        with pytest.raises(AgentloopError, match='kind = "embeddings"'):
            open_embedder(name, places)
    if name != "scores":
        with pytest.raises(AgentloopError, match='kind = "rerank"'):
            open_reranker(name, places)
    if name != "chat":
        with pytest.raises(AgentloopError, match="can't answer"), open_model(name, places):
            raise AssertionError("unreachable")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (VECTORS.replace("dimensions = 384\n", ""), "dimensions"),
        ('kind = "rerank"\ngguf = "m.gguf"\n', "endpoint"),
        ('kind = "other"\nendpoint = "http://a/v1"\n', "kind"),
        (VECTORS + "batch = 0\n", "batch"),
    ],
)
def test_a_profile_that_can_not_work_says_why(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "x.toml").write_text(text)
    with pytest.raises(AgentloopError, match=told):
        read(tmp_path / "x.toml")


def test_the_command_line_takes_the_settings(
    tmp_path: Path, places: ModelPlaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKER_HOME", str(tmp_path))
    with compress_environment(model=None, record=None, progress=None) as env:
        assert (env.embedder, env.reranker) == (None, None)
    monkeypatch.setenv("BROKER_EMBEDDINGS_PROFILE", "vectors")
    monkeypatch.setenv("BROKER_RERANK_PROFILE", "scores")
    with compress_environment(model=None, record=None, progress=None) as env:
        assert env.embedder is not None
        assert env.reranker is not None
        assert env.embedder.dimensions == 384
        assert env.cache.put("embedding:v1:x", b"kept")
    monkeypatch.setenv("BROKER_EMBEDDINGS_PROFILE", "nowhere")
    with (
        pytest.raises(AgentloopError, match="no model profile"),
        compress_environment(model=None, record=None, progress=None),
    ):
        raise AssertionError("unreachable")


def test_a_job_takes_the_profiles_of_its_document(tmp_path: Path, places: ModelPlaces) -> None:
    spec = JobSpec("job_1", "local", make_request("x", [tmp_path]), Policy(), home=str(tmp_path))
    assert (spec._embedder(), spec._reranker()) == (None, None)
    spec = replace(spec, embeddings_profile="vectors", rerank_profile="scores")
    embedder, reranker = spec._embedder(), spec._reranker()
    assert embedder is not None
    assert reranker is not None
    assert (embedder.name, reranker.name) == ("e5", "jina")
    told = spec.to_json()
    assert (told["embeddings_profile"], told["rerank_profile"]) == ("vectors", "scores")


def test_packs_of_other_models_are_other_packs() -> None:
    places = ModelPlaces(Path("/nowhere"))
    parts = {packcache.models_part(models, places) for models in (
        ("", "", ""), ("a", "", ""), ("", "e", ""), ("", "", "e"), ("a", "e", ""), ("a", "e", "r"),
    )}  # fmt: skip
    assert len(parts) == 6
    assert packcache.models_part(("", "", ""), places) == ""
