"""What the tests of faults share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.source_case import write


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A file that lies beside the input folder `in`."""
    write(tmp_path, **{"outside/secret.md": "CANARY-4711 of the neighbour\n", "in/own.md": "our own text\n"})
    return tmp_path
