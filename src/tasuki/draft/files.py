"""Files of a thread: who was read, edited, made and removed, how often and how lately."""

import re
from collections import Counter, deque
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from tasuki.draft.commands import Run
from tasuki.draft.entries import beside_handoff
from tasuki.draft.mentions import mentions
from tasuki.draft.text import PATH
from tasuki.model import Entry, FileChange, FileFact, Thread

_READER = re.compile(r"(?:^|[|;&(]\s*)(?:sed\s+-n|cat|nl|head|tail|less|bat|wc)\s+([^|;&><]+)")
_UNDO = re.compile(
    r"\bgit\s+(?:checkout(?:\s+[\w/@~^.-]+)?\s+--|restore(?!\s+--staged)(?:\s+--?[\w=-]+)*)\s+([^|;&><]+)"
)
_UNDO_ALL = re.compile(
    r"\bgit\s+(?:reset\s+--hard|checkout\s+(?:--\s+)?\.(?:\s|$)|restore\s+\.|clean\s+-\w*f)"
)
_MOVER = re.compile(
    r"(?:^|&&|;|\n)[^\S\n]*(?:git\s+)?mv\s+(?:-\w+\s+)*([^\s|;&><]+)\s+([^\s|;&><]+)"
)
_REMOVER = re.compile(r"(?:^|&&|;)\s*(?:git\s+)?rm\s+([^|;&><]+)")
_SYMBOL = re.compile(
    r"(?m)^[ \t]*(?:export\s+)?(?:default\s+)?(?:public\s+|private\s+|protected\s+|static\s+|abstract\s+|async\s+)*"
    r"(?:func(?:\s+\([^)]*\))?|def|class|fn|function\*?|interface|struct|enum|trait|impl|module|type)\s+([A-Za-z_]\w{2,})"
    r"|^[ \t]*(?:export\s+)?(?:const|let|var)\s+([A-Za-z_]\w{2,})\s*=\s*(?:async\s*)?(?:\([^)]*\)|\w+)\s*=>"
    r"|^[ \t]*(?:public|private|protected|async|static)\s+(?:[\w<>\[\], ]+\s)?([A-Za-z_]\w{2,})\s*\("
)
_MAX_SYMBOLS = 12
_SYMBOL_EDITS = 8
"""Edits of a file, the newest, whose names are looked for."""
_SYMBOL_TEXT = 20_000
_SYMBOL_FILES = 80
"""Files, the most lately touched, whose names are looked for."""
_NOISE = ("/tmp/", "/private/tmp/", "/dev/", "/proc/", "node_modules/", ".git/", "/pkg/mod/",
          "site-packages/", "/.cargo/registry/", "/.claude/projects/", "/usr/")  # fmt: skip


class _File:
    def __init__(self) -> None:
        self.reads: list[int] = []
        self.edits: list[int] = []
        self.mentioned: list[int] = []
        self.created = False
        self.deleted = False
        self.undone = 0
        self.texts: deque[str] = deque(maxlen=_SYMBOL_EDITS)

    def last(self) -> int:
        """The newest entry that touched it."""
        return max((*self.reads[-1:], *self.edits[-1:], *self.mentioned[-1:]), default=0)


class FileTable:
    """Collects what happens to files, under paths relative to the thread's folder."""

    def __init__(self, cwd: str) -> None:
        self.cwd = cwd.rstrip("/")
        self.files: dict[str, _File] = {}
        self._by_given: dict[str, _File | None] = {}

    def relative(self, path: str) -> str:
        """A path relative to the thread's folder where it lies below it."""
        path = path.removeprefix("file://").strip("\"'`")
        if self.cwd and path.startswith(self.cwd + "/"):
            return path[len(self.cwd) + 1 :]
        return path.removeprefix("./")

    def _of(self, given: str) -> _File | None:
        if given not in self._by_given:
            path = self.relative(given)
            usable = path and not path.endswith("/") and "*" not in path and "$" not in path
            self._by_given[given] = self.files.setdefault(path, _File()) if usable else None
        return self._by_given[given]

    def read(self, path: str, ref: int) -> None:
        """A file was read."""
        if file := self._of(path):
            file.reads.append(ref)

    def changed(self, change: FileChange, ref: int) -> None:
        """A file was edited, made or removed."""
        file = self._of(change.path)
        if file is None:
            return
        file.edits.append(ref)
        file.created = file.created or (change.kind == "create" and not file.reads)
        file.deleted = change.kind == "delete"
        file.texts.append(change.new or change.old)

    def moved(self, old: str, new: str, ref: int) -> None:
        """A file was renamed: what was done to it was done to the new one."""
        before, file = self.files.get(self.relative(old)), self._of(new)
        if before is None or file is None or before is file:
            return
        file.reads = sorted({*before.reads, *file.reads})
        file.edits = sorted({*before.edits, *file.edits, ref})
        file.texts.extend(before.texts)
        before.edits.append(ref)
        before.deleted = True

    def undone(self, path: str, ref: int) -> None:
        """A file, or every file with an empty path, was put back as git has it."""
        files = [self.files.get(self.relative(path))] if path else list(self.files.values())
        for file in files:
            if file is not None and file.edits:
                file.undone = ref

    def mentioned(self, path: str, ref: int) -> None:
        """A file that is known already was named again."""
        path = self.relative(path)
        if file := self.files.get(path):
            file.mentioned.append(ref)

    def facts(self) -> tuple[FileFact, ...]:
        """All files, the most lately touched first."""
        lately = sorted(self.files.items(), key=lambda item: -item[1].last())
        return tuple(
            FileFact(
                path=path,
                reads=tuple(f.reads),
                edits=tuple(f.edits),
                created=f.created,
                deleted=f.deleted,
                undone=f.undone,
                mentioned=tuple(f.mentioned[-20:]),
                symbols=symbols(f.texts) if n < _SYMBOL_FILES else (),
            )
            for n, (path, f) in enumerate(lately)
        )


