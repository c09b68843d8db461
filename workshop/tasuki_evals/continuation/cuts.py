"""The cases of the continuation benchmark: which threads are measured, and where they are cut.

Threads are files and folders, also gzipped, each with its repository. They are cut where a
handoff could have been made.
"""

import gzip
import os
import subprocess
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tasuki.errors import TasukiError, ThreadNotFound, UsageError
from tasuki.harness.protocol import Harness
from tasuki.harness.reading.jsonl import repair_line
from tasuki.model import Entry, Thread
from tasuki_evals.continuation import metric

MANIFEST = "MANIFEST.jsonl"
AIDER_HISTORY = ".aider.chat.history.md"
"""The only thread whose file name begins with a dot."""
_SKIPPED_FOLDERS = frozenset((".git", "node_modules", ".venv"))
"""Folders that hold no threads, but many files."""


class ThreadSource(Struct, frozen=True):
    """One thread file: its path, and its repository according to a manifest (else empty)."""

    path: Path
    repository: str = ""
    name: str = ""
    """The file's name, with as many folders before it as tell it from the others; empty: its name."""

    @property
    def display_name(self) -> str:
        """Its name in reports."""
        return self.name or self.path.name


class _ManifestRow(Struct):
    file: str = ""
    repo: str = ""


def list_sources(paths: Iterable[Path]) -> list[ThreadSource]:
    """Return all files that may be threads, each once, in the order of their names.

    A folder may hold `MANIFEST.jsonl`: one JSON object per line with `file` and `repo`. Links
    to folders are not followed, and what cannot be listed is skipped. Raises ThreadNotFound for
    a path that does not exist, UsageError for one that is neither a file nor a folder, or if
    there is nothing to measure.
    """
    paths = list(paths)
    found: dict[str, ThreadSource] = {}
    for path in paths:
        if path.is_dir():
            repositories = _read_manifest(path)
            for file in sorted(_list_inside(path)):
                named = repositories.get(str(file.relative_to(path)), "")
                found.setdefault(os.path.realpath(file), ThreadSource(file, named))
        elif path.is_file():
            found.setdefault(os.path.realpath(path), ThreadSource(path))
        elif path.exists():
            raise UsageError(f"{path} is neither a file nor a folder, so it cannot be measured.")
        else:
            raise ThreadNotFound(f"No file or folder {path}.")
    if not found:
        raise UsageError(f"There is no file in {', '.join(map(str, paths))}.")
    every = list(found.values())
    pairs = zip(every, _find_unique_names(every), strict=True)
    return [replace(source, name=name) for source, name in pairs]


def _list_inside(folder: Path) -> Iterator[Path]:
    """Yield files in a folder and below it, without those that are no threads by their name."""
    for place, folders, files in os.walk(folder):
        folders[:] = [f for f in folders if f not in _SKIPPED_FOLDERS]
        for name in files:
            hidden = name.startswith(".") and name.removesuffix(".gz") != AIDER_HISTORY
            path = Path(place, name)
            if not (hidden or name == MANIFEST or name.startswith("README")) and _is_file(path):
                yield path


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


def _find_unique_names(found: Sequence[ThreadSource]) -> list[str]:
    """Return the unique end of each path: threads of one name must not count as one."""
    every = [s.path.absolute().parts for s in found]
    length = [1] * len(every)
    names: list[str] = []
    for _ in range(max(map(len, every))):
        names = ["/".join(parts[-n:]) for parts, n in zip(every, length, strict=True)]
        times = Counter(names)
        if max(times.values()) == 1:
            break
        length = [n + (times[name] > 1) for name, n in zip(names, length, strict=True)]
    return [name.encode("utf-8", "backslashreplace").decode() for name in names]


def _read_manifest(folder: Path) -> dict[str, str]:
    try:
        lines = (folder / MANIFEST).read_bytes().splitlines()
    except OSError:
        return {}
    repositories: dict[str, str] = {}
    for line in lines:
        with suppress(msgspec.MsgspecError, UnicodeDecodeError):
            row = msgspec.json.decode(line, type=_ManifestRow)
            repositories[row.file] = row.repo
    return repositories


