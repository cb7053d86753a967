"""Model servers on a machine: started by profile, checked, shared, replaced, ended with all they started."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agentloop.errors import AgentloopError, ErrorCode
from agentloop.loop import runtimes
from agentloop.loop.brains import open_model
from agentloop.loop.fit import fit
from agentloop.loop.gguf import GgufError, largest_context, need, read_header
from agentloop.loop.local_server import serve_profile, served_models
from agentloop.loop.messages import Message, ModelError, Reply
from agentloop.loop.places import ModelPlaces
from agentloop.loop.profiles import Profile
from agentloop.loop.resume import ResumingModel
from agentloop.loop.scripted import ScriptedModel
from agentloop.loop.services import Files, Order, leased, run
from agentloop.loop.sharing import folder_of, shared
from tests.fakes import llama_server


def profile(folder: Path, script: dict[str, object] | None = None, **more: object) -> Profile:
    model = folder / "model.gguf"
    model.write_text(json.dumps({"log": str(folder / "starts"), **(script or {})}))
    fields = {
        "name": "ours",
        "gguf": str(model),
        "model": "tiny",
        "serve": "llama-server",
        "binary": str(llama_server.program(folder)),
        "wire": "json",
        "start_seconds": 20.0,
    }
    return Profile.model_validate({**fields, **more})


def starts(folder: Path) -> list[str]:
    path = folder / "starts"
    return path.read_text().splitlines() if path.exists() else []


def until(done: Callable[[], bool], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end
        time.sleep(0.02)


def place(endpoint: str) -> tuple[str, int]:
    return "127.0.0.1", int(endpoint.rpartition(":")[2].partition("/")[0])


def gone(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


# --- one server --------------------------------------------------------------------------------------


def test_a_server_is_ready_after_it_loaded_and_its_group_is_gone(tmp_path: Path) -> None:
    slow = profile(tmp_path, {"load_seconds": 0.4}, parallel=2, context_tokens=4096, gpu_layers=12)
    with serve_profile(slow) as serving:
        assert served_models(*place(serving.endpoint), serving.api_key) == ["tiny"]
        assert served_models(*place(serving.endpoint), "wrong") is None
        assert not gone(serving.pid)
    until(lambda: gone(serving.pid))  # killed members are reaped by init a moment later
    (said,) = starts(tmp_path)
    assert "--ctx-size 8192 --parallel 2 --n-gpu-layers 12" in said


def test_a_server_of_another_model_is_refused_and_stopped(tmp_path: Path) -> None:
    with (
        pytest.raises(AgentloopError, match=r"serves other instead of tiny") as caught,
        serve_profile(profile(tmp_path, {"alias": "other"})),
    ):
        raise AssertionError("unreachable")
    assert caught.value.code is ErrorCode.MODEL_UNAVAILABLE


def test_a_server_that_dies_says_its_last_words(tmp_path: Path) -> None:
    with (
        pytest.raises(AgentloopError, match="unable to allocate CUDA0 buffer"),
        serve_profile(profile(tmp_path, {"die": "unable to allocate CUDA0 buffer"})),
    ):
        raise AssertionError("unreachable")


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(AgentloopError, match="/nowhere/llama-server can't be started"),
        serve_profile(profile(tmp_path, binary="/nowhere/llama-server")),
    ):
        raise AssertionError("unreachable")


def test_a_server_that_never_is_ready_is_stopped_in_time(tmp_path: Path) -> None:
    with (
        pytest.raises(AgentloopError, match=r"start_seconds=0\.5"),
        serve_profile(profile(tmp_path, {"load_seconds": 60}, start_seconds=0.5)),
    ):
        raise AssertionError("unreachable")


HOLD = (
    "import sys; from pathlib import Path; from tests.unit.test_serving import profile;"
    "from agentloop.loop.sharing import shared; from agentloop.loop.local_server import serve_profile;"
    "p = Path(sys.argv[1]); held = shared(profile(p), p / 'a' / 'b' / 'c') if sys.argv[2] == 'shared' else"
    " serve_profile(profile(p)); s = held.__enter__(); print(s.endpoint, s.pid, flush=True);"
    "sys.stdin.readline(); held.__exit__(None, None, None)"
)


def holder(folder: Path, how: str) -> subprocess.Popen[str]:
    """Another process that holds a server until a line comes."""
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder), how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )


def ended(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    process.wait(20)
    process.stdout.close()


def test_a_server_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    other = holder(tmp_path, "own")
    assert other.stdout is not None
    endpoint, group = other.stdout.readline().split()
    assert served_models(*place(endpoint), "wrong") is None
    other.kill()
    ended(other)
    until(lambda: gone(int(group)))


@pytest.mark.parametrize("runtime", ["llama-server", "llama_cpp.server", "vllm serve"])
def test_no_key_stands_in_an_argument(runtime: str) -> None:
    made = runtimes.command(Profile(name="x", gguf="/m.gguf", serve=runtime), "127.0.0.1", 1, "KEY")  # type: ignore[arg-type]
    assert "KEY" not in " ".join(made.argv)
    assert "KEY" in made.env.values()


# --- one server a machine ----------------------------------------------------------------------------


def test_workers_of_a_machine_share_a_server_and_its_owner_waits_for_them(tmp_path: Path) -> None:
    ours, folder = profile(tmp_path), tmp_path / "a" / "b" / "c"
    other = holder(tmp_path, "shared")
    assert other.stdout is not None
    assert other.stdin is not None
    endpoint, _ = other.stdout.readline().split()
    with shared(ours, folder) as serving:
        assert serving.endpoint == endpoint
        other.stdin.write("\n")
        other.stdin.flush()
        until(lambda: '"closing": true' in next(folder.glob("*.json")).read_text())
        assert served_models(*place(endpoint), serving.api_key) == ["tiny"]  # the owner waits for us
        assert other.poll() is None
    ended(other)
    assert not list(folder.glob("*.json"))
    assert len(starts(tmp_path)) == 1


def test_a_server_whose_owner_died_is_replaced_in_the_middle_of_a_loop(tmp_path: Path) -> None:
    path = tmp_path / "ours.toml"
    given = profile(tmp_path).model_dump(exclude_defaults=True)
    path.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in given.items()))
    other = holder(tmp_path, "shared")
    assert other.stdout is not None
    other.stdout.readline()
    places = ModelPlaces(tmp_path, shared=tmp_path / "a" / "b" / "c")
    with open_model(str(path), places) as model:
        assert model is not None
        other.kill()
        ended(other)
        told = next((tmp_path / "a" / "b" / "c").glob("*.json")).read_text()
        until(lambda: gone(json.loads(told)["pid"]))
        reply = asyncio.run(model.complete([Message("user", "hello")], (), timeout=20))
    assert reply.text
    assert len(starts(tmp_path)) == 2


def test_the_folder_of_servers_must_be_ours_alone(tmp_path: Path) -> None:
    open_to_all = tmp_path / "a"
    open_to_all.mkdir(mode=0o755)
    with (
        pytest.raises(AgentloopError, match="not private"),
        shared(profile(tmp_path), open_to_all / "b" / "c"),
    ):
        raise AssertionError("unreachable")


def test_workers_with_other_gpus_do_not_share() -> None:
    first, second = ({"SLURM_JOB_GPUS": number} for number in ("0", "1"))
    assert folder_of("/tmp", first) == folder_of("/tmp", {**first, "CUDA_VISIBLE_DEVICES": "0"})
    assert folder_of("/tmp", first) != folder_of("/tmp", second)


# --- warm services -----------------------------------------------------------------------------------


def order(folder: Path, token: str, idle: int) -> Files:
    """A service ordered below `folder`, whose profile lies where the service looks it up."""
    given = profile(folder).model_dump(exclude_defaults=True)
    (folder / "models").mkdir(exist_ok=True)
    text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in given.items())
    (folder / "models" / "ours.toml").write_text(text)
    files = Files(folder / "services", "ours")
    files.write_order(Order(token, "ours", str(folder), "", idle))
    files.renew()
    return files


def test_a_service_is_found_leased_and_ends_when_nobody_needs_it(tmp_path: Path) -> None:
    files = order(tmp_path, "t1", idle=2)
    status: list[int] = []
    service = threading.Thread(target=lambda: status.append(run(files.order, "127.0.0.1")))
    service.start()
    with leased(profile(tmp_path), files.folder) as serving:
        assert served_models(*place(serving.endpoint), serving.api_key) == ["tiny"]
        assert files.told()["token"] == "t1"
    service.join(20)
    assert status == [0]
    assert not files.registry.exists()
    assert served_models(*place(serving.endpoint), serving.api_key) is None


def test_a_service_that_came_too_late_serves_nothing(tmp_path: Path) -> None:
    files = order(tmp_path, "t1", idle=5)
    os.utime(files.lease, (1, 1))
    assert run(files.order, "127.0.0.1") == 0
    assert starts(tmp_path) == []


def test_a_service_whose_server_died_ends_and_is_not_found(tmp_path: Path) -> None:
    files = order(tmp_path, "t1", idle=3)
    status: list[int] = []
    service = threading.Thread(target=lambda: status.append(run(files.order, "127.0.0.1")))
    service.start()
    until(lambda: bool(files.told()))
    port = place(files.told()["endpoint"])[1]
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().split(b"\0")
        except OSError:
            continue
        if str(port).encode() in words and str(llama_server.SCRIPT).encode() in words:
            os.kill(int(entry.parent.name), signal.SIGKILL)
    service.join(20)
    assert status == [1]
    assert files.living(time.time()) is None
    with (
        pytest.raises(AgentloopError, match="warm service"),
        leased(profile(tmp_path, start_seconds=0.3), files.folder),
    ):
        raise AssertionError("unreachable")


def test_a_service_that_was_replaced_ends(tmp_path: Path) -> None:
    files = order(tmp_path, "t1", idle=4)
    status: list[int] = []
    service = threading.Thread(target=lambda: status.append(run(files.order, "127.0.0.1")))
    service.start()
    until(lambda: bool(files.told()))
    order(tmp_path, "t2", idle=4)
    service.join(20)
    assert status == [0]


# --- what was answered once --------------------------------------------------------------------------


async def test_replies_are_kept_for_a_restart_and_failures_are_not(tmp_path: Path) -> None:
    path, asked = tmp_path / "c" / "replies.jsonl", [Message("user", "x")]
    first = ResumingModel(ScriptedModel([Reply("one"), ModelError("gone", retryable=True)]), path)
    assert (await first.complete(asked, (), timeout=1)).text == "one"
    with pytest.raises(ModelError):
        await first.complete([Message("user", "y")], (), timeout=1)
    path.write_text(path.read_text() + '{"asked": "cut of')
    again = ResumingModel(ScriptedModel([Reply("two")]), path)
    assert (await again.complete(asked, (), timeout=1)).text == "one"
    assert (await again.complete([Message("user", "y")], (), timeout=1)).text == "two"


# --- whether it fits ---------------------------------------------------------------------------------


def gguf(path: Path, weights: int = 4 << 20, **values: int) -> Path:
    """A file with a real header and holes for weights: 2 layers of 8 heads, 2 of them for keys."""
    numbers = {
        "block_count": 2,
        "embedding_length": 512,
        "attention.head_count": 8,
        "attention.head_count_kv": 2,
        "feed_forward_length": 1024,
        "context_length": 131_072,
        "vocab_size": 1000,
        **values,
    }

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    pairs = [text("general.architecture") + struct.pack("<I", 8) + text("toy")]
    pairs += [text(f"toy.{key}") + struct.pack("<II", 4, value) for key, value in numbers.items()]
    words = b"".join(text(word) for word in ("a", "b"))
    pairs.append(text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 2) + words)
    tensor = text("token_embd.weight") + struct.pack("<IQQIQ", 2, 512, 1000, 0, 0)
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, len(pairs)) + b"".join(pairs) + tensor
    head += b"\0" * (-len(head) % 32)
    with path.open("wb") as file:
        file.write(head)
        file.truncate(len(head) + weights)
    return path


def test_memory_is_weights_cache_and_buffers(tmp_path: Path) -> None:
    header = read_header(gguf(tmp_path / "m.gguf"))
    plain = need(header, context=65_536)
    assert plain.weights == 4
    assert plain.kv_cache == 2 * 65_536 * 2 * 64 * 2 * 2 >> 20  # layers, tokens, heads, width, K and V, bytes
    assert need(header, context=65_536, slots=2).kv_cache == 2 * plain.kv_cache
    assert need(header, context=65_536, cache_k="q8_0", cache_v="q8_0").kv_cache == plain.kv_cache * 34 // 64
    assert need(header, context=65_536, flash_attention=False).compute > plain.compute
    assert need(header, context=65_536, gpu_layers=1).kv_cache == plain.kv_cache // 2
    most = largest_context(header, plain.total)
    assert need(header, context=most).total <= plain.total < need(header, context=most + 2048).total


@pytest.mark.parametrize("data", [b"", b"GGUF", b"GGUF\x63\0\0\0", b"ELF\x7f" * 20])
def test_what_is_no_gguf_is_said(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "m.gguf").write_bytes(data)
    with pytest.raises(GgufError):
        read_header(tmp_path / "m.gguf")
    with pytest.raises(AgentloopError, match=r"m\.gguf can't be used"):
        fit(Profile(name="x", gguf=str(tmp_path / "m.gguf")), 1000)


def test_a_header_that_is_cut_off_anywhere_is_said(tmp_path: Path) -> None:
    whole = gguf(tmp_path / "m.gguf", weights=0).read_bytes()
    for size in range(1, len(whole) - 32, 7):
        (tmp_path / "cut.gguf").write_bytes(whole[:size])
        with pytest.raises(GgufError):
            read_header(tmp_path / "cut.gguf")


def test_what_does_not_fit_says_what_would(tmp_path: Path) -> None:
    big = Profile(name="big", gguf=str(gguf(tmp_path / "m.gguf")), context_tokens=131_072)
    found = fit(big, 700)
    assert not found.fits
    told = found.why_not("the tier p40-rag-compression")
    assert f"context_tokens to {found.largest_context}" in told
    assert fit(big.model_copy(update={"context_tokens": found.largest_context}), 700).fits
    assert not fit(big.model_copy(update={"min_vram_mb": 701, "context_tokens": 2048}), 700).fits
