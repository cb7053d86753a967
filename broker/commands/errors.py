"""Errors on a command line: readable on a terminal, the specification's JSON elsewhere; exit statuses."""

from __future__ import annotations

import json
import sys

from agentloop.errors import AgentloopError, ErrorCode
from broker.commands import EXIT_INPUT, EXIT_NO_PACK, EXIT_USAGE

STATUS = {
    ErrorCode.REQUEST_INVALID: EXIT_USAGE,
    ErrorCode.INPUT_DISCOVERY_FAILED: EXIT_INPUT,
    ErrorCode.INPUT_HASH_MISMATCH: EXIT_INPUT,
}


def report(error: AgentloopError, *, readable: bool) -> int:
    """Print an error to stderr and return its exit status."""
    from agentloop.redact import Redactor, neutralise, one_line

    if readable:
        print(f"agentloop: {one_line(Redactor().mask(error.message))} [{error.code}]", file=sys.stderr)
    else:
        print(
            neutralise(json.dumps(Redactor().mask_json(error.to_json()), ensure_ascii=True)), file=sys.stderr
        )
    return STATUS.get(error.code, EXIT_NO_PACK)
