"""Which files and commands a draft without a model names, and what it says about each."""

import re
from collections.abc import Iterable, Iterator

from tasuki.draft.authors.author import AuthorTask
from tasuki.draft.facts.commands import is_bookkeeping, normalize_command, split_steps
from tasuki.draft.facts.derive import DerivedFacts
from tasuki.draft.rank.relevance import Relevance
from tasuki.draft.runs.command_kinds import find_change
from tasuki.model import CommandFact, CommandItem, Facts, FileFact, FileItem
from tasuki.paths import is_outside
from tasuki.patterns import compile_pattern
from tasuki.shell import strip_assignments

MAX_GOAL_FILES, GOAL_FILE_PLACE, MIN_GOAL_MATCH = 4, 3, 0.25
"""Files that match the goal best, the latest place they get, and how well they must match."""
MAX_MENTIONED, MAX_MAJOR = 12, 8
"""Untouched files that the newest entries name, listed after all others; files with a line of their own."""
SHORT_COMMAND, MAX_MINOR = 120, 30
"""Maximum characters of a command that is listed, and commands that share the last line."""


def choose_files(task: AuthorTask, limit: int) -> Iterator[FileItem]:
    """Yield files that the successor is likely to open, the likeliest first."""
    known = task.relevance.files
    ranked = rank_existing_files(task)
    touched = [file for file in ranked if not known.is_only_mentioned(file)]
    mentioned = sorted(  # Those last that were only printed once.
        filter(known.is_only_mentioned, ranked),
        key=lambda file: (
            not (file.named.assistant or file.named.user or file.named.input)
            and len(file.named.output) < 2
        ),
    )
    for place, file in enumerate([*touched, *mentioned[:MAX_MENTIONED]][:limit]):
        yield FileItem(path=file.path, minor=place >= min(MAX_MAJOR, len(touched)))


def rank_existing_files(task: AuthorTask) -> list[FileFact]:
    """Return the existing files of a thread, the most likely to be opened next first.

    Those that match the goal's own words best are moved up.
    """
    files = task.relevance.files
    ranked = [
        file
        for _, file in files.rank_files()
        if not (files.is_only_mentioned(file) and is_outside(file.path))
    ]
    ranked.sort(key=files.is_only_mentioned)
    matching = sorted(ranked, key=lambda file: (-files.match_goal(file.path), not file.edits))
    named = [f for f in matching[:MAX_GOAL_FILES] if files.match_goal(f.path) >= MIN_GOAL_MATCH]
    late = [file for file in named if file in ranked[GOAL_FILE_PLACE:]]
    rest = [file for file in ranked if file not in late]
    order = [*rest[:GOAL_FILE_PLACE], *late, *rest[GOAL_FILE_PLACE:]]
    return [file for file in order if not file.deleted]


def choose_commands(
    derived: DerivedFacts, relevance: Relevance, limit: int, excluded: Iterable[str] = ()
) -> Iterator[CommandItem]:
    """Yield short commands that can be run again, those after `limit` as minor ones; not the steps of those in `excluded`."""
    commands = derived.facts.commands
    steps = derived.remember("steps", lambda: [_list_short_steps(c.command) for c in commands])
    seen = {
        strip_assignments(step)
        for line in excluded
        for step in (*split_steps(line), normalize_command(line))
    }
    worth: dict[str, float] = {}
    for command, own in zip(commands, steps, strict=True):
        score = relevance.score_command(command) if own else 0.0
        for step in own:
            worth[step] = worth.get(step, 0.0) + score
    for step in sorted(worth, key=lambda s: -worth[s]):
        if limit <= -MAX_MINOR:
            break
        if (bare := strip_assignments(step)) not in seen:
            seen.add(bare)
            limit -= 1
            yield CommandItem(command=step, minor=limit < 0)


def _list_short_steps(command: str) -> list[str]:
    """List the steps of a command that may be run again."""
    short = ((s, strip_assignments(s)) for s in split_steps(command) if len(s) <= SHORT_COMMAND)
    return [s for s, bare in short if not (is_bookkeeping(bare) or _LEAVES_NOTHING.match(bare))]


def list_closed_failures(facts: Facts) -> set[int]:
    """List the runs that failed, and of which nobody knows that it still matters.

    Another run passed since, or may have; or it only looked for something.
    """
    still = {lesson.failed for lesson in facts.lessons if not lesson.passed}
    return {
        c.refs[-1]
        for c in facts.commands
        if c.result == "failed"
        and (c.refs[-1] not in still if c.check else find_change(c.command) == "")
    }


_LEAVES_NOTHING = compile_pattern(
    r"(?:sed|perl)\b.*\s-\w*i|(?:true|false|break|continue|exit|return|test|\[\[?|open|xdg-open|sleep|start-sleep|timeout|wait|kill|pkill|clear|set|which|command|git mv|mkdir|rmdir|rm|mv|cp|touch|chmod|ln|gh (?:repo|auth|pr create|issue create))(?:\s|$)"
    r"|(?:node|python3?|bash|sh|zsh|pwsh|ruby|irb)$|\S*/tmp/\S",
    re.IGNORECASE,
)
"""What hands nothing on: it ends, waits, only asks for a name, or runs a program in a folder for what is temporary."""


def format_command_note(command: CommandFact, is_reported: bool = False) -> str:
    """Return the result of a command's last run, in few words; an exit code alone proves nothing of other programs."""
    if command.result == "not shown":
        return ""  # What it printed says more, and its entry shows that.
    if not command.ok:
        word = "failed" if command.known else "did not run"
        if is_reported:
            return f"{word}, as above"
        return f"{word}: {command.error}" if command.error else word
    selection = " (a selection)" if command.suite == "selection" else ""
    return f"{command.outcome or 'ok'}{selection}" if command.check else ""
