"""Files that the commands of a line remove, move, copy and write."""

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
_PRINTERS = frozenset("printf echo cat".split())
_CMDLETS = frozenset("set-content add-content out-file".split())
_SWITCHES = frozenset("-force -nonewline -append -passthru".split())
"""Options of those without a value."""
_NO_WORK = compile_pattern(r"/(?:dev|tmp|var|private)/|&|.*\.(?:log|tmp|pid)$|(?i:nul|\$null)$")
_NAMES = (
    "rm ", "mv ", "cp ", "unlink ", "-Item ", "-item ", "del ", "erase ", "move ", "copy ",
    "tee ", "-Content ", "-content ", "Out-File ", "out-file ",
)  # fmt: skip
"""Words without one of which, and without a redirection, a command moves and writes nothing."""
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
    is_written: bool = False
    """Something was written into `new`."""


def list_displaced(run: CommandRun, cwd: str) -> Iterator[Displaced]:
    """Yield what a command line removed, moved, copied and wrote, before it went wrong."""
    has_redirection = ">" in run.command and any(name in run.command for name in _PRINTERS)
    if not has_redirection and not any(name in run.command for name in _NAMES):
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
        may_not_run = part.in_block or part.operator == "||"
        written = [] if may_not_run else _list_written(name.lower(), operands, part.output_to)
        is_sure = displaces or written or name == "cd" or name in _PRINTERS
        if run.went_wrong and (number == len(parts) or not is_sure):
            return
        for path in written:
            if new := join_folder(place, expand_home(path, cwd)):
                yield Displaced("", new, is_tracked=False, is_written=True)
        if displaces and not may_not_run and _ONLY_TRIES.isdisjoint(map(str.lower, operands)):
            if is_tracked and place == "":
                yield from _list_printed(operands, run.output)
            for one in _list_paths(operands, place, is_move=is_move, is_tracked=is_tracked):
                is_back = is_copy and _BACKUP.search(one.old)  # As it was, perhaps.
                if not is_back:
                    yield one._replace(old="") if is_copy else one


def _list_written(name: str, operands: Sequence[str], output_to: str) -> list[str]:
    """List the files into which a command writes a text that stands in its line."""
    paths: list[str] = []
    if name in _PRINTERS:
        paths = [unquote(output_to)]
    elif name == "tee":
        paths = [word for word in operands if not word.startswith("-")]
    elif name in _CMDLETS:
        words = iter(word for word in operands if word.lower() not in _SWITCHES)
        for word in words:
            value = next(words, "") if word.startswith("-") else word
            if word.lower().endswith("path") or not word.startswith("-"):
                paths = [value]
                break
    return [path for path in paths if path and not (UNKNOWN.search(path) or _NO_WORK.match(path))]


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
