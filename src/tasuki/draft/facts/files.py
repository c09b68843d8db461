"""Files of a thread: which were read, edited and removed, how often."""

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from tasuki.draft.facts.commands import LEADING_CD, CommandRun
from tasuki.draft.facts.file_commands import list_displaced
from tasuki.draft.repository.checkouts import expand_home
from tasuki.draft.runs.scopes import join_folder, locate
from tasuki.draft.text.entries import strip_handoff
from tasuki.draft.text.split import PATH
from tasuki.harness.registry import find_facts
from tasuki.model import FileChange, FileFact, Thread
from tasuki.paths import is_on_drive, is_outside, make_relative
from tasuki.patterns import compile_pattern

_READER = compile_pattern(
    r"(?:^|[|;&(\n]\s*)(?:sed\s+-n\w*\s+(?:-e\s+)?(?:'[^']*'|\"[^\"]*\"|\S+)|cat|nl|head|tail|less|bat|wc)\s+([^|;&><\n]+)"
)
_UNREADABLE = compile_pattern(
    r"(?i)no such file|does not exist|not found|(?:is|not) a directory|EISDIR|ENOENT|permission denied|cannot open"
)
_UNREADABLE_WORDS = (
    "no such file", "does not exist", "not found", "a directory", "eisdir", "enoent",
    "permission denied", "cannot open",
)  # fmt: skip
_HIDES_ERRORS = compile_pattern(r"2>\s*(?:/dev/null|&-|\$null|NUL\b)")
_INSTEAD = compile_pattern(r"\|\|\s*(?:echo|printf)\s+[\"']?([^\"'\n;&|]+)")
_SEVERAL = compile_pattern(r"\"[^\"]*\$[^\"]*\"|\S*[$*?{]\S*")
"""A word, with blanks in quotes too, that holds a variable or a wildcard."""
_UNDO = compile_pattern(
    r"\bgit\s+(?:checkout(?:\s+[\w/@~^.-]+)?\s+--|restore(?!\s+--staged(?!\s+(?:--worktree|-W)\b))(?:\s+--?[\w=-]+)*)\s+([^|;&><]+)"
)
_UNDO_ALL = compile_pattern(
    r"\bgit\s+(?:reset\s+--hard|checkout\s+(?:--\s+)?\.(?:\s|$)|restore\s+\.)"
)
_DELETED = compile_pattern(
    r"(?m)^(?: delete mode \d+ |\s+deleted:\s+|rm ')([^\s']+)'?\s*$|^ (\S+)\s+\|\s+(\d+) -+\s*$"
)
"""What git prints of a file that is gone, or of which only lines are removed: how many."""
_SYMBOL_EDITS = 8
"""Newest edits of a file whose names are looked for."""
_SYMBOL_FILES = 80
"""Most recently touched files whose names are looked for."""
_NOISE = ("/tmp/", "/private/tmp/", "/dev/", "/proc/", "node_modules/", ".git/", "/pkg/mod/",
          "site-packages/", "/.cargo/registry/", "/.claude/projects/", "/usr/")  # fmt: skip


class _TouchedFile:
    def __init__(self) -> None:
        self.reads: list[int] = []
        self.edits: list[int] = []
        self.mentioned: list[int] = []
        self.created = False
        self.deleted = False
        self.was_there: bool | None = None
        self.undone = 0
        self.changes: deque[FileChange] = deque(maxlen=_SYMBOL_EDITS)


