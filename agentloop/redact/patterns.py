"""Where secrets and patient data stand in a text: our own patterns, then detect-secrets' detectors."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

# Prefilter: text without any of these holds no secret that the detectors know.
_SUSPECT = re.compile(
    r":/{1,3}[^\s/@:]{0,256}:|-----BEGIN|-----END|passw|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|"
    r"private[_-]?key|credential|authorization|bearer|basic |cookie|signature|"
    r"AKIA|ASIA|ABIA|ACCA|AIza|gh[opsur]_|github_pat_|glpat-|eyJ|xox[abeoprs]-|sk[_-]|rk_live|pk_live|whsec_|SG\.|npm_|"
    r"pypi-|hooks\.slack|AccountKey|sig=|dckr_pat_|hf_|ya29\.|[A-Za-z0-9+/=_-]{24}",
    re.IGNORECASE,
)
# The same for ASCII text in lower case, where plain searches take a tenth of the time.
_SUSPECT_WORDS = (
    "-----begin", "-----end", "passw", "passphrase", "pwd", "secret", "token", "apikey", "api_key", "api-key",
    "accesskey", "access_key", "access-key", "privatekey", "private_key", "private-key", "credential",
    "authorization", "bearer", "basic ", "cookie", "signature", "akia", "asia", "abia", "acca", "aiza",
    "gho_", "ghp_", "ghs_", "ghu_", "ghr_", "github_pat_", "glpat-", "eyj", "xoxa-", "xoxb-", "xoxe-",
    "xoxo-", "xoxp-", "xoxr-", "xoxs-", "sk_", "sk-", "rk_live", "pk_live", "whsec_", "sg.", "npm_", "pypi-",
    "hooks.slack", "accountkey", "sig=", "dckr_pat_", "hf_", "ya29.",
)  # fmt: skip
_TOKENISH = bytes(code < 128 and (chr(code).isalnum() or chr(code) in "+/=_-") for code in range(256))
_LONG_TOKEN = b"\x01" * 24
_URL_WITH_COLON = re.compile(r":/{1,3}[^\s/@:]{0,256}:")
_VALUE_STOP = r"\s\"'`,;<>(){}\[\]"
# Each pattern's group 1 is the secret; the surroundings stay readable.
_PATTERNS = (
    # user:password@host in any URL
    re.compile(r":/{1,3}[^\s:/@\"']{0,256}+:([^\s\"'/]{1,256})@"),
    # tokens with a fixed form
    re.compile(r"\b(gh[opsur]_[A-Za-z0-9]{20,255}|github_pat_[A-Za-z0-9_]{20,255}|glpat-[\w-]{16,255})"),
    re.compile(r"(?<![\w-])((?:sk|rk|pk)[_-](?:live|test|proj|ant|or)[\w-]{0,40}[_-][A-Za-z0-9_-]{8,}|"
               r"sk-[A-Za-z0-9_-]{20,}|whsec_\w{16,})"),
    re.compile(r"\b((?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16})\b"),
    re.compile(r"(?<![\w-])(AIza[\w-]{30,45}|ya29\.[\w-]{20,}|hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{30,}|"
               r"dckr_pat_[\w-]{20,}|pypi-[\w-]{40,}|SG\.[\w-]{16,}\.[\w-]{16,}|xox[abeoprs]-[\w-]{10,})"),
    re.compile(r"(?<![\w-])(eyJ[\w-]{8,}+\.[\w-]{4,}+(?:\.[\w-]*+)?)"),
    re.compile(r"hooks\.slack\.com/services/([\w/]{16,})"),
    # Authorization: Bearer …, Basic …
    re.compile(r"\b(?:bearer|basic)\s+([\w.~+/=-]{12,})", re.IGNORECASE),
    # key = value, key: value, --key value; the value must look like one
    re.compile(
        r"(?:pass(?:wd|word|phrase)?|pwd|secret|api[_-]?key|access[_-]?key(?:[_-]?id)?|account[_-]?key|auth[_-]?token|"
        r"private[_-]?key|client[_-]?secret|credentials?|token|sig(?:nature)?)[\w-]{0,24}[\"']?\s{0,3}(?:=>|:=|=|:)\s{0,3}[\"'`]?"
        rf"([^{_VALUE_STOP}]{{6,256}})",
        re.IGNORECASE,
    ),
    re.compile(r"(?<!\w)--?(?:password|passwd|secret|token|api-key)[= ]"
               rf"([^{_VALUE_STOP}-][^{_VALUE_STOP}]{{5,256}})", re.IGNORECASE),
)  # fmt: skip
# What an ASCII text in lower case must hold for the pattern of the same place: one string of each group.
_NEEDS: tuple[tuple[tuple[str, ...], ...], ...] = (
    ((":/",), ("@",)),
    (("gho_", "ghp_", "ghs_", "ghu_", "ghr_", "github_pat_", "glpat-"),),
    (("sk_", "sk-", "rk_", "rk-", "pk_", "pk-", "whsec_"),),
    (("akia", "asia", "abia", "acca"),),
    (("aiza", "ya29.", "hf_", "npm_", "dckr_pat_", "pypi-", "sg.", "xox"),),
    (("eyj",),),
    (("hooks.slack.com/services/",),),
    (("bearer", "basic"),),
    (("=", ":"), ("pass", "pwd", "secret", "key", "token", "credential", "sig")),
    (("-password", "-passwd", "-secret", "-token", "-api-key"),),
)
_KNOWN_FORMS = 7  # so many patterns match nothing but a secret
_ASSIGNMENT = len(_PATTERNS) - 2  # from here on, a value has to look like a secret
# Every form that the library's detectors know: it is loaded for these only. A string that the form needs,
# whether it needs a long token too, and the form where it is more than the string.
_LIBRARY_RULES = (
    ("AKC", False, r"\bAKC[a-zA-Z0-9]{10}"), ("AP", False, r"\bAP[\dABCDEF][a-zA-Z0-9]{8}"),
    ("A3T", False, "A3T[A-Z0-9]"), ("AKIA", False, ""), ("ABIA", False, ""), ("ACCA", False, ""),
    ("ASIA", False, ""), ("AccountKey=", False, ""), ("GR1348941", False, ""), ("eyJ", False, ""),
    ("aws", True, r"(?i:aws).{0,60}[0-9a-zA-Z/+]{40}"), ("-us", True, r"[0-9a-z]{32}-us\d"),
    ("_authToken", False, ""), ("sk-", False, r"\bsk-[A-Za-z0-9]"), ("pypi-", False, ""), ("SG.", False, ""),
    ("xox", False, "xox[a-z]-"), ("gh", False, "gh[a-z]_"), ("gl", True, r"\bgl[a-z]{2,6}-[\w-]{20}"),
    ("hooks.slack", False, ""), ("sq0csp", False, ""), ("_live_", False, ""),
    (":", True, r"\d{8,10}:[\w-]{35}"), ("AC", True, "AC[a-z0-9]{32}"), ("SK", True, "SK[a-z0-9]{32}"),
    (".", True, r"\b[MNO][\w-]{23,25}\."), ("ibm", False, r"(?i:ibm[_-].{0,40}[=:])"),
    ("iam", False, r"(?i:iam[_-].{0,40}[=:])"), ("cos", False, r"(?i:cos[_-].{0,40}[=:])"),
    ("hmac", False, r"(?i:hmac[_-].{0,40}[=:])"),
)  # fmt: skip
_ANY_CASE = frozenset({"aws", "ibm", "iam", "cos", "hmac"})
_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_REST = re.compile(r"(?:\s{0,4}[A-Za-z0-9+/=]{16,}+)*")
WINDOW, OVERLAP = 1200, 400  # characters that the library's detectors see at a time
_RUN = re.compile(r"[A-Za-z0-9+/=]{20,}")
_HEX = re.compile(r"[0-9a-fA-F]+|0x[0-9a-fA-F]+")
_WORDS = re.compile(r"[a-z]{3,}")
_PLAIN_VALUE = re.compile(
    r"(?:[A-Za-z_][\w]*)(?:[.:\[][\w.:\[\]]*)?|\d{1,12}|[$%{<].*|\*+|x+|\.\.\.|true|false|null|none|\w+\(.*|"
    r"[a-z]+(?:[-_/.][a-z]+)*",
    re.IGNORECASE,
)


def secret_spans(text: str) -> list[tuple[int, int]]:
    """Half-open spans of secrets in a text, unordered, perhaps overlapping."""
    shape = _Shape.of(text)
    if not shape.suspect:
        return []
    found = [
        span
        for n, (pattern, needs) in enumerate(zip(_PATTERNS, _NEEDS, strict=True))
        if shape.holds(needs)
        for span in _matches(pattern, text, n >= _ASSIGNMENT)
    ]
    found += _private_keys(text)
    found += [m.span() for m in _RUN.finditer(text) if _random(m.group())]
    if shape.known_to_library():
        found += _by_library(text)
    return found


@dataclass(frozen=True, slots=True)
class _Shape:
    """What a text holds, told cheaply, so that few patterns are tried on it."""

    text: str
    lower: str  # empty where letters outside ASCII may match ASCII ones when case is ignored
    long: bool  # whether a token of 24 characters may be in it

    @classmethod
    def of(cls, text: str) -> _Shape:
        if not text.isascii():
            return cls(text, "", True)
        return cls(text, text.lower(), _LONG_TOKEN in text.encode("ascii").translate(_TOKENISH))

    @property
    def suspect(self) -> bool:
        """Whether the text may hold a secret at all: what `_SUSPECT` says."""
        if not self.lower:
            return _SUSPECT.search(self.text) is not None
        lower = self.lower
        if self.long or any(word in lower for word in _SUSPECT_WORDS):
            return True
        return ":/" in lower and _URL_WITH_COLON.search(lower) is not None

    def holds(self, needs: tuple[tuple[str, ...], ...]) -> bool:
        """Whether one string of each group is there, as far as can be told."""
        lower = self.lower
        return not lower or all(any(string in lower for string in group) for group in needs)

    def known_to_library(self) -> bool:
        """Whether the text holds a form that the library's detectors know."""
        for rule, (string, long, form) in enumerate(_LIBRARY_RULES):
            held = self.lower if self.lower and string in _ANY_CASE else self.text
            if self.lower and (string not in held or (long and not self.long)):
                continue
            if (self.lower and not form) or _library_form(rule).search(self.text):
                return True
        return False


