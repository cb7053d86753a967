"""Where secrets and patient data stand in a text: our own patterns, then detect-secrets' detectors."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
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
_KNOWN_FORMS = 7  # so many patterns match nothing but a secret
_ASSIGNMENT = len(_PATTERNS) - 2  # from here on, a value has to look like a secret
# Some literal part of every form that the library's detectors know: it is loaded for these only.
_LIBRARY_FORMS = re.compile(
    r"\bAKC[a-zA-Z0-9]{10}|\bAP[\dABCDEF][a-zA-Z0-9]{8}|A3T[A-Z0-9]|AKIA|ABIA|ACCA|ASIA|AccountKey=|GR1348941|eyJ|"
    r"(?i:aws).{0,60}[0-9a-zA-Z/+]{40}|[0-9a-z]{32}-us\d|_authToken|\bsk-[A-Za-z0-9]|pypi-|SG\.|xox[a-z]-|"
    r"gh[a-z]_|\bgl[a-z]{2,6}-[\w-]{20}|hooks\.slack|sq0csp|_live_|\d{8,10}:[\w-]{35}|(?:AC|SK)[a-z0-9]{32}|"
    r"\b[MNO][\w-]{23,25}\.|(?i:(?:ibm|iam|cos|hmac)[_-].{0,40}[=:])"
)
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
    if not _SUSPECT.search(text):
        return []
    found = [
        span for n, pattern in enumerate(_PATTERNS) for span in _matches(pattern, text, n >= _ASSIGNMENT)
    ]
    found += _private_keys(text)
    found += [m.span() for m in _RUN.finditer(text) if _random(m.group())]
    if _LIBRARY_FORMS.search(text):
        found += _by_library(text)
    return found


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
        if not _LIBRARY_FORMS.search(window):
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
