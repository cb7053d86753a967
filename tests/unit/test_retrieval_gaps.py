"""A string that stands only where a huge log repeats itself is found all the same, at its exact lines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from agentloop import Caps, Environment, compress_sync, make_request

CAPS = replace(Caps(), stream_log_bytes=200_000)


def test_an_id_in_a_repeated_line_is_found(tmp_path: Path) -> None:
    lines = [
        f"2026-11-30T10:{n // 600 % 60:02d}:{n // 10 % 60:02d}Z INFO worker-{n % 8} handled request "
        f"id={(n * 2654435761) % 2**32:08x} path=/v1/items/{n % 977} status=200"
        for n in range(20_000)
    ]
    wanted = 13_577
    lines[wanted] = lines[wanted].replace("id=", "id=feed")
    token = lines[wanted].split("id=")[1].split()[0]
    log = tmp_path / "server.log"
    log.write_text("\n".join(lines) + "\n")
    request = make_request(f"What happened to request {token}?", [log], task_params={"mode": "single_shot"})
    payload = compress_sync(request, Environment(caps=CAPS)).released["payload"]
    first = payload["evidence"][0]["source_refs"][0]
    assert first["line_start"] <= wanted + 1 <= first["line_end"]
    assert first["line_end"] - first["line_start"] < 10


def test_a_best_chunk_over_the_chunk_budget_is_kept_and_told(tmp_path: Path) -> None:
    (tmp_path / "fees.md").write_text("# Fees\n\n" + "The fee of an order is told in words. " * 40 + "\n")
    request = make_request("fee", [tmp_path], constraints={"retrieved_chunk_budget": 256})
    payload = compress_sync(request).released["payload"]
    assert payload["evidence"]
    assert "RETRIEVAL_BUDGET_REACHED" in [w["code"] for w in payload["warnings"]]
