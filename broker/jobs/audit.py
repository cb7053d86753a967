"""The audit log: every submit, release, denial and cancel, each entry chained to the one before.

An entry's hash is HMAC-SHA256, under a key of the broker's own, over the previous hash and the entry.
Who can write the database but lacks the key can't change, insert or remove an entry unseen; the number
of entries is kept in `meta`, so that a cut-off tail shows too.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentloop.clock import Clock, SystemClock
from broker.jobs.database import Connection, load_queries, read_only
from broker.jobs.model import Job

_Q = load_queries()
_sorted = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode
_detail = json.JSONEncoder(sort_keys=True, ensure_ascii=True).encode
GENESIS = "0" * 64
KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What a verification found: the number of entries, and where the chain breaks (0: nowhere)."""

    entries: int
    broken_at: int = 0
    reason: str = ""

    @property
    def intact(self) -> bool:
        """Whether no entry was altered, inserted or removed."""
        return not self.reason


def load_key(home: Path) -> bytes:
    """The broker's audit key, made on first use with mode 0600.

    Raises:
        OSError: it can't be read or made.
    """
    path = home / "audit.key"
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return path.read_bytes()
    with os.fdopen(descriptor, "wb") as file:
        key = secrets.token_bytes(KEY_BYTES)
        file.write(key)
        file.flush()
        os.fsync(file.fileno())
    return key


class Auditor:
    """Appends entries inside the caller's transaction."""

    def __init__(self, key: bytes, clock: Clock) -> None:
        self._key = key
        self._clock = clock

    def _hash(self, previous: str, entry: Mapping[str, Any]) -> str:
        text = previous + _sorted(entry)
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()

    def append(
        self, db: Connection, job: Job, action: str, detail: Mapping[str, Any], *, actor: str = ""
    ) -> None:
        """Record what was done to a job; the actor is its principal unless another is named."""
        self.record(db, job.namespace, actor or job.principal, action, detail, job_id=job.job_id)

    def record(
        self,
        db: Connection,
        namespace: str,
        principal: str,
        action: str,
        detail: Mapping[str, Any],
        *,
        job_id: str = "",
    ) -> None:
        """Record an action. `detail` holds codes, hashes and counts, never input text or tokens."""
        last = db.execute(_Q["last_audit"]).fetchone()
        seq, previous = (1, GENESIS) if last is None else (last["seq"] + 1, last["hash"])
        entry = {
            "seq": seq,
            "at": self._clock.now().timestamp(),
            "namespace": namespace,
            "principal": principal,
            "action": action,
            "job_id": job_id,
            "detail": _detail(dict(detail)),
        }
        db.execute(_Q["insert_audit"], {**entry, "previous": previous, "hash": self._hash(previous, entry)})
        db.execute(_Q["set_meta"], {"name": "audit_entries", "value": str(seq)})

    def verify(self, db: Connection) -> AuditReport:
        """Recompute the chain."""
        previous, count = GENESIS, 0
        for row in db.execute(_Q["all_audit"]):
            count += 1
            entry = {
                name: row[name]
                for name in ("seq", "at", "namespace", "principal", "action", "job_id", "detail")
            }
            if row["seq"] != count:
                return AuditReport(count, count, "an entry is missing")
            if row["previous"] != previous or not hmac.compare_digest(
                row["hash"], self._hash(previous, entry)
            ):
                return AuditReport(count, count, "an entry was altered")
            previous = row["hash"]
        kept = db.execute(_Q["get_meta"], {"name": "audit_entries"}).fetchone()
        if kept is not None and int(kept["value"]) != count:
            return AuditReport(count, count + 1, "entries were removed from the end")
        return AuditReport(count)


def verify_home(home: Path) -> AuditReport:
    """Verify the audit log of a BROKER_HOME, whether its broker runs or not.

    Raises:
        StoreError: there is no database, or it can't be read. OSError: the key can't be read.
    """
    return read_only(home / "broker.db", Auditor(load_key(home), SystemClock()).verify)
