"""The SQLite file: opening with care, migrations, one writer with group commit, readers beside it.

The one module that imports SQLite. Every write runs inside `BEGIN IMMEDIATE`; writes that wait
together share one commit, each in a savepoint of its own, so that one fsync serves many submits.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib.resources
import re
import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeVar

import aiosqlite

from broker.errors import BrokerCode, BrokerError

T = TypeVar("T")
Connection = sqlite3.Connection
Row = sqlite3.Row

MAX_BATCH = 256  # writes in one commit: bounds what one failed commit refuses
READERS = 2
_NAMED = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


class StoreError(Exception):
    """The database can't be used as it is; the message names the file and what to do."""


def load_queries() -> dict[str, str]:
    """The statements of `sql/queries.sql` by name."""
    text = importlib.resources.files("broker.jobs").joinpath("sql/queries.sql").read_text("utf-8")
    parts = _NAMED.split(text)[1:]
    return {name: sql.strip().rstrip(";") for name, sql in zip(parts[::2], parts[1::2], strict=True)}


def migrations() -> list[str]:
    """The migration scripts; the n-th takes a database from version n-1 to n."""
    folder = importlib.resources.files("broker.jobs").joinpath("sql/migrations")
    return [entry.read_text("utf-8") for entry in sorted(folder.iterdir(), key=lambda entry: entry.name)]


def _refusal(exc: sqlite3.Error) -> BrokerError:
    """How a caller is told of a failed write."""
    code = getattr(exc, "sqlite_errorcode", 0) & 0xFF
    if code in {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}:
        return BrokerError(
            BrokerCode.STORAGE_FULL,
            "The broker's disk is full or can't be written; nothing was stored. Make room and try again.",
            retry_after=30,
        )
    if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return BrokerError(
            BrokerCode.STORE_BUSY,
            "Another process holds the broker's database; nothing was stored. Try again.",
            retry_after=1,
        )
    return BrokerError(BrokerCode.INTERNAL, "The broker's database refused a write.")


def check(path: Path) -> int:
    """The schema version of a database file, which is only read; 0 when there is none.

    Raises:
        StoreError: it is no database, damaged, or of a newer release.
    """
    if not path.exists() or path.stat().st_size == 0:
        return 0
    with path.open("rb") as file:
        if file.read(16) != b"SQLite format 3\0":
            raise StoreError(f"{path} is not a broker database; it was left as it is. Restore a backup.")
    try:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            version = int(db.execute("PRAGMA user_version").fetchone()[0])
            if version > len(migrations()):
                raise StoreError(
                    f"{path} has schema {version}, made by a newer release than this one, which knows "
                    f"{len(migrations())}; it was left as it is. Start the newer release."
                )
            found = db.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.DatabaseError as exc:
        if getattr(exc, "sqlite_errorcode", 0) & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
            raise StoreError(f"{path} is locked by another process; stop it and start again.") from exc
        raise StoreError(f"{path} is damaged ({exc}); it was left as it is. Restore a backup.") from exc
    if found != "ok":
        raise StoreError(f"{path} is damaged ({found}); it was left as it is. Restore a backup.")
    return version


def migrate(path: Path) -> None:
    """Bring a database to this release's schema, each step in one transaction; an old one is copied first.

    Raises:
        StoreError: see `check`; or a step failed, and the database is as before that step.
    """
    version, steps = check(path), migrations()
    if version == len(steps):
        return
    try:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
            if version:
                copy = path.with_name(f"{path.name}.v{version}.bak")
                copy.unlink(missing_ok=True)
                db.execute("VACUUM INTO ?", (str(copy),))
            db.execute("PRAGMA journal_mode=WAL")
            for number, script in enumerate(steps[version:], version + 1):
                db.executescript(f"BEGIN IMMEDIATE;\n{script}\nPRAGMA user_version={number};\nCOMMIT;")
    except sqlite3.Error as exc:
        raise StoreError(f"{path} could not be brought to schema {len(steps)}: {exc}") from exc


