"""Where each command of a thread ran, and whether the files on which it ran are still there."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from tasuki.draft.runs.command_kinds import identify_started, list_simple_commands
from tasuki.draft.runs.programs import unquote
from tasuki.draft.runs.scopes import follow_folder, join_folder
from tasuki.model import ToolCall
from tasuki.patterns import compile_pattern

_OPTIONS = compile_pattern(r"git\s+(?:-C\s+(\S+)\s+|-c\s+\S+\s+|--[\w-]+(?:=\S+)?\s+)+")
"""Options of git itself, before what it is to do."""
_BRANCH = compile_pattern(r"git\s+(?:checkout|switch)\s+(?!-[bBcC]\b)(?!.*\s--\s)(?!--\s)")
_STASH = compile_pattern(r"git\s+stash\b(?!\s+(?:list|show|drop|clear|pop|apply))")
_UNSTASH = compile_pattern(r"git\s+stash\s+(?:pop|apply|drop|clear)\b")
_DROPS = compile_pattern(r"git\s+stash\s+(?:drop|clear)\b")
_UNDOES = compile_pattern(
    r"git\s+(?:checkout\s+(?:--\s+)?\.|restore\s+\.|reset\s+--hard|apply\s+(?:-R|--reverse)\b)"
)
_APPLIES = compile_pattern(r"(?:git\s+apply|patch)\s+(?!.*(?:-R|--reverse|--check|--stat)\b)")
_ALTERS = compile_pattern(
    r"git\s+checkout\s+(?!-)\S+\s+--\s|git\s+restore\s+.*--source|(?:sed\s+(?:-\S+\s+)*-\w*i|perl\s+-\w*i|cp|mv)\b"
)
_RESTORES = compile_pattern(
    r"git\s+(?:checkout|restore)\b|(?:cp|mv)\s+(?:\S*/tmp/\S+|\S+\.(?:bak|orig|old|backup))\s"
)
_KEEPS = compile_pattern(r"git\s+(?:\S+\s+)*?(?:commit|merge|cherry-pick|revert|pull|am)\b")
_WORKTREE = compile_pattern(r"git\s+worktree\s+add\s+(?!.*\s-[bB]\b|-[bB]\b)")
_ENDS = {"branch": _BRANCH, "stash": _UNSTASH, "patch": _APPLIES}
_MAY_BEGIN = compile_pattern(r"\b(?:git|sed|perl|cp|mv)\s")
_PATH = compile_pattern(r"[\w@./-]*[./][\w@./-]+")


class _Visit(NamedTuple):
    """A state of the files that was left again, perhaps: a branch, a stash, a patch taken back, a changed file."""

    kind: Literal["branch", "stash", "patch", "path"]
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
        self.trees: set[str] = set()
        """Worktrees that were added without a branch of their own."""
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

    def list_stashed(self) -> set[int]:
        """List the runs on files without changes that are stashed still."""
        return {number for one in self._visits if one.kind == "stash" for number in one.checks}

    def take_run(self, number: int, command: str) -> None:
        """Follow the files through a command line."""
        if not (self._visits or _MAY_BEGIN.search(command)):
            return
        for part in list_simple_commands(command):
            text = part.text
            options = _OPTIONS.match(text) if text.startswith("git -") else None
            if options and options[1] and join_folder(self._lasting, options[1]) != self.cwd:
                continue  # Of another checkout.
            text = f"git {text[options.end() :]}" if options else text
            for visit in [one for one in self._visits if _is_end(one, text)]:
                if not _DROPS.match(text):
                    self.left.update(visit.checks)
                self._visits.remove(visit)
            started = identify_started(part)
            if started and started.runner.kind != "commit":
                for visit in self._visits:
                    visit.checks.append(number)
            elif _KEEPS.match(text):
                self._visits = []
            elif match := _WORKTREE.match(text):
                self._add_tree(command, text[match.end() :])
            else:
                self._visits += _list_begun(text)

    def _add_tree(self, command: str, arguments: str) -> None:
        """Note a worktree, which a command line adds."""
        folder = follow_folder(command.partition("git worktree add")[0], self._lasting)
        names = [word for word in arguments.split() if not word.startswith("-")]
        if names and (tree := join_folder(folder, unquote(names[0]))):
            self.trees.add(tree)


def _list_begun(text: str) -> Iterator[_Visit]:
    if _STASH.match(text):
        yield _Visit("stash", frozenset(), [])
    elif _ALTERS.match(text) and (paths := _list_paths(text)):
        yield _Visit("path", paths, [])
    if _UNDOES.match(text):
        yield _Visit("patch", frozenset(), [])
    elif _BRANCH.match(text):
        yield _Visit("branch", frozenset(), [])


def _is_end(visit: _Visit, text: str) -> bool:
    """Return whether a command puts back the files as they were before a visit."""
    if visit.kind == "path":
        return bool(_RESTORES.match(text) and visit.paths & _list_paths(text))
    return bool(_ENDS[visit.kind].match(text))


def _list_paths(text: str) -> frozenset[str]:
    """List the paths that a command names: all behind a `--`."""
    named = text.partition(" -- ")[2].split()
    return frozenset(named or _PATH.findall(text))
