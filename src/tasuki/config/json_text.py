"""JSON as text: insert or remove one value and keep every other character.

Comments and commas before a closing bracket are allowed, as in the settings of several
programs.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from tasuki.patterns import compile_pattern

_BLANK = compile_pattern(r"(?:[ \t\r\n\ufeff]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_SCALAR = compile_pattern(
    r'"(?:[^"\\\x00-\x1f]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null', re.DOTALL
)
_UNUSUAL = compile_pattern(
    r"""\A(?P<mark>\ufeff)|"(?:[^"\\]|\\.)*"|(?P<comments>//[^\n]*|/\*.*?\*/)"""
    r"""|(?P<commas>,)(?=(?:\s|//[^\n]*|/\*.*?\*/)*[}\]])""",
    re.DOTALL,
)
_DEEPEST = 200


class NotJson(ValueError):
    """The text is not JSON; the message says where."""


class JsonNode(Struct):
    """A value in the text, from `start` to `end`; an object's members or a list's elements.

    `first` of a child is where its member begins: at the key in an object, else at the value.
    """

    kind: str
    start: int
    end: int = 0
    first: int = 0
    key: str = ""
    children: list["JsonNode"] = []

    def find_child(self, key: str) -> "JsonNode | None":
        """Return the member of this name; the last one counts where there are two."""
        return next((c for c in reversed(self.children) if c.key == key), None)


def parse_json(text: str) -> JsonNode:
    """Parse a text into its values with their places. Raises NotJson."""
    position = _skip_blank(text, 0)
    node = _parse_value(text, position, 0)
    end = _skip_blank(text, node.end)
    if end != len(text):
        raise NotJson(_describe_position(text, end))
    return node


def list_unusual(text: str) -> list[str]:
    """List what a text holds that JSON itself does not allow: `mark`, `comments`, `commas`.

    They are a byte order mark, and commas before a closing bracket.
    """
    return sorted({found.lastgroup for found in _UNUSUAL.finditer(text) if found.lastgroup})


def read_value(text: str, node: JsonNode) -> Any:
    """Return the value of a node of the text."""
    if node.kind == "object":
        return {child.key: read_value(text, child) for child in node.children}
    if node.kind == "list":
        return [read_value(text, child) for child in node.children]
    return json.loads(text[node.start : node.end], strict=False)


def find_value(text: str, keys: Sequence[str]) -> JsonNode | None:
    """Find the value that the keys lead to; None where one of them is missing."""
    node: JsonNode | None = parse_json(text)
    for key in keys:
        if node is None or node.kind != "object":
            return None
        node = node.find_child(key)
    return node


def insert_member(text: str, keys: Sequence[str], name: str, content: Any) -> tuple[str, str]:
    """Insert a value in the object or list that the keys lead to.

    Returns the new text and the inserted part. Without a `name` the value goes to the end of a
    list. Objects and lists that are missing are created. Raises NotJson, also where a value on
    the way is no object, or the last one no list.
    """
    if not text.strip("\ufeff \t\r\n"):
        whole, _ = insert_member("{}\n", keys, name, content)
        return text + whole, whole
    node = parse_json(text)
    rest = list(keys)
    while rest and (child := _require_object(text, node, keys).find_child(rest[0])) is not None:
        node, rest = child, rest[1:]
    if not rest:
        wanted = "object" if name else "list"
        if node.kind != wanted:
            raise NotJson(f"{'.'.join(keys)} is not {'an object' if name else 'a list'}")
        return _insert_child(text, node, name, content)
    nested: Any = {name: content} if name else [content]
    for key in reversed(rest[1:]):
        nested = {key: nested}
    return _insert_child(text, _require_object(text, node, keys), rest[0], nested)


def remove_child(text: str, node: JsonNode, holder: JsonNode) -> str:
    """Remove one child of an object or list, and the comma that it needed.

    Comments between it and its neighbours are kept.
    """
    place = holder.children.index(node)
    before = holder.children[place - 1].end if place else holder.start + 1
    after = _skip_comma(text, node.end)
    if place + 1 < len(holder.children):
        next_start = holder.children[place + 1].first
        return (
            text[: node.first]
            + text[after if _has_comment(text[after:next_start]) else next_start :]
        )
    if _has_comment(text[before : node.first].replace(",", "", 1)):
        return text[: node.first].rstrip(" \t\r\n") + text[node.end :]
    if not place and not _has_comment(text[after : holder.end - 1]):
        return text[:before] + text[holder.end - 1 :]
    return text[:before] + text[node.end if place else after :]


