"""The two wire forms: `native` tool calling, and `json`, one flat action a reply.

Both give the loop the same `Reply`. Schemas that go over a wire are flat: scalars, and arrays of scalars.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from agentloop.loop.messages import FinalTurn, Message, Reply, ToolCall, ToolSpec, Usage
from agentloop.loop.tools import READ, SEARCH

MAX_PATTERN_FREE_LENGTH = 2_000  # llama.cpp's grammars blow up on larger bounds
MAX_INPUT_CHARS = 160  # of an action: a few keywords or a ref
_ARGUMENT = {SEARCH: "query", READ: "ref"}
_THINK = re.compile(r"<think>(.*?)</think>|^(.*?)</think>", re.DOTALL)
_SCALARS = frozenset({"string", "integer", "number", "boolean"})

ACTION_RULES = """Reply with one JSON object and nothing else. To use a tool:
{"action": "search_data", "input": "a few keywords"}
{"action": "read_data", "input": "a ref from a result"}"""
FINISH_RULE = """
To finish: {"action": "answer", "input": "", "claims": ["one sentence that a passage states [its ref]"]}, \
where each claim ends with the refs of the passages that state it."""


class SchemaNotFlat(ValueError):
    """A schema that must not be sent: nested, recursive, with `pattern`, or with a large bound."""


def ensure_flat(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema, if it is one object of scalars and arrays of scalars.

    Raises:
        SchemaNotFlat: it is anything else.
    """
    for name, member in schema.get("properties", {}).items():
        inner = member.get("items", {}) if member.get("type") == "array" else member
        for part in (member, inner):
            if "pattern" in part or part.get("maxLength", 0) >= MAX_PATTERN_FREE_LENGTH:
                raise SchemaNotFlat(f"{name}: `pattern` and large `maxLength` are never sent")
        if inner.get("type") not in _SCALARS:
            raise SchemaNotFlat(f"{name}: only scalars and arrays of scalars are sent")
    if schema.get("type") != "object" or {"$ref", "anyOf", "oneOf", "allOf", "$defs"} & set(schema):
        raise SchemaNotFlat("the top level must be a plain object")
    return dict(schema)


def native_body(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> dict[str, Any]:
    """`messages` and `tools` as OpenAI's chat completions take them."""
    body: dict[str, Any] = {"messages": [_native_message(m) for m in messages]}
    if tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": t.name,
                    "description": t.description,
                    "parameters": ensure_flat(t.parameters),
                },
            }
            for t in tools
        ]
    return body


def _native_message(message: Message) -> dict[str, Any]:
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.tool_call_id, "content": message.content}
    plain: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        plain["content"] = message.content or None
        plain["tool_calls"] = [
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
            for c in message.tool_calls
        ]
    return plain


def json_body(
    messages: Sequence[Message], tools: Sequence[ToolSpec], final: FinalTurn | None
) -> dict[str, Any]:
    """`messages` without tool roles, alternating, and a flat `response_format`."""
    plain: list[dict[str, str]] = []
    for message in messages:
        role, content = _json_message(message)
        if plain and plain[-1]["role"] == role != "system":
            plain[-1]["content"] += f"\n\n{content}"
        else:
            plain.append({"role": role, "content": content})
    # An answer before the first result could rest on nothing: small models would copy the example.
    may_finish = any(m.tool_calls for m in messages)
    if tools:
        plain[0]["content"] += f"\n\n{ACTION_RULES}{FINISH_RULE if may_finish else ''}"
    body: dict[str, Any] = {"messages": plain}
    schema = final.schema if final else None
    if tools:
        schema = _action_schema(tools, final if may_finish else None, may_finish)
    if schema is not None:
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "reply", "strict": True, "schema": ensure_flat(schema)},
        }
    return body


def _json_message(message: Message) -> tuple[str, str]:
    if message.role == "tool":
        return "user", f"Result of the tool call: {message.content}"
    if message.tool_calls:
        return "assistant", "\n".join(_action(call) for call in message.tool_calls)
    return message.role, message.content


