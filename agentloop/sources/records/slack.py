"""Slack exports: a folder a channel with a file a day, and `users.json` beside them that tells who is who."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agentloop.items import Group, PackedItems
from agentloop.sources.archives.members import member_bytes
from agentloop.sources.records.fields import name_of
from agentloop.types import FileKind, SourceFile

USERS = "users.json"
MAX_USERS = 64 << 20  # bytes unpacked to come to the list
_DAY = re.compile(r"\d{4}-\d\d-\d\d\.json")
_ID = re.compile(r"[UWB][A-Z0-9]{1,20}")


def with_names(files: Sequence[SourceFile]) -> list[SourceFile]:
    """The files of one input; in Slack exports, messages with the names of speakers and channels.

    Texts and spans stay what they are: names only stand beside them.
    """
    lists = (file for file in files if _name(file.path) == USERS)
    users = {_folder(file.path): names for file in lists if (names := _users(file))}
    return [_named(file, users) for file in files] if users else list(files)


def _named(file: SourceFile, users: Mapping[str, Mapping[str, str]]) -> SourceFile:
    channel = _folder(file.path)
    names = users.get(_folder(channel)) if channel else None
    derived = file.derived
    is_day = names is not None and file.kind is FileKind.RECORDS and _DAY.fullmatch(_name(file.path))
    if not is_day or names is None or derived is None or not isinstance(derived.items, PackedItems):
        return file
    known = names

    def told(group: Group) -> Group:
        scope, speaker, page, heading = group
        return scope or _name(channel), known.get(speaker, speaker), page, heading

    return replace(file, derived=replace(derived, items=derived.items.regrouped(told)))


def _users(file: SourceFile) -> dict[str, str]:
    """Names by user id; empty where it is no list of Slack's users."""
    try:
        data = file.content.read(0, file.content.size)
        listed: Any = json.loads(member_bytes(data, file.member, MAX_USERS) if file.archive else data)
    except (KeyError, ValueError, RecursionError):
        return {}
    found: dict[str, str] = {}
    for user in listed if isinstance(listed, list) else []:
        identity = user.get("id") if isinstance(user, dict) else None
        if isinstance(identity, str) and _ID.fullmatch(identity):
            name = name_of(user.get("profile")) or name_of({k: v for k, v in user.items() if k != "id"})
            if name:
                found[identity] = name
    return found


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _name(path: str) -> str:
    return path.rpartition("/")[2]
