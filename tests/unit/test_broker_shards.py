"""The shard planner: what is split, where, and that the parts of a folder are the folder."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from agentloop.api import make_request
from agentloop.budget import Ledger
from agentloop.clock import SystemClock
from agentloop.config import Caps, InputPart, Policy
from agentloop.errors import AgentloopError
from agentloop.request import CompressRequest, TaskType
from agentloop.sources import discover
from agentloop.types import Corpus
from broker.shards import (
    ShardLimits,
    Sizes,
    child_parts,
    child_request,
    from_json,
    plan_shards,
    to_json,
)

MANY = ShardLimits(inputs=16, files=1000, bytes=1 << 30)


def tree(root: Path) -> Path:
    """Folders and names whose order as text is not that of their folders: `a-b` lies before `a/`."""
    for name in ("a/one.py", "a/two.py", "a-b/three.py", "a/sub/four.py", "b.py", "z/deep/er/five.py"):
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"def f_{file.stem}():\n    return '{name}'\n")
    (root / ".gitignore").write_text("skipped/\n*.tmp\n")
    (root / "skipped").mkdir()
    (root / "skipped" / "x.py").write_text("x = 1\n")
    (root / "z" / "junk.tmp").write_text("junk\n")
    (root / "a" / "link.py").symlink_to(root / "b.py")
    (root / "blob.bin").write_bytes(bytes(range(256)) * 20)
    return root


def asked(*paths: Path, task: TaskType = TaskType.RAG_COMPRESS) -> CompressRequest:
    return make_request("what is there?", paths, task=task)


def read(root: Path, part: InputPart | None = None) -> Corpus:
    caps = Caps(parts=() if part is None else (part,))
    return discover(asked(root), caps, Policy(), Ledger(SystemClock()))


def left_out(corpus: Corpus) -> list[tuple[str, str]]:
    return [(left.path, str(left.reason)) for left in corpus.excluded]


@pytest.mark.parametrize("files", [1, 2, 3, 5])
def test_parts_of_a_folder_are_the_folder(tmp_path: Path, files: int) -> None:
    root = tree(tmp_path)
    whole = read(root)
    shards = plan_shards(asked(root), replace(MANY, files=files), Caps(), [str(tmp_path)])
    assert len(shards) > 1
    found: list[str] = []
    excluded: list[tuple[str, str]] = []
    for (part,) in shards:
        try:
            corpus = read(root, part)
        except AgentloopError:
            continue  # a part may hold nothing but what is left out
        found += [file.path for file in corpus.files]
        excluded += left_out(corpus)
    assert found == [file.path for file in whole.files]
    assert set(excluded) <= set(left_out(whole))
    assert len(excluded) == len(set(excluded)), "told by one part only"


def test_every_exclusion_is_told_by_one_part(tmp_path: Path) -> None:
    root = tree(tmp_path)
    parts = [InputPart(0, "", "a/two.py"), InputPart(0, "a/two.py", "z"), InputPart(0, "z", "")]
    told = [entry for part in parts for entry in left_out(read(root, part))]
    assert sorted(told) == sorted(left_out(read(root)))


def test_a_new_file_falls_into_one_part(tmp_path: Path) -> None:
    root = tree(tmp_path)
    shards = plan_shards(asked(root), replace(MANY, files=2), Caps(), [str(tmp_path)])
    for name in ("0.py", "a/three.py", "zz.py", "a.py"):
        (root / name).write_text("late = True\n")
    found = [file.path for (part,) in shards for file in read(root, part).files]
    assert found == [file.path for file in read(root).files]


def test_parts_are_alike_in_size(tmp_path: Path) -> None:
    for number in range(40):
        (tmp_path / f"{number:02d}.txt").write_text("x" * 1000)
    shards = plan_shards(asked(tmp_path), replace(MANY, bytes=9_000), Caps(), [str(tmp_path)])
    sizes = [len(read(tmp_path, part).files) for (part,) in shards]
    assert sum(sizes) == 40
    assert max(sizes) <= 9
    assert min(sizes) >= 6


def test_small_inputs_share_a_shard_and_stay_in_order(tmp_path: Path) -> None:
    files = []
    for number in range(5):
        files.append(tmp_path / f"{number}.py")
        files[-1].write_text("y" * 100)
    shards = plan_shards(asked(*files), replace(MANY, inputs=2), Caps(), [str(tmp_path)])
    assert [[part.input for part in shard] for shard in shards] == [[0, 1], [2, 3], [4]]
    assert all(child_parts(shard) == () for shard in shards)


def test_only_the_input_that_is_too_large_is_cut(tmp_path: Path) -> None:
    root, file = tree(tmp_path / "tree"), tmp_path / "n.log"
    file.write_text("one line\n")
    shards = plan_shards(asked(file, root, file), replace(MANY, files=4), Caps(), [str(tmp_path)])
    assert shards[0] == (InputPart(0),)
    assert shards[-1] == (InputPart(2),)
    assert all(part.input == 1 and (part.first or part.before) for (part,) in shards[1:-1])
    assert from_json(to_json(shards)) == shards


def test_a_child_asks_for_its_part_without_the_hash_of_the_whole() -> None:
    refs = [
        {"type": "file", "uri": "/a", "content_hash": "h"},
        {"type": "repo", "uri": "/b", "content_hash": "h"},
    ]
    shard = (InputPart(0), InputPart(1, "m", "p"))
    child = child_request({"query": "q", "input_refs": refs, "idempotency_key": "k"}, shard)
    assert child == {"query": "q", "input_refs": [refs[0], {"type": "repo", "uri": "/b"}]}
    assert child_parts(shard[1:]) == (InputPart(0, "m", "p"),)


def test_plans_of_an_earlier_release_are_numbers() -> None:
    assert from_json([[0, 1], [2]]) == [(InputPart(0), InputPart(1)), (InputPart(2),)]


def test_what_is_broad(tmp_path: Path) -> None:
    root = tree(tmp_path)
    few = Sizes(replace(MANY, files=3))
    assert few.broad(asked(root))
    assert not Sizes(MANY).broad(asked(root))
    assert not few.broad(asked(root, task=TaskType.DEBUG)), "it follows a failure through all of the code"
    assert not few.broad(make_request("what?", [root], baselines=[root]))
    assert not few.broad(asked(root / "b.py"))
    assert Sizes(replace(MANY, inputs=1)).broad(asked(root / "b.py", root / "a"))
    assert Sizes(replace(MANY, bytes=100)).broad(asked(root))
    (root / "big.log").write_text("x" * 200)
    assert not Sizes(replace(MANY, bytes=100)).broad(asked(root / "big.log")), "a file is read whole"


@pytest.mark.req("B2")
def test_a_folder_behind_a_link_is_not_walked(tmp_path: Path) -> None:
    root = tree(tmp_path / "tree")
    link = tmp_path / "link"
    link.symlink_to(root)
    request = asked(root).model_copy(
        update={"input_refs": (asked(root).input_refs[0].model_copy(update={"uri": str(link)}),)}
    )
    assert plan_shards(request, replace(MANY, files=3), Caps(), [str(tmp_path)]) == [(InputPart(0),)]


def test_a_folder_that_cannot_be_read_is_one_piece(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    request = asked(gone)
    os.rmdir(gone)
    assert plan_shards(request, MANY, Caps(), [str(tmp_path)]) == [(InputPart(0),)]
