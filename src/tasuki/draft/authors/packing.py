"""What of an offer fits the budget: rounds that take the most needed of every section first."""

from collections.abc import Callable
from typing import Any

import msgspec

from tasuki.draft.brief import command_line, file_line, item_line, render_context, trimmed
from tasuki.model import Draft, FileItem, Item

NAMES_ROUND = "names"
"""The round in which the names that are left out of files so far have their turn."""
HEADING = 42
"""Characters that a section's heading takes."""
BRIEFLY = 2
"""Names of a file that are told before everything else had its turn."""

# What is taken first: (section, how many of it in this round). Later rounds fill what is left.
ROUNDS: tuple[tuple[str, int], ...] = (
    ("state", 6), ("asked", 6), ("context", 4), ("files", 4), ("commands", 3), ("decisions", 3), ("questions", 2),
    ("previous", 6), ("asked", 4), ("context", 3), ("state", 4), ("decisions", 2), ("questions", 1), ("files", 7), ("commands", 4),
    (NAMES_ROUND, 1), ("asked", 3), ("context", 2), ("questions", 2), ("files", 4), ("commands", 4), ("state", 3), ("previous", 6),
    ("decisions", 3), ("asked", 3), ("context", 4), ("files", 8), ("state", 8), ("questions", 2), ("asked", 8), ("previous", 8),
)  # fmt: skip

_LINE: dict[str, Callable[[Any], str]] = {"files": file_line, "commands": command_line}


def pack(
    draft: Draft, offered: dict[str, list[Any]], budget: int, handoff_id: str, preamble: bool
) -> Draft:
    """Take what is offered, round by round, while the brief stays within the budget."""
    room = budget * 4 - len(render_context(draft, handoff_id, preamble=preamble)) - 8
    packing = _Packing(offered, room)
    for section, count in ROUNDS:
        if section == NAMES_ROUND:
            packing.tell_names()
        else:
            packing.take(section, count)
    packing.tell_names(minor=True)
    packed = msgspec.structs.replace(
        draft,
        **{section: tuple(items) for section, items in packing.chosen.items()},
        left_out=tuple(as_item(item) for _, item in packing.rest()),
    )
    return trimmed(packed, handoff_id, budget, preamble=preamble)


class _Packing:
    """What was taken of some offers, and the room that is left, in characters."""

    def __init__(self, offered: dict[str, list[Any]], room: int) -> None:
        self.room = room
        self.chosen: dict[str, list[Any]] = {section: [] for section in offered}
        self.left = {section: list(items) for section, items in offered.items()}
        self.passed: list[tuple[str, Any]] = []
        self.whole = {file.path: file for file in self.left["files"]}
        self.left["files"] = [_briefly(file) for file in self.left["files"]]

    def take(self, section: str, count: int) -> None:
        """The next items of a section, but for those that do not fit."""
        for item in self.left[section][:count]:
            heading = 0 if self.chosen[section] else HEADING
            cost = len(_line(section, item)) + 1 + heading
            if cost <= self.room:
                self.chosen[section].append(item)
                self.room -= cost
            else:
                self.passed.append((section, item))
        del self.left[section][:count]

    def tell_names(self, minor: bool = False) -> None:
        """All names of the files that were taken, file by file while there is room."""
        for at, file in enumerate(self.chosen["files"]):
            if file.minor and not minor:
                continue
            cost = len(file_line(self.whole[file.path])) - len(file_line(file))
            if 0 < cost <= self.room:
                self.chosen["files"][at] = self.whole[file.path]
                self.room -= cost

    def rest(self) -> list[tuple[str, Any]]:
        """What was offered and not taken, what was passed over first."""
        return self.passed + [(s, item) for s, items in self.left.items() for item in items]


def _briefly(file: FileItem) -> FileItem:
    """A file with the first few of the names in it; the others are told where room is left."""
    if file.minor:
        return msgspec.structs.replace(file, reason="")
    what, mark, names = file.reason.rpartition("; ")
    if not mark or names.count("`, `") < BRIEFLY:
        return file
    few = ", ".join(names.split(", ")[:BRIEFLY])
    return msgspec.structs.replace(file, reason=f"{what}; {few}")


def _line(section: str, item: Any) -> str:
    return _LINE.get(section, item_line)(item)


def as_item(item: Any) -> Item:
    """A line of any section as an item of the list of what was left out."""
    if isinstance(item, Item):
        return item
    if isinstance(item, FileItem):
        return Item(text=f"{item.path} — {item.reason}", refs=item.refs)
    return Item(text=f"`{item.command}` — {item.note}", refs=item.refs)
