"""Claims about code say which symbol, what it takes and does, and which line decides."""

from __future__ import annotations

from pathlib import Path

from tests.unit.pack_case import PackCase, claims

BOILER = '''
import time

MAX_PRESSURE = 7


class Boiler:
    """A boiler with a valve."""

    def fill(self, litres):
        """Fill the tank. Stops at the brim."""
        self.level += litres
        return self.level

    def vent(self, seconds=3):
        # steam leaves here
        self.valve.open()
        time.sleep(seconds)
        self.pressure = 0
        self.valve.close()


def night_shift(boiler):
    boiler.vent(seconds=9)
'''


def test_a_method_is_named_with_its_class_signature_and_doc(tmp_path: Path) -> None:
    case = PackCase(tmp_path, {"plant/boiler.py": BOILER}, "What does fill do with litres?")
    first = claims(case.pack())[0]
    assert "Boiler.fill(self, litres)" in first
    assert "Fill the tank." in first
    assert "Stops at the brim" not in first


def test_a_fact_inside_a_body_is_told_with_its_line(tmp_path: Path) -> None:
    case = PackCase(tmp_path, {"plant/boiler.py": BOILER}, "Where does vent reset the pressure?")
    pack = case.pack()
    item = pack["payload"]["evidence"][0]
    assert "self.pressure = 0" in item["claim"]
    assert "L19" in item["claim"]
    ref = item["source_refs"][0]
    assert ref["line_start"] <= 19 <= ref["line_end"]
    assert ref["line_end"] - ref["line_start"] < 10


def test_a_definition_without_words_tells_what_it_returns(tmp_path: Path) -> None:
    code = "int floor_marker(void) {\n    int base = 4000;\n    return base + 711;\n}\n"
    pack = PackCase(tmp_path, {"deep.c": code}, "floor_marker").pack()
    assert "return base + 711;" in claims(pack)[0]


def test_a_long_function_is_cited_around_the_decisive_line(tmp_path: Path) -> None:
    body = "".join(f"    step_{n} = {n}\n" for n in range(200))
    code = f"def longest():\n{body}    turbine_ratio = 42\n" + "".join(f"    x{n} = {n}\n" for n in range(90))
    pack = PackCase(tmp_path, {"long.py": code}, "turbine ratio").pack()
    item = pack["payload"]["evidence"][0]
    ref = item["source_refs"][0]
    assert ref["line_start"] <= 202 <= ref["line_end"]
    assert ref["line_end"] - ref["line_start"] + 1 <= 80
    assert "turbine_ratio = 42" in item["claim"]


def test_one_item_a_symbol_though_many_chunks_hit(tmp_path: Path) -> None:
    body = "".join(f"    gauge_{n} = read_gauge({n})  # gauge reading {n}\n" for n in range(150))
    pack = PackCase(tmp_path, {"g.py": f"def all_gauges():\n{body}"}, "gauge reading").pack()
    assert len(pack["payload"]["evidence"]) == 1


def test_a_comment_is_told_with_the_code_it_is_about(tmp_path: Path) -> None:
    code = "# How many dogs may board at once\nKENNEL_LIMIT = 12\n\nOTHER = 1\n"
    pack = PackCase(tmp_path, {"kennel.py": code}, "how many dogs board").pack()
    assert "KENNEL_LIMIT = 12" in claims(pack)[0]


def test_the_caller_that_matched_is_named_and_cited(tmp_path: Path) -> None:
    files = {
        "a.py": 'def lower_anchor(depth):\n    """Lower the anchor to a depth."""\n    return depth\n',
        "b.py": "def moor_ship():\n    # lower the anchor\n    lower_anchor(12)\n",
    }
    pack = PackCase(tmp_path, files, "How is the anchor lowered to a depth?").pack()
    item = next(i for i in pack["payload"]["evidence"] if "lower_anchor(depth)" in i["claim"])
    assert "called by moor_ship" in item["claim"]
    assert any(ref["path"] == "b.py" and ref["line_start"] == 3 for ref in item["source_refs"])
