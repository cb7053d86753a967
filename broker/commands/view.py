"""The readable view of a pack: ranked claims with `path:lines`, what was skipped, the budget."""

from __future__ import annotations

from textwrap import fill
from typing import Any, TextIO

from agentloop.pack import shown_place
from agentloop.redact import neutralise, one_line

INDENT = "    "


def show(pack: dict[str, Any], out: TextIO) -> None:
    """Print a released pack for a person. Text of inputs is neutralised and never taken as markup."""
    from rich.console import Console
    from rich.text import Text

    console = Console(file=out, highlight=False, soft_wrap=False)
    payload = pack["payload"]
    console.print(Text(neutralise(payload["query"]), style="bold"))
    for number, item in enumerate(payload["evidence"], 1):
        console.print()
        head = Text(f"{number:>2}. ", style="dim")
        head.append(_place(item["source_refs"][0]), style="cyan")
        head.append(f"  {item['kind']}  confidence {item['confidence']}", style="dim")
        if item.get("flags"):
            head.append("  " + " ".join(item["flags"]), style="red")
        console.print(head)
        console.print(Text(indented(item["claim"], console.width)))
        if item.get("excerpt"):
            console.print(Text(indented(item["excerpt"], console.width), style="dim"))
        others = [_place(ref) for ref in item["source_refs"][1:]]
        if others:
            console.print(Text("    also " + ", ".join(others), style="dim"))
        for collapsed in item.get("collapsed", ()):
            console.print(Text(f"    and {collapsed['count']} duplicates", style="dim"))
    _footer(payload, console, Text)


def indented(text: str, width: int) -> str:
    """Text of an input, neutralised, wrapped and indented below its head line."""
    lines = neutralise(text).split("\n")
    return "\n".join(
        fill(line, max(40, width - 1), initial_indent=INDENT, subsequent_indent=INDENT) for line in lines
    )


def _place(ref: dict[str, Any]) -> str:
    return one_line(shown_place(ref))


def _footer(payload: dict[str, Any], console: Any, text: Any) -> None:
    coverage = payload["coverage"]
    console.print()
    for name, skipped in coverage.get("skipped", {}).items():
        examples = ", ".join(map(one_line, skipped.get("examples", [])[:3]))
        console.print(
            text(f"skipped {skipped['count']} {name}{': ' + examples if examples else ''}", style="dim")
        )
    for warning in payload["warnings"]:
        console.print(text(f"warning {warning['code']}: {one_line(warning['message'])}", style="yellow"))
    budget, retrieval = payload["budget"], payload["retrieval"]
    used = budget["final_pack_tokens"]
    console.print(
        text(
            f"{coverage.get('files_indexed', 0)} of {coverage.get('files_seen', 0)} files searched, "
            f"{retrieval.get('tool_calls', 0)} tool calls ({retrieval['model']}), "
            f"{used} tokens of evidence",
            style="dim",
        )
    )
