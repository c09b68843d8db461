"""TOML as text: add or remove a table and keep every other character."""

import re
import tomllib
from collections.abc import Sequence
from typing import Any, NamedTuple

from tasuki.config.validation import describe_parse_error
from tasuki.patterns import compile_pattern

_TOKEN = compile_pattern(
    r'''"""(?:\\.|[^\\])*?"{3,5}|\'{3}.*?\'{3,5}|"(?:\\.|[^"\\])*"|\'[^\']*\'|#[^\n]*'''
    r"""|[\n.,=\[\]{}]|[^\s"'#.,=\[\]{}]+""",
    re.DOTALL,
)
"""A string, a comment, a sign or a word."""
_BLANKS = " \t\r\n"


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


class TomlPlace(NamedTuple):
    """Where a table's header, or a key with its value, is in the text."""

    keys: tuple[str, ...]
    start: int
    end: int
    kind: str
    """`header`, `value`, or `table` for an inline table."""
    is_inside: bool = False
    """It is a member of an inline table."""


def add_table(text: str, keys: Sequence[str], body: str) -> tuple[str, str]:
    """Add a table; return the new text and the added part.

    It goes to the end, or into an inline table, which no other text can extend. Raises NotToml
    where that is impossible.
    """
    holders = {p.keys: p for p in _scan(text) if p.kind == "table"}
    depths = (n for n in range(1, len(keys)) if tuple(keys[:n]) in holders)
    if (depth := next(depths, 0)) and (place := holders[tuple(keys[:depth])]):
        member = f"{'.'.join(keys[depth:])} = {{ {', '.join(body.strip().splitlines())} }}"
        inner = text[: place.end - 1].rstrip(_BLANKS)
        is_empty = inner.endswith("{")
        gap = " " if is_empty and text[len(inner)] == "}" else ""
        at, added = len(inner), f" {member}{gap}" if is_empty else f", {member}"
    else:
        newline = "\r\n" if "\r\n" in text else "\n"
        gap = "" if not text else newline if text.endswith("\n") else newline * 2
        section = f"[{'.'.join(keys)}]\n{body.rstrip()}\n".replace("\n", newline)
        at, added = len(text), gap + section
    changed = text[:at] + added + text[at:]
    parse_toml(changed)
    return changed, added


def find_table(text: str, keys: Sequence[str]) -> TomlPlace | None:
    """Find where a table and those below it are in the text.

    Comments before the next table do not count. Raises NotToml.
    """
    found: TomlPlace | None = None
    for place in _scan(text):
        is_header = place.kind == "header"
        if is_header and found and not _is_below(place, keys):
            break
        if found or (is_header and _is_below(place, keys)):
            line_end = text.find("\n", place.end) + 1 or len(text)
            found = (found or place)._replace(end=line_end)
        elif place.keys == tuple(keys):
            return place
    return found


def remove_table(text: str, keys: Sequence[str]) -> str:
    """Return the text without a table. Raises NotToml."""
    place = find_table(text, keys)
    if place is None:
        return text
    before, after = text[: place.start], text[place.end :]
    if not place.is_inside:
        blank = next((line for line in ("\r\n", "\n") if before.endswith(line * 2)), "")
        left = before.removesuffix(blank) + after.removeprefix(
            "\n" if place.kind != "header" else ""
        )
    elif before.rstrip(_BLANKS).endswith(","):
        left = before.rstrip(_BLANKS)[:-1] + after
    elif after.lstrip(_BLANKS).startswith(","):
        left = before + after.lstrip(_BLANKS)[1:].lstrip(_BLANKS)
    else:
        left = before.rstrip(_BLANKS) + after.lstrip(_BLANKS)
    parse_toml(left)
    return left


def _is_below(place: TomlPlace, keys: Sequence[str]) -> bool:
    """Tell whether the header of a table names this one or one below it."""
    return place.keys[: len(keys)] == tuple(keys)


def _scan(text: str) -> list[TomlPlace]:
    """List the headers and keys of a text in their order. Raises NotToml."""
    parse_toml(text)
    scanner = _TomlScanner(text)
    scanner.scan_document()
    return sorted(scanner.places, key=lambda place: place.start)


class _TomlScanner:
    """Goes through the tokens of a text that is known to be TOML."""

    def __init__(self, text: str) -> None:
        matches = _TOKEN.finditer(text, text.startswith("\ufeff"))
        self.tokens = [match for match in matches if match[0][0] != "#"]
        self.at = 0
        self.places: list[TomlPlace] = []

    def scan_document(self) -> None:
        """Collect the places of all headers and keys."""
        table: tuple[str, ...] = ()
        while (start := self._skip("\n")) is not None:
            if start[0] == "[":
                self._skip("[")
                table = self._read_keys()
                self._skip("]")
                end = self.tokens[self.at - 1].end()
                self.places.append(TomlPlace(table, start.start(), end, "header"))
            else:
                self._read_pair(table)

    def _skip(self, signs: str) -> re.Match[str] | None:
        """Skip some signs; return what comes next, None at the end."""
        while self.at < len(self.tokens) and self.tokens[self.at][0] in signs:
            self.at += 1
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def _read_keys(self) -> tuple[str, ...]:
        keys: list[str] = []
        while (word := self.tokens[self.at][0]) not in "=]":
            if word != ".":
                keys.append(tomllib.loads(f"key = {word}")["key"] if word[0] in "\"'" else word)
            self.at += 1
        return tuple(keys)

    def _read_pair(self, above: tuple[str, ...], *, is_inside: bool = False) -> None:
        start = self.tokens[self.at].start()
        keys = above + self._read_keys()
        self.at += 1
        kind = "table" if self.tokens[self.at][0] == "{" else "value"
        end = self._read_value(keys)
        self.places.append(TomlPlace(keys, start, end, kind, is_inside))

    def _read_value(self, keys: tuple[str, ...]) -> int:
        """Read a value; return where it ends."""
        opening = self.tokens[self.at][0]
        if opening not in "[{":
            while self.at < len(self.tokens) and self.tokens[self.at][0] not in ",]}\n":
                self.at += 1
            return self.tokens[self.at - 1].end()
        self.at += 1
        while (token := self._skip(",\n")) and token[0] not in "]}":
            if opening == "{":
                self._read_pair(keys, is_inside=True)
            else:
                self._read_value((*keys, ""))  # No place that keys lead to.
        self.at += 1
        return self.tokens[self.at - 1].end()
