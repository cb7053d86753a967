"""A rehearsal: the zygote answers one small question of each task before it forks any worker.

What a first answer costs beside its work (modules imported where they are used, regular expressions and
schemas compiled, detectors made) is then in memory that all workers share, and no job pays for it.
"""

from __future__ import annotations

import logging
import signal
import sys
import tempfile
from pathlib import Path

from agentloop.api import compress_sync, make_request
from agentloop.request import TaskType

log = logging.getLogger("broker.rehearsal")

FILES = {
    "shop/cart.py": '''"""A cart of a shop."""

import decimal


class Cart:
    """What somebody is about to buy."""

    def total(self, rates):
        """Sum of the prices with tax."""
        return sum(item.price * rates[item.kind] for item in self.items)


def checkout(cart, key="AKIA0000000000000000"):
    return cart.total({"book": decimal.Decimal("1.07")})
''',
    "README.md": "# Shop\n\nA cart sums prices with tax. See `checkout()`.\n\n## Use\n\nRun it.\n",
    "test.log": """2026-07-01T13:00:00Z INFO collecting
2026-07-01T13:00:01Z ERROR Traceback (most recent call last):
  File "shop/cart.py", line 12, in total
    return sum(item.price * rates[item.kind] for item in self.items)
KeyError: 'toy'
FAILED tests/test_cart.py::test_total - KeyError: 'toy'
""",
}
TASKS = (TaskType.RAG_COMPRESS, TaskType.DEBUG, TaskType.SUMMARIZE_LOGS, TaskType.INSPECT_REPO)
QUESTION = "Why does Cart.total() fail with a KeyError, and what is the total of checkout?"


def rehearse() -> None:
    """Answer the question once a task, over a folder that is gone afterwards. A failure is no failure.

    Raises:
        SystemExit: SIGTERM came meanwhile; the folder is gone then too.
    """
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    try:
        with tempfile.TemporaryDirectory(prefix="agentloop-") as name:
            folder = Path(name)
            for path, text in FILES.items():
                file = folder / path
                file.parent.mkdir(exist_ok=True)
                file.write_text(text)
            for task in TASKS:
                compress_sync(make_request(QUESTION, [folder], task=task))
    except Exception:  # a process boundary: whatever it is, the job that meets it reports it
        log.warning("the rehearsal failed; workers start cold", exc_info=True)
    finally:
        signal.signal(signal.SIGTERM, before)
