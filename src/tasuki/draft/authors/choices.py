"""Which files and commands a draft without a model names, and what it tells of each."""

from collections.abc import Iterator, Sequence
from itertools import accumulate

from tasuki.draft.authors.task import Task
from tasuki.draft.commands import (
    base_command,
    check_kind,
    is_selection,
    runnable,
    short_command,
    steps,
)
from tasuki.draft.features import Files, is_outside
from tasuki.draft.rank import Relevance
from tasuki.draft.text import one_line
from tasuki.draft.vocabulary import Vocabulary
from tasuki.model import CommandFact, CommandItem, FileFact, FileItem

DETAILED, DETAILED_LEAST, DETAILED_MOST = 0.6, 3, 8
NAMED, NAMED_LEAST = 0.76, 8
"""Shares of all that the successor may open, and counts: files told in detail, and files named.

Of the files that were touched, the first few are named whatever their share.
"""
GOALS_FILES, GOALS_PLACE, GOALS_MATCH = 4, 3, 0.25
"""Files that the goal names best, the place they have at the latest, and how well they match."""
NAMES, NAMES_EACH, NAMES_OF_OTHERS, CITED = 140, 14, 8, 5
"""Names told beside all files, beside one, and beside one of the others; entries cited for one."""
TOKENS_A_FILE, TOKENS_A_NAME, NAMES_FROM, NAMES_LEAST = 115, 8, 1_000, 20
"""Tokens of the budget for each file that is named and, from a size on, for each name in them."""
DETAILED_COMMANDS = 5
LONG_COMMAND = 200
"""Characters from which a command's steps are told instead."""


def files(task: Task, limit: int, reasons: bool, budget: int) -> Iterator[FileItem]:
    """Files that the successor is likely to open: the first few with what was done, then names.

    Each stands for its share of all that may be opened; the list ends where `NAMED` of it is told.
    """
    limit = min(limit, max(9, budget // TOKENS_A_FILE))
    ranked = _goals_first(task.relevance.files)
    vocabulary = Vocabulary(task.thread, task.goal.text)
    detailed, named = _shares(ranked, limit)
    chosen = [f for _, f in ranked[:named]]
    inside = vocabulary.of_files(chosen[:detailed], _names_for(budget), NAMES_EACH)
    inside += vocabulary.of_files(chosen[detailed:], NAMES, NAMES_OF_OTHERS)
    covered: set[str] = set()
    for count, file in enumerate(chosen):
        told = count < detailed
        yield FileItem(
            path=file.path,
            reason=_why_file(file, inside[count]) if reasons else "",
            refs=vocabulary.entries_of(file, CITED if told else 1, covered),
            minor=not told,
        )


def _names_for(budget: int) -> int:
    """How many names in files a brief of some tokens has room for beside its facts."""
    return max(NAMES_LEAST, min(NAMES, (budget - NAMES_FROM) // TOKENS_A_NAME))


def _goals_first(files: Files) -> list[tuple[float, FileFact]]:
    """Files by worth, but those that the goal's own words name best are among the first."""
    ranked = files.ranked()
    ranked = [p for p in ranked if not (files.is_only_spoken_of(p[1]) and is_outside(p[1].path))]
    ranked.sort(key=lambda pair: files.is_only_spoken_of(pair[1]))
    matching = sorted(ranked, key=lambda pair: (-files.match(pair[1].path), not pair[1].edits))[
        :GOALS_FILES
    ]
    named = [pair for pair in matching if files.match(pair[1].path) >= GOALS_MATCH]
    late = [pair for pair in named if pair in ranked[GOALS_PLACE:]]
    rest = [pair for pair in ranked if pair not in late]
    return [*rest[:GOALS_PLACE], *late, *rest[GOALS_PLACE:]]


def _shares(ranked: Sequence[tuple[float, FileFact]], limit: int) -> tuple[int, int]:
    """How many of some files are told in detail, and how many are named at all."""
    total = sum(worth for worth, _ in ranked)
    sums = list(accumulate(worth for worth, _ in ranked[:limit]))
    detailed = sum(s <= DETAILED * total for s in sums) + 1
    named = sum(s <= NAMED * total for s in sums) + 1
    detailed = max(DETAILED_LEAST, min(detailed, DETAILED_MOST))
    touched = sum(bool(f.edits or f.reads) for _, f in ranked)
    named = max(named, min(touched, NAMED_LEAST))
    return min(detailed, len(sums)), min(named, len(sums))


def _why_file(file: FileFact, names: Sequence[str]) -> str:
    """What the thread did to a file, and the names in it that the work goes on with."""
    what = []
    if file.deleted:
        what.append("deleted")
    elif file.edits:
        what.append(f"{'created, ' if file.created else ''}edited {len(file.edits)}×")
    if file.reads and not file.edits:
        what.append(f"read {len(file.reads)}×")
    if not (file.reads or file.edits):
        what.append("only spoken of")
    if names:
        what.append(", ".join(f"`{n}`" for n in names))
    return "; ".join(what)


def commands(
    facts: Sequence[CommandFact], told: set[int], relevance: Relevance, limit: int
) -> Iterator[CommandItem]:
    """Commands that can be run again, one of each shape; what came of the first few.

    Of a command too long to repeat, the steps that none of the others holds.
    """
    shown: set[str] = set()
    count = 0
    for command in sorted(facts, key=lambda c: -relevance.command(c)):
        for text in _runnable(command):
            shape = base_command(text)
            if count >= limit:
                return
            if shape in shown:
                continue
            shown.update((shape, *steps(text)))
            count += 1
            detailed = count <= DETAILED_COMMANDS
            yield CommandItem(
                command=text,
                note=_note(command, text, told) if detailed else "",
                refs=command.refs[-2:] if detailed else command.refs[-1:],
            )


def _note(command: CommandFact, text: str, told: set[int]) -> str:
    """What came of a command; of one of its steps, only what the whole can tell."""
    whole = one_line(text) == one_line(short_command(command.command))
    if whole or (command.check and check_kind(text) == command.check):
        return command_note(command, command.refs[-1] in told)
    return f"in a longer command, which {'ran' if command.ok else 'failed'}"


def _runnable(command: CommandFact) -> list[str]:
    """A command as it can be run again: whole, or its steps where it is long."""
    if len(command.command) <= LONG_COMMAND and runnable(command.command):
        return [short_command(command.command)]
    parts = [p for p in steps(command.command) if runnable(p, LONG_COMMAND)]
    return parts or ([short_command(command.command)] if command.check else [])


def command_note(command: CommandFact, told: bool = False) -> str:
    """What came of a command's last run, in few words."""
    if not command.known:
        return "how it ended is not recorded"
    if not command.ok:
        if told:
            return "failed, as above"
        return f"failed: {command.error}" if command.error else "failed"
    selection = (
        " (a selection)" if command.check == "test" and is_selection(command.command) else ""
    )
    return f"{command.outcome or 'ok'}{selection}" if command.check else "ok"
