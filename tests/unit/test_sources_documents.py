"""Documents, mail, tables and compressed logs as derived text."""

from __future__ import annotations

import base64
import bz2
import gzip
import io
import json
import lzma
import zipfile
import zlib
from pathlib import Path

import pytest
import zstandard

from agentloop.config import Caps
from agentloop.sources import extract
from agentloop.types import FileKind, SourceFile
from tests.source_case import failure, find, left_out, write

LOG = "".join(f"2024-05-01 10:00:{n % 60:02d} INFO step {n}\n" for n in range(100))


def pdf(pages: list[str], *, packed: bool = False) -> bytes:
    """A PDF whose pages show these lines."""
    out = io.BytesIO()
    out.write(b"%PDF-1.4\n")
    offsets = []

    def obj(body: bytes) -> None:
        offsets.append(out.tell())
        out.write(b"%d 0 obj\n%s\nendobj\n" % (len(offsets), body))

    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(pages)))
    obj(b"<< /Type /Catalog /Pages 2 0 R >>")
    obj(f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode())
    obj(b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    for n, text in enumerate(pages):
        lines = " T* ".join(f"({line}) Tj" for line in text.split("\n"))
        stream = f"BT /F1 12 Tf 72 720 Td 14 TL {lines} ET".encode()
        extra = b""
        if packed:
            stream, extra = zlib.compress(stream), b" /Filter /FlateDecode"
        obj(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * n} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>".encode()
        )
        obj(b"<< /Length %d%s >>\nstream\n%s\nendstream" % (len(stream), extra, stream))
    xref = out.tell()
    out.write(b"xref\n0 %d\n0000000000 65535 f \n" % (len(offsets) + 1))
    for offset in offsets:
        out.write(b"%010d 00000 n \n" % offset)
    out.write(b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(offsets) + 1, xref))
    return out.getvalue()


def docx(body: str, head: str = "") -> bytes:
    """A DOCX with this body."""
    namespace = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    text = (
        f'<?xml version="1.0"?>{head}<w:document xmlns:w="{namespace}"><w:body>{body}</w:body></w:document>'
    )
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("word/document.xml", text)
    return out.getvalue()


def paragraph(text: str, style: str = "") -> str:
    return f'<w:p><w:pPr><w:pStyle w:val="{style}"/></w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>'


def one(root: Path, name: str, data: bytes | str, **options: object) -> SourceFile:
    """The file of an input that holds only this one; its text can be extracted again."""
    write(root, **{name: data})
    file = find(root / name, type="file", **options).files[0]
    raw = (root / name).read_bytes()
    if file.derived is not None:
        assert extract(file.derived.extractor, file.derived.version, raw) == file.derived
        for item in file.derived.items:
            assert 0 <= item.byte_start < item.byte_end <= len(raw)
            assert item.line_start == raw.count(b"\n", 0, item.byte_start) + 1
            assert item.line_end == raw.count(b"\n", 0, item.byte_end - 1) + 1
            assert item.line_end - item.line_start < 80
    return file


def texts(file: SourceFile) -> list[str]:
    assert file.derived is not None
    return [item.text for item in file.derived.items]


@pytest.mark.parametrize("packed", [False, True])
def test_pdf_pages(tmp_path: Path, packed: bool) -> None:
    file = one(
        tmp_path, "a.pdf", pdf(["The quota is nine seats.\nSecond line.", "", "Page three."], packed=packed)
    )
    assert file.kind is FileKind.DOCUMENT
    assert texts(file) == ["The quota is nine seats.\nSecond line.", "Page three."]
    assert file.derived is not None
    assert [item.page for item in file.derived.items] == [1, 3]
    assert file.derived.notes == ("1 of 3 pages hold no text",)
    raw = (tmp_path / "a.pdf").read_bytes()
    assert b"/Type /Page /Parent" in raw[file.derived.items[0].byte_start : file.derived.items[0].byte_end]


def test_pictures_and_fixtures_are_no_documents_unless_named(tmp_path: Path) -> None:
    page = pdf(["Some label."])
    write(
        tmp_path,
        **{"img/flow.pdf": page, "tests/x.pdf": page, "tests/x.log.gz": gzip.compress(b"x\n"), "b.md": "x\n"},
    )
    assert set(left_out(find(tmp_path)).values()) == {"binary"}
    assert len(find(tmp_path, type="document").files) == 4
    assert find(tmp_path / "tests/x.pdf", type="file").files[0].derived is not None


def test_a_damaged_pdf_is_named(tmp_path: Path) -> None:
    write(tmp_path, **{"a.pdf": b"%PDF-1.7\n\0garbage", "scan.pdf": pdf([""]), "b.md": "x\n"})
    assert left_out(find(tmp_path)) == {"a.pdf": "malformed", "scan.pdf": "malformed"}