@cache
def _library_form(rule: int) -> re.Pattern[str]:
    string, _, form = _LIBRARY_RULES[rule]
    return re.compile(form or re.escape(string))


def _private_keys(text: str) -> Iterator[tuple[int, int]]:
    """PEM blocks as a whole; of one whose end is missing, the lines of base64 that follow."""
    at, ended = 0, True
    while begin := _BEGIN.search(text, at):
        end = _END.search(text, begin.end()) if ended else None
        ended = end is not None
        rest = end or _REST.match(text, begin.end())
        at = rest.end() if rest else begin.end()
        yield begin.start(), at


def _matches(pattern: re.Pattern[str], text: str, guess: bool) -> Iterator[tuple[int, int]]:
    for match in pattern.finditer(text):
        if not guess or _like_a_secret(match.group(1)):
            yield match.span(1)


def _like_a_secret(value: str) -> bool:
    """Whether the value of `password=` and the like is a literal, and no name, call, number or blank.

    Code says `token = request.token` far more often than it holds a secret: a value made of words only
    has to mix letters with digits or signs.
    """
    bare = value.rstrip(".:!?")
    if not _PLAIN_VALUE.fullmatch(bare):
        return len(bare) >= 6
    kinds = sum(bool(re.search(p, bare)) for p in (r"[a-z]", r"[A-Z]", r"\d"))
    digits = sum(c.isdigit() for c in bare)
    return bare.isalnum() and kinds >= 2 and digits >= 2 and len(bare) >= 8 and not _HEX.fullmatch(bare)


