"""The official conformance suite against our HTTP transport, for both requirement sets.

It needs the suite and its Node: `npm install --prefix DIR` with `package.json` beside this file in DIR, and
`AGENTLOOP_CONFORMANCE=DIR`. CI does so; elsewhere the tests are skipped.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SUITE = Path(os.environ.get("AGENTLOOP_CONFORMANCE", "")) / "node_modules"
NODE = SUITE / "node" / "bin" / "node"
SCRIPT = SUITE / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
SECONDS = 110  # for one requirement set; it takes 10 to 20 on two busy cores

pytestmark = [
    pytest.mark.skipif(
        not (os.environ.get("AGENTLOOP_CONFORMANCE") and NODE.exists() and SCRIPT.exists()),
        reason="the conformance suite is not installed: set AGENTLOOP_CONFORMANCE (see docs/mcp.md)",
    ),
    pytest.mark.timeout(SECONDS + 60),
]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The fixture server, in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.conformance.fixture_server"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=HERE.parents[1],
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait(timeout=30)
        process.stdout.close()


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_requirements(url: str, revision: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(str(NODE), str(SCRIPT), "server", "--url", url, "--requirements", revision),
            *("--expected-failures", str(HERE / f"expected-{revision}.yml"), "-o", str(tmp_path)),
        ],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert "=== SUMMARY ===" in done.stdout, done.stdout[-2000:] + done.stderr[-2000:]
    assert done.returncode == 0, done.stdout[done.stdout.index("=== SUMMARY ===") :]
