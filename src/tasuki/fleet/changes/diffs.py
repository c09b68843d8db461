"""The differences of files as lines, bounded for each file and in all, without secrets."""

import os
import re
from collections.abc import Sequence

from tasuki.draft.redact.redactor import Redactor
from tasuki.fleet.changes.files import (
    DIFF,
    MOST_COUNTED_BYTES,
    FoundFile,
    is_binary,
    read_untracked,
)
from tasuki.fleet.changes.records import FileDiff
from tasuki.fleet.changes.work_tree import WorkTree
from tasuki.fleet.handoff.git_commands import unquote_path
from tasuki.text_safety import clean_for_display, format_size

MOST_BYTES = 2 << 20
"""Bytes of all differences that are read; of one file where it is asked for alone."""
MOST_FILE_LINES = 400
MOST_LINES = 4000
"""Lines of all files together."""
MOST_WHOLE_LINES = 20_000
"""Lines of one file that is asked for alone."""
MOST_LINE_CHARACTERS = 500
BEYOND_CHARACTERS = 200
"""Characters past the last one shown that are searched for secrets, too."""
BEYOND_LINES = 60
"""Lines past the last one shown that are searched for secrets, too: one may go over several lines."""
BINARY = "Binary, or larger than is shown."
EMPTY = "No line differs: its mode, its name or its kind does."

_PATCH = (*DIFF, "--patch", "--unified=3", "--inter-hunk-context=0")


def read_diffs(
    tree: WorkTree, base: str, files: Sequence[FoundFile], redactor: Redactor, key: str = ""
) -> tuple[FileDiff, ...]:
    """Read the differences of files; of one alone and whole by its `key`. Raises WorkUnknown."""
    wanted = [file for file in files if not key or file.shown.key == key]
    tracked = [file for file in wanted if file.shown.state != "untracked"]
    patches = _read_patches(tree, base, tracked, alone=bool(key)) if tracked else {}
    rest, most = (MOST_WHOLE_LINES,) * 2 if key else (MOST_LINES, MOST_FILE_LINES)
    diffs: list[FileDiff] = []
    for file in wanted:
        tree.measure_rest()  # it raises where time is up
        is_new = file.shown.state == "untracked"
        found = _build_new(tree, file) if is_new else _find_patch(patches, file)
        diffs.append(_build_diff(file.shown.key, *found, min(most, rest), redactor))
        rest -= len(diffs[-1].lines)
    return tuple(diffs)


def _build_diff(
    key: str, lines: Sequence[str], is_cut: bool, note: str, most: int, redactor: Redactor
) -> FileDiff:
    """Cut the lines of a file; secrets are searched before that."""
    width = MOST_LINE_CHARACTERS + BEYOND_CHARACTERS
    text = "\n".join(line[:width] for line in lines[: most + BEYOND_LINES])
    safe = redactor.redact(clean_for_display(text)).split("\n") if text else []
    left = max(len(lines) - most, 0)
    return FileDiff(key, tuple(map(_shorten, safe[:most])), None if is_cut else left, note)


def _shorten(line: str) -> str:
    is_long = len(line) > MOST_LINE_CHARACTERS
    return f"{line[:MOST_LINE_CHARACTERS]}…" if is_long else line


def _build_new(tree: WorkTree, file: FoundFile) -> tuple[list[str], bool, str]:
    """Build the lines of a file that git does not know, all of them added."""
    content = read_untracked(tree.top, file.path)
    if content is None or is_binary(content):
        return [], False, f"Binary, no file, or larger than {format_size(MOST_COUNTED_BYTES)}."
    lines = _decode(content).split("\n")
    if lines[-1] == "":
        lines.pop()
    return [f"@@ -0,0 +1,{len(lines)} @@", *(f"+{line}" for line in lines)], False, ""


def _decode(content: bytes) -> str:
    return content.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "␍")


def _find_patch(
    patches: dict[bytes, tuple[list[str], bool]], file: FoundFile
) -> tuple[list[str], bool, str]:
    if file.path not in patches:
        return [], True, "Not read: there is too much."
    lines, is_cut = patches[file.path]
    if lines:
        return lines, is_cut, ""
    return [], is_cut, BINARY if file.shown.added is None else EMPTY


def _read_patches(
    tree: WorkTree, base: str, files: Sequence[FoundFile], *, alone: bool
) -> dict[bytes, tuple[list[str], bool]]:
    """Read patches by path: the lines from the first `@@` on, and whether the last ones are missing."""
    paths = [os.fsdecode(files[0].path)] if alone else []
    output = tree.run(*_PATCH, base, "--", *paths, most=MOST_BYTES)
    parts = re.split(rb"^(?=diff --git |diff --cc |\* Unmerged path )", output, flags=re.MULTILINE)
    patches: dict[bytes, tuple[list[str], bool]] = {}
    parts = [part for part in parts if part]
    for number, part in enumerate(parts):
        is_cut = number == len(parts) - 1 and len(output) >= MOST_BYTES
        lines = part.removesuffix(b"\n").split(b"\n")
        first = next((n for n, line in enumerate(lines) if line.startswith(b"@@")), len(lines))
        path = files[0].path if alone else _find_path(lines[:first])
        known, _ = patches.get(path, ([], False))
        patches[path] = (known + [_decode(line) for line in lines[first:]], is_cut)
    return patches


def _find_path(header: Sequence[bytes]) -> bytes:
    """Find the path that a patch is about, as it is now."""
    for start in (b"rename to ", b"copy to ", b"+++ ", b"--- "):
        for line in header:
            if line.startswith(start) and not line.endswith(b" /dev/null"):
                path = unquote_path(line[len(start) :].removesuffix(b"\t"))
                return path[2:] if start in (b"+++ ", b"--- ") else path
    words = header[0].removeprefix(b"diff --git ")
    half = words[: len(words) // 2]
    return unquote_path(half)[2:]
