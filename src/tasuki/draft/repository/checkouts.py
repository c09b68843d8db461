"""Checkouts of repositories in a thread: where they are, and which commands ran in which."""

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

from tasuki.draft.runs.ended_line import EndedLine, find_echoed_text, list_steps, read_line
from tasuki.draft.runs.exit_codes import find_own_code
from tasuki.draft.runs.programs import find_name, list_started, unquote
from tasuki.draft.runs.scopes import enter_folder, join_folder
from tasuki.draft.runs.summaries import Summary
from tasuki.model import ToolCall
from tasuki.paths import fold_path
from tasuki.patterns import compile_pattern
from tasuki.shell import split_words

_HOME = compile_pattern(r"/(?:Users|home)/[^/]+|/root|[a-z]:/Users/[^/]+")
_DOCUMENT = compile_pattern(r"\$\(cat <<-?\s*['\"\\]?\w+['\"]?[^\S\n]*\n\s*([^\n]+)")
_DOCUMENT_WORD = compile_pattern(r"\"*\$\(cat <<")
"""A word that a here-document fills: its first line counts."""
_FROM_DOCUMENT = compile_pattern(
    r"\bcommit\b[^\n]*(?:-F|--file)[ =]-[ \t]*<<-?[ \t]*['\"\\]?\w+['\"]?[^\n]*\n\s*([^\n]+)"
)
_PROGRAMS = frozenset(("git", "gh", "jj"))
_FOLDER_OPTIONS = frozenset(("-C", "-R", "--repository", "--work-tree"))
_VALUED = _FOLDER_OPTIONS | {"-c", "--git-dir", "--namespace", "--config"}
USUAL_BRANCHES = frozenset(("main", "master", "develop", "trunk"))
_WORKTREES = compile_pattern(r"/(?:\.worktrees?|\.?worktrees|\.jj)(?:/|$)")
"""A folder of other checkouts inside a checkout."""


class RepositoryCommand(NamedTuple):
    """A command of git, gh or jj in a line: where it ran, if that is known, and its words."""

    program: str
    verb: str
    words: list[str]
    place: str | None
    number: int
    """Which step of the line it is."""

    @property
    def names(self) -> list[str]:
        """Its arguments that are no options."""
        return [word for word in self.words if not word.startswith("-")]


class RepositoryLine:
    """A command line: its steps, and how it ended, which is read on demand."""

    def __init__(self, call: ToolCall) -> None:
        self.steps = list_steps(call.command)
        self._call = call

    @cached_property
    def ended(self) -> EndedLine:
        """How it ended."""
        return read_line(self.steps, self._call)


def list_repository_commands(
    call: ToolCall, cwd: str
) -> tuple[RepositoryLine, list[RepositoryCommand]]:
    """List the commands of git, gh and jj in a command line of a thread of a folder."""
    folder = join_folder(cwd, expand_home(call.workdir, cwd)) if call.workdir else cwd
    found: list[RepositoryCommand] = []
    line = RepositoryLine(call)
    subjects = (m[1].strip() for m in _FROM_DOCUMENT.finditer(call.command))
    documents = [m[1].strip() for m in _DOCUMENT.finditer(call.command)]
    for number, step in enumerate(line.steps):
        text = step.command.text
        if text.startswith(("cd ", "pushd ", "Set-Location ")):
            folder = enter_folder(expand_home(text, cwd), folder)
        elif "git" in text or "gh" in text or "jj" in text:
            source, left = step.command.source or text, iter(documents)
            started: Iterable[Sequence[str]] = (split_words(source),)
            if not source.startswith(("git ", "gh ", "jj ")):
                started = (one.words for one in list_started(source))
            for words in started:
                if (name := find_name(words[0])) in _PROGRAMS:
                    bare = map(unquote, words[1:])
                    given = [next(left, w) if _DOCUMENT_WORD.match(w) else w for w in bare]
                    if given[-2:] in (["-F", "-"], ["--file", "-"]):
                        given[-2:] = ["-m", next(subjects, "")]
                    rest, place = _strip_options(given, folder, cwd)
                    if rest:
                        found.append(RepositoryCommand(name, rest[0], rest[1:], place, number))
        documents = documents[text.count("$(cat <<") :]
    return line, found


def expand_home(text: str, cwd: str) -> str:
    """Return a path, or a `cd` into one, with the home folder that a folder is in."""
    home = _HOME.match(cwd)
    return re.sub(r"(^|\s|\")(?:~|\$HOME)(?=/|$)", rf"\1{home[0]}", text) if home else text


def _strip_options(words: list[str], folder: str | None, cwd: str) -> tuple[list[str], str | None]:
    """Return the words of a command from its verb on, and the folder that its options name."""
    while words and words[0].startswith("-"):
        option, _, value = words[0].partition("=")
        if option in _VALUED and not value and len(words) > 1:
            value, words = words[1], words[1:]
        if option in _FOLDER_OPTIONS:
            folder = join_folder(folder, expand_home(value, cwd))
        words = words[1:]
    return words, folder


