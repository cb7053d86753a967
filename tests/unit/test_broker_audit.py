"""The audit log: whatever is changed, inserted or removed shows."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from agentloop.clock import SystemClock
from broker.jobs.audit import Auditor, load_key, verify_home
from broker.jobs.database import opened
from broker.jobs.store import Store
from tests.fakes.broker_parts import PLENTY, job


async def filled(home: Path) -> None:
    clock = SystemClock()
    async with opened(home / "broker.db", 1000) as database:
        store = Store(database, clock, Auditor(load_key(home), clock))
        for _ in range(3):
            await store.insert(job(), PLENTY)
        await store.audit("local", "p", "deny", {"code": "POLICY_DENIED"})


async def test_an_untouched_log_is_intact(tmp_path: Path) -> None:
    await filled(tmp_path)
    report = verify_home(tmp_path)
    assert report.intact
    assert report.entries == 4
    assert (tmp_path / "audit.key").stat().st_mode & 0o77 == 0


@pytest.mark.parametrize(
    ("sql", "where"),
    [
        ("UPDATE audit SET principal = 'other' WHERE seq = 2", 2),
        ("UPDATE audit SET detail = '{}' WHERE seq = 4", 4),
        ("UPDATE audit SET at = at + 1 WHERE seq = 1", 1),
        ("DELETE FROM audit WHERE seq = 2", 2),
        ("DELETE FROM audit WHERE seq = 4", 4),
        ("UPDATE audit SET hash = previous WHERE seq = 3", 3),
    ],
)
async def test_every_change_shows_where_it_is(tmp_path: Path, sql: str, where: int) -> None:
    await filled(tmp_path)
    db = sqlite3.connect(tmp_path / "broker.db")
    assert db.execute(sql).rowcount == 1
    db.commit()
    db.close()
    report = verify_home(tmp_path)
    assert not report.intact
    assert report.broken_at == where
