"""A process that makes chunks while others are read: the same outcome, and nothing lost when it dies.

Each case is a program of its own: only a process without other threads may fork.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

START = """
import json, os, signal, sys, threading
from agentloop import ahead, make_request
from agentloop.api import compress_sync
from agentloop.environment import Environment
from agentloop.pack import canonical
from agentloop.clock import SystemClock

ahead._BATCH_BYTES = 20_000
question = "Where is the retry limit of parseHTTPUrl read?"
request = make_request(question, [sys.argv[1]], task_params={"mode": "single_shot"})

def pack(process):
    out = compress_sync(request, Environment(ahead=process))
    chunks = [list(chunk) for chunk in out.chunks]
    return json.dumps([{k: v for k, v in out.released.items() if k != "provenance"}, chunks], sort_keys=True)
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for number in range(60):
        (tmp_path / f"module{number}.py").write_text(
            f"class HTTPClient{number}:\n    def parseHTTPUrl(self, retryLimit={number}):\n"
            + f'        """Zażółć 東京都 {number}."""\n'
            + "        return retryLimit\n" * 150
        )
    (tmp_path / "copy.py").write_bytes((tmp_path / "module1.py").read_bytes())
    (tmp_path / "guide.md").write_text("# Retry\n\nThe retry limit is read from `parseHTTPUrl`.\n" * 40)
    (tmp_path / "latin.txt").write_bytes("retry café\r\n".encode("latin-1") * 400)
    (tmp_path / "build.log").write_text("2024-05-01 10:00:00 ERROR retry limit reached\n" * 50)
    (tmp_path / "chat.jsonl").write_text('{"text": "the retry limit"}\n' * 20)
    return tmp_path


def run(program: str, tree: Path) -> str:
    """What a program prints; it must end well, and its output must end with it."""
    done = subprocess.run(
        [sys.executable, "-c", START + program, str(tree)], capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().strip()


def test_the_pack_and_all_chunks_are_those_of_one_process(tree: Path) -> None:
    program = """
child = ahead.Ahead()
print(json.dumps([pack(child) == pack(None), child._batches, child._received]))
"""
    same, sent, received = json.loads(run(program, tree))
    assert same is True
    assert sent == received > 1


def test_what_a_killed_process_did_not_give_is_made_here(tree: Path) -> None:
    program = """
child = ahead.Ahead()
pid = child.close.peek()[2][0]
flush = child.flush

def killed_at_the_third():
    if child._batches == 2:
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    flush()

child.flush = killed_at_the_third
print(json.dumps([pack(child) == pack(None), child._received, child._batches]))
"""
    same, received, sent = json.loads(run(program, tree))
    assert same is True
    assert received < sent


def test_a_process_killed_before_the_first_file_costs_nothing(tree: Path) -> None:
    program = """
child = ahead.Ahead()
pid = child.close.peek()[2][0]
os.kill(pid, signal.SIGKILL)
os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
print(pack(child) == pack(None), child._received)
"""
    assert run(program, tree) == "True 0"


def test_a_process_that_is_behind_is_not_sent_everything(tree: Path) -> None:
    program = """
ahead._MOST_WAITING, ahead._BATCH_BYTES = 3, 1
child = ahead.Ahead()
pid = child.close.peek()[2][0]
os.kill(pid, signal.SIGSTOP)
flush = child.flush

def flush_and_go_on():
    if not child._waiting:  # everything was read
        os.kill(pid, signal.SIGCONT)
    flush()

child.flush = flush_and_go_on
print(pack(child) == pack(None), child._batches)
"""
    assert run(program, tree) == "True 3"


def test_none_is_made_beside_other_threads(tree: Path) -> None:
    program = """
stop = threading.Event()
thread = threading.Thread(target=stop.wait)
thread.start()
print(ahead.start())
stop.set()
"""
    assert run(program, tree) == "None"


def test_it_ends_with_a_program_that_sends_nothing(tree: Path) -> None:
    assert run("child = ahead.Ahead()\nprint('done')", tree) == "done"
