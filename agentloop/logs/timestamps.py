"""Timestamps at the start of a log line, in the forms that common tools write.

ISO 8601 (GitHub Actions, Jenkins' timestamper, Java, Python), Go's `log`, syslog, klog, Apache,
`java.util.logging`, epoch seconds (auditd, GitLab sections), times of day, and BuildKit's seconds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_TIME = r"\d{1,2}:\d{2}:\d{2}(?:[.,]\d{1,9})?"

_STAMP = re.compile(
    rf"""(?:
      (?P<iso>\d{{4}}[-/]\d{{2}}[-/]\d{{2}}[T ]{_TIME}(?:\ ?(?:Z|UTC|[+-]\d{{2}}:?\d{{2}}))?)
    | (?P<clf>\d{{1,2}}/{_MONTH}/\d{{4}}[: ]{_TIME}(?:\ [+-]\d{{4}})?)
    | (?P<juli>{_MONTH}\ \d{{1,2}},\ \d{{4}}\ {_TIME}\ ?(?:AM|PM)?)
    | (?P<syslog>(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\ )?{_MONTH}\ {{1,2}}\d{{1,2}}\ {_TIME}(?:\ \d{{4}})?)
    | (?P<klog>[IWEFD]\d{{4}}\ {_TIME})
    | (?P<audit>(?:type=\w+\ )?msg=audit\(\d{{9,10}}\.\d{{1,3}}(?::\d{{1,12}}\))?)
    | (?P<section>section_(?:start|end):\d{{9,10}})
    | (?P<epoch>1\d{{9}}(?:\.\d{{1,9}}|\d{{3}})?(?=[\]\s:,|]))
    | (?P<time>{_TIME}(?=[\]\s|]))
    | (?P<since>\#\d{{1,4}}\ \d{{1,6}}\.\d{{1,3}}(?=\ ))
    )""",
    re.VERBOSE,
)
_OPEN = re.compile(r"(?:[^\t\n]{1,80}\t[^\t\n]{1,80}\t\ufeff?)?\s{0,3}[\[(<|]?\ufeff?")
_KEYED = re.compile(r"[\"']?\b(?:@?timestamp|time|ts)[\"']?\s{0,2}[:=]\s{0,2}[\"']?")  # JSON lines, logfmt
_LOOK = 240  # characters of a line in which its stamp is sought


class StampKind(StrEnum):
    """What a stamp can be compared with: only stamps of one kind have an order."""

    DATE = "date"  # seconds since the epoch
    YEARLESS = "yearless"  # seconds in a leap year
    CLOCK = "time"  # seconds of a day
    RELATIVE = "relative"  # seconds since a step began


@dataclass(frozen=True, slots=True)
class Stamp:
    """A timestamp that stands in a line. `text` is ISO 8601 where the line has a date, else as written.

    `seconds` order stamps of one kind; a date without a zone is taken as UTC.
    """

    kind: StampKind
    text: str
    seconds: float
    end: int  # characters of the line up to the end of the stamp


def find_stamp(line: str) -> Stamp | None:
    """The timestamp at the start of a clean line (no ANSI), or None."""
    head = line[:_LOOK]
    start = (_KEYED.search(head) if head[:1] in "{t" else None) or _OPEN.match(head)
    match = _STAMP.match(head, start.end() if start else 0)
    if match is None or match.lastgroup is None:
        return None
    text = match.group(match.lastgroup)
    try:
        kind, shown, seconds = _parse(match.lastgroup, text)
    except (ValueError, OverflowError):
        return None  # 99:99:99 is no time
    return Stamp(kind, shown, seconds, match.end())


def _parse(group: str, text: str) -> tuple[StampKind, str, float]:
    if group == "iso":
        when = parse_iso(text)
        return StampKind.DATE, _shown_iso(text), when.timestamp()
    if group in ("audit", "section", "epoch"):
        digits = re.findall(r"\d+", text)
        whole = digits[0][:10]
        when = datetime.fromtimestamp(int(whole), UTC)
        part = float("0." + digits[1]) if len(digits) > 1 else int(digits[0][10:] or 0) / 1000
        return StampKind.DATE, when.strftime("%Y-%m-%dT%H:%M:%SZ"), when.timestamp() + part
    if group == "since":
        return StampKind.RELATIVE, text, float(text.split()[1])
    clock = re.search(r"(?<!\d)" + _TIME, text)
    if clock is None:
        raise ValueError(text)
    day = _clock_seconds(clock.group())
    if group == "time":
        return StampKind.CLOCK, text, day
    return _dated(group, text, clock, day)


def _dated(group: str, text: str, clock: re.Match[str], day: float) -> tuple[StampKind, str, float]:
    """Forms whose date isn't ISO: Apache, java.util.logging, syslog, klog."""
    if group == "klog":
        start = datetime(2000, int(text[1:3]), int(text[3:5]), tzinfo=UTC)
        return StampKind.YEARLESS, text, start.timestamp() + day
    month = _MONTHS.index(re.search(_MONTH, text).group().lower()) + 1  # type: ignore[union-attr]
    rest = text[: clock.start()] + " " + text[clock.end() :]
    numbers = [int(n) for n in re.findall(r"(?<![+-])\b\d{1,4}\b", rest)]
    years = [n for n in numbers if n > 31]
    date = next(n for n in numbers if n <= 31)
    if text.rstrip().endswith("PM") and day < 12 * 3600:
        day += 12 * 3600
    zone = re.search(r"([+-]\d{2})(\d{2})$", text)
    start = datetime(years[0] if years else 2000, month, date, tzinfo=UTC)
    if not years:
        return StampKind.YEARLESS, text, start.timestamp() + day
    if zone:
        day -= int(zone.group(1) + "1") // 10 * 3600 + int(zone.group(1)[0] + zone.group(2)) * 60
    when = start + timedelta(seconds=day)
    shown = when.strftime("%Y-%m-%dT%H:%M:%S") + ("Z" if zone else "")  # a zone is never made up
    return StampKind.DATE, shown, when.timestamp()


