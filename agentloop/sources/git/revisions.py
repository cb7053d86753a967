"""Names of commits: what `changed_since` may hold, resolved from files only."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from agentloop.errors import AgentloopError, ErrorCode, Stage
from agentloop.sources.git.meta import MAX_META_BYTES, head_commit, read_below, resolve
from agentloop.sources.git.store import GitStore

_OID = re.compile(r"[0-9a-f]{4,40}")
_NAME = re.compile(r"[A-Za-z0-9_][\w./@+-]*")
_STEPS = re.compile(r"(.+?)((?:~\d*|\^)+)")
_AGE = re.compile(r"(\d{1,5})\s*(minute|min|hour|h|day|d|week|w|month|year|y)s?(?:\s+ago)?", re.IGNORECASE)
_HOURS = {"minute": 1 / 60, "min": 1 / 60, "hour": 1, "h": 1, "day": 24, "d": 24, "week": 168, "w": 168,
          "month": 730, "year": 8766, "y": 8766}  # fmt: skip
_MAX_STEPS = 10_000
_MAX_CHARS = 300


def _refuse(value: str, why: str) -> AgentloopError:
    return AgentloopError(
        ErrorCode.REQUEST_INVALID,
        f"task_params.changed_since: {why}. Give a date (2026-11-30), an age (`3 days`), a branch, a tag, a "
        "commit id or `HEAD~5`.",
        Stage.DISCOVERY,
        {"field": "task_params.changed_since", "value": ascii(value[:80])[1:-1]},
    )


def since_time(value: str, now: datetime) -> int | None:
    """Seconds since 1970 for a date or an age, None where `value` names a commit."""
    value = value.strip()
    age = _AGE.fullmatch(value)
    if age:
        return int((now - timedelta(hours=int(age[1]) * _HOURS[age[2].lower()])).timestamp())
    if not re.match(r"\d{4}-\d\d-\d\d", value):
        return None
    try:
        when = datetime.fromisoformat(value)
    except ValueError:
        return None
    return int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp())


def resolve_commit(store: GitStore, value: str) -> str:
    """The id of the commit that a branch, tag, id, or `NAME~n` stands for.

    Empty where `~n` goes back past the first commit: then all of the history came since.

    Raises:
        AgentloopError: REQUEST_INVALID; the name is unknown or has a form that git might take for an option.
    """
    value = value.strip()
    if len(value) > _MAX_CHARS:
        raise _refuse(value, "it is no name of a commit")
    steps = _STEPS.fullmatch(value)
    name, walk = (steps[1], steps[2]) if steps else (value, "")
    if not _NAME.fullmatch(name) or ".." in name or "@{" in name:
        raise _refuse(value, "it is no name of a commit")
    oid = _named(store, name)
    if not oid:
        raise _refuse(value, "the repository has no such commit")
    try:
        oid = store.commit(oid).oid
        for _ in range(_count(walk)):
            parents = store.commit(oid).parents
            if not parents and oid not in store.shallow:
                return ""
            oid = parents[0]
    except (KeyError, IndexError):
        raise _refuse(
            value, "the repository doesn't hold that commit (a shallow or partial clone?)"
        ) from None
    return oid


def _count(walk: str) -> int:
    total = sum(int(step or 1) for step in re.findall(r"~(\d*)", walk)) + walk.count("^")
    return min(total, _MAX_STEPS)


def _named(store: GitStore, name: str) -> str:
    if name in ("HEAD", "@"):
        return head_commit(store.root_fd, store.git)
    for prefix in ("refs/heads/", "refs/tags/", "refs/remotes/", "refs/", ""):
        full = prefix + name
        if full.startswith("refs/"):
            oid = resolve(store.root_fd, store.git, "ref: " + full)
            if oid:
                return oid
    if _OID.fullmatch(name):
        return name if len(name) == 40 else _abbreviated(store, name)
    for special in ("ORIG_HEAD", "FETCH_HEAD", "MERGE_HEAD"):
        if name == special:
            data = read_below(store.root_fd, f"{store.git.own}/{special}", MAX_META_BYTES) or b""
            return data[:40].decode("ascii", "replace")
    return ""


def _abbreviated(store: GitStore, start: str) -> str:
    found = store.with_prefix(start)
    return found.pop() if len(found) == 1 else ""
