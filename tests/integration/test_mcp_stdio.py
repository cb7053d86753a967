"""`agentloop mcp` as a real process, with the SDK's own client: embedded, attached, lost and found again."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from broker.mcp.tools import SPECS
from tests.integration.broker_server import Server, server, small_tree
from tests.integration.mcp_client import (
    MODES,
    VERSIONS,
    TasksExtension,
    asking,
    stdio_client,
    task_call,
    text_of,
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A home without a broker, and data."""
    tmp = tmp_path_factory.mktemp("stdio")
    return tmp / "home", small_tree(tmp / "data")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server(tmp_path_factory.mktemp("attached")) as found:
        yield found


@pytest.mark.parametrize("mode", MODES)
async def test_from_question_to_evidence_with_a_broker_of_its_own(
    place: tuple[Path, Path], mode: Any
) -> None:
    home, roots = place
    progress: list[float] = []

    async def heard(percent: float, total: float | None, message: str | None) -> None:
        progress.append(percent)
        assert total == 100
        assert message

    async with stdio_client(home, roots, mode) as client:
        assert client.protocol_version == VERSIONS[mode]
        assert [tool.name for tool in (await client.list_tools()).tools] == [spec.name for spec in SPECS]
        query = f"how does back_off work? ({mode})"
        asked = asking(roots, query, constraints={"confidentiality": "evidence_only"})
        result = await client.call_tool("rag_compress", asked, progress_callback=heard)
        assert not result.is_error, text_of(result)
        assert progress == sorted(progress)
        assert len(progress) > 1
        pack = result.structured_content
        assert pack["schema_name"] == "rag_evidence_pack_v1"
        assert "src/retry.py:1-3" in text_of(result)
        job_id = pack["provenance"]["job_id"]
        first = pack["payload"]["evidence"][0]
        asked = {"job_id": job_id, "evidence_id": first["id"], "context_lines": 1}
        evidence = await client.call_tool("read_evidence", asked)
        assert "return min(30, 2**failures)" in evidence.structured_content["text"]
        status = await client.call_tool("get_job_status", {"job_id": job_id})
        assert status.structured_content["state"] == "succeeded"
        root = await client.call_tool("get_root_job_status", {"root_job_id": job_id})
        assert root.structured_content["state"] == "succeeded"
        again = await client.call_tool("fetch_result", {"job_id": job_id, "include_artifacts": True})
        assert again.structured_content["payload"] == pack["payload"]
        assert again.structured_content["artifacts"]
        small = {"job_id": job_id, "remote_model_context_budget": 50}
        refused = await client.call_tool("fetch_result", small)
        assert refused.is_error
        assert "REMOTE_CONTEXT_BUDGET_EXCEEDED" in text_of(refused)
        ended = await client.call_tool("cancel_job", {"job_id": job_id})
        assert ended.structured_content["state"] == "succeeded"
        prompt = await client.get_prompt("synthesis_contract", {"question": "why?"})
        assert "why?" in prompt.messages[0].content.text


async def test_every_task_has_its_tool(broker: Server) -> None:
    refs = [{"type": "directory", "uri": str(broker.roots)}]
    calls = {
        "debug_with_local_context": ({"problem": "fatal error gen.h", "input_refs": refs}, "debug_evidence"),
        "summarize_logs": ({"task_params": {"query": "root failure"}, "input_refs": refs}, "log_evidence"),
        "inspect_repo": ({"task_params": {"query": "back_off?"}, "input_refs": refs}, "repo_inspection"),
        "propose_patch": ({"problem": "cap back_off at 60", "input_refs": refs}, "patch_proposal"),
    }
    async with stdio_client(broker.home, broker.roots, "auto") as client:
        for tool, (arguments, schema) in calls.items():
            result = await client.call_tool(tool, arguments)
            assert not result.is_error, text_of(result)
            assert result.structured_content["schema_name"].startswith(schema)


async def test_two_clients_share_one_broker(tmp_path: Path) -> None:
    home, roots = tmp_path / "home", small_tree(tmp_path / "data")

    async def one(number: int) -> str:
        async with stdio_client(home, roots, MODES[number]) as client:
            result = await client.call_tool(
                "rag_compress", asking(roots, f"where is client {number}'s parser?")
            )
            assert not result.is_error, text_of(result)
            return str(result.structured_content["provenance"]["job_id"])

    jobs = await asyncio.gather(one(0), one(1))
    async with stdio_client(home, roots, "auto") as client:
        for job_id in jobs:
            found = await client.call_tool("fetch_result", {"job_id": job_id})
            assert not found.is_error, text_of(found)


async def test_who_disconnects_fetches_later(broker: Server) -> None:
    question = asking(broker.roots, "what does the log say of gen.h?", wait_for_result=False)
    async with stdio_client(broker.home, broker.roots, "legacy") as client:
        handle = await client.call_tool("rag_compress", question)
        assert "get_job_status" in text_of(handle)
        job_id = handle.structured_content["job_id"]
    async with broker.client() as direct:
        await direct.wait(job_id, 60)
    async with stdio_client(broker.home, broker.roots, "auto") as client:
        result = await client.call_tool("fetch_result", {"job_id": job_id})
        assert "build.log" in text_of(result)


