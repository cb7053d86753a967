"""The broker's figures: a storm of submits, long queues, warm answers.

    python bench/broker.py storm [--rate 200] [--seconds 30]
    python bench/broker.py durable                   # the most submits a second that are stored
    python bench/broker.py queue [--jobs 10000]      # status and list over a long queue
    python bench/broker.py memory [--jobs 10000]     # the broker after 1,000 and after all finished jobs
    python bench/broker.py warm FOLDER               # cold, same question, another, after one changed file
    python bench/broker.py together FOLDER [--jobs 24]

Each starts a broker of its own in a temporary folder. `storm` is an open loop: requests leave on time
whatever the answers do, over 200 connections, and each job is a real one over a small file.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import aiohttp

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.integration.broker_server import Server

CONNECTIONS = 200


def percentile(values: list[float], share: float) -> float:
    """The value below which `share` of the values lie, in milliseconds."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] * 1000


def told(name: str, values: list[float]) -> None:
    """One line with p50, p95, p99 and the largest."""
    shares = ", ".join(f"p{round(s * 100)} {percentile(values, s):.1f}" for s in (0.5, 0.95, 0.99))
    print(f"{name}: {len(values)} calls, {shares}, max {max(values) * 1000:.1f} ms")


@contextlib.contextmanager
def broker(roots: Path | None = None, **environ: str) -> Iterator[Server]:
    """A broker in a temporary folder, over `roots` or one small file."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if roots is None:
            roots = folder / "data"
            roots.mkdir()
            (roots / "a.py").write_text("def answer():\n    return 42\n")
        found = Server(folder / "home", roots, environ)
        found.start()
        try:
            yield found
        finally:
            found.stop()


def session(found: Server) -> aiohttp.ClientSession:
    """A pool of `CONNECTIONS` connections."""
    connector = aiohttp.TCPConnector(limit=CONNECTIONS)
    headers = {"Authorization": f"Bearer {found.token}"}
    return aiohttp.ClientSession(found.url, connector=connector, headers=headers)


def resident(found: Server) -> float:
    """The broker's own resident memory, in MiB."""
    assert found.process is not None
    status = Path(f"/proc/{found.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def processor(found: Server) -> float:
    """The broker process's own processor seconds so far, without its workers'."""
    assert found.process is not None
    return spent_by(found.process.pid, (11, 12))


def spent_by(process: int, fields: tuple[int, ...]) -> float:
    """Processor seconds of a process: fields of its `stat`, 11 and 12; 13 and 14 of its ended children."""
    found = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(int(found[field]) for field in fields) / os.sysconf("SC_CLK_TCK")


def workers(found: Server) -> float:
    """Processor seconds of the processes below the broker, with their children that have ended."""
    assert found.process is not None
    waiting, total = [found.process.pid], 0.0
    while waiting:
        process = waiting.pop()
        with contextlib.suppress(OSError):
            below = Path(f"/proc/{process}/task/{process}/children").read_text().split()
            waiting += map(int, below)
            total += sum(spent_by(int(child), (11, 12, 13, 14)) for child in below)
    return total


async def submit(http: aiohttp.ClientSession, body: Mapping[str, object]) -> int:
    """One submit; its status."""
    async with http.post("/v1/jobs", json=body) as response:
        await response.read()
        return response.status


async def storm(rate: int, seconds: int) -> None:
    """`rate` submits a second for `seconds`, sent on time."""
    with broker() as found:
        ref = {"type": "file", "uri": str(found.roots / "a.py")}
        async with session(found) as http:
            spent: list[float] = []
            statuses: dict[int, int] = {}

            async def one(due: float, number: int) -> None:
                body = {"task_type": "rag_compress", "query": f"question {number}", "input_refs": [ref]}
                status = await submit(http, body)
                spent.append(time.monotonic() - due)
                statuses[status] = statuses.get(status, 0) + 1

            began, tasks = time.monotonic(), []
            for number in range(rate * seconds):
                due = began + number / rate
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                tasks.append(asyncio.create_task(one(due, number)))
            await asyncio.gather(*tasks)
            told(f"storm, {rate}/s for {seconds} s", spent)
            print(f"statuses {statuses}, broker {resident(found):.0f} MiB")


async def durable(seconds: int) -> None:
    """Closed loop over all connections, workers idle: what the store and HTTP sustain."""
    with broker(
        BROKER_WORKERS="1", BROKER_MAX_QUEUED="1000000", BROKER_MAX_QUEUED_PER_NAMESPACE="1000000"
    ) as found:
        ref = {"type": "file", "uri": str(found.roots / "a.py")}
        body = {"task_type": "rag_compress", "query": "q", "input_refs": [ref]}
        async with session(found) as http:
            until, spent = time.monotonic() + seconds, []
            before, ours, theirs = processor(found), time.process_time(), workers(found)

            async def loop() -> None:
                while time.monotonic() < until:
                    began = time.monotonic()
                    assert await submit(http, body) == 202
                    spent.append(time.monotonic() - began)

            await asyncio.gather(*(loop() for _ in range(CONNECTIONS)))
            told(f"durable, {len(spent) / seconds:.0f} submits a second", spent)
            shares = {
                "broker": processor(found) - before,
                "this client": time.process_time() - ours,
                "workers, running jobs": workers(found) - theirs,
            }
            for name, used in shares.items():
                each = used / len(spent) * 1000
                print(f"{name}: {each:.2f} ms of a core a submit, {used / seconds:.0%} of a core")


async def memory(jobs: int) -> None:
    """Real jobs one after the other and side by side, each submitted, waited for and fetched."""
    with broker() as found:
        ref = {"type": "file", "uri": str(found.roots / "a.py")}
        async with session(found) as http:
            began, done, told_at = time.monotonic(), 0, {100, 1000, jobs // 2, jobs}

            async def loop(numbers: Iterator[int]) -> None:
                nonlocal done
                for number in numbers:
                    body = {"query": f"question {number % 50}", "input_refs": [ref]}
                    async with http.post("/v1/rag/compressions?wait=60", json=body) as response:
                        job = await response.json()
                    async with http.get(f"/v1/jobs/{job['job_id']}/result?wait=60") as response:
                        assert response.status == 200, await response.text()
                        await response.read()
                    done += 1
                    if done in told_at:
                        spent = time.monotonic() - began
                        print(f"{done} finished jobs in {spent:.0f} s: broker {resident(found):.1f} MiB")

            numbers = iter(range(jobs))
            await asyncio.gather(*(loop(numbers) for _ in range(8)))


async def queue(jobs: int) -> None:
    """Status and list while `jobs` wait; the broker's memory before and after."""
    with broker(BROKER_WORKERS="1") as found:
        ref = {"type": "file", "uri": str(found.roots / "a.py")}
        async with session(found) as http:
            before = resident(found)
            for start in range(0, jobs, CONNECTIONS):
                await asyncio.gather(
                    *(
                        submit(http, {"task_type": "rag_compress", "query": f"q{n}", "input_refs": [ref]})
                        for n in range(start, min(jobs, start + CONNECTIONS))
                    )
                )
            for name, path in (("list", "/v1/jobs?limit=50"), ("status", "")):
                async with http.get("/v1/jobs?limit=200") as response:
                    ids = [job["job_id"] for job in (await response.json())["jobs"]]
                spent = []
                for number in range(300):
                    began = time.monotonic()
                    async with http.get(path or f"/v1/jobs/{ids[number % len(ids)]}") as response:
                        await response.read()
                    spent.append(time.monotonic() - began)
                told(f"{name} with {jobs} queued", spent)
            print(f"broker {before:.0f} MiB before, {resident(found):.0f} MiB after")


async def answered(
    http: aiohttp.ClientSession, folder: Path, question: str
) -> tuple[float, dict[str, object]]:
    """Seconds from POST to the result, and the job's record."""
    began = time.monotonic()
    body = {"query": question, "input_refs": [{"type": "repo", "uri": str(folder)}]}
    async with http.post("/v1/rag/compressions?wait=60", json=body) as response:
        job = (await response.json())["job_id"]
    async with http.get(f"/v1/jobs/{job}/result?wait=60") as response:
        await response.read()
    seconds = time.monotonic() - began
    async with http.get(f"/v1/jobs/{job}") as response:
        return seconds, await response.json()


def largest(folder: Path) -> Path:
    """The largest Python file."""
    return max(folder.rglob("*.py"), key=lambda path: path.stat().st_size)


async def warm(folder: Path) -> None:
    """A cold request, the same again, other questions, and one after a changed file (which is restored)."""
    questions = ("How does the ORM compile a filter to SQL?", "Where is the CSRF token checked?")
    file = largest(folder)
    before, times = file.read_bytes(), file.stat()
    with broker(folder) as found:
        async with session(found) as http:
            runs = [("cold", questions[0])] + [("same", questions[0])] * 3
            runs += [("other", questions[1]), ("other again", "How are migrations ordered?")]
            try:
                for name, question in runs:
                    seconds, record = await answered(http, folder, question)
                    print(f"{name}: {seconds:.2f} s, {json.dumps(record['cache'])}")
                file.write_bytes(before + b"\n# one more line\n")
                seconds, record = await answered(http, folder, questions[1])
                print(f"one changed file: {seconds:.2f} s, {json.dumps(record['cache'])}")
            finally:
                file.write_bytes(before)
                os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


async def together(folder: Path, jobs: int) -> None:
    """Concurrent jobs on one folder: how many indexed it."""
    with broker(folder) as found:
        async with session(found) as http:
            began = time.monotonic()
            done = await asyncio.gather(
                *(answered(http, folder, f"question {n} about the cache") for n in range(jobs))
            )
            made = [r for _, r in done if "index" not in r["cache"]["layers"]]  # type: ignore[index]
            middle = statistics.median(seconds for seconds, _ in done)
            whole = time.monotonic() - began
            print(f"{jobs} jobs in {whole:.1f} s, median {middle:.1f} s, indexed {len(made)} times")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("storm", "durable", "queue", "memory", "warm", "together"))
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--rate", type=int, default=200)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--jobs", type=int)
    args = parser.parse_args()
    if args.what == "storm":
        asyncio.run(storm(args.rate, args.seconds))
    elif args.what == "durable":
        asyncio.run(durable(args.seconds))
    elif args.what == "queue":
        asyncio.run(queue(args.jobs or 10_000))
    elif args.what == "memory":
        asyncio.run(memory(args.jobs or 10_000))
    elif args.folder is None:
        parser.error(f"{args.what} needs a FOLDER")
    elif args.what == "warm":
        asyncio.run(warm(args.folder.resolve()))
    else:
        asyncio.run(together(args.folder.resolve(), args.jobs or 24))


if __name__ == "__main__":
    main()
