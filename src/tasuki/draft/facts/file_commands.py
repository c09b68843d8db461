"""Files that the commands of a line remove, move and copy."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tasuki.draft.facts.commands import CommandRun
from tasuki.draft.repository.checkouts import expand_home
from tasuki.draft.runs.command_kinds import list_simple_commands
from tasuki.draft.runs.programs import unquote
from tasuki.draft.runs.scopes import enter_folder, join_folder, locate
from tasuki.patterns import compile_pattern
from tasuki.shell import split_words

_REMOVERS = frozenset("rm unlink remove-item del erase".split())
_MOVERS = frozenset("mv move-item move".split())
_COPIERS = frozenset("cp copy-item copy".split())
_NAMES = ("rm ", "mv ", "cp ", "unlink ", "-Item ", "-item ", "del ", "erase ", "move ", "copy ")
_FAILED = compile_pattern(r"\b(?:mv|rm|cp|unlink): |fatal: |cannot (?:move|stat)|is not recognized")
_PRINTED = compile_pattern(r"(?m)^rm '([^'\n]+)'$")
_ONLY_TRIES = frozenset("--cached -n --dry-run -t -whatif".split())
"""Options with which the files stay where they are, or the operands mean something else."""
_BACKUP = compile_pattern(r"(?:^|/)te?mp/|^/(?:private/)?var/|\.(?:bak|orig|old|backup)$")
UNKNOWN = compile_pattern(r"[$*?{`]|\[")
"""What stands for a variable or for several names."""


class Displaced(NamedTuple):
    """A file or folder that is gone from its place, and where it is now: nowhere, if it was removed.

    `old` is empty for a copy.
    """

    old: str
    new: str
    is_tracked: bool
    """Git itself did it, which has to know the file."""


def list_displaced(run: CommandRun, cwd: str) -> Iterator[Displaced]:
    """Yield what a command line removed, moved and copied, before it went wrong."""
    if not any(name in run.command for name in _NAMES):
        return
    if run.went_wrong and _FAILED.search(run.output):
        return
    folder: str | None = run.folder
    parts = list_simple_commands(run.command)
    for number, part in enumerate(parts, 1):
        entered = enter_folder(expand_home(part.text, cwd), folder)
        folder = None if entered != folder and "(cd " in run.command else entered  # A subshell.
        words = [unquote(word).rstrip(",") for word in split_words(part.text)]
        is_tracked, place = words[:1] == ["git"], folder
        while is_tracked and words[1:2] == ["-C"] and words[3:]:
            place = join_folder(place, expand_home(words.pop(2), cwd))
            words.pop(1)
        name, *operands = words[is_tracked:] or [""]
        is_copy = name.lower() in _COPIERS
        is_move = is_copy or name.lower() in _MOVERS
        displaces = is_move or name.lower() in _REMOVERS
        if run.went_wrong and (number == len(parts) or not (displaces or name == "cd")):
            return
        may_not_run = part.in_block or part.operator == "||"
        if displaces and not may_not_run and _ONLY_TRIES.isdisjoint(map(str.lower, operands)):
            if is_tracked and place == "":
                yield from _list_printed(operands, run.output)
            for one in _list_paths(operands, place, is_move=is_move, is_tracked=is_tracked):
                is_back = is_copy and _BACKUP.search(one.old)  # As it was, perhaps.
                if not is_back:
                    yield one._replace(old="") if is_copy else one


def _list_printed(operands: Sequence[str], output: str) -> Iterator[Displaced]:
    """Yield what `git rm` printed of the folders and patterns that it was given."""
    names = [name for name in operands if not name.startswith("-")]
    above = [UNKNOWN.split(n)[0] if UNKNOWN.search(n) else f"{n.rstrip('/')}/" for n in names]
    for path in _PRINTED.findall(output) if "rm '" in output else ():
        if any(start and path.startswith(start) for start in above):
            yield Displaced(path, "", is_tracked=True)


def _list_paths(
    operands: Sequence[str], folder: str | None, *, is_move: bool, is_tracked: bool
) -> Iterator[Displaced]:
    names = [name for name in operands if not name.startswith("-")]
    target = names.pop() if is_move and len(names) > 1 else ""
    new = join_folder(folder, target) if target and not UNKNOWN.search(target) else None
    is_into = is_move and (len(names) > 1 or target.endswith(("/", "\\", ".")))
    if is_move and new is None:
        return
    for name in names:
        old = None if UNKNOWN.search(name) else join_folder(folder, name)
        if old:
            moved = locate(new, old.rpartition("/")[2]) if is_into else new or ""
            yield Displaced(old, moved, is_tracked)
