"""A question with a word of failure, asked of a repository that has logs among its files."""

from __future__ import annotations

from pathlib import Path

from agentloop import compress_sync, make_request
from agentloop.request import TaskType
from tests.unit.retrieval_case import write

LOG = (
    "   Compiling ferry v0.1.0\n    Finished test in 1.2s\n     Running src/main.rs\n"
    "thread 'tests::berths' panicked at src/main.rs:9:53:\nattempt to subtract with overflow\n"
    "test result: FAILED. 16 passed; 1 failed; 0 ignored\nerror: test failed, to rerun pass `--bin ferry`\n"
)
CODE = {
    "src/follow.py": "def silent(worker):\n"
    '    """A worker that is silent for longer than a minute is stopped."""\n    worker.stop()\n',
    "src/queue.py": "def push(queue, job):\n    queue.append(job)\n",
    "docs/operations.md": "# Workers\n\nA worker that is silent for a minute is stopped and retried.\n",
}
QUESTION = "When is a silent worker stopped?"


def _paths(where: Path, question: str, task: TaskType = TaskType.RAG_COMPRESS) -> list[str]:
    pack = compress_sync(make_request(question, [where], task=task)).pack
    return [ref.path for item in pack.payload.evidence for ref in item.source_refs[:1]]


def test_a_log_of_test_data_neither_leads_nor_fills_the_pack(tmp_path: Path) -> None:
    repo = write(tmp_path / "r", {**CODE, "eval/golden/cargo.log": LOG, "tests/data/ci.log": LOG + "\n"})
    paths = _paths(repo, QUESTION)
    assert paths[0] in CODE
    assert not any(path.endswith(".log") for path in paths)


def test_a_log_among_code_waits_until_the_question_speaks_of_logs(tmp_path: Path) -> None:
    repo = write(tmp_path / "r", {**CODE, "out/cargo.log": LOG})
    assert _paths(repo, QUESTION)[0] in CODE
    assert _paths(repo, "Which error does the log report?")[0] == "out/cargo.log"


def test_test_data_leads_where_the_question_names_it(tmp_path: Path) -> None:
    repo = write(tmp_path / "r", {**CODE, "eval/golden/cargo.log": LOG})
    assert _paths(repo, "What failed in cargo.log?")[0] == "eval/golden/cargo.log"


def test_a_log_that_the_question_finds_first_still_tells_its_failure(tmp_path: Path) -> None:
    repo = write(tmp_path / "r", {**CODE, "out/cargo.log": LOG})
    assert _paths(repo, "Why did the berths test panic with overflow, what failed?")[0] == "out/cargo.log"


def test_a_log_of_its_own_and_a_folder_of_logs_stay_as_they_were(tmp_path: Path) -> None:
    repo = write(tmp_path / "r", {"tests/ci.log": LOG, "readme.md": "# Logs of the run\n"})
    assert _paths(repo, QUESTION)[0] == "tests/ci.log"
    assert _paths(repo / "tests" / "ci.log", QUESTION)[0] == "ci.log"


def test_a_summary_of_logs_reads_test_data_too(tmp_path: Path) -> None:
    repo = write(tmp_path / "r", {**CODE, "eval/golden/cargo.log": LOG})
    assert _paths(repo, "What failed?", TaskType.SUMMARIZE_LOGS)[0] == "eval/golden/cargo.log"
