"""Wordings that the pages of lineage share."""

import time
from datetime import datetime

from tasuki.errors import UsageError
from tasuki.harness import registry as harnesses
from tasuki.text_safety import shorten_to_line


def get_harness_title(name: str) -> str:
    """Return the name of a harness for people; its own where it is no longer known."""
    try:
        return harnesses.get_harness(name).title
    except UsageError:
        return shorten_to_line(name, 40)


def format_reason(text: str) -> str:
    """Format why a handoff was made, on one line; the fleet's own reason in words."""
    return "context limit" if text == "context_limit" else shorten_to_line(text, 120)


def format_percent(used: float | None) -> str:
    """Format a context use."""
    return "not known" if used is None else f"{used:.0f} %"


def format_count(number: int, word: str, several: str = "") -> str:
    """Format a number and its thing: `1 fork`, `3 forks`, `2 entries`."""
    return f"{number:,} {word if number == 1 else several or word + 's'}"


def format_day(timestamp: float) -> str:
    """Format the day of a moment: `today`, `17 Nov`, and the year where it is another one."""
    date, today = _convert_to_local(timestamp), _convert_to_local(time.time())
    if date.date() == today.date():
        return "today"
    return date.strftime("%-d %b" if date.year == today.year else "%-d %b %Y")


def parse_moment(text: str) -> float | None:
    """Parse a time of a thread or a handoff (ISO 8601) into seconds since 1970; None for none."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def _convert_to_local(timestamp: float) -> datetime:
    return datetime.fromtimestamp(min(max(timestamp, 0.0), 32503680000.0)).astimezone()