def _action(call: ToolCall) -> str:
    try:
        value = json.loads(call.arguments).get(_ARGUMENT.get(call.name, ""), "")
    except (ValueError, AttributeError):
        value = ""
    return json.dumps({"action": call.name, "input": value}, ensure_ascii=False)


def _action_schema(tools: Sequence[ToolSpec], final: FinalTurn | None, may_finish: bool) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "action": {"type": "string", "enum": [*(t.name for t in tools), *(["answer"] if may_finish else [])]},
        "input": {"type": "string", "maxLength": MAX_INPUT_CHARS},
    }
    if final is not None:
        properties.update(final.schema["properties"])
    return {
        "type": "object",
        "properties": properties,
        "required": ["action", "input"],
        "additionalProperties": False,
    }


def parse_native(data: Mapping[str, Any]) -> Reply:
    """A chat completion as a `Reply`. What has another shape than expected counts as absent."""
    message, base = _message(data)
    calls = message.get("tool_calls")
    found = [_tool_call(c) for c in calls if isinstance(c, dict)] if isinstance(calls, list) else []
    return Reply(base.text, tuple(found), base.finish_reason, base.reasoning, base.usage)


def parse_json(data: Mapping[str, Any], offered: bool) -> Reply:
    """A chat completion of the `json` form as a `Reply`: its text is an action where tools were offered."""
    _, base = _message(data)
    if not offered or not base.text or base.finish_reason == "length":
        return base
    try:
        action = json.loads(base.text)
    except (ValueError, RecursionError):
        return _malformed(base, "it is not JSON.")
    if not isinstance(action, dict):
        return _malformed(base, "it is not a JSON object.")
    name = action.get("action")
    if name == "answer":
        claims = {key: action[key] for key in ("claims", "answer") if isinstance(action.get(key), list)}
        text = json.dumps(claims, ensure_ascii=False) if "claims" in claims else "I am done."
        return Reply(text, (), base.finish_reason, base.reasoning, base.usage)
    if name not in _ARGUMENT:
        return _malformed(base, "`action` must be search_data, read_data or answer.")
    arguments = json.dumps({_ARGUMENT[name]: action.get("input")}, ensure_ascii=False)
    return Reply("", (ToolCall("", name, arguments),), base.finish_reason, base.reasoning, base.usage)


def _malformed(base: Reply, why: str) -> Reply:
    return Reply(base.text, (), base.finish_reason, base.reasoning, base.usage, malformed=why)


def _message(data: Mapping[str, Any]) -> tuple[dict[str, Any], Reply]:
    choices = data.get("choices")
    first = _dict(choices[0]) if isinstance(choices, list) and choices else {}
    message = _dict(first.get("message"))
    text = _str(message.get("content"))
    thoughts = [_str(message.get("reasoning_content")) or _str(message.get("reasoning"))]
    thoughts += [a or b for a, b in _THINK.findall(text)]
    base = Reply(
        _THINK.sub("", text).strip(),
        (),
        _str(first.get("finish_reason")) or "stop",
        "\n".join(thoughts).strip(),
        _usage(_dict(data.get("usage"))),
    )
    return message, base


def _usage(value: Mapping[str, Any]) -> Usage:
    found = [value.get("prompt_tokens"), value.get("completion_tokens")]
    prompt, completion = (n if isinstance(n, int) and n >= 0 else 0 for n in found)
    return Usage(prompt, completion)


def _tool_call(call: Mapping[str, Any]) -> ToolCall:
    function = _dict(call.get("function"))
    arguments = function.get("arguments")
    if isinstance(arguments, dict):  # some servers send the object itself
        arguments = json.dumps(arguments, ensure_ascii=False)
    return ToolCall(_str(call.get("id")), _str(function.get("name")), _str(arguments))


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _str(value: Any) -> str:
    return value if isinstance(value, str) else ""