class FileTable:
    """Collects what happens to files, under paths relative to the thread's folder."""

    def __init__(self, cwd: str) -> None:
        self.cwd = cwd
        self.files: dict[str, _TouchedFile] = {}
        self._spelling: dict[str, str] | None = {} if is_on_drive(cwd) else None
        self._by_raw_path: dict[str, _TouchedFile | None] = {}

    def make_relative(self, path: str) -> str:
        """Return a path relative to the thread's folder if it is below it."""
        path = make_relative(path.strip("\"'`"), self.cwd)
        return path if self._spelling is None else self._spelling.setdefault(path.lower(), path)

    def _get_file(self, raw_path: str) -> _TouchedFile | None:
        if raw_path not in self._by_raw_path:
            path = self.make_relative(raw_path)
            usable = path and not path.endswith("/") and "*" not in path and "$" not in path
            self._by_raw_path[raw_path] = (
                self.files.setdefault(path, _TouchedFile()) if usable else None
            )
        return self._by_raw_path[raw_path]

    def record_read(self, path: str, ref: int) -> None:
        """Record that a file was read."""
        if file := self._get_file(path):
            if not (file.edits or file.reads):
                file.was_there = True
            file.reads.append(ref)

    def record_change(self, change: FileChange, ref: int) -> None:
        """Record that a file was edited, created or removed."""
        file = self._get_file(change.path)
        if file is None:
            return
        if not (file.edits or file.reads or change.kind == "delete"):
            file.was_there = change.kind == "edit"
        file.edits.append(ref)
        file.created = file.created or (change.kind == "create" and not file.reads)
        file.deleted = change.kind == "delete"
        file.changes.append(change)

    def record_removal(self, path: str, ref: int, *, is_tracked: bool = False) -> None:
        """Record that a file was removed, or a folder with all files in it."""
        path = self.make_relative(path).rstrip("/")
        inside = [name for name in self.files if name.startswith(f"{path}/")]
        is_tracked = is_tracked and "." in path.rpartition("/")[2][1:]  # A folder, otherwise.
        is_file = is_tracked or path in self.files or PATH.fullmatch(path)
        for name in inside or ([path] if is_file else ()):
            self.record_change(FileChange(path=name, kind="delete"), ref)
            if is_tracked:
                self._note_tracked(name)

    def _note_tracked(self, path: str) -> None:
        """Note that git knew a file, unless the thread itself had put it there."""
        if (file := self._get_file(path)) and file.was_there is None:
            file.was_there = True

    def record_move(self, old: str, new: str, ref: int, *, is_tracked: bool = False) -> None:
        """Record that a file or folder was renamed; what was done to the old one counts for the new one."""
        old, new = self.make_relative(old).rstrip("/"), self.make_relative(new).rstrip("/")
        if old in self.files and any(path.startswith(f"{new}/") for path in self.files):
            new = f"{new}/{old.rpartition('/')[2]}"
        inside = [path for path in self.files if path.startswith(f"{old}/")]
        for path in inside:
            self._move_file(path, f"{new}{path.removeprefix(old)}", ref)
        if is_tracked and not inside and "." in old.rpartition("/")[2][1:]:
            self._note_tracked(old)
        self._move_file(old, new, ref)

    def _move_file(self, old: str, new: str, ref: int) -> None:
        before = self.files.get(old)
        file = self._get_file(new) if before or "." in new.rpartition("/")[2] else None
        if before is None or file is None or before is file:
            return
        if not before.edits and "." not in old.rpartition("/")[2]:
            return  # A folder.
        if not (file.edits or file.reads):
            file.was_there = False
        file.reads = sorted({*before.reads, *file.reads})
        file.edits = sorted({*before.edits, *file.edits, ref})
        file.changes.extend(before.changes)
        before.edits.append(ref)
        before.deleted = True

    def record_write(self, path: str, ref: int) -> None:
        """Record that a command wrote a file; nobody knows whether it was there before."""
        if not is_noise(path) and (file := self._get_file(path)):
            was_there = file.was_there
            self.record_change(FileChange(path=path, kind="rename"), ref)
            file.was_there = was_there

    def record_copy(self, path: str, ref: int) -> None:
        """Record that something was copied to a place, which is a file if its name has an ending."""
        if "." in path.rpartition("/")[2][1:] and not is_noise(path):
            self.record_change(FileChange(path=path, kind="rename"), ref)

    def record_deletions(self, output: str) -> None:
        """Record the files that git says are gone, also those of which a commit removed every line."""
        for path, other, count in _DELETED.findall(output):
            file = self.files.get(self.make_relative(path or other))
            if file is None or not file.edits:
                continue
            last = file.changes[-1] if file.changes else None
            if path or (last and not last.old and len(last.new.splitlines()) == int(count)):
                file.deleted = True

    def record_undo(self, path: str, ref: int) -> None:
        """Record that a file, or with an empty path all that git knows, was restored to git's version."""
        tracked = [f for name, f in self.files.items() if not (f.created or is_outside(name))]
        files = [self.files.get(self.make_relative(path))] if path else tracked
        for file in files:
            if file is not None and file.edits:
                file.undone, file.deleted = ref, False

    def record_mention(self, path: str, ref: int) -> None:
        """Record that a known file was named again."""
        path = self.make_relative(path)
        if file := self.files.get(path):
            file.mentioned.append(ref)

    def build_facts(self) -> tuple[FileFact, ...]:
        """Return all files, the most recently touched first."""

        def find_last_touch(item: tuple[str, _TouchedFile]) -> int:
            file = item[1]
            return max((*file.reads[-1:], *file.edits[-1:], *file.mentioned[-1:]), default=0)

        newest_first = sorted(self.files.items(), key=lambda item: -find_last_touch(item))
        return tuple(
            FileFact(
                path=path,
                reads=tuple(f.reads),
                edits=tuple(f.edits),
                created=f.created,
                deleted=f.deleted,
                was_there=f.was_there,
                undone=f.undone,
                mentioned=tuple(f.mentioned[-20:]),
                symbols=find_symbols(f.changes) if n < _SYMBOL_FILES and not f.deleted else (),
            )
            for n, (path, f) in enumerate(newest_first)
        )


