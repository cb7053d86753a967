"""Damaged files of every extractor: a reason or exact spans, never a crash."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import random
import time
from pathlib import Path

import pytest
import zstandard

from agentloop.config import Caps
from agentloop.errors import AgentloopError, ErrorCode
from agentloop.sources import extract
from tests.source_case import find
from tests.unit.test_sources_documents import LOG, docx, paragraph, pdf

MAIL = (
    "From c@x Fri Mar  1 10:00:00 2024\nFrom: C <c@x>\nSubject: =?utf-8?q?x?=\n"
    "Date: Fri, 01 Mar 2024 10:00:00 +0100\n"
    "Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/plain; charset=utf-8\n"
    "Content-Transfer-Encoding: base64\n\naGVsbG8=\n--b--\n"
)  # fmt: skip
CELLS = [{"cell_type": "code", "source": ["a\n", "b"], "outputs": [{"text": ["x"]}]}]
CHAT = {
    "title": "t",
    "current_node": "b",
    "mapping": {
        "a": {
            "message": {"author": {"role": "user"}, "content": {"parts": ["a question here"]}},
            "parent": None,
        },
        "b": {"message": {"create_time": 1.7e9, "content": {"parts": ["an answer here"]}}, "parent": "a"},
    },
}
WHOLE = {
    "a.pdf": pdf(["Hello there world", "Second page"], packed=True),
    "a.docx": docx(paragraph("Guide", "Title") + paragraph("x")),
    "a.html": b"<!DOCTYPE html><html><body><h1>x</h1><p>y<table><tr><td>z</table></body></html>",
    "a.ipynb": json.dumps({"cells": CELLS}).encode(),
    "a.mbox": MAIL.encode(),
    "a.eml": MAIL.partition("\n")[2].encode(),
    "a.csv": b'a,b\n1,"x\ny"\n3,4\n',
    "a.log.gz": gzip.compress(LOG.encode()),
    "a.log.xz": lzma.compress(LOG.encode()),
    "a.log.zst": zstandard.ZstdCompressor().compress(LOG.encode()),
    "a.log.bz2": bz2.compress(LOG.encode()),
    "conversations.json": json.dumps([CHAT, CHAT]).encode(),
    "a.jsonl": b'{"text":"hello there world","id":1}\n' * 5,
    "u16.txt": "hello there\nworld\n".encode("utf-16"),
}
INSERTED = [b"\0", b'"', b"{", b"[", b"\xff", b"9" * 30, b"\n\nFrom x 2024\n", b"<", b"endobj", b"\\ud800"]


def damaged(data: bytes, rng: random.Random) -> bytes:
    """One to eight bytes or runs changed, dropped, doubled or put in."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 8)):
        at = rng.randrange(len(out) + 1)
        kind = rng.random()
        if kind < 0.5:
            out[at : at + 1] = bytes([rng.randrange(256)])
        elif kind < 0.7:
            del out[at : at + rng.randint(1, 30)]
        elif kind < 0.9:
            start = rng.randrange(len(out) + 1)
            out[at:at] = out[start : start + rng.randint(1, 60)]
        else:
            out[at:at] = rng.choice(INSERTED)
    return bytes(out)


@pytest.mark.req("B8")
@pytest.mark.req("B9")
@pytest.mark.parametrize("name", WHOLE)
def test_damage_gives_a_reason_or_exact_spans(tmp_path: Path, name: str) -> None:
    rng = random.Random(name)
    refused = []
    for _ in range(60):
        data = damaged(WHOLE[name], rng)
        (tmp_path / name).write_bytes(data)
        kind = rng.choice(["file", "records", "document", "log"])
        try:
            file = find(tmp_path / name, type=kind, caps=Caps(max_extracted_bytes=2_000_000)).files[0]
        except AgentloopError as exc:
            refused.append((exc.code, exc.details.get("reason")))
            continue
        if file.derived is None:
            continue
        assert extract(file.derived.extractor, file.derived.version, data) == file.derived
        for item in file.derived.items:
            item.text.encode()
            assert 0 <= item.byte_start < item.byte_end <= len(data)
            assert item.line_start == data.count(b"\n", 0, item.byte_start) + 1
            assert item.line_end == data.count(b"\n", 0, item.byte_end - 1) + 1
            assert item.line_end - item.line_start < 80
    assert set(refused) <= {(ErrorCode.INPUT_DISCOVERY_FAILED, "nothing_to_index")}


@pytest.mark.req("D1")
@pytest.mark.parametrize(
    "run", ["<a ", '<a x="', "<!--", "<a<", "</", "<![CDATA[", "<div><p>x", "<script>", "&#"]
)
def test_broken_markup_takes_linear_time(tmp_path: Path, run: str) -> None:
    (tmp_path / "a.html").write_text("<!doctype html><p>first</p>" + run * 60_000)
    started = time.process_time()
    find(tmp_path / "a.html", type="file")
    assert time.process_time() - started < 10  # the standard library's parser takes minutes


@pytest.mark.req("D1")
@pytest.mark.parametrize(
    "head",
    [
        "From: " + "a@b," * 15_000,
        "Subject: " + "=?utf-8?q?x?= " * 4_000,
        "Content-Type: text/plain; " + ";a=b" * 15_000,
        "Content-Type: multipart/mixed; boundary=b\n\n" + "--b\n\n" * 50_000,
        "From " + "a" * 1_000_000,
    ],
)
def test_hostile_mail_takes_linear_time(tmp_path: Path, head: str) -> None:
    (tmp_path / "a.eml").write_text(f"Message-ID: <1@x>\n{head}\n\nhello\n")
    started = time.process_time()
    find(tmp_path / "a.eml", type="file")
    assert time.process_time() - started < 3
