"""Records and exports: one item a message, with the bytes of its JSON."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from agentloop.budget import Ledger
from agentloop.clock import SystemClock
from agentloop.config import Caps
from agentloop.errors import WarningCode
from agentloop.sources import extract
from agentloop.types import Derived, FileKind, Item, SourceFile
from tests.source_case import failure, find, write


def records(root: Path, data: Any, name: str = "export.json", **options: Any) -> SourceFile:
    """The one file of an input; its spans are checked against its bytes."""
    raw = data if isinstance(data, bytes) else json.dumps(data, ensure_ascii=False).encode()
    write(root, **{name: raw})
    file = find(root / name, **{"type": "records", **options}).files[0]
    if file.derived is not None:
        check_spans(raw, file.derived)
    return file


def check_spans(raw: bytes, derived: Derived) -> None:
    for item in derived.items:
        json.loads(raw[item.byte_start : item.byte_end])
        assert item.line_start == raw.count(b"\n", 0, item.byte_start) + 1
        assert item.line_end == raw.count(b"\n", 0, item.byte_end - 1) + 1
    assert extract(derived.extractor, derived.version, raw) == derived


def items(file: SourceFile) -> tuple[Item, ...]:
    assert file.derived is not None
    assert file.kind is FileKind.RECORDS
    return file.derived.items


def test_a_plain_array(tmp_path: Path) -> None:
    data = [
        {
            "id": 7,
            "text": "2024-01-02 we moved the żółw",
            "author": {"name": "Ada"},
            "created_at": 1700000000,
        },
        {"text": "second", "speaker": "Bo", "timestamp": "2024-01-02T03:04:05Z", "session": "s1"},
        {"note": "nested", "meta": {"tags": ["red one", "blue one"], "size": 3}},
        "a bare string of text",
        None,
        {"id": "empty"},
    ]
    found = items(records(tmp_path, data))
    assert [item.text for item in found] == [
        "2024-01-02 we moved the żółw", "second", "nested\nred one\nblue one\nsize: 3",
        "a bare string of text",
    ]  # fmt: skip
    first, second, third, _ = found
    assert (first.record_id, first.speaker, first.timestamp) == ("7", "Ada", "2023-11-14T22:13:20Z")
    assert (second.record_id, second.speaker, second.scope) == ("2", "Bo", "s1")
    assert third.record_id == "3"


def test_pretty_printed_json_has_the_lines_of_each_record(tmp_path: Path) -> None:
    data = json.dumps([{"text": f"número {n}"} for n in range(50)], indent=2, ensure_ascii=False).encode()
    found = items(records(tmp_path, b"\xef\xbb\xbf" + data))
    assert [item.line_start for item in found[:3]] == [2, 5, 8]
    assert [item.line_end for item in found[:3]] == [4, 7, 10]


def test_json_lines_go_on_behind_what_is_no_json(tmp_path: Path) -> None:
    data = b'{"text":"one"}\n\n{"text": oops\n{"text":"two"}\r\n[1, 2\n{"text":"three"}'
    file = records(tmp_path, data, "a.jsonl")
    assert [(item.text, item.line_start) for item in items(file)] == [("one", 1), ("two", 4), ("three", 6)]
    assert file.derived is not None
    assert file.derived.notes == (
        "2 places are no JSON, the first at line 3; the records there are left out",
    )


def test_a_broken_array_keeps_what_stands_before(tmp_path: Path) -> None:
    found = items(records(tmp_path, b'[{"text":"one"},{"text":"two"},{"text": oops}]'))
    assert [item.text for item in found] == ["one", "two"]


@pytest.mark.req("D2")
@pytest.mark.parametrize(
    "odd",
    [
        "[" * 100_000,
        '{"n": ' + "1" * 5000 + ', "text": "kept"}',
        '{"text": "kept", "text": "kept"}',
        '{"x": NaN, "y": -Infinity, "text": "kept"}',
        '{"text": "kept \\ud800"}',
        '{"text": "kept", "deep": ' + '{"a":' * 400 + '"b"' + "}" * 400 + "}",
    ],
)
def test_odd_json_neither_fails_nor_leaks(tmp_path: Path, odd: str) -> None:
    write(tmp_path, **{"a.jsonl": f'{{"text":"first"}}\n{odd}\n'})
    (tmp_path / "out").mkdir()
    file = find(tmp_path / "a.jsonl", type="records").files[0]
    assert items(file)[0].text == "first"
    for item in items(file):
        item.text.encode()
        assert "kept" in item.text or item.text == "first"


def test_binary_and_reserved_fields_are_left_out_and_told(tmp_path: Path) -> None:
    data = [
        {
            "text": f"photo {n}",
            "image": "iVBORw0KGgo" * 40,
            "inline": "data:image/png;base64,AAAA",
            "embedding": [0.1] * 64,
            "$schema": "https://example.org/s",
            "_rev": "1-967a00dff5e02add41819138abb3284d",
        }
        for n in range(3)
    ]
    file = records(tmp_path, data)
    assert [item.text for item in items(file)] == ["photo 0", "photo 1", "photo 2"]
    notes = find(tmp_path, type="records").notes
    assert notes == (
        "export.json: binary data is left out (embedding 3, image 3, inline 3).",
        "export.json: reserved fields are left out ($schema, _rev).",
    )


def test_a_set_without_text_fails_with_its_reason(tmp_path: Path) -> None:
    write(tmp_path, **{"photos.json": json.dumps([{"image": "iVBORw0KGgo" * 40}] * 3)})
    error = failure(tmp_path / "photos.json", type="records")
    assert "its records hold binary data only (image 3)" in error.message
    assert error.details["skipped"] == {"binary": 1}


@pytest.mark.parametrize("newest_last", [True, False])
def test_the_cap_keeps_the_newest_and_tells(tmp_path: Path, newest_last: bool) -> None:
    data = [{"text": f"message number {n:03d}", "timestamp": 1700000000 + n} for n in range(100)]
    write(tmp_path, **{"a.json": json.dumps(data if newest_last else data[::-1])})
    ledger = Ledger(SystemClock())
    corpus = find(tmp_path, caps=Caps(max_record_chars=200), ledger=ledger)
    kept = [item.text for item in items(corpus.files[0])]
    assert len(kept) == 11
    assert kept[-1 if newest_last else 0] == "message number 099"
    assert ledger.warnings[0][0] is WarningCode.INPUT_TRUNCATED
    assert "89 of 100 records are left out" in corpus.notes[0]


def conversation(n: int, turns: list[Any], **more: Any) -> dict[str, Any]:
    nodes: dict[str, Any] = {"root": {"id": "root", "message": None, "parent": None, "children": ["n0"]}}
    for k, text in enumerate(turns):
        nodes[f"n{k}"] = {
            "id": f"n{k}",
            "parent": f"n{k - 1}" if k else "root",
            "children": [f"n{k + 1}"] if k + 1 < len(turns) else [],
            "message": {
                "id": f"m{n}-{k}",
                "author": {"role": "user" if k % 2 == 0 else "assistant"},
                "create_time": 1700000000 + k,
                "content": {"content_type": "text", "parts": [text]},
            },
        }
    return {"id": f"c{n}", "title": f"Chat {n}", "create_time": 1700000000, "mapping": nodes, **more}


def test_chatgpt_messages_in_the_order_of_the_chosen_branch(tmp_path: Path) -> None:
    chat = conversation(1, ["How long?", "Nine days.", "And then?"], current_node="n2")
    edited = json.loads(json.dumps(chat["mapping"]["n1"]).replace("m1-1", "alt").replace("Nine", "Ten"))
    chat["mapping"] = {"alt": {**edited, "id": "alt", "children": []}, **chat["mapping"]}
    file = records(tmp_path, [chat, conversation(2, ["Other"])], "conversations.json", type="file")
    assert [item.text for item in items(file)] == ["How long?", "Nine days.", "And then?", "Other"]
    second = items(file)[1]
    assert (second.record_id, second.scope, second.speaker) == ("m1-1", "Chat 1", "assistant")
    assert second.timestamp == "2023-11-14T22:13:21Z"
    assert file.derived is not None
    assert file.derived.notes == ("1 messages of other branches than the chosen one are left out",)


def test_odd_conversations_lose_nothing_else(tmp_path: Path) -> None:
    chats: list[Any] = [conversation(n, [f"question {n}", f"answer {n}"]) for n in range(10)]
    chats[0].pop("create_time")
    chats[1]["mapping"] = None
    chats[2]["mapping"]["n0"] = None
    chats[3]["mapping"]["n0"]["message"]["content"] = {"content_type": "multimodal_text", "parts": [None, ""]}
    pointer = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://x"}
    chats[4]["mapping"]["n0"]["message"]["content"]["parts"] = [pointer, "look at this"]
    chats[5]["mapping"]["n0"]["message"].pop("author")
    chats[6]["mapping"]["n0"]["parent"] = "n1"
    chats[7] = None
    chats[8]["current_node"] = "nowhere"
    chats[8]["mapping"]["n1"]["children"] = [["odd"], None]
    found = items(records(tmp_path, chats))
    told = [item.text for item in found]
    for n in (0, 5, 6, 8, 9):
        assert told.count(f"question {n}") == told.count(f"answer {n}") == 1
    assert {"answer 2", "answer 3", "look at this", "answer 4"} <= set(told)


def test_claude_slack_discord_and_telegram_shapes(tmp_path: Path) -> None:
    claude = [
        {
            "uuid": "u1",
            "name": "Trip",
            "created_at": "2024-01-01T00:00:00.123456Z",
            "chat_messages": [
                {
                    "uuid": "m1",
                    "text": "Where to go?",
                    "sender": "human",
                    "created_at": "2024-01-01T00:00:01Z",
                },
                {"uuid": "m2", "content": [{"type": "text", "text": "To Oslo."}], "sender": "assistant"},
            ],
        }
    ]
    found = items(records(tmp_path, claude, type="file"))
    assert [(i.text, i.record_id, i.scope, i.speaker) for i in found] == [
        ("Where to go?", "m1", "Trip", "human"), ("To Oslo.", "m2", "Trip", "assistant"),
    ]  # fmt: skip
    slack = [{"type": "message", "user": "U1", "text": "the deploy is done", "ts": "1700000000.000100"}] * 2
    first = items(records(tmp_path, slack, "2024-01-01.json", type="file"))[0]
    assert (first.speaker, first.timestamp) == ("U1", "2023-11-14T22:13:20Z")
    author = {"id": "5", "nickname": "Bo"}
    greeting = {
        "id": "9",
        "content": "hello to all of you",
        "author": author,
        "timestamp": "2024-01-01T00:00:00Z",
    }
    discord = {"guild": {"name": "G"}, "channel": {"name": "general"}, "messages": [greeting]}
    (message,) = items(records(tmp_path, discord, type="file"))
    assert (message.record_id, message.scope, message.speaker) == ("9", "general", "Bo")
    family = {"name": "Family", "messages": [{"id": 1, "text": "see you at nine", "from": "Mum"}]}
    telegram = {"chats": {"list": [family]}}
    (message,) = items(records(tmp_path, telegram, type="file"))
    assert (message.text, message.scope, message.speaker) == ("see you at nine", "Family", "Mum")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        (
            "package.json",
            {"name": "x", "description": "a text with words", "scripts": {"test": "run the tests"}},
        ),
        ("tsconfig.json", {"compilerOptions": {"target": "es2020"}, "files": ["a.ts"]}),
        (
            "fixtures.json",
            [{"pk": n, "model": "a.b", "fields": {"title": "some title here"}} for n in range(9)],
        ),
        ("cities.json", [{"city": "Oslo", "lat": 1.5}] * 5),
        ("numbers.json", [1, 2, 3]),
        ("tests/data.json", [{"text": "a text with words"}] * 5),
        ("broken.json", b'{"text": '),
    ],
)
def test_configuration_and_data_stay_data(tmp_path: Path, name: str, data: Any) -> None:
    write(tmp_path, **{name: data if isinstance(data, bytes) else json.dumps(data)})
    file = find(tmp_path).files[0]
    assert (file.kind, file.derived) == (FileKind.DATA, None)


def test_a_set_of_records_is_recognised_without_a_hint(tmp_path: Path) -> None:
    write(tmp_path, **{"c.jsonl": '{"id":"a","text":"some words here"}\n{"id":"b","text":"and some more"}\n'})
    assert [item.record_id for item in items(find(tmp_path).files[0])] == ["a", "b"]
    data = b'[{"body": "a text from a pipe"}]'
    assert items(find("-", type="stdin", stdin=data).files[0])[0].text == "a text from a pipe"


def test_a_large_export_is_read_where_it_lies(tmp_path: Path) -> None:
    chats = [
        conversation(n, [f"question {n} " + "word é " * 200, "short"], current_node="n1") for n in range(150)
    ]
    file = records(tmp_path, chats, type="file", caps=Caps(max_file_bytes=50_000))
    assert len(items(file)) == 300
    assert items(file)[-2].text.startswith("question 149")


def test_an_element_larger_than_a_window(tmp_path: Path) -> None:
    data = [
        {"text": "a" * 10 + " é" * 900_000},
        {"n": 12345678901234567890, "text": "next"},
        {"text": "last"},
    ]
    found = items(records(tmp_path, data))
    assert [len(item.text) for item in found] == [10 + 1_800_000, len("next\nn: 12345678901234567890"), 4]


def test_a_record_of_many_lines_is_named_by_its_first(tmp_path: Path) -> None:
    data = [{"text": f"message {n}", "metadata": {f"k{k}": k for k in range(200)}} for n in range(3)]
    write(tmp_path, **{"a.json": json.dumps(data, indent=1)})
    found = items(find(tmp_path / "a.json", type="records").files[0])
    raw = (tmp_path / "a.json").read_bytes()
    assert [item.text.split("\n")[0] for item in found] == ["message 0", "message 1", "message 2"]
    for n, item in enumerate(found):
        assert item.line_end - item.line_start < 80
        assert f"message {n}".encode() in raw[item.byte_start : item.byte_end]
        assert item.line_end == raw.count(b"\n", 0, item.byte_end - 1) + 1
    assert all(one.byte_end <= two.byte_start for one, two in pairwise(found))
