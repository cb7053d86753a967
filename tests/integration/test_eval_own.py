"""The engine over our own golden sets keeps above the committed floor."""

from __future__ import annotations

from pathlib import Path

from eval.cli import main

OWN = Path(__file__).parents[2] / "eval" / "golden"


def test_our_own_sets_pass_their_gate(tmp_path, capsys):
    out = tmp_path / "out"
    sets = [str(OWN / "chats"), str(OWN / "logs")]
    rungs = "single_shot,agentic"
    assert main(["run", *sets, "--rungs", rungs, "--out", str(out), "--no-plots", "--limit", "24"]) == 0
    capsys.readouterr()
    status = main(["gate", str(out / "results.json"), str(OWN / "thresholds.toml")])
    told = capsys.readouterr().out
    assert status == 0, told
    assert "chats.agentic.item_hit@5" in told