def symbols(texts: Iterable[str]) -> tuple[str, ...]:
    """Names that are defined in some texts, those of the last text first."""
    found: dict[str, None] = {}
    for text in texts:
        for match in _SYMBOL.finditer(text[:_SYMBOL_TEXT]):
            name = next(g for g in match.groups() if g)
            found.pop(name, None)
            found[name] = None
    return tuple(reversed(list(found)))[:_MAX_SYMBOLS]


def is_noise(path: str) -> bool:
    """Whether a path is scratch space or a dependency rather than the user's work."""
    return any(n in path for n in _NOISE)


def short_names(paths: Iterable[str]) -> dict[str, str]:
    """The end of each path by which no other one of them ends: mostly the name of the file."""
    paths = set(paths)
    ends: Counter[str] = Counter()
    for path in paths:
        parts = path.split("/")
        ends.update("/".join(parts[at:]) for at in range(len(parts)))
    found = {}
    for path in paths:
        parts = path.split("/")
        tails = ("/".join(parts[at:]) for at in range(len(parts) - 1, -1, -1))
        found[path] = next((tail for tail in tails if tail and ends[tail] == 1), path)
    return found


def is_outside(path: str) -> bool:
    """Whether a path lies outside of the thread's folder."""
    return path.startswith(("/", "~", ".."))


def file_facts(thread: Thread, runs: Sequence[Run]) -> tuple[FileFact, ...]:
    """Files that tool calls and shell commands of a thread touched."""
    table = FileTable(thread.cwd)
    by_ref = {run.ref: run for run in runs}
    for entry in thread.entries:
        call = entry.tool
        if call is None or call.status == "refused":
            continue
        if call.kind == "read":
            for path in call.paths:
                if call.status != "error":
                    table.read(path, entry.ref)
        elif call.changes and call.status != "error":
            for change in call.changes:
                table.changed(change, entry.ref)
        elif run := by_ref.get(entry.ref):
            _from_shell(table, run)
    _mentions(table, thread.entries)
    return table.facts()


def with_mentions(
    thread: Thread, files: Sequence[FileFact]
) -> tuple[tuple[FileFact, ...], tuple[FileFact, ...]]:
    """The same files with where the newest entries name them, and files that are only named."""
    found = mentions(thread.entries, (f.path for f in files), thread.cwd)
    touched = tuple(replace(f, named=found.pop(f.path)) if f.path in found else f for f in files)
    return touched, tuple(FileFact(path=path, named=named) for path, named in found.items())


def _from_shell(table: FileTable, run: Run) -> None:
    if not run.ok:
        return
    command, ref = run.command, run.ref
    if "mv " in command:
        for match in _MOVER.finditer(command):
            table.moved(match[1], match[2], ref)
    if run.navigation:
        for path in _paths(_READER, command):
            table.read(path, ref)
    elif "git " in command and "stash" not in command:
        if _UNDO_ALL.search(command):
            table.undone("", ref)
        for path in _paths(_UNDO, command):
            table.undone(path, ref)
    elif "rm " in command:
        for path in _paths(_REMOVER, command):
            table.changed(FileChange(path=path, kind="delete"), ref)


def _paths(pattern: re.Pattern[str], command: str) -> list[str]:
    """The paths in what a pattern captures of a command."""
    return [path for match in pattern.finditer(command) for path in PATH.findall(match[1])]


def _mentions(table: FileTable, entries: Iterable[Entry]) -> None:
    for entry in entries:
        if entry.kind == "user" and "/" in entry.text:
            for path in PATH.findall(beside_handoff(entry)[:20_000]):
                table.mentioned(path, entry.ref)
