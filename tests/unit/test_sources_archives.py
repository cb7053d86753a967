"""Archives with several members: what is read of them, what is refused, and that their refs verify."""

from __future__ import annotations

import gzip
import io
import json
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from agentloop.compress.refs import text_digest
from agentloop.config import Caps
from agentloop.pack import canonical, shown_place
from agentloop.types import FileKind
from agentloop.verify import verify_saved
from tests.source_case import failure, find, left_out
from tests.unit.pack_case import PackCase

LOG = "".join(f"2024-05-01 10:00:{n % 60:02d} INFO step {n}\n" for n in range(100))
GUIDE = "# Guide\n\nThe zebra cache is flushed every forty minutes.\n"
CHATS = json.dumps(
    [{"title": "Boats", "chat_messages": [{"sender": "human", "text": "Which varnish for the old dinghy?"}]}]
)


def zipped(members: dict[str, bytes | str], links: dict[str, str] | None = None) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        for name, target in (links or {}).items():
            info = zipfile.ZipInfo(name)
            info.create_system, info.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
            archive.writestr(info, target)
    return out.getvalue()


def tarred(
    members: dict[str, bytes | str], mode: str = "w:gz", links: dict[str, bytes] | None = None
) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:  # type: ignore[call-overload]
        for name, text in members.items():
            data = text.encode() if isinstance(text, str) else text
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        for name, kind in (links or {}).items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "/etc/passwd"
            archive.addfile(info)
    return out.getvalue()


