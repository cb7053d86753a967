"""A session over real files: order, searches, reads, budget, conversations."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentloop.retrieval.merge import CODE_WEIGHT, SEARCH_WEIGHT, Searched, add, merge, trusts
from tests.unit.retrieval_case import ranked, session_of, write

CODE = "package routes\n\n// FindOrphans returns routes that no handler claims.\nfunc FindOrphans() {}\n"
TESTS = "package routes\n\n" + "".join(
    f"// orphan routes are detected\nfunc TestOrphanRoutesDetected{n}() {{}}\n\n" for n in range(8)
)


def test_tests_do_not_crowd_out_code_unless_asked_for(tmp_path: Path) -> None:
    write(tmp_path, {"routes/orphans.go": CODE, "routes/orphans_test.go": TESTS})
    with session_of(tmp_path, "how are orphan routes detected") as session:
        assert ranked(session)[1][0] == "routes/orphans.go"
    with session_of(tmp_path, "which tests cover orphan routes") as session:
        assert ranked(session)[1][0] == "routes/orphans_test.go"


def test_a_versioned_copy_stands_behind_the_current_file(tmp_path: Path) -> None:
    body = "class BaseModel:\n    def validate(self):\n        return 1\n"
    write(tmp_path, {"pkg/main.py": body + "# current\n", "pkg/v1/main.py": body})
    with session_of(tmp_path, "BaseModel validate") as session:
        assert ranked(session)[1][0] == "pkg/main.py"


def test_a_file_named_by_the_question_leads(tmp_path: Path) -> None:
    filler = "def helper():\n    return authentication\n\n\n" * 3
    write(tmp_path, {"auth.py": "def check():\n    return authentication\n", "util.py": filler})
    with session_of(tmp_path, "authentication") as session:
        assert ranked(session)[1][0] == "auth.py"


@pytest.mark.parametrize(
    ("question", "path"),
    [
        ("출장비 정산 기한은 며칠입니까?", "ko.md"),
        ("Ile dni urlopu przysługuje pracownikom?", "pl.md"),
        ("ile dni urlopu przysluguje pracownikowi", "pl.md"),
        ("数据库恢复演练", "zh.md"),
        ("wie wird die Maschine gereinigt", "de.md"),
    ],
)
def test_other_languages(tmp_path: Path, question: str, path: str) -> None:
    write(
        tmp_path,
        {
            "ko.md": "출장비 정산은 복귀 후 14일 이내에 제출해야 합니다.\n",
            "pl.md": "Każdemu pracownikowi przysługuje 26 dni urlopów rocznie.\n",
            "zh.md": "数据库恢复演练每季度进行一次。\n",
            "de.md": "Die Reinigung der Maschinen erfolgt freitags.\n",
            "en.md": "The office opens at eight. Visitors sign in at the desk.\n",
        },
    )
    with session_of(tmp_path, question) as session:
        assert ranked(session)[1][0] == path


def test_passages_agree_with_the_lines_that_they_name(tmp_path: Path) -> None:
    lines = [f"line {n} of filler text without anything" for n in range(1, 60)]
    lines[40] = "the janitor removes exports after nineteen days"
    root = write(tmp_path, {"handbook.txt": "\n".join(lines)})
    with session_of(root, "anything") as session:
        passage = session.search("janitor exports").passages[0]
    shown = "\n".join(lines[passage.line_start - 1 : passage.line_end])
    assert passage.snippet.strip() in shown
    assert "janitor" in passage.snippet


@pytest.mark.parametrize(
    ("query", "near"), [("ackoff", "fragment"), ("ackoff anitor", "fragment"), ("janitorial", "stemmed")]
)
def test_near_hits_say_so(tmp_path: Path, query: str, near: str) -> None:
    write(tmp_path, {"a.md": "The backoff doubles.\n", "b.md": "The janitors come at night.\n"})
    with session_of(tmp_path, "anything") as session:
        result = session.search(query)
        assert result.near == near
        assert result.passages
        assert session.search("zzzz qqqq").passages == ()


def test_reading_a_ref_and_refs_of_nobody(tmp_path: Path) -> None:
    text = "\n\n".join(f"Paragraph {n}: " + "words " * 60 for n in range(30))
    write(tmp_path, {"a.md": text})
    with session_of(tmp_path, "paragraph") as session:
        first = session.read("c0")
        assert first.before == ""
        assert first.after == "c1"
        assert session.read("c1").before == "c0"
        for ref in ("c99999", "x1", "c-1", "c", "", "../a", "c1²"):
            with pytest.raises(KeyError):
                session.read(ref)


def test_the_retrieval_budget_stops_retrieval_with_a_warning(tmp_path: Path) -> None:
    write(tmp_path, {f"{n}.md": "cache words " * 120 for n in range(12)})
    with session_of(tmp_path, "cache", constraints={"retrieved_chunk_budget": 600}) as session:
        ranking = session.rank()
    assert ranking.retrieved_tokens <= 600
    assert 1 <= len(ranking.candidates) < 12


def test_a_question_without_a_hit_gives_an_empty_ranking(tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "plain words\n"})
    with session_of(tmp_path, "xylophone") as session:
        ranking = session.rank()
    assert ranking.candidates == ()
    assert ranking.term_coverage == 0.0


def test_the_same_request_ranks_the_same(tmp_path: Path) -> None:
    write(tmp_path, {f"m{n}.py": f"def cache_{n % 3}():\n    return 'cache entry'\n" for n in range(40)})
    seen = []
    for _ in range(2):
        with session_of(tmp_path, "how do cache entries expire") as session:
            session.search("cache entry")
            seen.append([(c.chunk, c.score) for c in session.rank().candidates])
    assert seen[0] == seen[1]


def _chat(turns: list[tuple[str, str, str]]) -> str:
    return "".join(
        json.dumps({"id": f"t{n}", "session": scope, "speaker": who, "text": text}) + "\n"
        for n, (scope, who, text) in enumerate(turns)
    )


def test_an_answer_beside_the_words_of_the_question_is_in_the_run(tmp_path: Path) -> None:
    filler = [("s1", "Ann", f"chatter number {n} about weather") for n in range(8)]
    turns = [
        *filler,
        ("s2", "Ann", "What band did we settle on for the greenhouse thermostat?"),
        ("s2", "Ben", "Eleven degrees with a band of three."),
        *[("s3", "Ben", f"more chatter {n}") for n in range(8)],
    ]
    write(tmp_path, {"chat.jsonl": _chat(turns)})
    with session_of(tmp_path, "greenhouse thermostat band") as session:
        best = session.rank().candidates[0]
    assert (best.focus[0].line_start, best.focus[0].line_end) == (9, 10)


def test_runs_do_not_cross_sessions(tmp_path: Path) -> None:
    turns = [("s1", "Ann", "greenhouse is warm"), ("s2", "Ben", "greenhouse is cold"), ("s2", "Ben", "bye")]
    write(tmp_path, {"chat.jsonl": _chat(turns)})
    with session_of(tmp_path, "greenhouse") as session:
        for candidate in session.rank().candidates:
            for span in candidate.focus:
                assert not (span.line_start == 1 and span.line_end > 1)


def test_a_bridge_of_the_loop_comes_up(tmp_path: Path) -> None:
    pages = {f"page{n}.md": f"County number {n} has a seat and a court.\n" for n in range(30)}
    pages["van_hook.md"] = "Van Hook Township lies in Mountrail County.\n"
    pages["courthouse.md"] = "The Mountrail courthouse stands in Stanley.\n"
    write(tmp_path, pages)
    question = "What is the seat of the county of Van Hook Township?"
    with session_of(tmp_path, question) as session:
        alone = ranked(session)[1]
    with session_of(tmp_path, question) as session:
        session.search("Van Hook Township county seat")
        session.search("Mountrail courthouse")
        bridged = ranked(session)[1]
    assert "courthouse.md" not in alone[:5]
    assert bridged[0] == "van_hook.md"
    assert "courthouse.md" in bridged[:3]


def test_trust_follows_where_a_search_came_from() -> None:
    held = {1: frozenset({"stanley"}), 2: frozenset({"oslo"}), 3: frozenset()}
    searches = [
        Searched(frozenset({"seat", "stanley"}), [10]),
        Searched(frozenset({"seat", "oslo"}), [11]),
        Searched(frozenset({"seat", "unheard"}), [12]),
        Searched(frozenset({"seat"}), [13]),
    ]
    best, second, own, plain = trusts(
        [1, 2, 3], searches, frozenset({"seat"}), lambda n: held.get(n, frozenset()), lambda word: 1.0
    )
    assert best == 1.0
    assert best > own == plain > second


def test_the_best_of_the_first_pass_stays_first_and_a_bridge_comes_next() -> None:
    scores = merge([5, 6, 7], [Searched(frozenset({"bridge"}), [9, 6, 5])], [1.0], SEARCH_WEIGHT)
    assert sorted(scores, key=lambda n: -scores[n])[:2] == [5, 9]
    scores = merge([5, 6, 7], [Searched(frozenset({"bridge"}), [9, 6, 5])], [1.0], CODE_WEIGHT)
    assert sorted(scores, key=lambda n: -scores[n])[0] == 5
    assert scores[9] < scores[7]


@pytest.mark.parametrize(("questioned", "beside"), [("md", "py"), ("py", "md")])
def test_a_search_counts_by_what_the_first_pass_leads_to(
    tmp_path: Path, questioned: str, beside: str
) -> None:
    """One file of code among documents makes no repository of them, nor one document no library."""
    files = {f"a{n}.{questioned}": f"# the lighthouse keeper {n}\n" for n in range(6)}
    files |= {f"far.{questioned}": "# Elmstone harbour\n", f"odd.{beside}": "# nothing\n"}
    write(tmp_path, files)
    with session_of(tmp_path, "lighthouse keeper") as session:
        session.first_pass()
        session.search("Elmstone harbour")
        paths = ranked(session)[1]
    assert paths[0].startswith("a")
    assert (paths.index(f"far.{questioned}") == 1) is (questioned == "md")


def test_merging_keeps_the_first_pass_where_nothing_is_added() -> None:
    scores = merge([5, 6, 7], [Searched(frozenset(), [])], [0.8], 2.0)
    assert sorted(scores, key=lambda n: -scores[n]) == [5, 6, 7]
    assert add({5: 1.0, 6: 0.5}, [{6: 1.0}], [1.0])[6] > add({5: 1.0, 6: 0.5}, [], [])[6]