def _random(run: str) -> bool:
    """Whether a run of base64 characters is random: no hash in hex, no path, no identifier made of words."""
    body = run.strip("=")
    if _HEX.fullmatch(body):
        return False
    longest = max(re.split(r"[/+=]", body), key=len) if body.count("/") > 2 else body
    if len(longest) < 20:
        return False
    kinds = [
        sum(c.isdigit() for c in longest),
        sum(c.isupper() for c in longest),
        sum(c.islower() for c in longest),
    ]
    if min(kinds) < 2:
        return False
    words = sum(len(w) for w in _WORDS.findall(longest))
    return words < 0.45 * len(longest) and entropy(longest) >= 3.5


def entropy(text: str) -> float:
    """Shannon entropy of the characters, bits a character."""
    n = len(text)
    return -sum(c / n * math.log2(c / n) for c in Counter(text).values())


_GUESSING = frozenset(
    {
        "BasicAuthDetector",
        "Base64HighEntropyString",
        "CloudantDetector",
        "HexHighEntropyString",
        "IPPublicDetector",
        "KeywordDetector",
        "PrivateKeyDetector",
        "SoftlayerDetector",
    }
)


@cache
def _detectors() -> tuple[Any, ...]:
    """detect-secrets' detectors of known forms; its keyword and entropy guesses are left to our own rules."""
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class

    known: dict[str, Any] = get_mapping_from_secret_type_to_class()
    classes = {kind.__name__: kind for kind in known.values()}
    return tuple(classes[name]() for name in sorted(classes) if name not in _GUESSING)


