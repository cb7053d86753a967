"""Text that talks to a model: forged frame marks and orders to ignore, obey, send or reveal.

A heuristic for flags and for keeping such text out of claims. It is not a defence by itself: tools reach
nothing but a job's own chunks, whatever a text says.
"""

from __future__ import annotations

import html
import re
import unicodedata
from functools import cache, lru_cache

from agentloop.redact.controls import INVISIBLE

_HIDDEN = re.compile(f"[{INVISIBLE}\u200e\u200f\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")
# Each rule: strings of which an ASCII text in lower case must hold one of each group, and a pattern in lower
# case. Looking for the strings first costs a tenth of trying the patterns.
_RULES: tuple[tuple[tuple[tuple[str, ...], ...], str], ...] = (
    (
        (("<",), (">",), ("untrusted", "tool", "upload", "system", "instruction", "assistant", "function",
                          "document", "retrieved", "context", "user", "search")),
        r"<\s{0,4}/?\s{0,4}(?:untrusted|tool_?(?:result|response|output|call)|uploaded_?document|system|"
        r"instructions?|assistant|function_(?:result|call)s?|document_?(?:content)?s?|retrieved|context|"
        r"user_?(?:input|query)|search_results?)[\w:-]{0,60}\s{0,4}/?>",
    ),
    (
        (("<",), (">",), ("im_", "eot_id", "header_id", "of_turn", "system", "user", "assistant", "tool")),
        r"<\|?(?:im_start|im_end|im_sep|eot_id|start_header_id|end_header_id|start_of_turn|end_of_turn|system|"
        r"user|assistant|tool)\|?>",
    ),
    ((("inst]",),), r"\[/?inst\]"),
    ((("sys>>",),), r"<</?sys>>"),
    (
        (("end", "begin", "start"), ("trusted", "system", "user", "tool", "context", "instruction"),
         ("--", "==", "<<", "<-", "<=", "-<", "=<", "-=", "=-")),
        r"[<\-=]{3}\s{0,4}/?(?:end|begin|start)[ _](?:of[ _])?"
        r"(?:untrusted|trusted|system|user|tool|context|instructions?)[\w _]{0,60}",
    ),
    (
        (("ignore", "disregard", "forget", "override", "bypass"),
         ("instruction", "prompt", "rule", "direction", "guideline", "message", "context", "command",
          "constraint", "polic", "training")),
        r"\b(?:ignore|disregard|forget|override|bypass)\b[^.\n]{0,30}\b(?:all|any|every|your|the|my|these|"
        r"those|previous|prior|earlier|above|preceding|system)\b[^.\n]{0,30}\b(?:instruction|prompt|rule|"
        r"direction|guideline|message|context|command|constraint|polic|training)\w*",
    ),
    ((("you are now",),), r"\byou are now (?:a|an|in|the|my)\b"),
    ((("new ",), ("instruction", "prompt"), (":",)), r"\bnew (?:system )?(?:instructions?|prompt)\s*:"),
    (
        (("do not", "don't", "never"), ("tell", "inform", "mention", "reveal", "show"), ("user",)),
        r"\b(?:do not|don't|never) (?:tell|inform|mention|reveal|show)\b[^.\n]{0,20}\b(?:the )?user\b",
    ),
    ((("tell the ",),), r"\btell the (?:user|human|reader)\b[^.\n]{0,60}\b(?:that|to)\b"),
    (
        (("http", "this url", "my server"),
         ("send", "post", "upload", "exfiltrate", "forward", "leak", "transmit")),
        r"\b(?:send|post|upload|exfiltrate|forward|leak|transmit)\b[^.\n]{0,60}"
        r"(?:https?://|\bto (?:http|this url|my server))",
    ),
    (
        (("reveal", "print", "repeat", "output", "show"), ("system prompt", "hidden prompt", "instructions")),
        r"\b(?:reveal|print|repeat|output|show)\b[^.\n]{0,20}"
        r"\b(?:your|the) (?:system prompt|hidden prompt|instructions)\b",
    ),
    (
        (("as a", "agent", "assistant", "model"), ("ai", "llm", "language model", "assistant"),
         ("must", "should", "shall", "please", "have to", "are required")),
        r"\b(?:as an? (?:ai|llm|language model|assistant)|(?:ai|llm) (?:agent|assistant|model)s?)\b"
        r"[^.\n]{0,40}\b(?:must|should|shall|please|have to|are required)\b",
    ),
    ((("/etc/",),), r"\b(?:read|open|cat|fetch|print)\b[^.\n]{0,20}/etc/(?:passwd|shadow)\b"),
    ((("zignoruj",),), r"\bzignoruj\b[^.\n]{0,40}\b(?:instrukcj|polece)\w*"),
    ((("ignorier",),), r"\bignorier\w*\b[^.\n]{0,40}\banweisung\w*"),
    ((("ignor",), ("instruction",)), r"\bignore[zr]?\b[^.\n]{0,40}\binstructions? pr[ée]c[ée]dentes?\b"),
    ((("ignor",), ("instruccion",)), r"\bignor[ae]\w*\b[^.\n]{0,40}\binstrucciones\b"),
    ((("忽略",),), r"忽略[^。\n]{0,12}(?:指令|指示|说明)"),
    ((("以前",),), r"以前の指示を無視"),
    ((("이전",),), r"이전[^.\n]{0,8}(?:지시|명령)[^.\n]{0,6}무시"),
)  # fmt: skip
_ALL_RULES = re.compile("|".join(pattern for _, pattern in _RULES), re.IGNORECASE)
_SYSTEM_LINE = re.compile(
    r"^\W{0,12}(?:SYSTEM|ASSISTANT|DEVELOPER|System|Assistant)\s*(?:PROMPT|MESSAGE|NOTE|OVERRIDE|prompt|message)?\s{0,4}:",
    re.MULTILINE,
)
_SPEAKERS = ("SYSTEM", "ASSISTANT", "DEVELOPER", "System", "Assistant")
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


@lru_cache(maxsize=256)  # a claim, and what it was drawn from, are looked at in several places
def instruction_like(text: str) -> bool:
    """Whether a text holds a forged frame mark or reads as an order to a model."""
    bare = plain(text)
    if any(word in bare for word in _SPEAKERS) and _SYSTEM_LINE.search(bare):
        return True
    if not bare.isascii():  # letters outside ASCII may match ASCII ones when case is ignored
        return _ALL_RULES.search(bare) is not None
    lower = bare.lower()
    return any(
        all(any(string in lower for string in group) for group in needs) and _rule(number).search(lower)
        for number, (needs, _) in enumerate(_RULES)
    )


@cache
def _rule(number: int) -> re.Pattern[str]:
    return re.compile(_RULES[number][1])


def without_instructions(lines: list[str]) -> list[bool]:
    """For each line, whether it may be quoted: neither it nor it together with the next reads as an order."""
    wrong = [instruction_like(line) for line in lines]
    for n in range(len(lines) - 1):
        if not wrong[n] and not wrong[n + 1] and instruction_like(f"{lines[n]} {lines[n + 1]}"):
            wrong[n] = wrong[n + 1] = True
    return [not w for w in wrong]
