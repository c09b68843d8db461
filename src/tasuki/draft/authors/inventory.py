"""The facts of a thread as a numbered list that an author chooses from.

A path, a command or a user's sentence chosen by number cannot be invented.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from msgspec import Struct

from tasuki.draft.brief import format_refs
from tasuki.draft.facts import state
from tasuki.draft.facts.commands import is_runnable, normalize_command, shorten_command
from tasuki.draft.facts.statements import Statement
from tasuki.draft.rank.relevance import Relevance, select_best
from tasuki.draft.text.split import fold_whitespace
from tasuki.model import CommandFact, Facts, FileFact, Item, Thread

MAX_FILES = 40
MAX_COMMANDS = 24
MAX_SENTENCES = 30
MAX_CHARACTERS = 16_000
"""Characters of the whole list; for a small window the caller passes less."""
LASTING_WEIGHT = 0.9
"""Weight from which a sentence of the user is a wish or ruling that must not be lost."""
_NUMBER = re.compile(r"\s*#?([FCU])[\s#-]?(\d{1,3})(?![\w/]|[.-]\w)", re.IGNORECASE)
_LIKE_A_NUMBER = re.compile(r"(?<![\w`/.-])[FCU]\d{1,3}(?![\w/]|[.-]\w)")
_T = TypeVar("_T")


class FactInventory(Struct, frozen=True):
    """The facts to choose from, best first: `F1` is `files[0]`."""

    files: tuple[FileFact, ...]
    commands: tuple[CommandFact, ...]
    user: tuple[Statement, ...]
    state: tuple[Item, ...]
    spoken: frozenset[str] = frozenset()
    """What the thread itself says that looks like a number of the list: `F1` as in F1 score."""

    def find_file(self, name: str) -> FileFact | None:
        """Return the file that a number, its path, or the end of one path means."""
        path = name.strip("` ")
        by_path = next((f for f in self.files if f.path == path), None)
        ends = [f for f in self.files if path and f.path.endswith(f"/{path}")]
        return (
            by_path
            or _find_numbered("F", name, self.files)
            or (ends[0] if len(ends) == 1 else None)
        )

    def find_command(self, name: str) -> CommandFact | None:
        """Return the command that a number or its exact words mean."""
        words = fold_whitespace(name.strip("` "))
        exact = next((c for c in self.commands if fold_whitespace(c.command) == words), None)
        return exact or _find_numbered("C", name, self.commands)

    def find_sentence(self, name: str) -> Statement | None:
        """Return the user's sentence that a number means, if the number is alone."""
        return _find_numbered("U", name, self.user)

    def list_lasting_wishes(self) -> list[tuple[int, Statement]]:
        """Return wishes and rulings of the user that must not be lost, with numbers."""
        return [
            (number, s)
            for number, s in enumerate(self.user, 1)
            if s.kind in ("constraint", "reversal") and s.weight >= LASTING_WEIGHT
        ]

    def render_list(self, clean: Callable[[str], str], characters: int = MAX_CHARACTERS) -> str:
        """Return the list for a request; what does not fit is left out at the end of each part."""
        parts = (
            (
                "What the user said (U)",
                [_format_user_line(n, s) for n, s in enumerate(self.user, 1)],
                0.35,
            ),
            ("Files (F)", [_format_file_line(n, f) for n, f in enumerate(self.files, 1)], 0.3),
            (
                "Commands (C)",
                [_format_command_line(n, c) for n, c in enumerate(self.commands, 1)],
                0.2,
            ),
            ("State, as derived", [f"- {_format_labelled(i)}" for i in self.state], 0.15),
        )
        blocks = []
        for title, lines, share in parts:
            fitting = list(_fit_lines(lines, int(characters * share)))
            if fitting:
                blocks.append(f"### {title}\n" + "\n".join(fitting))
        return clean("\n\n".join(blocks)) or "(none)"


def build_inventory(
    thread: Thread, facts: Facts, stated: Sequence[Statement], relevance: Relevance
) -> FactInventory:
    """Return the facts worth choosing from, ranked for a goal.

    Files that are only mentioned in words come last.
    """
    known = relevance.files
    files = sorted((f for _, f in known.rank_files()), key=known.is_only_mentioned)
    shapes: dict[str, CommandFact] = {}
    for command in sorted(facts.commands, key=lambda c: -relevance.score_command(c)):
        if is_runnable(command.command) or command.check:
            shapes.setdefault(normalize_command(command.command), command)
    return FactInventory(
        files=tuple(files[:MAX_FILES]),
        commands=tuple(list(shapes.values())[:MAX_COMMANDS]),
        user=tuple(_select_user_sentences(stated, relevance)),
        state=(
            *state.list_state_items(thread, facts),
            *list(state.list_lessons(facts, relevance.score_lesson))[:4],
        ),
        spoken=frozenset(
            number
            for entry in thread.entries
            if entry.kind in ("user", "assistant")
            for number in _LIKE_A_NUMBER.findall(entry.text)
        ),
    )


def _select_user_sentences(stated: Iterable[Statement], relevance: Relevance) -> list[Statement]:
    """Return what the user wished and ruled, in the order it was said."""
    own = [s for s in stated if s.by_user and s.weight > -0.5 and len(s.text) > 6]
    chosen = select_best(((relevance.score_statement(s), s) for s in own), MAX_SENTENCES)
    return sorted(chosen, key=lambda s: s.ref)


def _find_numbered(letter: str, name: str, items: Sequence[_T]) -> _T | None:
    match = _NUMBER.match(name)
    if not match or match[1].upper() != letter:
        return None
    index = int(match[2]) - 1
    return items[index] if 0 <= index < len(items) else None


def _format_user_line(number: int, statement: Statement) -> str:
    return f'U{number} "{statement.text}"{format_refs((statement.ref,))}'


def _format_file_line(number: int, file: FileFact) -> str:
    actions = []
    if file.deleted:
        actions.append("deleted")
    elif file.edits:
        actions.append(f"edited {len(file.edits)}×")
    if file.reads:
        actions.append(f"read {len(file.reads)}×")
    names = f": {', '.join(file.symbols[:4])}" if file.symbols else ""
    refs = format_refs(file.shown_in)
    return f"F{number} {file.path} ({', '.join(actions) or 'named'}{names}){refs}"


def _format_command_line(number: int, command: CommandFact) -> str:
    result = "ok" if command.ok else "FAILED"
    note = command.outcome or command.error
    result = f"{result}: {note}" if note else result
    ending = result if command.known else "how it ended is not recorded"
    return f"C{number} {shorten_command(command.command, 200)} ({ending}){format_refs(command.refs, 2)}"


def _format_labelled(item: Item) -> str:
    return f"{item.label}: {item.text}{format_refs(item.refs)}" if item.label else item.text


def _fit_lines(lines: Sequence[str], room: int) -> Iterator[str]:
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            return
        yield line
