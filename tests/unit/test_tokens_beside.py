"""A process that counts tokens beside its parent: the same counts, and nothing lost when it dies.

Each case is a program of its own: only a process without other threads may fork.
"""

from __future__ import annotations

import subprocess
import sys

START = """
import os, signal, sys, time
from agentloop import tokens
texts = ["def bound(x):", "zażółć gęślą jaźń", "", "<|endoftext|>", "half \\ud800 a pair"]
tokens.load_beside()
child = tokens._beside[0]
"""


def run(program: str) -> str:
    """What a program prints; it must end well, and its output must end with it."""
    done = subprocess.run(
        [sys.executable, "-c", START + program], capture_output=True, timeout=60, check=True
    )
    return done.stdout.decode()


def test_counts_are_those_of_this_process() -> None:
    assert (
        run("""
beside = tokens.count_all(texts)
tokens._beside.clear()
print(beside == tokens.count_all(texts), beside[2])
""")
        == "True 0\n"
    )


def test_a_counter_that_was_killed_is_replaced_by_this_process() -> None:
    assert (
        run("""
before = tokens.count_all(texts)
pid = child.close.peek()[2][0]
os.kill(pid, signal.SIGKILL)
os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
print(tokens.count_all(texts) == before, tokens._beside)
""")
        == "True []\n"
    )


def test_a_program_that_never_counts_ends_at_once() -> None:
    assert (
        run("""
print("done")
""")
        == "done\n"
    )


def test_the_counter_ends_when_its_parent_is_killed() -> None:
    pid = int(
        run("""
pid = child.close.peek()[2][0]
if os.fork() == 0:  # whoever is left looks at the child of a parent that was killed
    os.close(child._to); os.close(child._from)
    while True:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            break
        state = open(f"/proc/{pid}/stat").read().rsplit(")")[1].split()[0]
        if state == "Z":
            break
        time.sleep(0.01)
    print(pid, flush=True)
    os._exit(0)
os.close(child._to); os.close(child._from)
os.wait()
os._exit(0)
""")
    )
    assert pid > 0
