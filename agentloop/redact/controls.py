"""Control, bidirectional and invisible characters: escaped so that what is read is what is there."""

from __future__ import annotations

import re

# zero-width and other characters that show nothing, as the body of a character class
INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200d\u2060-\u2064\u206a-\u206f\ufeff\uffa0"
)
_BIDI = "\u200e\u200f\u202a-\u202e\u2066-\u2069"
_TAGS = "\U000e0000-\U000e007f"  # Unicode tags: ASCII in disguise
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_BIDIS = re.compile(f"[{_BIDI}]")
_HIDDEN = re.compile(f"[{INVISIBLE}{_TAGS}]")
_ANY = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029{_BIDI}{INVISIBLE}{_TAGS}]")


def neutralise(text: str) -> str:
    """`text` for a terminal or a log: control, bidi and invisible characters as `\\xNN`/`\\uNNNN` escapes.

    Tabs and line feeds stay. Lone surrogates (bytes of names that are not UTF-8) become `\\xNN`.
    """
    if text.isascii() and text.isprintable():
        return text
    text = _ANY.sub(lambda m: _escape(m.group()), text)
    return re.sub("[\ud800-\udfff]", lambda m: _escape(m.group()), text)


def one_line(text: str) -> str:
    """`text` as `neutralise` gives it, tabs and line feeds escaped too: a name or a message in a list."""
    return neutralise(text).replace("\n", "\\n").replace("\t", "\\t")


def visible(text: str) -> tuple[str, tuple[str, ...]]:
    """`text` for a claim, and flags: colour codes are dropped, every other hidden character is escaped."""
    if text.isascii() and text.isprintable():
        return text, ()
    flags = []
    if _CONTROLS.search(text):
        flags.append("control_chars")
    if _BIDIS.search(text):
        flags.append("bidi")
    if _HIDDEN.search(text):
        flags.append("invisible")
    text = _ANSI.sub("", text)
    return _ANY.sub(lambda m: _escape(m.group()), text), tuple(flags)


def _escape(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
