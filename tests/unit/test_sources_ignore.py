"""Ignore rules agree with `git check-ignore`."""

from __future__ import annotations

import os
import random
import subprocess
import time
from pathlib import Path

import pytest

from agentloop.sources.ignore import parse_ignore
from tests.source_case import find, left_out, paths, write

ENV = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}
TOKENS = [
    "*", "**", "?", "/", "a", "b", "c", "foo", "[ab]", "[!a]", "\\*", "\\a", ".q", "[a-c]", "[[:alpha:]]",
    "/**", "**/", "a**", "*/", "!", "#", " ", "\\ ", "[", "[^b]x", "***", "[]a]", "[a-]", "\\", "\t", "é",
]  # fmt: skip
NAMES = ["a", "b", "c", "foo", ".q", "x", "ab", "*", " ", "]", "-", "é"]


def git(root: Path, *argv: str, data: bytes = b"") -> bytes:
    done = subprocess.run(
        ["git", "-C", str(root), *argv], input=data, capture_output=True, env=ENV, check=False
    )
    return done.stdout


def ignored_by_git(root: Path, names: list[str], *options: str) -> set[str]:
    """The paths of `names` that git ignores."""
    data = b"\0".join(os.fsencode(name) for name in names) + b"\0"
    out = git(root, "check-ignore", "-z", "--stdin", *options, data=data)
    return {os.fsdecode(name) for name in out.split(b"\0") if name}


def everything(root: Path) -> list[str]:
    """All files and folders below `root` but git's own."""
    found = []
    for folder, dirs, files in os.walk(root):
        dirs[:] = [name for name in dirs if name != ".git"]
        found += [os.path.relpath(os.path.join(folder, name), root) for name in [*dirs, *files]]
    return sorted(found)


def seen_by_us(root: Path) -> tuple[set[str], set[str]]:
    """Files that discovery includes, and paths that it names as ignored."""
    corpus = find(root)
    return set(paths(corpus)), {path for path, reason in left_out(corpus).items() if reason == "ignored"}


def compare(root: Path, *options: str) -> None:
    names = everything(root)
    by_git = ignored_by_git(root, names, *options)
    included, ignored = seen_by_us(root)
    wrong = []
    for name in names:
        if (root / name).is_dir():
            continue
        parts = name.split("/")
        ours = any("/".join(parts[:n]) in ignored for n in range(1, len(parts) + 1))
        if ours != (name in by_git) or ours == (name in included):
            wrong.append((name, "git ignores" if name in by_git else "git keeps"))
    assert not wrong


@pytest.mark.req("B12")
@pytest.mark.parametrize("seed", range(12))
def test_random_rules_in_nested_files_agree_with_git(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    git(tmp_path, "init", "-q")
    folders = ["", *("/".join(rng.choices(NAMES, k=rng.randint(1, 3))) for _ in range(12))]
    for number in range(60):
        name = "".join(rng.choices(NAMES, k=rng.randint(1, 3)))
        path = tmp_path / rng.choice(folders) / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"text {number}\n")
        except OSError:  # a file stands where a folder should
            continue
    (tmp_path / "kept").write_text("always there\n")
    for folder in rng.sample(folders, 4):
        rules = ["".join(rng.choices(TOKENS, k=rng.randint(1, 5))) for _ in range(rng.randint(1, 4))]
        if (tmp_path / folder).is_dir():
            (tmp_path / folder / ".gitignore").write_text("\n".join(["!kept", "!.gitignore", *rules]) + "\n")
    (tmp_path / ".git/info/exclude").write_text("".join(rng.choices(TOKENS, k=3)) + "\n")
    compare(tmp_path, "--no-index")


@pytest.mark.req("B12")
def test_the_forms_of_the_manual(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    write(
        tmp_path,
        **{
            ".gitignore": "\ufeff# comment\n\n*.log\n!keep.log\n/top\nbuild/\ndoc/*.txt\n**/deep\nabc/**\n"
            "a/**/z\n"
            "\\#hash\n\\!bang\ntrail   \nspace\\ \nlast\\\r\nfoo**/bar\n[[:digit:]]x\n*.tmp/\n",
            "sub/.gitignore": "!*.log\nown\n",
        },
    )
    names = [
        "x.log", "keep.log", "sub/y.log", "top", "sub/top", "build/x", "sub/build", "doc/a.txt",
        "doc/s/a.txt", "q/deep/f", "deep", "abc/x/y", "a/z", "a/b/c/z", "#hash", "!bang", "trail",
        "last", "fooX/bar", "fooX/Y/bar", "foobar", "7x", "xx", "t.tmp", "d.tmp/f", "sub/own", "own",
    ]  # fmt: skip
    write(tmp_path, **dict.fromkeys([*names, "space "], "1"))
    compare(tmp_path, "--no-index")


@pytest.mark.req("B12")
def test_tracked_files_are_kept_as_git_keeps_them(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    write(
        tmp_path,
        **{".gitignore": "dist/\n*.min.js\n", "dist/kept.js": "1", "dist/new.js": "1", "a.min.js": "1"},
    )
    git(tmp_path, "add", "-f", "dist/kept.js", "a.min.js")
    write(tmp_path, **{"dist/deep/x.js": "1", "b.min.js": "1"})
    for version in ("2", "4"):
        git(tmp_path, "update-index", "--index-version", version)
        assert paths(find(tmp_path)) == [".gitignore", "a.min.js", "dist/kept.js"]
    compare(tmp_path)


@pytest.mark.req("B12")
def test_child_repositories_have_rules_of_their_own(tmp_path: Path) -> None:
    for child in ("one", "two"):
        (tmp_path / child).mkdir()
        git(tmp_path / child, "init", "-q")
        write(
            tmp_path / child, **{".gitignore": f"{child}.txt\n", "one.txt": "1", "two.txt": "1", "x.log": "1"}
        )
    write(tmp_path, **{".gitignore": "*.log\nnotes\n", "notes": "1", "plain/x.log": "1", "plain/y": "1"})
    assert paths(find(tmp_path)) == [
        ".gitignore", "one/.gitignore", "one/two.txt", "one/x.log", "plain/y", "two/.gitignore",
        "two/one.txt", "two/x.log",
    ]  # fmt: skip


def test_our_own_ignore_file_wins_and_foreign_ones_are_not_obeyed(tmp_path: Path) -> None:
    write(
        tmp_path,
        **{
            ".gitignore": "*.gen\n",
            ".agentloopignore": "secret/\n!api.gen\n",
            ".prettierignore": "*\n",
            ".dockerignore": "**\n",
            "api.gen": "kept\n",
            "other.gen": "x\n",
            "secret/key": "x\n",
            "src/a.py": "x = 1\n",
        },
    )
    corpus = find(tmp_path)
    assert {"api.gen", "src/a.py"} <= set(paths(corpus))
    assert left_out(corpus) == {"other.gen": "ignored", "secret": "ignored"}


@pytest.mark.req("D1")
def test_a_hostile_pattern_does_not_backtrack() -> None:
    rules = [b"*a" * 40 + b"b", b"/" + b"**/a*/" * 30 + b"b", b"*" * 200 + b"b", b"x/" + b"*a" * 40 + b"/b"]
    ignore = parse_ignore(b"\n".join(rules), b"")
    name = b"a" * 250
    path = b"/".join([b"aaaaaaaa"] * 400)
    started = time.process_time()
    assert ignore.decide(name, name, False) is None
    assert ignore.decide(path, b"aaaaaaaa", False) is None
    assert ignore.decide(b"x/" + name, name, False) is None
    assert time.process_time() - started < 5  # without atomic groups this takes longer than the universe
