"""Constructs that are seldom meant, words and values of tests, members by names that are put together."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from agentloop import compress_sync, make_request
from agentloop.request import TaskType
from agentloop.tasks.debug.oddities import oddities
from agentloop.tasks.debug.syntax import functions_of, parsed
from agentloop.tasks.debug.values import shown_values
from agentloop.tasks.debug.words import WordSpectrum, text_words, words_of
from agentloop.tasks.uses import dispatched

ODD = [
    ("if not x == 1:\n    return 2", "negated comparison"),
    ("if not (x.ready):\n    return 2", "bracketed negation"),
    ("if not (not x and not y):\n    return 2", "negated negations"),
    ("y += 1\npass\nreturn y", "needless pass"),
    ("with x:\n    pass\nreturn y", "empty block"),
    ("return None", "returns only None"),
    ("z = x + 1\nreturn y", "value never read"),
    ("def inner():\n    return x\nreturn y", "function never used"),
    ("if x is None:\n    return x.name\nreturn y", "None used as a value"),
    ("if x is not None or x.name:\n    return y", "None used as a value"),
    ("if x is not None:\n    return y\nreturn x.name", "None used as a value"),
    ("if x is not None:\n    x = y\nreturn x", "value overwritten"),
    ("if x is None:\n    return x\nreturn y", "None given on"),
    ("return 1 if x[0] is not None else x[0]", "None chosen"),
    ("flag = False\nif x:\n    flag = False\nreturn flag", "flag that never changes"),
    ("if x not in y:\n    return y[x]\nreturn 0", "missing key taken"),
    ("if isinstance(x, int):\n    raise TypeError(x)\nreturn y", "error for what is right"),
    ("while False:\n    y += 1\nreturn y", "constant condition"),
    ("if len(x) < 0:\n    return y", "length compared with nothing"),
    ("return x.find(y) == -2", "odd negative constant"),
    ("return isinstance(int, x)", "swapped arguments"),
    ("return getattr('name', x)", "swapped arguments"),
    ("return move(target, source)", "swapped arguments"),
]
FINE = [
    "if not x:\n    return 1\nreturn y",
    "if not (x and y):\n    return 1",
    "if x is None:\n    x = y\nreturn x.name",
    "if x is None:\n    return None\nreturn x.name",
    "if x is None:\n    y = 1\nelse:\n    x = y\nreturn x, y",
    "try:\n    return x()\nexcept KeyError:\n    pass",
    "if x:\n    pass\nelif y:\n    return 1",
    "if x in y:\n    return y[x]\nreturn 0",
    "while True:\n    y += x\n    if y > 3:\n        return y",
    "flag = False\nif x:\n    flag = True\nreturn flag",
    "return isinstance(x, (int, str)), getattr(x, 'name', y)",
    "return move(source, target)",
]


def found(body: str) -> list[str]:
    source = f"def f(x, y):\n{textwrap.indent(body, '    ')}\n"
    tree = parsed(source.encode())
    assert tree is not None
    function = next(functions_of(tree))
    names = {"move": [("source", "target")]}
    return [o.name for o in oddities(function, source, lambda name: names.get(name, []))]


@pytest.mark.parametrize(("body", "name"), ODD)
def test_what_is_seldom_meant(body: str, name: str) -> None:
    assert name in found(body)


@pytest.mark.parametrize("body", FINE)
def test_what_is_usual(body: str) -> None:
    assert [name for name in found(body) if name != "returns None"] == []


@pytest.mark.parametrize(
    "data", [b"def f(:", b"x" * 500_000, b"(" * 5000, b"x = " + b"-" * 20_000 + b"1", b"\0", b"\xff\xfe"]
)
def test_what_is_no_python_or_too_deep_has_no_tree(data: bytes) -> None:
    assert parsed(data) is None or not list(functions_of(parsed(data) or parsed(b"")))  # type: ignore[arg-type]


def test_values_that_only_the_program_writes_down() -> None:
    log = "E       AssertionError: Info(hits=0, size=129, mode='lazy') != (0, 128, 'eager')\n"
    patterns = shown_values(log, "assert info() == (0, 128, 'eager')")
    assert [bool(p.search(text)) for p in patterns for text in ("x = 129", "x = 1290", "mode = 'lazy'")] == [
        True, False, False, False, False, True,
    ]  # fmt: skip


def test_words_of_failing_tests_alone_point_at_a_name() -> None:
    failing = [
        text_words("assert format(sql, reindent=True)"),
        text_words("format(sql, reindent=True, wrap=2)"),
    ]
    passing = [text_words("assert format(sql, upper=True)"), text_words("assert parse(sql)")]
    spectrum = WordSpectrum(failing, passing)
    scores = {
        name: spectrum.score(words_of(name), {}) for name in ("ReindentFilter", "UpperFilter", "format")
    }
    assert scores["ReindentFilter"] > scores["UpperFilter"]
    assert spectrum.ochiai("reindent") == 1.0
    assert 0 < spectrum.ochiai("format") < 1


def test_members_by_a_name_that_is_put_together() -> None:
    assert dispatched('getattr(self, f"visit_{kind}")(node)') == ["visit_"]
    assert dispatched("getattr(self, 'do_' + word)") == ["do_"]
    assert dispatched('"visit_{}".format(kind)') == []


def test_an_inverted_check_on_the_path_leads(tmp_path: Path) -> None:
    """Both functions are reached by the failing and the passing test alike; one takes None for a value."""
    (tmp_path / "shop.py").write_text(
        "def rate(order):\n    return order.get('rate')\n\n\n"
        "def label(order):\n    name = order.get('name')\n    if name is not None:\n        return 'nobody'\n"
        "    return name.title()\n\n\n"
        "def line(order):\n    return f'{label(order)} {rate(order)}'\n"
    )
    (tmp_path / "test_shop.py").write_text(
        "from shop import line\n\n\n"
        "def test_line():\n    assert line({'name': 'ann', 'rate': 2}) == 'Ann 2'\n\n\n"
        "def test_nobody():\n    assert 'nobody' in line({'name': 'x', 'rate': 1})\n"
    )
    log = tmp_path / "log" / "test.log"
    log.parent.mkdir()
    log.write_text(
        "=== FAILURES ===\n___________ test_line ___________\n\n    def test_line():\n"
        ">       assert line({'name': 'ann', 'rate': 2}) == 'Ann 2'\n"
        "E       AssertionError: assert 'nobody 2' == 'Ann 2'\n\ntest_shop.py:5: AssertionError\n"
        "=== short test summary info ===\nFAILED test_shop.py::test_line\n1 failed, 1 passed in 0.01s\n"
    )
    request = make_request(
        "Why does the test fail?", [log, tmp_path], task=TaskType.DEBUG, task_params={"mode": "single_shot"}
    )
    payload = compress_sync(request).released["payload"]
    causes = [cause["symbol"] for cause in payload["details"]["likely_causes"]]
    assert causes.index("label") < causes.index("rate")
    (claim,) = [e["claim"] for e in payload["evidence"] if "Likely cause: label" in e["claim"]]
    assert "line 7: None" in claim
