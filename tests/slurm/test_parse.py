"""What Slurm's tools print, also the odd things that sites make of it."""

from __future__ import annotations

import pytest

from broker.backends.base import RunState
from broker.backends.slurm import parse


@pytest.mark.parametrize(
    ("printed", "found"),
    [
        ("41\n", "41"),
        ("41;north\n", "41;north"),
        ("Submitted batch job 41 on cluster north\n", "41;north"),
        ("Submitted batch job 41 estimates 3 SUs\nJOBID NAME\n41 x PD\n", "41"),
        ("sbatch: Warning: can't honor --ntasks\nSubmitted batch job 41\n", "41"),
        ("sbatch: lua: Submitted job 9 times before\n41;north\n", "41;north"),
        ("", ""),
        ("sbatch: lua: please use our portal\n", ""),
    ],
)
def test_the_id_that_sbatch_printed(printed: str, found: str) -> None:
    assert parse.submitted_id(printed) == found


@pytest.mark.req("G6")
@pytest.mark.parametrize(
    ("state", "code", "want"),
    [
        ("TIMEOUT", "0:0", RunState.TIMED_OUT),
        ("OUT_OF_MEMORY", "0:0", RunState.OUT_OF_MEMORY),
        ("OUT_OF_MEMORY", "0:125", RunState.OUT_OF_MEMORY),
        ("CANCELLED by 0", "0:0", RunState.CANCELLED),
        ("FAILED", "3:0", RunState.EXITED),
        ("FAILED", "0:11", RunState.KILLED),
        ("COMPLETED", "0:0", RunState.EXITED),
        ("NODE_FAIL", "0:0", RunState.KILLED),
        ("PREEMPTED", "0:15", RunState.REQUEUED),
        ("NEW_IN_A_LATER_SLURM", "0:0", RunState.UNKNOWN),
    ],
)
def test_states_count_not_exit_codes(state: str, code: str, want: RunState) -> None:
    (row,) = parse.account_rows(f"7|7|{state}|{code}|broker-x-compress-ab|2026-11-30T09:15:00|n1\n")
    assert parse.update_of(row, "7", 0).state is want


@pytest.mark.req("G2")
def test_garbage_is_no_row() -> None:
    assert list(parse.queue_rows("slurm_load_jobs error: oops\n|||\n\x00\n")) == []
    assert list(parse.account_rows("Traceback\na|b|c\n7|7|RUNNING|x:y|n|t|h\n")) == []
