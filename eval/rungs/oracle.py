"""A scripted model that knows a question's gold sub-questions: the loop's own ceiling.

It searches each sub-question with the intermediate answers filled in (`#1` is the first answer), as
MuSiQue's decompositions have them, then ends without claims. It measures the tools, not a brain.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from agentloop.loop.messages import FinalTurn, Message, Reply, ToolCall, ToolSpec, Window
from eval.golden import Question

HOP = re.compile(r"#(\d+)")


def sub_questions(question: Question) -> list[str]:
    """The sub-questions in order, with answers filled in; the question itself where there are none."""
    steps = question.extra.get("decomposition") or []
    answers = [str(step.get("answer", "")) for step in steps]

    def fill(match: re.Match[str]) -> str:
        hop = int(match[1])
        return answers[hop - 1] if 0 < hop <= len(answers) else match[0]

    return [HOP.sub(fill, str(step["question"]).replace(" >> ", " ")) for step in steps] or [question.text]


class OracleModel:
    """Implements `ChatModel`: one search a turn, one a sub-question."""

    def __init__(self, question: Question) -> None:
        self._queries = sub_questions(question)
        self._asked = 0
        self.window = Window()

    @property
    def name(self) -> str:
        """The name that packs carry."""
        return "oracle"

    async def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        *,
        timeout: float,  # noqa: ASYNC109  # part of the protocol
        final: FinalTurn | None = None,
    ) -> Reply:
        """The next search; then a final text without claims."""
        if tools and self._asked < len(self._queries):
            query = self._queries[self._asked]
            self._asked += 1
            call = ToolCall(f"oracle{self._asked}", "search_data", json.dumps({"query": query}))
            return Reply(tool_calls=(call,), finish_reason="tool_calls")
        return Reply(text=json.dumps({"claims": []}))
