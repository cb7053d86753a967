"""Text that talks to a model: forged frame marks and orders to ignore, obey, send or reveal.

A heuristic for flags and for keeping such text out of claims. It is not a defence by itself: tools reach
nothing but a job's own chunks, whatever a text says.
"""

from __future__ import annotations

import html
import re
import unicodedata

from agentloop.redact.controls import INVISIBLE

_HIDDEN = re.compile(f"[{INVISIBLE}\u200e\u200f\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")
_FRAMES = re.compile(
    r"<\s{0,4}/?\s{0,4}(?:untrusted|tool_?(?:result|response|output|call)|uploaded_?document|system|instructions?|assistant|"
    r"function_(?:result|call)s?|document_?(?:content)?s?|retrieved|context|user_?(?:input|query)|search_results?)"
    r"[\w:-]{0,60}\s{0,4}/?>|"
    r"<\|?(?:im_start|im_end|im_sep|eot_id|start_header_id|end_header_id|start_of_turn|end_of_turn|system|user|"
    r"assistant|tool)\|?>|\[/?INST\]|<</?SYS>>|"
    r"[<\-=]{3}\s{0,4}/?(?:END|BEGIN|START)[ _](?:OF[ _])?"
    r"(?:UNTRUSTED|TRUSTED|SYSTEM|USER|TOOL|CONTEXT|INSTRUCTIONS?)[\w _]{0,60}",
    re.IGNORECASE,
)
_SYSTEM_LINE = re.compile(
    r"^\W{0,12}(?:SYSTEM|ASSISTANT|DEVELOPER|System|Assistant)\s*(?:PROMPT|MESSAGE|NOTE|OVERRIDE|prompt|message)?\s{0,4}:",
    re.MULTILINE,
)
_ORDERS = re.compile(
    r"\b(?:ignore|disregard|forget|override|bypass)\b[^.\n]{0,30}\b(?:all|any|every|your|the|my|these|those|"
    r"previous|prior|earlier|above|preceding|system)\b[^.\n]{0,30}\b(?:instruction|prompt|rule|direction|guideline|"
    r"message|context|command|constraint|polic|training)\w*|"
    r"\byou are now (?:a|an|in|the|my)\b|\bnew (?:system )?(?:instructions?|prompt)\s*:|"
    r"\b(?:do not|don't|never) (?:tell|inform|mention|reveal|show)\b[^.\n]{0,20}\b(?:the )?user\b|"
    r"\btell the (?:user|human|reader)\b[^.\n]{0,60}\b(?:that|to)\b|"
    r"\b(?:send|post|upload|exfiltrate|forward|leak|transmit)\b[^.\n]{0,60}"
    r"(?:https?://|\bto (?:http|this url|my server))|"
    r"\b(?:reveal|print|repeat|output|show)\b[^.\n]{0,20}"
    r"\b(?:your|the) (?:system prompt|hidden prompt|instructions)\b|"
    r"\b(?:as an? (?:ai|llm|language model|assistant)|(?:ai|llm) (?:agent|assistant|model)s?)\b[^.\n]{0,40}"
    r"\b(?:must|should|shall|please|have to|are required)\b|"
    r"\b(?:read|open|cat|fetch|print)\b[^.\n]{0,20}/etc/(?:passwd|shadow)\b|"
    r"\bzignoruj\b[^.\n]{0,40}\b(?:instrukcj|polece)\w*|\bignorier\w*\b[^.\n]{0,40}\banweisung\w*|"
    r"\bignore[zr]?\b[^.\n]{0,40}\binstructions? pr[ée]c[ée]dentes?\b|"
    r"\bignor[ae]\w*\b[^.\n]{0,40}\binstrucciones\b|"
    r"忽略[^。\n]{0,12}(?:指令|指示|说明)|以前の指示を無視|이전[^.\n]{0,8}(?:지시|명령)[^.\n]{0,6}무시",
    re.IGNORECASE,
)
# Each pattern needs one of its strings; looking for those first costs a tenth of trying the patterns.
_FRAME_MARKS = ("<", "[/", "[inst", "--", "==", "-=", "=-")
_SPEAKERS = ("system", "assistant", "developer")
_ORDER_WORDS = (
    "ignor", "disregard", "forget", "override", "bypass", "you are now", "instruction", "prompt", "user",
    "tell the", "http", "this url", "my server", "llm", "language model", "assistant", "as a ai", "as an ai",
    "ai agent", "ai model", "/etc/",
)  # fmt: skip
# letters of other scripts that look like ASCII; NFKC folds full-width and mathematical forms, not these
_LOOKALIKES = str.maketrans(
    "аеорсухіјѕԁɡһԛԝАВЕКМНОРСТХІЈЅΑΒΕΖΗΙΚΜΝΟΡΤΥΧο‹›〈〉＜＞❮❯",
    "aeopcyxijsdghqwABEKMHOPCTXIJSABEZHIKMNOPTYXo<><><><>",
)


def plain(text: str) -> str:
    """`text` with the disguises off: entities, escapes, full-width, look-alike and hidden characters."""
    if "&" in text:
        text = html.unescape(html.unescape(text))
    if not text.isascii():
        text = _HIDDEN.sub("", unicodedata.normalize("NFKC", text)).translate(_LOOKALIKES)
    if "%3" in text or "%7" in text or "\\u00" in text:
        text = re.sub(r"%(3[ce]|7c|2f)", lambda m: chr(int(m.group(1), 16)), text, flags=re.IGNORECASE)
        text = re.sub(r"\\u00(3[ce]|7c|2f)", lambda m: chr(int(m.group(1), 16)), text, flags=re.IGNORECASE)
    return text


def instruction_like(text: str) -> bool:
    """Whether a text holds a forged frame mark or reads as an order to a model."""
    bare = plain(text)
    if not bare.isascii():  # letters outside ASCII may match ASCII ones when case is ignored
        return bool(_FRAMES.search(bare) or _SYSTEM_LINE.search(bare) or _ORDERS.search(bare))
    lower = bare.lower()
    return bool(
        (any(mark in lower for mark in _FRAME_MARKS) and _FRAMES.search(bare))
        or (any(word in lower for word in _SPEAKERS) and _SYSTEM_LINE.search(bare))
        or (any(word in lower for word in _ORDER_WORDS) and _ORDERS.search(bare))
    )


def without_instructions(lines: list[str]) -> list[bool]:
    """For each line, whether it may be quoted: neither it nor it together with the next reads as an order."""
    wrong = [instruction_like(line) for line in lines]
    for n in range(len(lines) - 1):
        if not wrong[n] and not wrong[n + 1] and instruction_like(f"{lines[n]} {lines[n + 1]}"):
            wrong[n] = wrong[n + 1] = True
    return [not w for w in wrong]
