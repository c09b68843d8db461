"""What the pages of lineage say in the same words."""

import time
from datetime import datetime

from tasuki import harness as harnesses
from tasuki.errors import UsageError
from tasuki.plain import one_line


def harness_title(name: str) -> str:
    """The name of a harness for people; its own where nobody knows it any more."""
    try:
        return harnesses.get(name).title
    except UsageError:
        return one_line(name, 40)


def reason(of: str) -> str:
    """Why a handoff was made, on one line; the fleet's own reason in words."""
    return "context limit" if of == "context_limit" else one_line(of, 120)


def percent(used: float | None) -> str:
    """A context use in words."""
    return "not known" if used is None else f"{used:.0f} %"


def counted(number: int, word: str, several: str = "") -> str:
    """A number and its thing: `1 fork`, `3 forks`, `2 entries`."""
    return f"{number:,} {word if number == 1 else several or word + 's'}"


def day(at: float) -> str:
    """The day of a moment: `today`, `17 Nov`, and with its year where that is another one."""
    date, today = _local(at), _local(time.time())
    if date.date() == today.date():
        return "today"
    return date.strftime("%-d %b" if date.year == today.year else "%-d %b %Y")


def moment(said: str) -> float | None:
    """A moment as a thread or a handoff tells it (ISO 8601), in seconds since 1970; None for none."""
    try:
        return datetime.fromisoformat(said).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def _local(at: float) -> datetime:
    return datetime.fromtimestamp(min(max(at, 0.0), 32503680000.0)).astimezone()
