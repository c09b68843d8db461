"""One addition and the text of its file: how it stands there, how it is put in and taken out."""

from typing import Any

from msgspec import Struct

from tasuki.harness import jsontext, tomltext
from tasuki.harness.integration import Addition, JsonEntry, OwnFile, TomlTable


class Put(Struct, frozen=True):
    """One addition that was put in, with the exact text, for taking it out again."""

    path: str
    kind: str
    what: str
    mark: str
    text: str = ""
    keys: tuple[str, ...] = ()
    name: str = ""
    made: bool = False
    """The file was made for it."""
    folders: tuple[str, ...] = ()
    """Folders that were made for it, the outermost first."""

    @property
    def place(self) -> tuple[str, str, tuple[str, ...], str, str]:
        """What makes two of them the same one, in whatever version."""
        return self.path, self.kind, self.keys, self.name, self.mark


def put_for(addition: Addition, text: str = "") -> Put:
    """What is recorded of an addition."""
    kind = type(addition).__struct_config__.tag
    keys = () if isinstance(addition, OwnFile) else addition.keys
    name = addition.name if isinstance(addition, JsonEntry) else ""
    return Put(addition.path, str(kind), addition.what, addition.mark, text, keys, name)


def state(text: str | None, addition: Addition) -> str:
    """How an addition stands in the text of its file, None where there is no file.

    there: as it should be. replace: an older one of ours. foreign: something else has its place.
    add: nothing has. Raises NotJson or NotToml.
    """
    if isinstance(addition, OwnFile):
        if text is None or text == addition.content:
            return "add" if text is None else "there"
        return "replace" if addition.mark in text else "foreign"
    if text is None or not text.strip("\ufeff \t\r\n"):
        return "add"
    if isinstance(addition, TomlTable):
        return _table_state(text, addition)
    if addition.name:
        return _member_state(text, addition)
    holder = jsontext.at(text, addition.keys)
    ours = _marked(text, holder, addition.mark)
    if not ours:
        return "add"
    same = [jsontext.value(text, node) for node in ours] == [addition.value]
    return "there" if same else "replace"


def ours(text: str, addition: Addition) -> list[Any]:
    """The values of ours that stand at the place of an addition. Raises NotJson or NotToml."""
    if isinstance(addition, OwnFile) or not text.strip("\ufeff \t\r\n"):
        return []
    if isinstance(addition, TomlTable):
        return [tomltext.at(text, addition.keys)] if _table_state(text, addition) != "add" else []
    if addition.name:
        member = jsontext.at(text, (*addition.keys, addition.name))
        return [jsontext.value(text, member)] if member else []
    nodes = _marked(text, jsontext.at(text, addition.keys), addition.mark)
    return [jsontext.value(text, node) for node in nodes]


def put(text: str | None, addition: Addition) -> tuple[str, str]:
    """The text with the addition, and what was put in. Raises NotJson or NotToml."""
    if isinstance(addition, OwnFile):
        return addition.content, addition.content
    if isinstance(addition, TomlTable):
        return tomltext.with_table(text or "", addition.keys, addition.body)
    return jsontext.with_member(text or "", addition.keys, addition.name, addition.value)


def taken(text: str, put: Put) -> tuple[str | None, str]:
    """The text without what was put in, None for no file any more, and what was taken out.

    What was put in to the letter is cut out to the letter; else what bears the mark at its place
    goes. Raises NotJson or NotToml.
    """
    if put.kind == "file":
        return (None, text) if put.mark in text else (text, "")
    left = _cut(text, put)
    if left is None:
        left = _table_out(text, put) if put.kind == "toml" else _entry_out(text, put)
    if left == text:
        return text, ""
    return left, _difference(text, left)


def _cut(text: str, put: Put) -> str | None:
    """The text without exactly what was put in; None where it is not there, or is no longer all."""
    if not put.text or text.count(put.text) != 1:
        return None
    left = text.replace(put.text, "")
    try:
        if put.kind == "toml":
            tomltext.parsed(left)
        elif left.strip():
            jsontext.parsed(left)
            if not put.name and _count(left, put) >= _count(text, put):
                return None  # the same text of another list
    except (jsontext.NotJson, tomltext.NotToml):
        return None
    return left


def _count(text: str, put: Put) -> int:
    """How many elements of ours are at the place of one that was put in."""
    return len(_marked(text, jsontext.at(text, put.keys), put.mark))


def _difference(before: str, after: str) -> str:
    """What was cut out of a text in one piece."""
    start = 0
    while start < len(after) and before[start] == after[start]:
        start += 1
    return before[start : start + len(before) - len(after)]


# -- tables ----------------------------------------------------------------------------


def _table_state(text: str, addition: TomlTable) -> str:
    if tomltext.at(text, addition.keys) is None:
        return "add"
    place = tomltext.table(text, addition.keys)
    if place is None or addition.mark not in text[slice(*place)]:
        return "foreign"
    wanted, _ = tomltext.with_table("", addition.keys, addition.body)
    is_same = tomltext.at(text, addition.keys) == tomltext.at(wanted, addition.keys)
    return "there" if is_same else "replace"


def _table_out(text: str, put: Put) -> str:
    place = tomltext.table(text, put.keys)
    if place is None or put.mark not in text[slice(*place)]:
        return text
    start, end = place
    before = text[:start]
    return (before[:-1] if before.endswith("\n\n") else before) + text[end:]


# -- entries ---------------------------------------------------------------------------


def _member_state(text: str, addition: JsonEntry) -> str:
    member = jsontext.at(text, (*addition.keys, addition.name))
    if member is None:
        return "add"
    if jsontext.value(text, member) == addition.value:
        return "there"
    return "replace" if addition.mark in text[member.start : member.end] else "foreign"


def _marked(text: str, holder: jsontext.Node | None, mark: str) -> list[jsontext.Node]:
    """The elements of a list that bear our mark."""
    if holder is None or holder.kind != "list":
        return []
    return [node for node in holder.children if mark in text[node.start : node.end]]


def _entry_out(text: str, put: Put) -> str:
    """The text without the member or the elements that bear our mark, nor what they leave empty."""
    while text.strip("\ufeff \t\r\n"):
        holder = jsontext.at(text, put.keys)
        if holder is None:
            break
        if put.name:
            member = holder.child(put.name)
            found = [member] if member and put.mark in text[member.start : member.end] else []
        else:
            found = _marked(text, holder, put.mark)
        if not found:
            break
        inner, outer = _narrowest(text, found[0], holder, put.mark)
        text = _without_empty(jsontext.without(text, inner, outer), put.keys)
    return text


def _narrowest(
    text: str, node: jsontext.Node, holder: jsontext.Node, mark: str
) -> tuple[jsontext.Node, jsontext.Node]:
    """Of an element that somebody added to: only the part that is ours, and the list it is in."""
    for below in node.children:
        ours = _marked(text, below, mark)
        if ours and len(below.children) > len(ours):
            return ours[0], below
    return node, holder


def _without_empty(text: str, keys: tuple[str, ...]) -> str:
    """The text without the objects and lists on the way that are empty now."""
    for depth in range(len(keys), 0, -1):
        node, holder = jsontext.at(text, keys[:depth]), jsontext.at(text, keys[: depth - 1])
        if node is None or holder is None or node.kind == "scalar" or node.children:
            break
        if text[node.start + 1 : node.end - 1].strip():
            break  # a comment
        text = jsontext.without(text, node, holder)
    return text