def _commit(db: Connection, works: list[Callable[[Connection], Any]]) -> list[Any]:
    """Run works in one transaction. A work that raises is undone alone and its exception returned."""
    outcomes: list[Any] = []
    db.execute("BEGIN IMMEDIATE")
    try:
        for work in works:
            db.execute("SAVEPOINT work")
            try:
                outcomes.append(work(db))
            except Exception as exc:
                if not db.in_transaction:  # SQLite gave the whole transaction up: disk full, I/O error
                    raise
                db.execute("ROLLBACK TO work")
                outcomes.append(_refusal(exc) if isinstance(exc, sqlite3.Error) else exc)
            db.execute("RELEASE work")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    return outcomes


class Database:
    """One writer and a few readers on one file. Use `open`."""

    def __init__(self, writer: aiosqlite.Connection, readers: list[aiosqlite.Connection]) -> None:
        self._writer = writer
        self._readers = readers
        self._turn = 0
        self._pending: asyncio.Queue[tuple[Callable[[Connection], Any], asyncio.Future[Any]]] = (
            asyncio.Queue()
        )
        self._task = asyncio.create_task(self._write_forever(), name="database-writer")

    @classmethod
    async def open(cls, path: Path, busy_timeout_ms: int) -> Database:
        """Check, migrate and open.

        Raises:
            StoreError: the file can't be used; it is untouched.
        """
        await asyncio.to_thread(migrate, path)
        opened: list[aiosqlite.Connection] = []
        for number in range(1 + READERS):
            connection = await aiosqlite.connect(path, isolation_level=None)
            connection.row_factory = sqlite3.Row
            await connection.execute(f"PRAGMA busy_timeout={busy_timeout_ms:d}")
            await connection.execute("PRAGMA foreign_keys=ON")
            # FULL: a commit is on the disk before the 202 is sent, also through a power cut.
            await connection.execute("PRAGMA synchronous=FULL")
            if number:
                await connection.execute("PRAGMA query_only=ON")
            opened.append(connection)
        return cls(opened[0], opened[1:])

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in a transaction; it is committed when this returns.

        Cancelling the caller doesn't touch the transaction: it is committed whole or absent.

        Raises:
            BrokerError: STORAGE_FULL, STORE_BUSY; nothing was stored.
            Exception: whatever `work` raises; what it did is undone.
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._pending.put_nowait((work, future))
        return await future

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run `work`, which only reads, on a connection of its own.

        Raises:
            BrokerError: STORE_BUSY.
        """
        self._turn = (self._turn + 1) % len(self._readers)
        try:
            return await _on_thread(self._readers[self._turn], work)
        except sqlite3.OperationalError as exc:
            raise _refusal(exc) from exc

    async def _write_forever(self) -> None:
        while True:
            batch = [await self._pending.get()]
            while len(batch) < MAX_BATCH and not self._pending.empty():
                batch.append(self._pending.get_nowait())
            works = [work for work, _ in batch]
            try:
                outcomes = await _on_thread(self._writer, functools.partial(_commit, works=works))
            except sqlite3.Error as exc:
                outcomes = [_refusal(exc)] * len(batch)
            for (_, future), outcome in zip(batch, outcomes, strict=True):
                if future.done():  # its caller went away
                    continue
                if isinstance(outcome, Exception):
                    future.set_exception(outcome)
                else:
                    future.set_result(outcome)

    async def close(self) -> None:
        """Finish what waits, then close all connections."""
        await self.write(lambda db: None)  # the queue is in order: all before it is committed
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        for connection in [*self._readers, self._writer]:
            await connection.close()


async def _on_thread(connection: aiosqlite.Connection, work: Callable[[Connection], T]) -> T:
    """Run a function on a connection's thread: one hop for a whole transaction, not one a statement."""
    raw = connection._conn
    outcome: T = await connection._execute(work, raw)  # type: ignore[no-untyped-call]
    return outcome


@contextlib.asynccontextmanager
async def opened(path: Path, busy_timeout_ms: int) -> AsyncIterator[Database]:
    """`Database.open` that closes."""
    database = await Database.open(path, busy_timeout_ms)
    try:
        yield database
    finally:
        await database.close()


def read_only(path: Path, work: Callable[[Connection], T]) -> T:
    """Run `work` on a database that may be in use, without writing to it.

    Raises:
        StoreError: there is none, or it can't be read.
    """
    try:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            db.row_factory = sqlite3.Row
            return work(db)
    except sqlite3.Error as exc:
        raise StoreError(f"{path} can't be read: {exc}") from exc
