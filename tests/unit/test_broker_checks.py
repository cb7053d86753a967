"""What the doctor says of the broker."""

from __future__ import annotations

import socket
from pathlib import Path

from broker.checks import Finding, findings
from broker.config import load


def told(tmp_path: Path, **environ: str) -> dict[str, Finding]:
    settings = load({"BROKER_HOME": str(tmp_path / "home"), **environ})
    return {finding.name: finding for finding in findings(settings)}


def test_a_sound_setup_is_well(tmp_path: Path) -> None:
    found = told(tmp_path, BROKER_ALLOWED_ROOTS=str(tmp_path), BROKER_LISTEN="127.0.0.1:0")
    assert all(finding.ok for finding in found.values()), found
    assert not (tmp_path / "home").exists()


def test_each_trouble_is_named_with_what_to_do(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    home.chmod(0o755)
    (home / "broker.db").write_bytes(b"no database" * 100)
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        address = f"127.0.0.1:{held.getsockname()[1]}"
        found = told(tmp_path, BROKER_ALLOWED_ROOTS="/nowhere/at/all", BROKER_LISTEN=address)
    for name in ("BROKER_ALLOWED_ROOTS", "privacy of BROKER_HOME", "database", "address"):
        assert not found[name].ok, name
        assert found[name].mend
    assert "/nowhere/at/all" in found["BROKER_ALLOWED_ROOTS"].found


def test_no_roots_at_all_is_told(tmp_path: Path) -> None:
    assert not told(tmp_path)["BROKER_ALLOWED_ROOTS"].ok