def unpack_source(source: ThreadSource, folder: Path) -> Path:
    """Return the file itself, or the content of a gzipped one, written into a folder.

    Raises OSError if it cannot be read or is broken.
    """
    if source.path.suffix != ".gz":
        return source.path
    target = folder / source.path.stem
    try:
        with gzip.open(source.path) as packed, target.open("wb") as plain:
            while block := packed.read(1 << 20):
                plain.write(block)
    except EOFError as error:
        raise OSError("the gzip file is cut off") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise OSError("it is not a gzip file, or it is damaged") from error
    return target


def choose_repository_name(named: str, cwd: str) -> str:
    """Return the name of a repository in reports: the manifest's, else the folder's."""
    return named or cwd.rstrip("/").rpartition("/")[2] or "?"


CALLS_BEFORE = 20
CALLS_AFTER = 5
PER_THREAD = 3
FUTURE_MESSAGES = 3
"""The future ends at the third next message of the user."""
MIN_SUMMARY = 200
"""Characters; a shorter text at a compaction is a mark, not the harness's summary."""
GIT_SECONDS = 60
GIT_ENVIRONMENT = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1"}
"""The benchmark locks, asks and fetches nothing."""


class ThreadCut(Struct, frozen=True):
    """A place in a thread: `predecessor` is the part before it, `future` the part after the goal."""

    name: str
    kind: str
    """cut or compaction"""
    goal: str
    predecessor: Thread
    future: tuple[Entry, ...]
    at: Entry
    """The first entry that the predecessor does not hold."""
    summary: str = ""
    """The harness's own, at a compaction."""


def find_cuts(thread: Thread) -> list[ThreadCut]:
    """Return all cases of a thread: up to three cuts before a compaction, and every compaction."""
    return [*_find_message_cuts(thread), *_find_compactions(thread)]


def _find_message_cuts(thread: Thread) -> Iterator[ThreadCut]:
    entries = thread.entries
    end = next((i for i, e in enumerate(entries) if e.kind == "compaction"), len(entries))
    good = [
        (i, after)
        for i in find_messages(entries)
        if 0 < i < end
        and count_calls(entries[:i]) >= CALLS_BEFORE
        and count_calls(after := select_future(entries, i)) >= CALLS_AFTER
    ]
    for i, after in select_spread(good, PER_THREAD):
        yield ThreadCut(
            name=f"{thread.id}#{entries[i].ref}", kind="cut", goal=entries[i].text,
            predecessor=replace(thread, entries=entries[:i]), future=tuple(after), at=entries[i],
        )  # fmt: skip


def _find_compactions(thread: Thread) -> Iterator[ThreadCut]:
    entries = thread.entries
    for i, entry in enumerate(entries):
        if entry.kind != "compaction" or len(entry.text.strip()) < MIN_SUMMARY:
            continue
        goals = [j for j in find_messages(entries[:i]) if j]
        after = select_future(entries, i)
        if goals and count_calls(entries[:i]) >= CALLS_BEFORE and count_calls(after):
            yield ThreadCut(
                name=f"{thread.id}#{entry.ref}", kind="compaction", goal=entries[goals[-1]].text,
                predecessor=replace(thread, entries=entries[:i]), future=tuple(after), at=entry,
                summary=entry.text,
            )  # fmt: skip


def select_spread(
    items: Sequence[tuple[int, list[Entry]]], count: int
) -> list[tuple[int, list[Entry]]]:
    """Return up to `count` of some items, evenly spread, including the first and the last."""
    if len(items) <= count:
        return list(items)
    return [items[round(k * (len(items) - 1) / (count - 1))] for k in range(count)]


def find_messages(entries: Sequence[Entry]) -> list[int]:
    """Return where the user said something at the prompt that could be a goal."""
    return [i for i, e in enumerate(entries) if e.is_prompt and e.text.strip()]


def select_future(entries: Sequence[Entry], index: int) -> list[Entry]:
    """Return what came after a message, up to the third next one."""
    after = entries[index + 1 :]
    next_ones = find_messages(after)
    if len(next_ones) >= FUTURE_MESSAGES:
        after = after[: next_ones[FUTURE_MESSAGES - 1]]
    return list(after)


def count_calls(entries: Iterable[Entry]) -> int:
    """Return how many tools the agent called."""
    return sum(e.tool is not None and e.origin != "command" for e in entries)


