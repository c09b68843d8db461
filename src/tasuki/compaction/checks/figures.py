"""Numbers with a unit in a text: `200 ms`, `15 %`, `3 retries`."""

from collections.abc import Iterator
from typing import NamedTuple

from tasuki.patterns import compile_pattern

_FIGURE = compile_pattern(
    r"(?i)(?<![\w.,-])(\d[\d.,]*\d|\d)\s?-?(%|percent|ms|milliseconds?|s(?:ec(?:ond)?s?)?|min(?:ute)?s?|h(?:ours?)?|days?|weeks?|months?|"
    r"[kmgt]i?b|bytes?|lines?|characters?|chars?|columns?|retries|attempts|times|rows?|items?|entries|connections?|workers?|threads?|"
    r"requests?|tokens?|users?|px|eur(?:os?)?|usd|dollars?|gbp|chf|prozent|sekunden?|minuten?|stunden?|tagen?|wochen?|monate?n?|einträgen?|zeilen?|zeichen)\b"
    r"|(?<![\w.,-])(\d[\d.,]*\d|\d)\s?(件|行|秒|分|時間|日|回|文字|％)"
)


class Figure(NamedTuple):
    """A number with its unit in the usual form, and both as they were written."""

    number: str
    unit: str
    text: str


def find_figures(text: str) -> Iterator[Figure]:
    """Yield the numbers of a text that have a unit."""
    for match in _FIGURE.finditer(text):
        number, unit = match[1] or match[3], match[2] or match[4]
        yield Figure(number, _normalize_unit(unit), match[0])


def _normalize_unit(unit: str) -> str:
    low = unit.lower()
    if low in ("percent", "%", "prozent", "％"):
        return "%"
    if low == "ms" or low.startswith("milli"):
        return "ms"
    for name in ("sec", "min", "hour", "day", "week", "month"):
        if low.startswith(name):
            return name
    return {"s": "sec", "h": "hour"}.get(low, low.rstrip("s"))