@pytest.mark.parametrize("mode", MODES)
async def test_a_wait_that_runs_out_gives_the_job(broker: Server, tmp_path: Path, mode: Any) -> None:
    for home, roots in ((broker.home, broker.roots), (tmp_path / "home", small_tree(tmp_path / "data"))):
        asked = asking(roots, f"a question that takes longer? ({mode})", max_wait_seconds=0.05)
        async with stdio_client(home, roots, mode) as client:
            handle = await client.call_tool("rag_compress", asked)
            assert not handle.is_error, text_of(handle)
            assert "get_job_status" in text_of(handle)
            status = await client.call_tool("get_job_status", {"job_id": handle.structured_content["job_id"]})
            assert not status.is_error, text_of(status)


async def test_a_cancelled_call_leaves_its_job(broker: Server) -> None:
    async with stdio_client(broker.home, broker.roots, "auto") as client:
        before = {job["job_id"] for job in await _jobs(broker)}
        with anyio.move_on_after(0.5):
            await client.call_tool("rag_compress", asking(broker.roots, "a call that its client gives up?"))
        capabilities = await client.call_tool("list_capabilities", {})
        assert capabilities.structured_content["health"] == "ok"
    async with broker.client() as direct:
        for job in await _jobs(broker):
            if job["job_id"] not in before:
                assert (await direct.wait(job["job_id"], 60))["state"] == "succeeded"


async def _jobs(broker: Server) -> list[dict[str, Any]]:
    async with broker.client() as direct:
        found: list[dict[str, Any]] = (await direct.list())["jobs"]
        return found


async def test_a_job_can_be_cancelled(broker: Server) -> None:
    async with stdio_client(broker.home, broker.roots, "auto") as client:
        asked = asking(broker.roots, "a question that nobody wants answered?", wait_for_result=False)
        handle = await client.call_tool("rag_compress", asked)
        job_id = handle.structured_content["job_id"]
        await client.call_tool("cancel_job", {"job_id": job_id})
        async with broker.client() as direct:
            record = await direct.wait(job_id, 60)
        if record["state"] == "cancelled":  # the job may have been quicker
            fetched = await client.call_tool("fetch_result", {"job_id": job_id})
            assert fetched.structured_content["error"]["code"] == "CANCELLED"


async def test_a_lost_broker_is_replaced_and_its_jobs_are_kept(tmp_path: Path) -> None:
    with server(tmp_path) as lost:
        async with stdio_client(lost.home, lost.roots, "legacy") as client:
            result = await client.call_tool("rag_compress", asking(lost.roots))
            job_id = result.structured_content["provenance"]["job_id"]
            lost.kill()
            again = await client.call_tool("fetch_result", {"job_id": job_id})
            assert again.structured_content["payload"] == result.structured_content["payload"]
            more = await client.call_tool("rag_compress", asking(lost.roots, "where is the parser?"))
            assert "src/parser.py" in text_of(more)


async def test_a_broker_of_another_version_is_not_used(broker: Server) -> None:
    file = broker.home / "broker.json"
    before = file.read_text()
    file.write_text(json.dumps({**json.loads(before), "version": "0.0.1"}))
    try:
        async with stdio_client(broker.home, broker.roots, "auto") as client:
            result = await client.call_tool("list_capabilities", {})
            assert result.is_error
            assert "0.0.1" in text_of(result)
            assert "restart it" in text_of(result)
    finally:
        file.write_text(before)


async def test_without_roots_nothing_is_read_and_the_error_says_what_to_set(tmp_path: Path) -> None:
    roots = small_tree(tmp_path / "data")
    async with stdio_client(tmp_path / "home", None, "auto", cwd=roots) as client:
        result = await client.call_tool("rag_compress", asking(roots))
        assert result.is_error
        assert result.structured_content["error"]["code"] == "INPUT_DISCOVERY_FAILED"
        assert "BROKER_ALLOWED_ROOTS" in text_of(result)
    async with stdio_client(tmp_path / "home", None, "auto", "--root", ".", cwd=roots) as client:
        found = await client.call_tool("list_capabilities", {})
        assert found.structured_content["roots"] == [str(roots)]


async def test_a_wrong_setting_is_told_by_the_call(tmp_path: Path) -> None:
    tmp_path.joinpath("home").mkdir()
    (tmp_path / "home" / "broker.toml").write_text("nonsense = 1\n")
    async with stdio_client(tmp_path / "home", None, "auto") as client:
        result = await client.call_tool("list_capabilities", {})
        assert result.is_error
        assert "nonsense" in text_of(result)


