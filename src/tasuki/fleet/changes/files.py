"""The files that differ from a commit, tracked or not, with their counts of lines."""

import hashlib
import os
import stat
from collections.abc import Iterator

from msgspec import Struct

from tasuki.draft.redact.redactor import Redactor
from tasuki.fleet.changes.records import ChangedFile
from tasuki.fleet.changes.work_tree import WorkTree
from tasuki.text_safety import clean_for_display

DIFF = (
    "diff", "--no-ext-diff", "--no-textconv", "--no-color", "--no-relative", "--submodule=short",
    "--ignore-submodules=dirty", "--src-prefix=a/", "--dst-prefix=b/", "-O/dev/null",
    "--find-renames", "-l200",
)  # fmt: skip
"""Overrides what a repository could set: programs to run, and the form of the output."""
MOST_UNTRACKED_BYTES = 1 << 20
"""Bytes of the list of untracked files."""
MOST_COUNTED_FILES = 500
"""Untracked files that are opened."""
MOST_COUNTED_BYTES = 1 << 20
"""Bytes of an untracked file that is counted; a larger one is only named."""
MOST_READ_BYTES = 8 << 20
"""Bytes of all untracked files that are counted."""
BINARY_BYTES = 8000
"""A zero byte among the first ones makes a file binary, as for git."""
_STATES = {"A": "added", "D": "deleted", "R": "renamed", "C": "added", "U": "conflicted"}


class FoundFile(Struct, frozen=True):
    """A changed file with its path in bytes."""

    path: bytes
    shown: ChangedFile


class FoundFiles(Struct, frozen=True):
    """The changed files of a work tree, and in a sentence which are not listed."""

    files: tuple[FoundFile, ...]
    left_out: str = ""


def build_key(path: bytes) -> str:
    """Return the name of a file in addresses."""
    return hashlib.sha256(path).hexdigest()[:16]


def show_path(path: bytes, redactor: Redactor) -> str:
    """Return a path as it can be shown on one line, without secrets."""
    text = path.decode("utf-8", "replace").replace("\n", "\\n").replace("\t", "\\t")
    return redactor.redact(clean_for_display(text.replace("\r", "\\r")))


def find_files(tree: WorkTree, base: str, redactor: Redactor) -> FoundFiles:
    """Find the files that differ from a commit or tree, by path. Raises WorkUnknown."""
    tracked = list(_find_tracked(tree, base, redactor))
    untracked, left_out = _find_untracked(tree, redactor)
    known = {file.path for file in tracked}
    files = [*tracked, *(file for file in untracked if file.path not in known)]
    return FoundFiles(tuple(sorted(files, key=lambda file: file.path)), left_out)


class _RawEntry(Struct):
    state: str
    same_mode: bool
    old: bytes = b""


def _find_tracked(tree: WorkTree, base: str, redactor: Redactor) -> Iterator[FoundFile]:
    output = tree.run(*DIFF, "--raw", "--numstat", "-z", base, "--")
    fields = iter(output.split(b"\0"))
    entries: dict[bytes, _RawEntry] = {}
    for field in filter(None, fields):
        if field.startswith(b":"):
            _take_raw(field, fields, entries)
            continue
        added, removed, path = field.split(b"\t", 2)
        if not path:
            next(fields, b"")
            path = next(fields, b"")
        entry = entries.pop(path, None)
        if entry is None:  # the second of the two that an unmerged file has
            continue
        counts = [None if x == b"-" else int(x) for x in (added, removed)]
        if entry.state == "M" and entry.same_mode and counts == [0, 0]:
            continue  # only its time differs
        shown = ChangedFile(
            build_key(path), show_path(path, redactor), _STATES.get(entry.state, "changed"),  # type: ignore[arg-type]
            show_path(entry.old, redactor) if entry.old else "", *counts,
        )  # fmt: skip
        yield FoundFile(path, shown)


def _take_raw(field: bytes, fields: Iterator[bytes], entries: dict[bytes, _RawEntry]) -> None:
    old_mode, new_mode, _, _, letter = field[1:].decode().split(" ")
    old = next(fields, b"") if letter[0] in "RC" else b""
    path = next(fields, b"")
    if path not in entries or letter == "U":
        entries[path] = _RawEntry(letter[0], old_mode == new_mode, old if letter[0] == "R" else b"")


def _find_untracked(tree: WorkTree, redactor: Redactor) -> tuple[list[FoundFile], str]:
    most = MOST_UNTRACKED_BYTES
    output = tree.run("ls-files", "--others", "--exclude-standard", "-z", "--", most=most)
    *paths, _ = output.split(b"\0")
    left_out = "Not all untracked files are listed." if len(output) >= most else ""
    found, counted, read = [], 0, 0
    for path in paths:
        tree.measure_rest()  # it raises where time is up
        added = None
        if counted < MOST_COUNTED_FILES and read < MOST_READ_BYTES:
            content = read_untracked(tree.top, path)
            counted, read = counted + 1, read + len(content or b"")
            added = None if content is None or is_binary(content) else count_lines(content)
        shown = ChangedFile(
            build_key(path), show_path(path, redactor), "untracked", added=added,
            removed=None if added is None else 0,
        )  # fmt: skip
        found.append(FoundFile(path, shown))
    if counted < len(paths):
        left_out = left_out or f"Lines are counted of the first {counted} untracked files."
    return found, left_out


def read_untracked(top: str, path: bytes) -> bytes | None:
    """Read a file through no link, or where a link leads; None for what is no text of a fair size."""
    full = os.path.join(os.fsencode(top), path)
    try:
        if os.path.islink(full):
            return os.readlink(full)
        if os.path.realpath(os.path.dirname(full)) != os.path.dirname(full):
            return None
        number = os.open(full, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(number, "rb") as file:
            status = os.fstat(number)
            if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_COUNTED_BYTES:
                return None
            return file.read(MOST_COUNTED_BYTES)
    except (OSError, ValueError):
        return None


def is_binary(content: bytes) -> bool:
    """Whether a content is no text, as git judges."""
    return b"\0" in content[:BINARY_BYTES]


def count_lines(content: bytes) -> int:
    """Count the lines of a content; one without an end counts."""
    return content.count(b"\n") + (not content.endswith(b"\n") and bool(content))
