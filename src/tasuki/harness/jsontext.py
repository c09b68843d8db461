"""JSON as text: one value is put in or taken out, and every other character stays.

Comments and commas before a closing bracket are allowed, as in the settings of several programs.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

_BLANK = re.compile(r"(?:[ \t\r\n\ufeff]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_SCALAR = re.compile(
    r'"(?:[^"\\\x00-\x1f]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null', re.DOTALL
)
_DEEPEST = 200


class NotJson(ValueError):
    """The text is no JSON; the message says where."""


class Node(Struct):
    """A value in the text, from `start` to `end`; an object's members or a list's elements.

    `first` of a child is where its member begins: at the key in an object, else at the value.
    """

    kind: str
    start: int
    end: int = 0
    first: int = 0
    key: str = ""
    children: list["Node"] = []

    def child(self, key: str) -> "Node | None":
        """The member of this name; the last one counts where it is there twice."""
        return next((c for c in reversed(self.children) if c.key == key), None)


def parsed(text: str) -> Node:
    """The values of a text with their places. Raises NotJson."""
    at = _blank(text, 0)
    node = _value(text, at, 0)
    end = _blank(text, node.end)
    if end != len(text):
        raise NotJson(_where(text, end))
    return node


def value(text: str, node: Node) -> Any:
    """What a node of the text holds."""
    if node.kind == "object":
        return {child.key: value(text, child) for child in node.children}
    if node.kind == "list":
        return [value(text, child) for child in node.children]
    return json.loads(text[node.start : node.end], strict=False)


def at(text: str, keys: Sequence[str]) -> Node | None:
    """The value that the keys lead to, None where one of them is missing."""
    node: Node | None = parsed(text)
    for key in keys:
        if node is None or node.kind != "object":
            return None
        node = node.child(key)
    return node


def with_member(text: str, keys: Sequence[str], name: str, content: Any) -> tuple[str, str]:
    """The text with a value in the object or list that the keys lead to, and what was put in.

    Without a `name` the value goes to the end of a list. Objects and lists that are missing are
    made. Raises NotJson, also where a value on the way is no object, or the last one no list.
    """
    if not text.strip("\ufeff \t\r\n"):
        whole, _ = with_member("{}\n", keys, name, content)
        return text + whole, whole
    node = parsed(text)
    rest = list(keys)
    while rest and (below := _object(text, node, keys).child(rest[0])) is not None:
        node, rest = below, rest[1:]
    if not rest:
        wanted = "object" if name else "list"
        if node.kind != wanted:
            raise NotJson(f"{'.'.join(keys)} is no {wanted}")
        return _put(text, node, name, content)
    made: Any = {name: content} if name else [content]
    for key in reversed(rest[1:]):
        made = {key: made}
    return _put(text, _object(text, node, keys), rest[0], made)


def without(text: str, node: Node, holder: Node) -> str:
    """The text without one child of an object or list, and without the comma that it needed.

    Comments between it and its neighbours stay.
    """
    place = holder.children.index(node)
    before = holder.children[place - 1].end if place else holder.start + 1
    after = _after_comma(text, node.end)
    if place + 1 < len(holder.children):
        behind = holder.children[place + 1].first
        return text[: node.first] + text[after if _is_said(text[after:behind]) else behind :]
    if _is_said(text[before : node.first].replace(",", "", 1)):
        return text[: node.first].rstrip(" \t\r\n") + text[node.end :]
    if not place and not _is_said(text[after : holder.end - 1]):
        return text[:before] + text[holder.end - 1 :]
    return text[:before] + text[node.end if place else after :]


def _object(text: str, node: Node, keys: Sequence[str]) -> Node:
    if node.kind != "object":
        raise NotJson(f"{'.'.join(keys)}: {_line(text, node.start)} is no object")
    return node


def _put(text: str, holder: Node, name: str, content: Any) -> tuple[str, str]:
    """Put a member at the end of an object, or an element at the end of a list."""
    newline = "\r\n" if "\r\n" in text else "\n"
    step = _step(text)
    outer = _indent(text, holder.start)
    inner = _indent(text, holder.children[-1].first) if holder.children else outer + step
    compact = bool(holder.children) and not _is_own_line(text, holder.children[-1].first)
    words = json.dumps(content, ensure_ascii=False, indent=None if compact else step or 2)
    words = words.replace("\n", newline + inner)
    member = f"{json.dumps(name, ensure_ascii=False)}: {words}" if name else words
    if not holder.children:
        place = holder.start + 1
        tail = "" if "\n" in text[place : holder.end - 1] else newline + outer
        added = f"{newline}{inner}{member}{tail}"
    elif (behind := _after_comma(text, holder.children[-1].end)) > holder.children[-1].end:
        place, added = behind, f"{' ' if compact else newline + inner}{member}"
    else:
        place, added = holder.children[-1].end, f",{' ' if compact else newline + inner}{member}"
    return text[:place] + added + text[place:], added


def _after_comma(text: str, end: int) -> int:
    """The place behind a comma that follows, else `end`."""
    behind = _blank(text, end)
    return behind + 1 if text[behind : behind + 1] == "," else end


def _is_said(text: str) -> bool:
    """Whether anything but blanks stands there: a comment."""
    return bool(text.strip())


def _indent(text: str, place: int) -> str:
    line = text[text.rfind("\n", 0, place) + 1 : place]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _is_own_line(text: str, place: int) -> bool:
    return not text[text.rfind("\n", 0, place) + 1 : place].strip()


def _step(text: str) -> str:
    """One level of the text's own indentation."""
    found = re.search(r"[{\[]\r?\n([ \t]+)", text)
    return found[1] if found else "  "


# -- reading ---------------------------------------------------------------------------


def _value(text: str, at: int, depth: int) -> Node:
    if depth > _DEEPEST:
        raise NotJson("it is nested too deeply")
    if text[at : at + 1] in ("{", "["):
        return _holder(text, at, depth)
    if not (found := _SCALAR.match(text, at)):
        raise NotJson(_where(text, at))
    return Node("scalar", at, found.end(), at)


def _holder(text: str, start: int, depth: int) -> Node:
    is_object = text[start] == "{"
    node = Node("object" if is_object else "list", start, first=start)
    close = "}" if is_object else "]"
    at = _blank(text, start + 1)
    while text[at : at + 1] != close:
        child = _member(text, at, depth) if is_object else _value(text, at, depth + 1)
        node.children.append(child)
        at = _blank(text, child.end)
        if text[at : at + 1] == ",":
            at = _blank(text, at + 1)
        elif text[at : at + 1] != close:
            raise NotJson(_where(text, at))
    node.end = at + 1
    return node


def _member(text: str, at: int, depth: int) -> Node:
    found = _SCALAR.match(text, at)
    if not found or found[0][0] != '"':
        raise NotJson(_where(text, at))
    colon = _blank(text, found.end())
    if text[colon : colon + 1] != ":":
        raise NotJson(_where(text, colon))
    child = _value(text, _blank(text, colon + 1), depth + 1)
    child.first = at
    try:
        child.key = json.loads(found[0])
    except ValueError as error:
        raise NotJson(_where(text, at)) from error
    return child


def _blank(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _line(text: str, at: int) -> str:
    return f"line {text.count(chr(10), 0, at) + 1}"


def _where(text: str, at: int) -> str:
    what = "ends too early" if at >= len(text) else f"{_line(text, at)}: {text[at : at + 20]!r}"
    return f"it is no JSON: {what}"