async def test_tasks_for_clients_that_declare_them(broker: Server) -> None:
    extension = TasksExtension()
    async with stdio_client(broker.home, broker.roots, "auto", extensions=[extension]) as client:
        asked = asking(broker.roots, "a task of the extension?", wait_for_result=False)
        await client.call_tool("rag_compress", asked)
        (task,) = extension.seen
        assert task.ttl_ms == 30 * 86_400_000
        state = await task_call(client, "get", task.task_id)  # durable: it is there at once
        assert state["resultType"] == "complete"
        assert (await task_call(client, "update", task.task_id, inputResponses={}))[
            "resultType"
        ] == "complete"
        async with broker.client() as direct:
            await direct.wait(task.task_id, 60)
        state = await task_call(client, "get", task.task_id)
        assert state["status"] == "completed"
        assert state["result"]["structuredContent"]["schema_name"] == "rag_evidence_pack_v1"
        assert not state["result"]["isError"]
        assert (await task_call(client, "cancel", task.task_id))["resultType"] == "complete"


def raw(home: Path, lines: list[Any]) -> subprocess.CompletedProcess[str]:
    """What a server process writes for some lines of input."""
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    return subprocess.run(
        [sys.executable, "-m", "broker.cli", "mcp", "--home", str(home)],
        input=text,
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], "HOME": str(home)},
        timeout=60,
        check=False,
    )


HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}
STARTED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def test_the_broker_is_ready_before_the_first_call(tmp_path: Path) -> None:
    """A client that has greeted gets its lists at once, and a broker with its workers starts meanwhile."""
    (tmp_path / "t").mkdir()
    with subprocess.Popen(
        [sys.executable, "-m", "broker.cli", "mcp", "--home", str(tmp_path / "home")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(tmp_path / "t")},
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for message in (HELLO, STARTED, {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}):
            process.stdin.write(json.dumps(message) + "\n")
        process.stdin.flush()
        assert [json.loads(process.stdout.readline())["id"] for _ in range(2)] == [1, 2]
        deadline = time.monotonic() + 60
        while not (tmp_path / "home" / "broker.json").exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.stdin.close()
        assert process.stdout.read() == ""  # what was greeted is answered once
        assert process.wait(60) == 0
    assert not (tmp_path / "home" / "broker.json").exists()
    assert list((tmp_path / "t").glob("agentloop-*")) == []  # also what was rehearsed is gone


def test_nothing_but_protocol_on_stdout(tmp_path: Path) -> None:
    call = {"jsonrpc": "2.0", "id": 3, "method": "prompts/list"}
    done = raw(tmp_path, [HELLO, STARTED, {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}, call])
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    assert [message["id"] for message in messages] == [1, 2, 3]  # each once, though 1 and 2 are played again
    assert done.returncode == 0


def test_bad_lines_get_errors_and_don_t_end_the_session(tmp_path: Path) -> None:
    call = {"jsonrpc": "2.0", "id": 3, "method": "prompts/list"}
    unknown = {"jsonrpc": "2.0", "id": 4, "method": "nonsense/method"}
    wrong = [{"jsonrpc": "1.0", "id": 5, "method": "ping"}, {"jsonrpc": "2.0", "id": 6, "method": 1}]
    done = raw(tmp_path, [HELLO, STARTED, "{broken", "\x00", "", [1], *wrong, call, unknown])
    found = [json.loads(line) for line in done.stdout.splitlines()]
    nameless = [message["error"] for message in found if message["id"] is None]
    assert [error["code"] for error in nameless] == [-32700, -32700, -32600]
    assert "not JSON at character 1" in nameless[0]["message"]
    messages = {message["id"]: message for message in found}
    assert messages[5]["error"]["code"] == messages[6]["error"]["code"] == -32600
    assert messages[3]["result"]["prompts"]
    assert messages[4]["error"]["code"] == -32601
    assert done.returncode == 0


@pytest.mark.parametrize("first", ["{bad json", '{"jsonrpc":"2.0","id":1,"method":"initialize","params":[}'])
def test_the_first_line_may_be_bad_too(tmp_path: Path, first: str) -> None:
    done = raw(tmp_path, [first, HELLO])
    bad, good = map(json.loads, done.stdout.splitlines())
    assert (bad["id"], bad["error"]["code"]) == (None, -32700)
    assert good["result"]["protocolVersion"] == "2025-06-18"


def test_a_client_that_leaves_at_once_costs_nothing(tmp_path: Path) -> None:
    assert raw(tmp_path / "home", []).stdout == ""
    assert raw(tmp_path / "home", [HELLO]).returncode == 0
    assert not (tmp_path / "home").exists()


def test_the_first_answers_need_neither_the_sdk_nor_pydantic() -> None:
    code = (
        "import sys, broker.cli, broker.mcp.stdio, broker.mcp.greeting as s; broker.cli.build_parser(); "
        "g = s.Greeting(); assert g.reply(sys.stdin.readline()); "
        "print([m for m in ('mcp', 'mcp_types', 'pydantic', 'aiohttp', 'asyncio') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps(HELLO), capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
