"""One addition and the text of its file: how to check it, insert it and remove it."""

from typing import Any

from msgspec import Struct

from tasuki.config import json_text, toml_text
from tasuki.harness.integration import Addition, JsonEntry, OwnFile, TomlTable
from tasuki.text_safety import count_same


class InstalledAddition(Struct, frozen=True):
    """One addition that was installed, with its exact text, so that it can be removed again."""

    path: str
    kind: str
    what: str
    mark: str
    text: str = ""
    keys: tuple[str, ...] = ()
    name: str = ""
    made: bool = False
    """The file was created for it."""
    folders: tuple[str, ...] = ()
    """Folders that were created for it, the outermost first."""

    @property
    def identity(self) -> tuple[str, str, tuple[str, ...], str, str]:
        """What makes two of them the same addition, in whatever version."""
        return self.path, self.kind, self.keys, self.name, self.mark


def build_installed_addition(addition: Addition, text: str = "") -> InstalledAddition:
    """Build the record of an addition."""
    kind = type(addition).__struct_config__.tag
    keys = () if isinstance(addition, OwnFile) else addition.keys
    name = addition.name if isinstance(addition, JsonEntry) else ""
    return InstalledAddition(
        addition.path, str(kind), addition.what, addition.mark, text, keys, name
    )


def check_state(text: str | None, addition: Addition) -> str:
    """Return the state of an addition in the text of its file, None where there is no file.

    there: as it should be. replace: an older one of tasuki's. foreign: something else has its
    place. add: it is missing. Raises NotJson or NotToml.
    """
    if isinstance(addition, OwnFile):
        if text is None or text == addition.content:
            return "add" if text is None else "there"
        return "replace" if addition.mark in text else "foreign"
    if text is None or not text.strip("\ufeff \t\r\n"):
        return "add"
    if isinstance(addition, TomlTable):
        found = toml_text.find_value(text, addition.keys)
        if found is None:
            return "add"
        if not _is_own_table(text, addition.keys, addition.mark):
            return "foreign"
        wanted, _ = toml_text.add_table("", addition.keys, addition.body)
        return "there" if found == toml_text.find_value(wanted, addition.keys) else "replace"
    nodes = _list_nodes(text, addition)
    if not nodes:
        return "add"
    if [json_text.read_value(text, node) for node in nodes] == [addition.value]:
        return "there"
    return "replace" if addition.mark in text[nodes[0].start : nodes[0].end] else "foreign"


def find_own_values(text: str, addition: Addition) -> list[Any]:
    """Find tasuki's own values at the place of an addition. Raises NotJson or NotToml."""
    if isinstance(addition, OwnFile) or not text.strip("\ufeff \t\r\n"):
        return []
    if isinstance(addition, TomlTable):
        value = toml_text.find_value(text, addition.keys)
        return [] if value is None else [value]
    return [json_text.read_value(text, node) for node in _list_nodes(text, addition)]


def insert_addition(text: str | None, addition: Addition) -> tuple[str, str]:
    """Return the text with the addition, and the inserted part. Raises NotJson or NotToml."""
    if isinstance(addition, OwnFile):
        return addition.content, addition.content
    if isinstance(addition, TomlTable):
        return toml_text.add_table(text or "", addition.keys, addition.body)
    return json_text.insert_member(text or "", addition.keys, addition.name, addition.value)


def remove_addition(text: str, installed: InstalledAddition) -> tuple[str | None, str]:
    """Return the text without an installed addition, and the removed part.

    The text is None where the file is no longer needed. An addition that is unchanged is cut
    out exactly; otherwise what bears the mark at its place is removed. Raises NotJson or
    NotToml.
    """
    if installed.kind == "file":
        return (None, text) if installed.mark in text else (text, "")
    left = _cut_exact_text(text, installed)
    if left is None and installed.kind == "json":
        left = _remove_entry(text, installed)
    elif left is None:
        is_own = _is_own_table(text, installed.keys, installed.mark)
        left = toml_text.remove_table(text, installed.keys) if is_own else text
    # It was cut out in one piece.
    start = count_same(text, left)
    return left, text[start : start + len(text) - len(left)]


def _cut_exact_text(text: str, installed: InstalledAddition) -> str | None:
    """Return the text without exactly the inserted part; None where that is missing or not all of it."""
    if not installed.text or text.count(installed.text) != 1:
        return None
    left = text.replace(installed.text, "")
    try:
        if installed.kind == "toml":
            toml_text.parse_toml(left)
        elif left.strip():
            json_text.parse_json(left)
            holders = (json_text.find_value(one, installed.keys) for one in (text, left))
            before, after = (
                len(_find_marked(one, holder, installed.mark))
                for one, holder in zip((text, left), holders, strict=True)
            )
            if not installed.name and after >= before:
                return None  # the same text in another list
    except (json_text.NotJson, toml_text.NotToml):
        return None
    return left


# -- tables ----------------------------------------------------------------------------


def _is_own_table(text: str, keys: tuple[str, ...], mark: str) -> bool:
    place = toml_text.find_table(text, keys)
    return place is not None and mark in text[place.start : place.end]


# -- entries ---------------------------------------------------------------------------


def _list_nodes(text: str, addition: JsonEntry) -> list[json_text.JsonNode]:
    """List what is at the place of an addition: a member of that name, or elements of tasuki's."""
    if not addition.name:
        return _find_marked(text, json_text.find_value(text, addition.keys), addition.mark)
    member = json_text.find_value(text, (*addition.keys, addition.name))
    return [member] if member else []


def _find_marked(
    text: str, holder: json_text.JsonNode | None, mark: str
) -> list[json_text.JsonNode]:
    if holder is None or holder.kind != "list":
        return []
    return [node for node in holder.children if mark in text[node.start : node.end]]


def _remove_entry(text: str, installed: InstalledAddition) -> str:
    """Return the text without what bears our mark, and without holders that become empty."""
    while text.strip("\ufeff \t\r\n"):
        holder = json_text.find_value(text, installed.keys)
        if holder is None:
            break
        member = holder.find_child(installed.name) if installed.name else None
        matches = _find_marked(text, holder, installed.mark)
        if installed.name:
            is_own = member and installed.mark in text[member.start : member.end]
            matches = [member] if member and is_own else []
        if not matches:
            break
        inner, outer = _narrow_to_own_part(text, matches[0], holder, installed.mark)
        text = _remove_empty_holders(json_text.remove_child(text, inner, outer), installed.keys)
    return text


def _narrow_to_own_part(
    text: str, node: json_text.JsonNode, holder: json_text.JsonNode, mark: str
) -> tuple[json_text.JsonNode, json_text.JsonNode]:
    """Return only our part of an element and the list that holds it: the user may have added to ours."""
    for child in node.children:
        own_nodes = _find_marked(text, child, mark)
        if own_nodes and len(child.children) > len(own_nodes):
            return own_nodes[0], child
    return node, holder


def _remove_empty_holders(text: str, keys: tuple[str, ...]) -> str:
    """Return the text without the objects and lists on the way that are empty now."""
    for depth in range(len(keys), 0, -1):
        node = json_text.find_value(text, keys[:depth])
        holder = json_text.find_value(text, keys[: depth - 1])
        if node is None or holder is None or node.kind == "scalar" or node.children:
            break
        if text[node.start + 1 : node.end - 1].strip():
            break  # a comment
        text = json_text.remove_child(text, node, holder)
    return text