class Checkout:
    """One checkout of a repository, with what is not committed in it."""

    def __init__(self, root: str, branch: str = "", *, is_foreign: bool = False) -> None:
        self.root = root
        self.branch, self.branch_ref = branch, 0
        self.branches: list[tuple[int, str, bool]] = [(0, branch, False)] if branch else []
        """For each entry from which on another branch is in use: its name, and whether it began as the one before."""
        self.is_foreign = is_foreign
        """It may be of another repository than the thread's own folder."""
        self.is_known = False
        """It is proven to be one."""
        self.uses_jujutsu = False
        self.clean_ref = self.maybe_ref = 0
        self.head = ""
        """The newest commit as git last showed it, empty where that is not known."""
        self.merges = 0
        """The entry since which a merge or rebase is under way; its commit takes all that it changed."""
        self.added: list[str] = []
        self.settled: list[tuple[int, tuple[str, ...]]] = []
        """For each entry that committed, or may have: what was added for it; `()` for everything."""
        self.by_others: list[int] = []
        """Those of these entries that only may have committed."""
        self.listed: list[tuple[int, tuple[str, ...]]] = []
        """For each entry that shows them: files, and folders of new ones, that are not committed."""
        self.complete: list[int] = []
        """Those of these entries that show all of them."""
        self.edited: dict[str, int] = {}

    def name_branch(self, branch: str) -> str:
        """Return the name under which commits of a branch are kept: with the folder, of another repository."""
        return f"{self.root}\0{branch}" if self.is_foreign else branch

    def set_branch(self, branch: str, ref: int, *, begins_here: bool | None = None) -> None:
        """Note the branch that is checked out, and whether it was made from the one before.

        Where nobody saw that, a name that was never met may be one of a new branch.
        """
        if branch and branch != "HEAD" and not branch.startswith(("-", "(")):
            if branch != self.branch:
                if begins_here is None:
                    known = {name for _, name, _ in self.branches}
                    begins_here = branch not in known | USUAL_BRANCHES
                self.branches.append((ref, branch, begins_here))
            self.branch, self.branch_ref = branch, ref

    def settle(self, ref: int, paths: Sequence[str] = (), *, by_others: bool = False) -> None:
        """Note that some paths, or all, are committed, or may be, by somebody whom nobody saw."""
        self.settled.append((ref, tuple(paths)))
        if by_others:
            self.by_others.append(ref)
        if by_others and (self.edited or not paths):
            self.maybe_ref = ref
        if not paths:
            self.edited.clear()


def find_checkout(
    checkouts: Sequence[Checkout], path: str, *, is_place: bool = False
) -> Checkout | None:
    """Find the checkout that a file is in; for a place, also the one that begins below it.

    A folder of worktrees inside a checkout is no part of it. In a folder that is not known to be a
    checkout itself, each folder in which git ran is one.
    """
    root = find_root(path, [c.root for c in checkouts])
    best = next((c for c in checkouts if root and c.root == root), None)
    if best and is_place and not best.is_known and path != root:
        best = None
    if best is None and is_place:
        best = next((c for c in checkouts if find_root(c.root, [path])), None)
        if best is not None:
            best.root = path
    return best


def find_root(path: str, roots: Iterable[str]) -> str:
    """Return the innermost of some checkouts that a path is in, empty for none."""
    folded = f"{fold_path(path)}/"
    inside = [root for root in roots if root and folded.startswith(f"{fold_path(root)}/")]
    root = max(inside, key=len, default="")
    return "" if _WORKTREES.search(path[len(root) :]) else root


_RAN = Summary("passed", "")


def is_proven(line: RepositoryLine, number: int, shown: Iterable[int] = ()) -> bool:
    """Return whether a step of a line is proven to have succeeded; `shown` are steps whose output says so."""
    return find_own_code(line.ended, number, dict.fromkeys(shown, (_RAN,))) == 0


def is_shown(line: RepositoryLine, number: int) -> bool:
    """Return whether what a step printed is in the thread, whole."""
    step = line.steps[number]
    hides = step.filters or step.command.output_to or step.command.in_background
    return line.ended.is_whole and bool(line.ended.output.strip()) and not hides


_PRINTS_NO_CHANGE = compile_pattern(
    r"(?:cd|pushd|popd|export|set|unset|umask|trap|true|:|mkdir|sleep|rm|git (?:add|fetch|rev-parse|rev-list|branch|remote|log --oneline))(?:\s|$)"
)
"""Commands that print nothing, or no line that looks like one of `git status`."""


def find_own_output(line: RepositoryLine, number: int) -> str | None:
    """Return what a step printed, between the `echo`s around it; None where others may print there too."""
    step, rows = line.steps[number], line.ended.output.split("\n")
    if not line.ended.is_whole or step.filters or step.command.output_to or step.command.in_block:
        return None
    bare = [row.strip() for row in rows]
    start, end = 0, len(rows)
    for before in reversed(line.steps[:number]):
        if text := find_echoed_text(before.command.text):
            if bare.count(text) != 1:
                return None
            start = bare.index(text) + 1
            break
        if not _PRINTS_NO_CHANGE.match(before.command.text):
            return None
    for after in line.steps[number + 1 :]:
        if text := find_echoed_text(after.command.text):
            if text in bare[start:]:
                end = bare.index(text, start)
                break
            if after.command.operator != "||":
                return None
        elif not _PRINTS_NO_CHANGE.match(after.command.text):
            return None
    return "\n".join(rows[start:end])
