"""Documentation stays in view where code leads."""

from __future__ import annotations

from pathlib import Path

from tests.unit.retrieval_case import ranked, session_of, write

QUESTION = "When is a silent worker stopped?"
ROWS = "".join(
    f"| `SETTING_{n}` | {n} | how many things of kind {n} the broker may hold |\n" for n in range(12)
)
PAGE = (
    "# Settings\n\n| name | default | |\n|---|---|---|\n"
    f"{ROWS}| `BEAT` | 60 | a worker that is silent for longer is stopped |\n"
)
KINDS = ["copper", "maple", "harbor", "violet", "lantern", "meadow", "granite", "falcon", "orchid", "timber"]


def _repo(root: Path, page: str = "docs/operations.md") -> Path:
    code = {
        f"src/{kind}_silent_worker.py": f'"""The {kind} worker: silent, {"then " * n}stopped."""\n\n\n'
        f"def {kind}_start(worker):\n    {kind} = [worker.{kind} * {n} for {kind[:3]} in worker.{kind}s]\n"
        f'    return {kind}, "{kind}", worker.silent\n'
        for n, kind in enumerate(KINDS)
    }
    return write(root, {**code, page: PAGE})


def _place(root: Path, question: str, page: str = "docs/operations.md") -> int:
    with session_of(root, question) as session:
        return ranked(session)[1].index(page)


def test_the_page_that_answers_comes_right_behind_the_head(tmp_path: Path) -> None:
    repo = _repo(tmp_path / "r")
    assert 0 < _place(repo, QUESTION) <= 5


def test_a_question_that_names_code_keeps_its_order(tmp_path: Path) -> None:
    repo = _repo(tmp_path / "r")
    assert _place(repo, "When does copper_start() get a silent worker stopped?") > 5


def test_changelogs_and_test_data_take_no_place(tmp_path: Path) -> None:
    for name in ("CHANGELOG.md", "tests/data/operations.md"):
        repo = _repo(tmp_path / name.replace("/", "-"), name)
        assert _place(repo, QUESTION, name) > 5


def test_a_page_that_holds_little_of_the_question_takes_no_place(tmp_path: Path) -> None:
    repo = _repo(tmp_path / "r")
    assert _place(repo, "Which scheduler keeps a worker waiting after midnight on weekends?") > 5


def test_documents_without_code_keep_their_order(tmp_path: Path) -> None:
    pages = {
        f"p{n}.md": f"# Page {n}\n\nA worker {'is silent ' * (n % 3)}and stopped {n}.\n" for n in range(9)
    }
    repo = write(tmp_path / "r", pages)
    with session_of(repo, QUESTION) as session:
        session.first_pass()
        scores = [candidate.score for candidate in session.rank().candidates]
    assert scores == sorted(scores, reverse=True)