def test_docx_by_heading_with_tables(tmp_path: Path) -> None:
    row = "<w:tr>" + "".join(f"<w:tc>{paragraph(cell)}</w:tc>" for cell in ("{}", "{}")) + "</w:tr>"
    body = (
        paragraph("Guide", "Title") + paragraph("Intro text.") + paragraph("Setup", "Heading2")
        + paragraph("Do &lt;this&gt;.") + "<w:tbl>" + row.format("Key", "Value") + row.format("port", "8080")
        + "</w:tbl>" + paragraph("Other", "Heading2") + paragraph("End.")
    )  # fmt: skip
    file = one(tmp_path, "a.docx", docx(body))
    assert file.kind is FileKind.DOCUMENT
    assert texts(file) == ["Guide\nIntro text.", "Setup\nDo <this>.\nKey | Value\nport | 8080", "Other\nEnd."]
    assert file.derived is not None
    assert [item.heading for item in file.derived.items] == ["Guide", "Guide > Setup", "Guide > Other"]


def test_html_is_read_as_seen_with_its_lines(tmp_path: Path) -> None:
    page = (
        "<!DOCTYPE html>\n<html><head><title>Fees</title>\n<style>p {color: red}</style></head>\n<body>\n"
        "<h1>Fees</h1>\n<p>The fee is\n<b>nine</b> euros.</p>\n<script>var hidden = 1;</script>\n"
        "<h2>Table</h2>\n<table><tr><td>A</td><td>1</td></tr>\n<tr><td>B</td><td>2</td></tr></table>\n"
        "</body></html>\n"
    )
    file = one(tmp_path, "a.html", page)
    assert texts(file) == ["Fees", "Fees\nThe fee is nine euros.", "Table\nA | 1\nB | 2"]
    assert file.derived is not None
    assert [(item.line_start, item.line_end) for item in file.derived.items] == [(2, 2), (5, 7), (9, 11)]
    assert file.derived.items[2].heading == "Fees > Table"


def test_templates_stay_source(tmp_path: Path) -> None:
    for name, text in {"a.html": "<html>{% block x %}</html>\n", "b.html": "<p>fragment</p>\n"}.items():
        assert one(tmp_path, name, text).derived is None


def test_notebook_cells_and_outputs(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": ["# Study\n", "Of rain."]},
        {
            "cell_type": "code",
            "source": ["x = 1\n", "print(x)"],
            "outputs": [
                {"output_type": "stream", "name": "stdout", "text": ["1\n"]},
                {
                    "output_type": "display_data",
                    "data": {"image/png": "iVBOR" * 99, "text/plain": ["<Figure>"]},
                },
            ],
        },
        {"cell_type": "code", "source": [f"line{n}\n" for n in range(90)], "outputs": []},
    ]
    file = one(tmp_path, "a.ipynb", json.dumps({"cells": cells, "nbformat": 4, "metadata": {}}, indent=1))
    assert texts(file)[:3] == ["# Study\nOf rain.", "x = 1\nprint(x)", "1\n<Figure>"]
    assert file.derived is not None
    assert [item.scope for item in file.derived.items][1:4] == [
        "code cell 2",
        "output of cell 2",
        "code cell 3",
    ]
    assert file.derived.items[1].heading == "Study"
    assert len(file.derived.items) == 6
    raw = (tmp_path / "a.ipynb").read_bytes()
    assert raw[file.derived.items[1].byte_start : file.derived.items[1].byte_end].startswith(b'"x = 1')


def test_tables_name_their_columns(tmp_path: Path) -> None:
    file = one(tmp_path, "a.csv", '\ufeffcity,"pop, k",note\r\nOslo,700,"a ""b""\nc"\r\nBergen,290,\r\n')
    assert texts(file) == ['city: Oslo; pop, k: 700; note: a "b" c', "city: Bergen; pop, k: 290"]
    assert file.derived is not None
    assert [(item.line_start, item.line_end) for item in file.derived.items] == [(2, 3), (4, 4)]
    assert texts(one(tmp_path, "b.tsv", "a\tb\n1\t2\n")) == ["a: 1; b: 2"]
    assert one(tmp_path, "c.csv", "just some text\nwithout columns\n").derived is None