MEMBERS: dict[str, bytes | str] = {
    "run/app.log": LOG,
    "run/guide.md": GUIDE,
    "chat/conversations.json": CHATS,
    "run/old.log.gz": gzip.compress(LOG.encode()),
    "pictures/a.png": b"\x89PNG\0",
}


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.zip", zipped(MEMBERS)),
        ("a.tar", tarred(MEMBERS, "w")),
        ("a.tar.gz", tarred(MEMBERS)),
        ("a.tgz", tarred(MEMBERS)),
        ("a.tar.xz", tarred(MEMBERS, "w:xz")),
        ("a.tar.bz2", tarred(MEMBERS, "w:bz2")),
    ],
)
def test_each_member_with_text_is_a_file(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    corpus = find(tmp_path)
    assert [(f.path, f.kind) for f in corpus.files] == [
        (f"{name}/chat/conversations.json", FileKind.RECORDS),
        (f"{name}/run/app.log", FileKind.LOG),
        (f"{name}/run/guide.md", FileKind.PROSE),
        (f"{name}/run/old.log.gz", FileKind.LOG),
    ]
    assert left_out(corpus) == {f"{name}/pictures/a.png": "binary"}
    assert all(f.archive is not None and f.archive.path == name for f in corpus.files)


def test_refs_name_the_archive_and_the_member_and_verify(tmp_path: Path) -> None:
    (tmp_path / "b.tar").write_bytes(tarred(MEMBERS, "w"))
    case = PackCase(tmp_path, {}, "How often is the zebra cache flushed?")
    pack = json.loads(canonical(case.build().released))
    ref = pack["payload"]["evidence"][0]["source_refs"][0]
    assert (ref["path"], ref["derived"]["member"]) == ("b.tar", "run/guide.md")
    data = (tmp_path / "b.tar").read_bytes()
    assert data[ref["byte_start"] :].startswith(b"run/guide.md\0")
    assert [c.status for c in verify_saved(pack, [str(tmp_path)], Caps())] == ["ok"]
    ref["derived"]["member"] = "run/app.log"
    assert [c.status for c in verify_saved(pack, [str(tmp_path)], Caps())] == ["invalid"]
    (tmp_path / "b.tar").write_bytes(tarred({"run/guide.md": GUIDE.replace("forty", "sixty")}, "w"))
    assert [c.status for c in verify_saved(pack, [str(tmp_path)], Caps())] == ["stale"]


@pytest.mark.parametrize(
    ("name", "shown"),
    [("c.zip", "c.zip/run/deep.log"), ("c.tar.gz", "c.tar.gz/run/deep.log"), ("c.gz", "c.gz")],
)
def test_people_read_the_member_and_the_lines_inside_it(tmp_path: Path, name: str, shown: str) -> None:
    text = LOG.replace("step 57\n", "the turbine needs oil\n")
    members: dict[str, bytes | str] = {"run/deep.log": text, "run/other.log": LOG}
    data = zipped(members) if name == "c.zip" else tarred(members)
    (tmp_path / name).write_bytes(gzip.compress(text.encode()) if name == "c.gz" else data)
    built = PackCase(tmp_path, {}, "When does the turbine need oil?").build()
    pack = json.loads(canonical(built.released))
    ref = pack["payload"]["evidence"][0]["source_refs"][0]
    first, last = ref["derived"]["line_start"], ref["derived"].get("line_end", ref["derived"]["line_start"])
    assert 16 < first <= 58 <= last
    cited = "\n".join(text.split("\n")[first - 1 : last])
    assert text_digest(cited).startswith(ref["derived"]["text_hash"])
    place = f"{shown}:{first}-{last}" if first != last else f"{shown}:{first}"
    assert shown_place(ref) == place
    checked = verify_saved(pack, [str(tmp_path)], Caps())[0]
    assert (checked.place, checked.status) == (place, "ok")
    ref["derived"]["line_start"] -= 1
    assert verify_saved(pack, [str(tmp_path)], Caps())[0].status == "invalid"


def test_a_member_without_lines_is_shown_without() -> None:
    ref = {
        "path": "a.zip",
        "line_start": 1,
        "line_end": 2,
        "derived": {"member": "x.pdf", "extractor": "pdf"},
    }
    assert shown_place({**ref, "page_start": 3}) == "a.zip/x.pdf page 3"
    chat = {**ref, "derived": {"member": "c.json", "extractor": "records"}, "record_ids": ["m7"]}
    assert shown_place(chat) == "a.zip/c.json record m7"
    plain = {"path": "x.docx", "line_start": 1, "line_end": 2, "derived": {"extractor": "docx"}}
    assert shown_place(plain) == "x.docx"


@pytest.mark.req("B1")
@pytest.mark.req("B2")
@pytest.mark.parametrize("form", ["zip", "tar"])
def test_names_that_leave_and_links_have_no_bytes(tmp_path: Path, form: str) -> None:
    bad: dict[str, bytes | str] = {
        "../up.txt": "canary",
        "/abs.txt": "canary",
        "C:/x.txt": "canary",
        "a\\b.txt": "canary",
    }
    data = (
        zipped({**bad, "ok.txt": "fine"}, {"link.txt": "/etc/passwd"})
        if form == "zip"
        else tarred(
            {**bad, "ok.txt": "fine"},
            links={"link.txt": tarfile.SYMTYPE, "hard.txt": tarfile.LNKTYPE, "fifo": tarfile.FIFOTYPE},
        )
    )
    name = "x.zip" if form == "zip" else "x.tar.gz"
    (tmp_path / name).write_bytes(data)
    corpus = find(tmp_path)
    assert [f.path for f in corpus.files] == [f"{name}/ok.txt"]
    reasons = left_out(corpus)
    assert reasons[f"{name}/link.txt"] == "symlink"
    assert list(reasons.values()).count("malformed") == 4
    assert all(".." not in path for path in reasons)
    if form == "tar":
        assert (reasons[f"{name}/hard.txt"], reasons[f"{name}/fifo"]) == ("hard_link", "special_file")


@pytest.mark.req("B8")
@pytest.mark.parametrize(
    ("name", "mode"), [("bomb.zip", ""), ("bomb.tar.gz", "w:gz"), ("bomb.tar.xz", "w:xz")]
)
def test_bombs_are_refused(tmp_path: Path, name: str, mode: str) -> None:
    members: dict[str, bytes | str] = {"a.txt": "before it", "b.log": b"x" * 3_000_000, "c.txt": "behind it"}
    (tmp_path / name).write_bytes(tarred(members, mode) if mode else zipped(members))
    corpus = find(tmp_path, caps=Caps(max_extracted_bytes=1_000_000))
    assert left_out(corpus)[f"{name}/b.log"] == "extraction_limit"
    assert [f.member for f in corpus.files] == ["a.txt", "c.txt"]


@pytest.mark.req("B8")
def test_many_members_that_are_too_much_together_stop_at_the_limit(tmp_path: Path) -> None:
    (tmp_path / "many.zip").write_bytes(zipped({f"{n}.log": b"y" * 400_000 for n in range(9)}))
    corpus = find(tmp_path, caps=Caps(max_extracted_bytes=1_000_000))
    assert [f.member for f in corpus.files] == ["0.log", "1.log"]
    assert set(left_out(corpus).values()) == {"extraction_limit"}


def test_damaged_encrypted_and_nested_archives_are_told(tmp_path: Path) -> None:
    inner = zipped({"x.txt": "deep"})
    (tmp_path / "a.zip").write_bytes(zipped({"inner.zip": inner, "ok.txt": "fine", "inner.dat": inner}))
    whole = tarred({"a.txt": "first " * 2000, "b.txt": "second"})
    (tmp_path / "b.tar.gz").write_bytes(whole[: len(whole) // 2])
    locked = bytearray(zipped({"s.txt": "secret", "t.txt": "open"}))
    locked[locked.index(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "c.zip").write_bytes(locked)
    corpus = find(tmp_path)
    assert [f.path for f in corpus.files] == ["a.zip/ok.txt", "c.zip/t.txt"]
    reasons = left_out(corpus)
    assert reasons["a.zip/inner.zip"] == reasons["a.zip/inner.dat"] == "binary"
    assert reasons["b.tar.gz"] == "malformed"
    assert reasons["c.zip/s.txt"] == "unreadable"


def test_code_counts_only_in_an_archive_that_was_named(tmp_path: Path) -> None:
    data = zipped({"pkg/core.py": "def run():\n    return 1\n", "pkg/README.md": GUIDE})
    (tmp_path / "src.zip").write_bytes(data)
    assert left_out(find(tmp_path)) == {"src.zip/pkg/core.py": "filtered"}
    named = find(tmp_path / "src.zip", type="file")
    assert [f.path for f in named.files] == ["src.zip/pkg/README.md", "src.zip/pkg/core.py"]


def test_fixtures_of_tests_stay_closed(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/data.zip").write_bytes(zipped({"a.txt": "fixture"}))
    (tmp_path / "a.md").write_text(GUIDE)
    assert left_out(find(tmp_path)) == {"tests/data.zip": "binary"}


def test_an_archive_without_text_says_what_it_holds(tmp_path: Path) -> None:
    (tmp_path / "p.zip").write_bytes(zipped({"a.png": b"\x89PNG\0"}))
    assert "a.png" in failure(tmp_path / "p.zip", type="file").message


def test_the_hash_of_a_folder_counts_an_archive_once(tmp_path: Path) -> None:
    from hashlib import sha256

    data = zipped({"a.txt": "one", "b.txt": "two"})
    (tmp_path / "z.zip").write_bytes(data)
    line = f"{sha256(data).hexdigest()} {len(data)} z.zip\n".encode()
    corpus = find(tmp_path)
    assert corpus.inputs[0].content_hash == f"sha256:{sha256(line).hexdigest()}"
    assert [f.size for f in corpus.files] == [3, 3]