def parse_iso(text: str) -> datetime:
    """A date and time in the ISO forms that logs and `time_window` use; UTC where no zone is given.

    Raises:
        ValueError: not such a form, or no such time.
    """
    match = re.fullmatch(
        r"\s*(\d{4})[-/](\d{2})[-/](\d{2})(?:[T ](\d{1,2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?)?\s?"
        r"(Z|UTC|[+-]\d{2}:?\d{2})?\s*",
        text,
    )
    if match is None:
        raise ValueError(f"not an ISO 8601 time: {text[:40]!r}")
    year, month, day, hour, minute, second = (int(g or 0) for g in match.groups()[:6])
    micro = int((match.group(7) or "0")[:6].ljust(6, "0"))
    zone, offset = match.group(8), UTC
    if zone and zone not in ("Z", "UTC"):
        sign = -1 if zone[0] == "-" else 1
        offset = timezone(sign * timedelta(hours=int(zone[1:3]), minutes=int(zone[-2:])))
    return datetime(year, month, day, hour, minute, min(second, 59), micro, tzinfo=offset)


DAY_SECONDS = 86_400.0


def bound(text: str, *, end: bool) -> float:
    """A bound of `time_window` in seconds since 1970; a day alone as the end counts to its end.

    Raises:
        ValueError: as `parse_iso`.
    """
    seconds = parse_iso(text).timestamp()
    return seconds + DAY_SECONDS if end and len(text.strip()) == len("2024-01-01") else seconds


def _shown_iso(text: str) -> str:
    shown = text.replace("/", "-").replace(",", ".").replace(" UTC", "Z")
    return re.sub(r"(\.\d{3})\d+", r"\1", shown[:10] + "T" + shown[11:].replace(" ", ""))


def _clock_seconds(text: str) -> float:
    hour, minute, second = text.replace(",", ".").split(":")
    if int(hour) > 23 or int(minute) > 59 or float(second) >= 61:
        raise ValueError(text)
    return int(hour) * 3600 + int(minute) * 60 + float(second)
