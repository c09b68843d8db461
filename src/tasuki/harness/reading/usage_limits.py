"""What harnesses record when their account is at a usage limit, and when it resets.

A usage limit is one of the plan, the budget or the credit of the account. A rate limit of a minute,
an overloaded server and any sentence that is not listed here are none: unknown stays unknown.

Sentences: Claude Code 2.1.330 and its older versions, Codex 0.53 to 0.169, Gemini CLI 0.61, pi 1.5.2.
"""

import re
import time
from collections.abc import Container, Mapping
from datetime import UTC, date, datetime, timedelta, tzinfo
from datetime import time as clock_time
from typing import Any

import msgspec

from tasuki.harness.reading.heads import parse_time
from tasuki.harness.reading.jsonl import decode_part
from tasuki.model import TurnFailure
from tasuki.patterns import compile_pattern
from tasuki.text_safety import shorten_to_line

LIMIT_CODES = frozenset(
    {
        "usage_limit_reached", "usage_limit_exceeded", "usage_not_included", "insufficient_quota",
        "billing_error", "GoUsageLimitError", "FreeUsageLimitError",
    }
)  # fmt: skip
"""Names that programs and providers give to such an error."""
MOST_AHEAD_SECONDS = 32 * 86400.0
"""The longest period of a plan is a month; a reset that is further away is a wrong clock."""
MOST_SKEW_SECONDS = 3600.0
"""By this much an entry may be in the future."""
EARLIEST = 1577836800.0
"""2020; no harness is older, so an earlier entry is from a wrong clock."""
MOST_CHARACTERS = 200