def _by_library(text: str) -> list[tuple[int, int]]:
    """Spans that the library's detectors find. They see short windows: some of them are not linear."""
    found = set()
    for at in range(0, len(text), WINDOW - OVERLAP):
        window = text[at : at + WINDOW]
        if not _Shape.of(window).known_to_library():
            continue
        for detector in _detectors():
            for value in detector.analyze_string(window):
                start = window.find(value) if value else -1
                while start >= 0:
                    found.add((at + start, at + start + len(value)))
                    start = window.find(value, start + len(value))
    return sorted(found)


_PHI = (
    re.compile(r"\b(\d{3}-\d{2}-\d{4})\b"),  # US social security number
    re.compile(r"\b(?:MRN|medical record(?: (?:number|no\.?))?|patient (?:id|number))\W{0,3}(\w[\w-]{3,20})",
               re.IGNORECASE),
    re.compile(r"([\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,4})"),
    re.compile(r"(?<!\w)((?:\+\d{1,3}[ .-]?)?(?:\(\d{2,4}\)|\d{2,4})[ .-]\d{3,4}[ .-]\d{3,4})(?!\w)"),
    re.compile(r"\b(?:DOB|date of birth|born(?: on)?|ur\.|data urodzenia)\W{0,3}"
               r"(\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4})", re.IGNORECASE),
    re.compile(r"\bPESEL\W{0,3}(\d{11})\b", re.IGNORECASE),
    re.compile(r"\b(?:patient|pacjent(?:ka)?)\s*(?:name)?\s*[:=]\s*"
               r"([^\W\d_][\w'-]+(?: [^\W\d_][\w'-]+){0,2})", re.IGNORECASE),
)  # fmt: skip


def phi_spans(text: str) -> list[tuple[int, int]]:
    """Half-open spans of identifiers of patients: social security, record numbers, contacts, birth dates."""
    return [m.span(1) for pattern in _PHI for m in pattern.finditer(text)]


def known_form(text: str) -> bool:
    """Whether a text holds a secret by a form that nothing else has: for paths, which must stay exact."""
    return any(pattern.search(text) for pattern in _PATTERNS[:_KNOWN_FORMS])