def write_predecessor_copy(harness: Harness, cut: ThreadCut, folder: Path) -> Path:
    """Write the thread file up to the cut, in the harness's own format and file name.

    Raises ValueError with the reason if the format cannot be cut there, or if the copy is not
    read as the beginning of the thread: then the case says nothing about the tool. OSError if
    the file cannot be read or the copy cannot be written.
    """
    path = Path(cut.predecessor.path)
    if not path.is_file():
        raise ValueError("it is in a database; export it to a file first")
    if cut.at.source != len(cut.predecessor.sources) - 1:
        raise ValueError("it is in the file of the thread that this one was forked from")
    copy = folder / path.name
    if cut.at.offset and not _is_document(path, cut.at.offset):
        with path.open("rb") as whole, copy.open("wb") as part:
            left = cut.at.offset
            while left and (block := whole.read(min(left, 1 << 20))):
                part.write(block)
                left -= len(block)
    else:
        copy.write_bytes(cut_document(path.read_bytes(), cut.at))
    try:
        read = harness.read(copy)
    except TasukiError as error:
        raise ValueError("the copy that ends there cannot be read") from error
    expected = [(e.kind, e.text) for e in cut.predecessor.entries]
    if [(e.kind, e.text) for e in read.entries] != expected:
        raise ValueError("the copy that ends there differs from the thread")
    return copy


def _is_document(path: Path, offset: int) -> bool:
    """Return whether an entry is inside one JSON document, not on its own line."""
    with path.open("rb") as file:
        first = file.readline()
    if not first.lstrip().startswith(b"{"):
        return False
    try:
        msgspec.json.decode(repair_line(first))
    except (msgspec.DecodeError, RecursionError):
        return True  # The first line of many.
    return offset < len(first)


def cut_document(data: bytes, entry: Entry) -> bytes:
    """Return a JSON document whose message list ends before the message of an entry.

    Raises ValueError if the entry is in none of its lists.
    """
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError("the document is not JSON") from error
    values = document.values() if isinstance(document, dict) else ()
    for value in (value for value in values if isinstance(value, list)):
        for index, element in enumerate(value):
            if _contains_id(element, entry.id):
                del value[index:]
                return msgspec.json.encode(document)
    raise ValueError("the message that begins there is not in the document's list")


def _contains_id(value: object, id: str) -> bool:
    if isinstance(value, dict):
        return value.get("id") == id or any(_contains_id(v, id) for v in value.values())
    return isinstance(value, list) and any(_contains_id(v, id) for v in value)


def find_cut_targets(cut: ThreadCut) -> metric.HandoffTargets:
    """Return the targets of a handoff at this place, and what only the thread knew by git."""
    found = metric.find_targets(cut.predecessor, cut.future, cut.goal)
    in_tree = find_tree_names(cut.predecessor.cwd, cut.at.at, found.id)
    return found if in_tree is None else replace(found, only=frozenset(found.id) - in_tree)


def find_tree_names(cwd: str, moment: str, names: Iterable[str]) -> frozenset[str] | None:
    """Return those of some names that were in the repository at a time; None without one."""
    if not (cwd and moment and os.path.isdir(cwd)):
        return None
    commit = _run_git(cwd, "rev-list", "-1", f"--before={moment}", "HEAD")
    if not commit or not commit.strip():
        return None
    wanted = sorted(names)
    search = ("grep", "-I", "-o", "-h", "-F", "-f", "-", commit.strip())
    found = _run_git(cwd, *search, input_lines=wanted)
    return frozenset(found.split("\n")) & frozenset(wanted) if found is not None else None


def _run_git(cwd: str, *arguments: str, input_lines: Sequence[str] = ()) -> str | None:
    """Return what git printed; None if it is not there, knows no repository, or takes too long."""
    hook_variables = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_NAMESPACE", "GIT_PREFIX")
    try:
        result = subprocess.run(
            ("git", "-c", "core.fsmonitor=false", "-C", cwd, *arguments),
            input="\n".join(input_lines), capture_output=True, text=True, errors="replace",
            timeout=GIT_SECONDS,
            env={k: v for k, v in os.environ.items() if k not in hook_variables} | GIT_ENVIRONMENT,
            check=False,
        )  # fmt: skip
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return result.stdout if result.returncode in (0, 1) else None
