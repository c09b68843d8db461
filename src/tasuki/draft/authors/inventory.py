"""The facts of a thread as a numbered list that an author chooses from.

A path, a command or a word of the user that is chosen by number cannot be invented.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from msgspec import Struct

from tasuki.draft import state
from tasuki.draft.brief import refs_mark
from tasuki.draft.commands import base_command, runnable, short_command
from tasuki.draft.rank import Relevance, best
from tasuki.draft.statements import Statement
from tasuki.draft.text import one_line
from tasuki.model import CommandFact, Facts, FileFact, Item, Thread

FILES = 40
COMMANDS = 24
SENTENCES = 30
CHARACTERS = 16_000
"""Of the whole list; a small window gets less, by the caller's wish."""
STANDING = 0.9
"""Weight from which a sentence of the user is a wish or ruling that must not be lost."""
_NUMBER = re.compile(r"\s*#?([FCU])[\s#-]?(\d{1,3})(?![\w/]|[.-]\w)", re.IGNORECASE)
_LIKE_A_NUMBER = re.compile(r"(?<![\w`/.-])[FCU]\d{1,3}(?![\w/]|[.-]\w)")
_T = TypeVar("_T")


class Inventory(Struct, frozen=True):
    """What can be chosen, best first: `F1` is `files[0]`."""

    files: tuple[FileFact, ...]
    commands: tuple[CommandFact, ...]
    user: tuple[Statement, ...]
    state: tuple[Item, ...]
    spoken: frozenset[str] = frozenset()
    """What the thread itself says that looks like a number of the list: `F1` as in F1 score."""

    def file(self, name: str) -> FileFact | None:
        """The file that a number, its path, or the end of one path means."""
        path = name.strip("` ")
        by_path = next((f for f in self.files if f.path == path), None)
        ends = [f for f in self.files if path and f.path.endswith(f"/{path}")]
        return by_path or _numbered("F", name, self.files) or (ends[0] if len(ends) == 1 else None)

    def command(self, name: str) -> CommandFact | None:
        """The command that a number or its exact words mean."""
        words = one_line(name.strip("` "))
        exact = next((c for c in self.commands if one_line(c.command) == words), None)
        return exact or _numbered("C", name, self.commands)

    def sentence(self, name: str) -> Statement | None:
        """The sentence of the user that a number means, where nothing else stands beside it."""
        return _numbered("U", name, self.user)

    def standing(self) -> list[tuple[int, Statement]]:
        """Wishes and rulings of the user that must not be lost, with their numbers."""
        return [
            (number, s)
            for number, s in enumerate(self.user, 1)
            if s.kind in ("constraint", "reversal") and s.weight >= STANDING
        ]

    def text(self, clean: Callable[[str], str], characters: int = CHARACTERS) -> str:
        """The list for a request; what does not fit is left out at the end of each part."""
        parts = (
            (
                "What the user said (U)",
                [_user_line(n, s) for n, s in enumerate(self.user, 1)],
                0.35,
            ),
            ("Files (F)", [_file_line(n, f) for n, f in enumerate(self.files, 1)], 0.3),
            ("Commands (C)", [_command_line(n, c) for n, c in enumerate(self.commands, 1)], 0.2),
            ("State, as derived", [f"- {_labelled(i)}" for i in self.state], 0.15),
        )
        blocks = []
        for title, lines, share in parts:
            kept = list(_within(lines, int(characters * share)))
            if kept:
                blocks.append(f"### {title}\n" + "\n".join(kept))
        return clean("\n\n".join(blocks)) or "(none)"


def take(
    thread: Thread, facts: Facts, stated: Sequence[Statement], relevance: Relevance
) -> Inventory:
    """The facts worth choosing from, ranked for a goal; files that nothing but words names come last."""
    known = relevance.files
    files = sorted((f for _, f in known.ranked()), key=known.is_only_spoken_of)
    shapes: dict[str, CommandFact] = {}
    for command in sorted(facts.commands, key=lambda c: -relevance.command(c)):
        if runnable(command.command) or command.check:
            shapes.setdefault(base_command(command.command), command)
    return Inventory(
        files=tuple(files[:FILES]),
        commands=tuple(list(shapes.values())[:COMMANDS]),
        user=tuple(_of_user(stated, relevance)),
        state=(*state.items(thread, facts), *list(state.lessons(facts, relevance.lesson))[:4]),
        spoken=frozenset(
            number
            for entry in thread.entries
            if entry.kind in ("user", "assistant")
            for number in _LIKE_A_NUMBER.findall(entry.text)
        ),
    )


def _of_user(stated: Iterable[Statement], relevance: Relevance) -> list[Statement]:
    """What the user wished and ruled, in the order it was said."""
    own = [s for s in stated if s.by_user and s.weight > -0.5 and len(s.text) > 6]
    chosen = best(((relevance.statement(s), s) for s in own), SENTENCES)
    return sorted(chosen, key=lambda s: s.ref)


def _numbered(letter: str, name: str, items: Sequence[_T]) -> _T | None:
    match = _NUMBER.match(name)
    if not match or match[1].upper() != letter:
        return None
    index = int(match[2]) - 1
    return items[index] if 0 <= index < len(items) else None


def _user_line(number: int, statement: Statement) -> str:
    return f'U{number} "{statement.text}"{refs_mark((statement.ref,))}'


def _file_line(number: int, file: FileFact) -> str:
    did = []
    if file.deleted:
        did.append("deleted")
    elif file.edits:
        did.append(f"edited {len(file.edits)}×")
    if file.reads:
        did.append(f"read {len(file.reads)}×")
    names = f": {', '.join(file.symbols[:4])}" if file.symbols else ""
    refs = refs_mark(file.shown_in)
    return f"F{number} {file.path} ({', '.join(did) or 'named'}{names}){refs}"


def _command_line(number: int, command: CommandFact) -> str:
    came = "ok" if command.ok else "FAILED"
    note = command.outcome or command.error
    came = f"{came}: {note}" if note else came
    how = came if command.known else "how it ended is not recorded"
    return f"C{number} {short_command(command.command, 200)} ({how}){refs_mark(command.refs, 2)}"


def _labelled(item: Item) -> str:
    return f"{item.label}: {item.text}{refs_mark(item.refs)}" if item.label else item.text


def _within(lines: Sequence[str], room: int) -> Iterator[str]:
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            return
        yield line
