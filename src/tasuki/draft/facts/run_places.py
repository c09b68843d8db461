"""Where each command of a thread ran, and whether the files on which it ran are still there."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from tasuki.draft.runs.command_kinds import identify_started, list_simple_commands
from tasuki.draft.runs.scopes import follow_folder, join_folder
from tasuki.model import ToolCall
from tasuki.patterns import compile_pattern

_BRANCH = compile_pattern(r"git\s+(?:checkout|switch)\s+(?!-[bBcC]\b)(?!.*\s--\s)(?!--\s)")
_STASH = compile_pattern(r"git\s+stash\b(?!\s+(?:list|show|drop|pop|apply))")
_UNSTASH = compile_pattern(r"git\s+stash\s+(?:pop|apply)\b")
_ALTERS = compile_pattern(
    r"git\s+checkout\s+(?!-)\S+\s+--\s|git\s+restore\s+.*--source|(?:sed\s+(?:-\S+\s+)*-\w*i|perl\s+-\w*i|cp|mv)\b"
)
_RESTORES = compile_pattern(
    r"git\s+(?:checkout|restore)\b|(?:cp|mv)\s+(?:\S*/tmp/\S+|\S+\.(?:bak|orig|old|backup))\s"
)
_KEEPS = compile_pattern(r"git\s+(?:\S+\s+)*?(?:commit|merge|cherry-pick|revert|pull|am)\b")
_MAY_BEGIN = compile_pattern(r"\b(?:git|sed|perl|cp|mv)\s")
_PATH = compile_pattern(r"[\w@./-]*[./][\w@./-]+")


class _Visit(NamedTuple):
    """A state of the files that was left again, perhaps: a branch, a stash, a changed file."""

    kind: Literal["branch", "stash", "path"]
    paths: frozenset[str]
    checks: list[int]
    """Numbers of the runs of checks in it."""


class RunPlaces:
    """Follows the folder and the files over the commands of a thread, which are taken in their order.

    Whether a `cd` lasts beyond its line depends on the harness. Both are followed: a check looked at
    something if it did so in either case.
    """

    def __init__(self, cwd: str) -> None:
        self.cwd = join_folder("", cwd) or ""
        self.left: set[int] = set()
        """Numbers of the runs whose files were put back as they had been before."""
        self._lasting: str | None = self.cwd
        self._visits: list[_Visit] = []

    def find_folders(self, call: ToolCall) -> tuple[str | None, str | None]:
        """Return where a call begins, if no `cd` before lasts and if each does; None is not known."""
        if call.workdir:
            folder = join_folder(self.cwd, call.workdir)
            return folder, folder
        begun = self._lasting
        self._lasting = follow_folder(call.command, begun)
        return self.cwd, begun

    def take_edit(self) -> None:
        """Note that a file was edited: what is built on a state of the files is no visit to it."""
        self._visits = [visit for visit in self._visits if visit.kind == "path"]

    def take_run(self, number: int, command: str) -> None:
        """Follow the files through a command line."""
        if not (self._visits or _MAY_BEGIN.search(command)):
            return
        for part in list_simple_commands(command):
            for visit in [one for one in self._visits if _is_end(one, part.text)]:
                self.left.update(visit.checks)
                self._visits.remove(visit)
            started = identify_started(part)
            if started and started.runner.kind != "commit":
                for visit in self._visits:
                    visit.checks.append(number)
            elif _KEEPS.match(part.text):
                self._visits = []
            else:
                self._visits += _list_begun(part.text)


def _list_begun(text: str) -> Iterator[_Visit]:
    if _STASH.match(text):
        yield _Visit("stash", frozenset(), [])
    elif _ALTERS.match(text) and (paths := frozenset(_PATH.findall(text))):
        yield _Visit("path", paths, [])
    if _BRANCH.match(text):
        yield _Visit("branch", frozenset(), [])


def _is_end(visit: _Visit, text: str) -> bool:
    """Return whether a command puts back the files as they were before a visit."""
    if visit.kind == "path":
        return bool(_RESTORES.match(text) and visit.paths & set(_PATH.findall(text)))
    return bool((_UNSTASH if visit.kind == "stash" else _BRANCH).match(text))