def test_mail_and_mbox(tmp_path: Path) -> None:
    page = base64.b64encode(b"<html><body><p>The key is in the <b>green</b> box.</p></body></html>").decode()
    eml = (
        "From: Ada <ada@example.org>\nTo: Bo <bo@example.org>\nDate: Fri, 01 Mar 2024 10:00:00 +0100\n"
        "Subject: =?utf-8?q?Re=3A_Schl=C3=BCssel?=\nMessage-ID: <m1@example.org>\nMIME-Version: 1.0\n"
        'Content-Type: multipart/mixed; boundary="b"\n\n--b\nContent-Type: text/html; charset=utf-8\n'
        f"Content-Transfer-Encoding: base64\n\n{page}\n--b\nContent-Type: image/png\n"
        "Content-Disposition: attachment; filename=x.png\nContent-Transfer-Encoding: base64\n\niVBOR\n"
        "--b--\n"
    )
    file = one(tmp_path, "a.eml", eml)
    assert file.derived is not None
    (item,) = file.derived.items
    assert (item.record_id, item.scope, item.speaker, item.timestamp) == (
        "m1@example.org", "Schlüssel", "Ada", "2024-03-01T09:00:00Z",
    )  # fmt: skip
    assert "The key is in the green box." in item.text
    assert file.derived.notes == ("attachments are left out (1)",)
    plain = "From: C <c@x>\nSubject: Hello\n\nFrom here on it is text.\n\nBye\n"
    box = "".join(f"From c@x Fri Mar  1 10:00:0{n} 2024\n{plain}\n" for n in range(3))
    many = one(tmp_path, "all.mbox", box)
    assert many.kind is FileKind.RECORDS
    assert len(texts(many)) == 3
    assert many.derived is not None
    raw = (tmp_path / "all.mbox").read_bytes()
    assert all(raw[item.byte_start :].startswith(b"From: C") for item in many.derived.items)


@pytest.mark.parametrize(
    ("suffix", "pack"),
    [
        ("gz", gzip.compress),
        ("gz", lambda data: gzip.compress(data[:1000]) + gzip.compress(data[1000:])),
        ("xz", lzma.compress),
        ("bz2", bz2.compress),
        ("zst", zstandard.ZstdCompressor().compress),
    ],
)
def test_compressed_logs(tmp_path: Path, suffix: str, pack: object) -> None:
    assert callable(pack)
    file = one(tmp_path, f"app.log.{suffix}", pack(LOG.encode()))
    assert (file.kind, file.language) == (FileKind.LOG, "log")
    assert "\n".join(texts(file)) == LOG.rstrip("\n")


@pytest.mark.req("B8")
@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("bomb.log.gz", gzip.compress(b"A" * 3_000_000)),
        ("bomb.log.xz", lzma.compress(b"A" * 3_000_000)),
        ("bomb.log.bz2", bz2.compress(b"A" * 3_000_000)),
        ("bomb.log.zst", zstandard.ZstdCompressor().compress(b"A" * 3_000_000)),
        ("bomb.docx", docx(paragraph("A" * 3_000_000))),
    ],
)
def test_bombs_are_bounded(tmp_path: Path, name: str, data: bytes) -> None:
    write(tmp_path, **{name: data, "b.md": "x\n"})
    assert left_out(find(tmp_path, caps=Caps(max_extracted_bytes=1_000_000))) == {name: "extraction_limit"}


@pytest.mark.req("B8")
def test_damaged_and_packed_archives_are_left_out(tmp_path: Path) -> None:
    entity = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>'
    write(
        tmp_path,
        **{
            "cut.log.gz": gzip.compress(LOG.encode())[:-40],
            "bin.gz": gzip.compress(bytes(range(256)) * 40),
            "entities.docx": docx(paragraph("&b;"), entity),
            "nozip.docx": b"PK\x03\x04" + b"\0" * 400,
            "b.md": "x\n",
        },
    )
    assert left_out(find(tmp_path)) == {
        "cut.log.gz": "binary",
        "bin.gz": "binary",
        "entities.docx": "malformed",
        "nozip.docx": "malformed",
    }
    assert "damaged" in failure(tmp_path / "nozip.docx", type="file").message


def test_an_unknown_extractor_is_an_error() -> None:
    with pytest.raises(KeyError):
        extract("records", "0", b"[]")
    with pytest.raises(KeyError):
        extract("nothing", "1", b"[]")


def test_a_pdf_table_written_by_columns_keeps_its_rows(tmp_path: Path) -> None:
    rows = [
        ("Region", "Quarter", "Revenue"),
        ("North", "Q1", "4,100"),
        ("South", "Q1", "3,970"),
        ("West", "Q2", "5,250"),
    ]
    cells = [(72 + 150 * n, 720 - 18 * r, row[n]) for n in range(3) for r, row in enumerate(rows)]
    shown = " ".join(f"1 0 0 1 {x} {y} Tm ({text}) Tj" for x, y, text in cells)
    # the builder's one line is closed and the cells are placed instead
    data = pdf([f") Tj {shown} ("])
    file = one(tmp_path, "table.pdf", data)
    assert file.derived is not None
    assert "South | Q1 | 3,970" in file.derived.items[0].text
