"""`agentloop eval gate results.json thresholds.toml`: an exit status for CI.

A threshold file has a table a set and rung; a value is the least mean that passes, or a table with
`min` and `max`:

    [musique.agentic]
    "all_gold@10" = 0.38
    seconds = { max = 2.0 }

`could_not_score = { max = 0 }` bounds the questions that have no score.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentloop.reasons import unreadable


class GateError(Exception):
    """Files that can't be used; the message names the file and the place."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One threshold: what was measured, what was wanted, and whether it holds."""

    name: str
    measured: float | None
    wanted: str
    passed: bool


def gate(results_file: Path, thresholds_file: Path) -> list[Verdict]:
    """All thresholds in order. A figure that is missing does not pass.

    Raises:
        GateError: a file can't be read, or a threshold has no known form.
    """
    try:
        at = results_file
        results = json.loads(results_file.read_text(encoding="utf-8"))
        at = thresholds_file
        thresholds = tomllib.loads(thresholds_file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        raise GateError(f"{at}: {unreadable(exc)}.") from None
    verdicts = []
    for set_name, rungs in thresholds.items():
        for rung, wanted in _table(rungs, set_name).items():
            for metric, bound in _table(wanted, f"{set_name}.{rung}").items():
                where = f"{set_name}.{rung}.{metric}"
                verdicts.append(_verdict(where, _measured(results, set_name, rung, metric), bound))
    if not verdicts:
        raise GateError(f"{thresholds_file}: no thresholds.")
    return verdicts


def _table(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise GateError(f"thresholds: {where} must be a table [SET.RUNG].")
    return value


def _measured(results: Any, set_name: str, rung: str, metric: str) -> float | None:
    try:
        found = results["sets"][set_name]["rungs"][rung]
        if metric == "could_not_score":
            return float(len(found["could_not_score"]))
        if metric in {"ece", "brier", "first_item_right"}:
            return float(found["calibration"][metric])
        return float(found["metrics"][metric]["mean"])
    except (KeyError, TypeError):
        return None


def _verdict(where: str, measured: float | None, bound: Any) -> Verdict:
    limits = {"min": bound} if isinstance(bound, int | float) and not isinstance(bound, bool) else bound
    if not isinstance(limits, dict) or not limits or set(limits) - {"min", "max"}:
        raise GateError(f"thresholds: {where} must be a number, or a table with min and max.")
    told = ", ".join(f"{name} {value}" for name, value in limits.items())
    passed = measured is not None
    if measured is not None:
        passed = limits.get("min", measured) <= measured <= limits.get("max", measured)
    return Verdict(where, measured, told, passed)


def render(verdicts: list[Verdict]) -> str:
    """A line a threshold."""
    return "\n".join(
        f"{'pass' if v.passed else 'FAIL'} {v.name}: "
        f"{'missing' if v.measured is None else f'{v.measured:.4f}'} (wanted {v.wanted})"
        for v in verdicts
    )