@lru_cache(maxsize=8_192)
def is_noise(path: str) -> bool:
    """Return whether a path is scratch space or a dependency rather than the user's work."""
    return any(n in path for n in _NOISE)


def find_short_names(paths: Iterable[str]) -> dict[str, str]:
    """Return the shortest unique end of each path: mostly the name of the file."""
    paths = set(paths)
    ends: Counter[str] = Counter()
    tails_by_path = {path: _list_tails(path) for path in paths}
    for tails in tails_by_path.values():
        ends.update(tails)
    return {
        path: next((tail for tail in tails if tail and ends[tail] == 1), path)
        for path, tails in tails_by_path.items()
    }


def _list_tails(path: str) -> list[str]:
    """Return the ends of a path, the shortest first: the name, its folder and the name, all."""
    tails, slash = [], path.rfind("/")
    while slash >= 0:
        tails.append(path[slash + 1 :])
        slash = path.rfind("/", 0, slash)
    return [*tails, path]


def build_file_facts(thread: Thread, runs: Sequence[CommandRun]) -> tuple[FileFact, ...]:
    """Return the files that tool calls and shell commands of a thread touched."""
    table = FileTable(thread.cwd)
    by_ref = {run.ref: run for run in runs}
    for entry in thread.entries:
        call = entry.tool
        if call is None or not call.was_done:
            continue
        if call.kind == "read":
            for path in call.paths:
                output = call.output  # Perhaps only a failure to read.
                is_failed = "\n" not in output.strip() and len(output) < 300
                is_failed = is_failed and bool(_UNREADABLE.search(output))
                if call.status != "error" and not is_failed:
                    table.record_read(path, entry.ref)
        elif call.changes and call.status != "error":
            for change in call.changes:
                table.record_change(change, entry.ref)
        elif run := by_ref.get(entry.ref):
            _record_shell_run(table, run)
    for entry in thread.entries:
        if entry.kind == "user" and "/" in entry.text:
            for path in PATH.findall(strip_handoff(entry)[:20_000]):
                table.record_mention(path, entry.ref)
    return table.build_facts()


def has_unnamed_edits(thread: Thread) -> bool:
    """Return whether edits stand in the agent's messages as diffs, and none as calls.

    Which file was edited, and how often, is not known then.
    """
    calls = [e.tool for e in thread.entries if e.tool]
    return (
        find_facts(thread.harness).shows_edits_as_text
        and not any(call.changes for call in calls)
        and any("```diff" in e.text for e in thread.entries if e.kind == "assistant")
    )


def _record_shell_run(table: FileTable, run: CommandRun) -> None:
    command, ref = run.command, run.ref
    for one in list_displaced(run, table.cwd):
        if one.is_written:
            table.record_write(one.new, ref)
        elif not one.old:
            table.record_copy(one.new, ref)
        elif one.new:
            table.record_move(one.old, one.new, ref, is_tracked=one.is_tracked)
        else:
            table.record_removal(one.old, ref, is_tracked=one.is_tracked)
    if not (run.navigation or "git " in command) or run.went_wrong:
        return
    cd = LEADING_CD.match(command)
    begun = expand_home(cd[1].strip("\"'"), table.cwd) if cd else "."
    folder = join_folder(run.folder, begun)
    for path in _list_read(run) if run.navigation else ():
        table.record_read(path if path[0] == "~" else join_folder(folder, path) or "", ref)
    if "git " in command:
        table.record_deletions(run.output)
        if _UNDO_ALL.search(command) and "stash" not in command:
            table.record_undo("", ref)
        for path in _find_paths(_UNDO, command) if "stash" not in command else ():
            table.record_undo(locate(folder, path), ref)