def _require_object(text: str, node: JsonNode, keys: Sequence[str]) -> JsonNode:
    if node.kind != "object":
        raise NotJson(f"{'.'.join(keys)}: {_format_line(text, node.start)} is not an object")
    return node


def _insert_child(text: str, holder: JsonNode, name: str, content: Any) -> tuple[str, str]:
    """Insert a member at the end of an object, or an element at the end of a list."""
    newline = "\r\n" if "\r\n" in text else "\n"
    found = re.search(r"[{\[]\r?\n([ \t]+)", text)  # one level of the text's own indentation
    step = found[1] if found else "  "
    outer = _find_indent(text, holder.start)
    inner = _find_indent(text, holder.children[-1].first) if holder.children else outer + step
    before = text[: holder.children[-1].first] if holder.children else ""
    compact = bool(before) and bool(before[before.rfind("\n") + 1 :].strip())
    words = json.dumps(content, ensure_ascii=False, indent=None if compact else step or 2)
    words = words.replace("\n", newline + inner)
    member = f"{json.dumps(name, ensure_ascii=False)}: {words}" if name else words
    if not holder.children:
        place = holder.start + 1
        tail = "" if "\n" in text[place : holder.end - 1] else newline + outer
        added = f"{newline}{inner}{member}{tail}"
    elif (after_comma := _skip_comma(text, holder.children[-1].end)) > holder.children[-1].end:
        place, added = after_comma, f"{' ' if compact else newline + inner}{member}"
    else:
        place, added = holder.children[-1].end, f",{' ' if compact else newline + inner}{member}"
    return text[:place] + added + text[place:], added


def _skip_comma(text: str, end: int) -> int:
    """Return the position after a comma that follows, else `end`."""
    position = _skip_blank(text, end)
    return position + 1 if text[position : position + 1] == "," else end


def _has_comment(text: str) -> bool:
    """Tell whether the text holds anything but blanks, that is, a comment."""
    return bool(text.strip())


def _find_indent(text: str, place: int) -> str:
    line = text[text.rfind("\n", 0, place) + 1 : place]
    return line[: len(line) - len(line.lstrip(" \t"))]


# -- reading ---------------------------------------------------------------------------


def _parse_value(text: str, position: int, depth: int) -> JsonNode:
    if depth > _DEEPEST:
        raise NotJson("it is nested too deeply")
    if text[position : position + 1] in ("{", "["):
        return _parse_holder(text, position, depth)
    if not (found := _SCALAR.match(text, position)):
        raise NotJson(_describe_position(text, position))
    return JsonNode("scalar", position, found.end(), position)


def _parse_holder(text: str, start: int, depth: int) -> JsonNode:
    is_object = text[start] == "{"
    node = JsonNode("object" if is_object else "list", start, first=start)
    close = "}" if is_object else "]"
    position = _skip_blank(text, start + 1)
    while text[position : position + 1] != close:
        child = (
            _parse_member(text, position, depth)
            if is_object
            else _parse_value(text, position, depth + 1)
        )
        node.children.append(child)
        position = _skip_blank(text, child.end)
        if text[position : position + 1] == ",":
            position = _skip_blank(text, position + 1)
        elif text[position : position + 1] != close:
            raise NotJson(_describe_position(text, position))
    node.end = position + 1
    return node


def _parse_member(text: str, position: int, depth: int) -> JsonNode:
    match = _SCALAR.match(text, position)
    if not match or match[0][0] != '"':
        raise NotJson(_describe_position(text, position))
    colon = _skip_blank(text, match.end())
    if text[colon : colon + 1] != ":":
        raise NotJson(_describe_position(text, colon))
    child = _parse_value(text, _skip_blank(text, colon + 1), depth + 1)
    child.first = position
    try:
        child.key = json.loads(match[0])
    except ValueError as error:
        raise NotJson(_describe_position(text, position)) from error
    return child


def _skip_blank(text: str, position: int) -> int:
    match = _BLANK.match(text, position)
    return match.end() if match else position


def _format_line(text: str, position: int) -> str:
    return f"line {text.count(chr(10), 0, position) + 1}"


def _describe_position(text: str, position: int) -> str:
    what = (
        "ends too early"
        if position >= len(text)
        else f"{_format_line(text, position)}: {text[position : position + 20]!r}"
    )
    return f"it is not JSON: {what}"
