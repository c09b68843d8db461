"""TOML as text: a table is put at the end or taken out, and every other character stays."""

import re
import tomllib
from collections.abc import Sequence
from typing import Any

from tasuki.setting import tell_fault

_HEADER = re.compile(r"[ \t]*\[\[?[ \t]*(?P<name>[^\]\r\n]*?)[ \t]*\]\]?[ \t]*(?:#[^\n]*)?\r?\n?")


class NotToml(ValueError):
    """The text is no TOML; the message says where."""


def parsed(text: str) -> dict[str, Any]:
    """What the text holds. Raises NotToml."""
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise NotToml(f"it is no TOML: {tell_fault(error)}") from error


def at(text: str, keys: Sequence[str]) -> Any:
    """The value that the keys lead to, None where one of them is missing."""
    found: Any = parsed(text)
    for key in keys:
        if not isinstance(found, dict) or key not in found:
            return None
        found = found[key]
    return found


def with_table(text: str, keys: Sequence[str], body: str) -> tuple[str, str]:
    """The text with a table at its end, and what was put there. Raises NotToml where it cannot be."""
    newline = "\r\n" if "\r\n" in text else "\n"
    gap = "" if not text else newline if text.endswith("\n") else newline * 2
    table = f"[{'.'.join(keys)}]\n{body.rstrip()}\n".replace("\n", newline)
    parsed(text + gap + table)
    return text + gap + table, gap + table


def table(text: str, keys: Sequence[str]) -> tuple[int, int] | None:
    """Where a table and those below it stand in the text, comments before the next one not counted."""
    start = end = -1
    place = 0
    for line in text.splitlines(keepends=True):
        header = _HEADER.fullmatch(line)
        if header and start < 0 and _is_below(header["name"], keys):
            start = end = place
        elif header and start >= 0 and not _is_below(header["name"], keys):
            return start, end
        place += len(line)
        if start >= 0 and line.strip() and not line.lstrip().startswith("#"):
            end = place
    return (start, end) if start >= 0 else None


def _is_below(name: str, keys: Sequence[str]) -> bool:
    """Whether the header of a table names this one or one below it."""
    parts = [part.strip().strip("\"'") for part in name.split(".")]
    return parts[: len(keys)] == list(keys)
