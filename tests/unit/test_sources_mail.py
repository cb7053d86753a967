"""Mailboxes of any size: one item a message, read one at a time, the newest within the cap."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentloop.budget import Ledger
from agentloop.clock import SystemClock
from agentloop.config import Caps
from agentloop.errors import WarningCode
from agentloop.sources import extract
from agentloop.sources.documents import mail
from agentloop.types import FileKind
from tests.source_case import find, write

Patch = pytest.MonkeyPatch


def mailbox(count: int, body: str = "The pump of hall {n} was replaced.", end: str = "\n") -> bytes:
    """Messages a minute apart, each with a body line that begins with `From `."""
    rows = []
    for n in range(count):
        stamp = f"Fri, 01 Mar 2024 {n // 60:02}:{n % 60:02}:00 +0000"
        rows += [
            f"From ada@x Fri Mar  1 {n // 60:02}:{n % 60:02}:00 2024", "From: Ada <ada@example.org>",
            f"Subject: Hall {n}", f"Date: {stamp}", f"Message-ID: <m{n}@example.org>", "",
            body.format(n=n), "From here on nothing follows, as in 2024.", "",
        ]  # fmt: skip
    return (end.join(rows) + end).encode()


@pytest.mark.parametrize("block", [64, 100, 257, 1 << 20])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_blocks_of_any_size_cut_the_same_messages(monkeypatch: Patch, block: int, end: str) -> None:
    data = mailbox(40, end=end)
    monkeypatch.setattr(mail, "_BLOCK", block)
    items = mail.extract_mail(data, 0).items
    assert [item.record_id for item in items] == [f"m{n}@example.org" for n in range(40)]
    for item in items:
        assert data[item.byte_start :].startswith(b"From: Ada")
        assert item.line_start == data.count(b"\n", 0, item.byte_start) + 1
        assert item.line_end == data.count(b"\n", 0, item.byte_end - 1) + 1
        assert "nothing follows" in item.text


def test_a_mailbox_over_the_size_of_a_file_is_read_where_it_lies(tmp_path: Path) -> None:
    data = mailbox(300)
    write(tmp_path, **{"all.mbox": data, "notes.md": b"# Notes\n"})
    caps = Caps(max_file_bytes=10_000)
    corpus = find(tmp_path, caps=caps)
    (box,) = (file for file in corpus.files if file.path == "all.mbox")
    assert box.kind is FileKind.RECORDS
    assert box.derived is not None
    assert len(box.derived.items) == 300
    assert extract("mail", box.derived.version, data).items == box.derived.items
    assert not corpus.excluded


def test_the_cap_keeps_the_newest_messages_and_tells(tmp_path: Path) -> None:
    write(tmp_path, **{"all.mbox": mailbox(100)})
    ledger = Ledger(SystemClock())
    corpus = find(tmp_path, caps=Caps(max_record_chars=1000), ledger=ledger)
    derived = corpus.files[0].derived
    assert derived is not None
    assert derived.items[-1].record_id == "m99@example.org"
    assert sum(map(derived.size, range(len(derived.items)))) <= 1000
    left = 100 - len(derived.items)
    assert f"{left} of 100 messages are left out: the text is over the cap" in corpus.notes[0]
    assert WarningCode.INPUT_TRUNCATED in {code for code, _, _ in ledger.warnings}


@pytest.mark.req("B9")
def test_a_damaged_message_is_told_and_the_others_stay(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(mail, "_MAX_MESSAGE", 500)
    data = mailbox(3) + mailbox(1, "x" * 600) + b"From \xff\xfe 2024\n\nbytes \xff\n"
    write(tmp_path, **{"all.mbox": data})
    corpus = find(tmp_path)
    derived = corpus.files[0].derived
    assert derived is not None
    assert len(derived.items) == 4
    assert any("damaged messages are left out (1)" in note for note in corpus.notes)


@pytest.mark.parametrize(
    ("subject", "scope"),
    [
        (b"=?utf-8?q?Re=3A_Schl=C3=BCssel?=", "Schlüssel"),
        ("Żółw i klucz".encode(), "Żółw i klucz"),
        (b"a \xff b", "a \ufffd b"),
        (b"=?no-such-charset?q?x?=", ""),
        (b"folded\n over lines", "folded over lines"),
        (b"s" * 5000, ""),
    ],
)
def test_subjects_in_any_form(subject: bytes, scope: str) -> None:
    data = b"From: =?utf-8?b?QWRh?= <ada@x>\nSubject: " + subject + b"\n\nThe body says something.\n"
    (item,) = mail.extract_mail(data, 0).items
    assert (item.scope, item.speaker) == (scope, "Ada")
    assert item.text.endswith("The body says something.")
