"""Which files and commands a draft without a model names, and what it tells of each."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from tasuki.draft.authors.task import Task
from tasuki.draft.command_kinds import hides_exit_code
from tasuki.draft.commands import (
    asks_about_itself,
    base_command,
    is_bookkeeping,
    is_selection,
    steps,
)
from tasuki.draft.file_ranks import FileRanks
from tasuki.draft.files import is_outside
from tasuki.draft.rank import Relevance
from tasuki.draft.text import one_line
from tasuki.model import CommandFact, CommandItem, FileFact, FileItem
from tasuki.shell import strip_assignments

GOALS_FILES, GOALS_PLACE, GOALS_MATCH = 4, 3, 0.25
"""Files that the goal names best, the place they have at the latest, and how well they match."""
TOLD, NAMES = 5, 3
"""Files that are told with what was done to them, and names told beside each."""
SPOKEN_OF = 12
"""Files that no tool touched and that the newest entries name, behind all others."""
TOLD_COMMANDS = 4
"""Commands that are told with what came of them."""
LONG_COMMAND, SHORT_COMMAND = 200, 120
"""Characters up to which a command is told with its result, and up to which one is named bare."""


def files(task: Task, limit: int, reasons: bool) -> Iterator[FileItem]:
    """Files that the successor is likely to open: five with what was done to them, then names."""
    known = task.relevance.files
    ranked = ranked_files(task)
    touched = [file for file in ranked if not known.is_only_spoken_of(file)]
    spoken_of = sorted(filter(known.is_only_spoken_of, ranked), key=_is_only_printed)[:SPOKEN_OF]
    chosen = [*touched, *spoken_of][:limit]
    for count, file in enumerate(chosen):
        told = count < TOLD and bool(file.edits or file.reads)
        yield FileItem(
            path=file.path,
            reason=_why_file(file, file.symbols[:NAMES]) if reasons and told else "",
            refs=file.shown_in[-3:] if told else (),
            minor=not told,
        )


def _is_only_printed(file: FileFact) -> bool:
    """Whether nobody names a file, no tool was given its name, and it was printed once."""
    named = file.named
    return not (named.assistant or named.user or named.input) and len(named.output) < 2


def ranked_files(task: Task) -> list[FileFact]:
    """The files of a thread that are still there, the one that is most likely opened next first."""
    return [file for _, file in _goals_first(task.relevance.files) if not file.deleted]


def _goals_first(files: FileRanks) -> list[tuple[float, FileFact]]:
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
    facts: Sequence[CommandFact],
    relevance: Relevance,
    limit: int,
    told_already: Collection[int] = (),
    named: Iterable[str] = (),
) -> Iterator[CommandItem]:
    """Commands that can be run again: the first few with what came of them, then the short ones bare.

    The first few are of different shapes. Of runs in `told_already` the state of the work tells the
    result: they are named bare. Commands in `named` and their steps are left out.
    """
    ranked = sorted(facts, key=lambda c: -relevance.command(c))
    newest: dict[str, int] = {}
    for command in facts:
        for step in steps(command.command):
            bare = strip_assignments(step)
            newest[bare] = max(newest.get(bare, 0), command.refs[-1])
    fresh = [c for c in ranked if c.refs[-1] not in told_already and _is_newest(c, newest)]
    seen = {
        strip_assignments(step) for line in named for step in (*steps(line), base_command(line))
    }
    fresh = [c for c in fresh if not any(strip_assignments(s) in seen for s in steps(c.command))]
    told = list(_told_commands(fresh))[: min(limit, TOLD_COMMANDS)]
    yield from told
    seen |= {strip_assignments(base_command(c.command)) for c in told}
    worth: dict[str, float] = {}
    for command in ranked:
        for step in steps(command.command):
            bare = strip_assignments(step)
            if len(step) <= SHORT_COMMAND and bare not in seen and _lasts(bare):
                worth[step] = worth.get(step, 0.0) + relevance.command(command)
    for step in sorted(worth, key=lambda s: -worth[s]):
        if (bare := strip_assignments(step)) not in seen:
            seen.add(bare)
            yield CommandItem(command=step, minor=True)


def _is_newest(command: CommandFact, newest: Mapping[str, int]) -> bool:
    """Whether no later run holds a step of a command, and no filter behind a pipe hides its end."""
    last = command.refs[-1]
    tells_its_end = command.check and (command.outcome or not command.ok)
    if not tells_its_end and hides_exit_code(command.command):
        return False
    return all(newest.get(strip_assignments(s), last) <= last for s in steps(command.command))


def _told_commands(ranked: Sequence[CommandFact]) -> Iterator[CommandItem]:
    """One command of each shape, whole where it is short, with what came of its last run."""
    shapes: set[str] = set()
    for command in ranked:
        parts = [s for s in steps(command.command) if _lasts(strip_assignments(s))]
        if not parts or len(command.command) > LONG_COMMAND or "\n" in command.command.strip():
            continue
        shape = " ".join(strip_assignments(parts[-1]).split()[:3])
        if shape not in shapes and not asks_about_itself(command.command):
            shapes.add(shape)
            text = base_command(command.command)
            yield CommandItem(
                command=text if text in one_line(command.command) else one_line(command.command),
                note=command_note(command),
                refs=command.refs[-2:],
            )


def _lasts(step: str) -> bool:
    """Whether a step may be wanted again: no bookkeeping of git, no edit by a stream editor."""
    return not (is_bookkeeping(step) or _EDITS.match(step))


_EDITS = re.compile(r"(?:sed|perl)\b.*\s-\w*i")


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
