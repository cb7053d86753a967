"""Slack exports: speakers by `users.json`, channels by folder, as a folder and as a zip."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from agentloop.sources import extract
from agentloop.types import Corpus, Item
from tests.source_case import find, write

USERS: list[Any] = [
    {"id": "U1", "name": "ada", "profile": {"real_name": "Ada Nowak", "display_name": ""}},
    {"id": "U2", "name": "bo"},
    {"id": 7, "name": "no user"},
    "oddity",
]
DAY = [
    {"type": "message", "user": "U1", "text": "the deploy of hall seven is done", "ts": "1700000000.000100"},
    {"type": "message", "user": "U2", "text": "thanks <@U1>, we start at noon", "ts": "1700000060.000100"},
    {"type": "message", "user": "U9", "text": "who is on call this week", "ts": "1700000120.000100"},
]
FILES = {
    "users.json": json.dumps(USERS),
    "channels.json": json.dumps([{"id": "C1", "name": "ops"}]),
    "ops/2023-11-14.json": json.dumps(DAY, indent=1),
    "ops/extra/2023-11-14.json": json.dumps(DAY),
}


def messages(corpus: Corpus, end: str) -> tuple[Item, ...]:
    (file,) = (file for file in corpus.files if file.path.endswith(end))
    assert file.derived is not None
    return tuple(file.derived.items)


@pytest.mark.parametrize("packed", [False, True])
def test_speakers_and_channels_have_their_names(tmp_path: Path, packed: bool) -> None:
    if packed:
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w") as archive:
            for name, text in FILES.items():
                archive.writestr(name, text)
        write(tmp_path, **{"export.zip": data.getvalue()})
        corpus = find(tmp_path / "export.zip", type="records")
    else:
        write(tmp_path, **FILES)
        corpus = find(tmp_path)
    found = messages(corpus, "ops/2023-11-14.json")
    assert [item.speaker for item in found] == ["Ada Nowak", "bo", "U9"]
    assert {item.scope for item in found} == {"ops"}
    assert found[1].text == "thanks <@U1>, we start at noon"
    assert [item.speaker for item in messages(corpus, "extra/2023-11-14.json")] == ["U1", "U2", "U9"]


def test_names_stand_beside_the_text_and_change_nothing_of_it(tmp_path: Path) -> None:
    write(tmp_path, **FILES)
    (file,) = (file for file in find(tmp_path).files if file.path == "ops/2023-11-14.json")
    assert file.derived is not None
    again = extract("records", file.derived.version, FILES["ops/2023-11-14.json"].encode())
    assert [(i.text, i.byte_start, i.byte_end) for i in again.items] == [
        (i.text, i.byte_start, i.byte_end) for i in file.derived.items
    ]


@pytest.mark.req("D2")
@pytest.mark.parametrize("users", ["[" * 100_000, "{}", "[]", '[{"id": "U1"}]', "null", "\x00"])
def test_a_list_of_users_that_is_none_changes_nothing(tmp_path: Path, users: str) -> None:
    write(tmp_path, **{**FILES, "users.json": users})
    assert [item.speaker for item in messages(find(tmp_path), "ops/2023-11-14.json")] == ["U1", "U2", "U9"]