def _list_read(run: CommandRun) -> list[str]:
    """Return the files of which a command that only looks around shows something."""
    command, output = run.command, run.output.strip()
    paths = _find_paths(_READER, command)
    instead = {text.strip() for text in _INSTEAD.findall(command)}
    said = output.split("\n")
    if not output or instead & {line.strip() for line in said}:
        return []
    if len(paths) > 1 and _HIDES_ERRORS.search(command) and ("||" in command or ";" in command):
        return []
    if not paths or not may_be_unreadable(output):
        return paths
    failed = [line for line in said if _UNREADABLE.search(line)]
    if len(failed) == len(said):
        return []
    return [p for p in paths if not any(p in line and f"{p}:" in f"{line}:" for line in failed)]


def may_be_unreadable(output: str) -> bool:
    """Return whether an output holds words that say that a file cannot be read; faster than the pattern."""
    low = output.lower()
    return any(word in low for word in _UNREADABLE_WORDS)


def _find_paths(pattern: re.Pattern[str], command: str) -> list[str]:
    return [
        path
        for match in pattern.finditer(command)
        for path in PATH.findall(_SEVERAL.sub(" ", match[1]))
    ]


_SYMBOL = compile_pattern(
    r"(?m)^[ \t]*(?:export\s+)?(?:default\s+)?(?:public\s+|private\s+|protected\s+|static\s+|abstract\s+|async\s+)*"
    r"(?:func(?:\s+\([^)]*\))?|def|class|fn|function\*?|interface|struct|enum|trait|impl|module|type)\s+([A-Za-z_]\w{2,})"
    r"|^[ \t]*(?:export\s+)?(?:const|let|var)\s+([A-Za-z_]\w{2,})\s*=\s*(?:async\s*)?(?:\([^)]*\)|\w+)\s*=>"
    r"|^[ \t]*(?:public|private|protected|async|static)\s+(?:[\w<>\[\], ]+\s)?(?!(?:static|async|override|virtual|readonly|abstract|required)\b)([A-Za-z_]\w{2,})\s*\("
)
_MAX_SYMBOLS = 12
_SYMBOL_TEXT = 20_000


def find_symbols(changes: Iterable[FileChange]) -> tuple[str, ...]:
    """Return names of definitions that some changes added, or in which they added lines; the last first.

    What a change only leaves in place, what a later one removed, and what is in texts is none.
    """
    found: dict[str, None] = {}
    for change in changes:
        if _DOCUMENT.search(change.path):
            continue
        old, new = (_mark_texts(text[:_SYMBOL_TEXT]) for text in (change.old, change.new))
        defined = set(_list_definitions(new))
        for name in set(_list_definitions(old)) - defined if found else ():
            found.pop(name, None)
        for name in _list_changed(old, new) if defined else ():
            found.pop(name, None)
            found[name] = None
    return tuple(reversed(list(found)))[:_MAX_SYMBOLS]


_DOCUMENT = compile_pattern(
    r"\.(?:mdx?|rst|txt|adoc|org|html?|jsonl?|ya?ml|toml|csv|svg|lock|log)$"
)
_TEXT = compile_pattern(r"`[^`]*\n[^`]*`|\"\"\"[\s\S]*?\"\"\"|'''[\s\S]*?'''")
_INSIDE = "\0"
"""Begins a line inside a text of several lines."""


def _mark_texts(code: str) -> str:
    """Return code with a mark before each line inside a text; all of them where a text is cut."""
    if not ("`" in code or '"""' in code or "'''" in code):
        return code
    if code.count("`") % 2:
        return code.replace("\n", f"\n{_INSIDE}")
    return _TEXT.sub(lambda match: match[0].replace("\n", f"\n{_INSIDE}"), code)


def _list_definitions(code: str) -> list[str]:
    return [name for groups in _SYMBOL.findall(code) for name in groups if name]


def _list_changed(old: str, new: str) -> Iterator[str]:
    """Yield the definitions that are in new lines of a text, or around them."""
    kept = Counter(line.rstrip() for line in old.split("\n"))
    around: list[tuple[int, str]] = []
    for line in new.split("\n"):
        line = line.rstrip()
        bare = line.lstrip()
        if not bare:
            continue
        if not line.startswith(_INSIDE):
            indent = len(line) - len(bare)
            while around and around[-1][0] >= indent:
                around.pop()
            if match := _SYMBOL.match(line):
                around.append((indent, next(g for g in match.groups() if g)))
        if kept[line]:
            kept[line] -= 1
        elif around and len(bare) > 2:
            yield around[-1][1]
