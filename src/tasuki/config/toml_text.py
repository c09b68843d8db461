"""TOML as text: append or remove a table and keep every other character."""

import tomllib
from collections.abc import Sequence
from typing import Any

from tasuki.config.validation import describe_parse_error
from tasuki.patterns import compile_pattern

_HEADER = compile_pattern(
    r"[ \t]*\[\[?[ \t]*(?P<name>[^\]\r\n]*?)[ \t]*\]\]?[ \t]*(?:#[^\n]*)?\r?\n?"
)


class NotToml(ValueError):
    """The text is not TOML; the message says where."""


def parse_toml(text: str) -> dict[str, Any]:
    """Parse the text. Raises NotToml."""
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise NotToml(f"it is not TOML: {describe_parse_error(error)}") from error


def find_value(text: str, keys: Sequence[str]) -> Any:
    """Find the value that the keys lead to; None where one of them is missing."""
    value: Any = parse_toml(text)
    for key in keys:
        if not isinstance(value, dict) or key not in value:
            return None
        value = value[key]
    return value


def append_table(text: str, keys: Sequence[str], body: str) -> tuple[str, str]:
    """Append a table to the text; return the new text and the appended part.

    Raises NotToml where that is impossible.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    gap = "" if not text else newline if text.endswith("\n") else newline * 2
    section = f"[{'.'.join(keys)}]\n{body.rstrip()}\n".replace("\n", newline)
    parse_toml(text + gap + section)
    return text + gap + section, gap + section


def find_table(text: str, keys: Sequence[str]) -> tuple[int, int] | None:
    """Find where a table and those below it are in the text.

    Comments before the next table do not count.
    """
    start = end = -1
    position = 0
    for line in text.splitlines(keepends=True):
        header = _HEADER.fullmatch(line)
        if header and start < 0 and _is_below(header["name"], keys):
            start = end = position
        elif header and start >= 0 and not _is_below(header["name"], keys):
            return start, end
        position += len(line)
        if start >= 0 and line.strip() and not line.lstrip().startswith("#"):
            end = position
    return (start, end) if start >= 0 else None


def _is_below(name: str, keys: Sequence[str]) -> bool:
    """Tell whether the header of a table names this one or one below it."""
    parts = [part.strip().strip("\"'") for part in name.split(".")]
    return parts[: len(keys)] == list(keys)