_SENTENCE = compile_pattern(
    r"(?:You(?:['’]ve| have) (?:hit|reached) your .{0,80}?(?:limits?|budget)\b(?<!fast limit)"
    r"|(?:Claude(?: AI)? )?usage limit reached\b|(?:Your |The |Monthly )?(?:spend(?:ing)?|monthly usage|budget) limit (?:has been )?reached"
    r"|(?:(?:5-hour|session|weekly|opus|sonnet|opus weekly|sonnet weekly) )?limit reached (?:·|∙|\|) ?resets"
    r"|You['’]re out of (?:extra )?usage(?: credits)?\b|Your org is out of usage|(?:Your )?Credit balance is too low"
    r"|The usage limit has been reached|You have exhausted your daily quota on this model"
    r"|Quota exceeded\. Check your plan and billing)",
    re.IGNORECASE,
)
_CLOCK = r"(?P<hour>\d{1,2})(?::(?P<minute>\d{2}))?(?: ?(?P<half>[ap]m)\b|(?<=:\d\d))"
_MONTH = r"(?P<month>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_WEEKDAY = r"(?P<weekday>Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*"
_DAY = rf"(?:{_MONTH} (?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?:, (?P<year>\d{{4}}))?|(?P<iso>\d{{4}}-\d{{2}}-\d{{2}})|{_WEEKDAY})"
_WHEN = compile_pattern(
    r"(?:resets?(?: at| on)?|try again (?:at|on)|access (?:on|at)) "
    rf"(?:{_DAY}(?:(?:,| at)? {_CLOCK})?|{_CLOCK.replace('P<', 'P<only_')})"
    r"(?: \(?(?P<zone>UTC|GMT|(?<=\()[A-Za-z0-9_+/-]{1,40})\)?)?",
    re.IGNORECASE,
)
_EPOCH = compile_pattern(r"\|(\d{10})\s*\Z")
_IN = compile_pattern(
    r"(?:resets? (?:in|after)|try again in) ~?((?:\d{1,6} ?[a-z]+[ ,]*)+)", re.IGNORECASE
)
_PART = compile_pattern(r"(\d{1,6}) ?(d|h|m|s)[a-z]*", re.IGNORECASE)
_UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_OBJECT = msgspec.json.Decoder(dict[str, Any])
_BODY = compile_pattern(r"\A(?:\d{3}:? *)?(\{.*\})\s*\Z", re.DOTALL)


def find_limit(
    text: str, at: str | float, *, code: str = "", resets_at: object = None
) -> TurnFailure | None:
    """Find the usage limit that an error reports; None for any other error.

    `at` is when it happened: ISO 8601, or seconds since 1970. `code` is the program's own name of the
    error, `resets_at` what the program says beside the sentence, in seconds since 1970. An error of a
    provider may be its JSON body, after the status.
    """
    body, sentence = split_body(text, code)
    code = code or get_code(body)
    if code not in LIMIT_CODES and not _SENTENCE.match(sentence):
        return None
    moment = at if isinstance(at, float) else parse_time(at)
    line = shorten_to_line(_EPOCH.sub("", sentence), MOST_CHARACTERS) or code
    return TurnFailure("limit", line, _find_reset(sentence, body, moment, resets_at))


def describe_reset(resets_at: float | None, now: float | None = None) -> str:
    """Describe when a limit ends, on the clock of this machine: `15:00`, `Nov 29 02:18`; empty for unknown."""
    if resets_at is None:
        return ""
    moment = datetime.fromtimestamp(resets_at).astimezone()
    near = abs(resets_at - (time.time() if now is None else now)) < 20 * 3600
    return f"{moment:%H:%M}" if near else f"{moment:%b} {moment.day} {moment:%H:%M}"


def split_body(text: str, code: str = "") -> tuple[Mapping[str, Any], str]:
    """Return the JSON body of a provider's error, and its sentence; for any other text {} and that.

    A body without a sentence is described by the error's name.
    """
    body: dict[str, Any] = {}
    if match := _BODY.match(text[:8000]):
        body = decode_part(_OBJECT, match[1], body)
    inner = body.get("error")
    body = inner if isinstance(inner, dict) else body
    said = body.get("message") if body else text
    return body, said if isinstance(said, str) else code or get_code(body)


def get_code(body: Mapping[str, Any], known: Container[str] = LIMIT_CODES) -> str:
    """Return the name that a provider's error has, if it is a known one."""
    named = (body.get(name) for name in ("code", "type"))
    return next((name for name in named if isinstance(name, str) and name in known), "")


def _find_reset(text: str, body: Mapping[str, Any], moment: float, told: object) -> float | None:
    """Find the time of a reset; None where there is none, or where a clock must be wrong."""
    if not EARLIEST < moment < time.time() + MOST_SKEW_SECONDS:
        return None
    seconds = _get_number(body.get("resets_in_seconds"))
    try:
        found = (
            _get_number(told)
            or _get_number(body.get("resets_at"))
            or (seconds and moment + seconds)
            or _read_reset(text, moment)
        )
    except (ValueError, OverflowError, OSError):
        return None
    return found if found and moment < found <= moment + MOST_AHEAD_SECONDS else None


def _get_number(value: object) -> float | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and 0 < value < 1e11 else None  # type: ignore[operator, arg-type]


def _read_reset(text: str, moment: float) -> float | None:
    """Read the time from a sentence that was written at a moment."""
    if match := _EPOCH.search(text):
        return float(match[1])
    if match := _IN.search(text):
        parts = _PART.findall(match[1])
        return moment + sum(int(n) * _UNITS[unit.lower()] for n, unit in parts) if parts else None
    if (match := _WHEN.search(text)) is None:
        return None
    found = match.groupdict()
    zone = _find_zone(found["zone"]) if found["zone"] else None
    if found["zone"] and zone is None:
        return None
    now = datetime.fromtimestamp(moment, zone)
    clock = _read_clock(found["hour"] or found["only_hour"], found["minute"] or found["only_minute"],
                        found["half"] or found["only_half"])  # fmt: skip
    if clock is None:
        return None
    if found["iso"]:
        day = date.fromisoformat(found["iso"])
    elif found["month"]:
        number = _MONTHS.index(found["month"][:3].lower()) + 1
        year = int(found["year"]) if found["year"] else now.year + (number < now.month)
        day = date(year, number, int(found["day"]))
    else:
        # A sentence gives no seconds, so a reset within this minute is one that has just come.
        ahead = timedelta(days=clock <= now.time().replace(tzinfo=None))
        if found["weekday"]:
            wanted = _WEEKDAYS.index(found["weekday"][:3].lower())
            ahead = timedelta(days=(wanted - now.weekday()) % 7 or 7 * ahead.days)
        day = now.date() + ahead
    return datetime.combine(day, clock, zone).timestamp()


def _read_clock(hour: str | None, minute: str | None, half: str | None) -> clock_time | None:
    """Read a time of the day; midnight where a day is named alone, None for none."""
    number = int(hour or 0)
    if half:
        if not 1 <= number <= 12:
            return None
        number = number % 12 + (12 if half.lower() == "pm" else 0)
    return clock_time(number, int(minute or 0)) if number < 24 else None


def _find_zone(name: str) -> tzinfo | None:
    if name.upper() in ("UTC", "GMT"):
        return UTC
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
