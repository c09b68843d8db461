"""Threads kept as Markdown: tolerant reading, line by line, and the edits that prose proposes."""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from tasuki.files import find_home_folder
from tasuki.harness.reading.jsonl import ThreadLines, explain_errors
from tasuki.harness.tool_table.patches import parse_patch
from tasuki.model import ChangeKind, FileChange
from tasuki.patterns import compile_pattern

_FENCE = compile_pattern(r"\s*(`{3,}|~{3,})")
_SEARCH = compile_pattern(r"<{5,9} SEARCH>?\s*\Z")
_DIVIDER = compile_pattern(r"={5,9}\s*\Z")
_REPLACE = compile_pattern(r">{5,9} REPLACE\s*\Z")
_OPENING = compile_pattern(r"\s*(?:`{3,}|~{3,}|<\w+>)[\w.+-]*\s*\Z")
_CLOSING = compile_pattern(r"\s*(?:`{3,}|~{3,}|</\w+>)\s*\Z")
_DIFF_FILE = compile_pattern(r"\+\+\+ (?:b/)?(\S.*?)\s*\Z")


class MarkdownText(Struct):
    """The lines of a file without their ends, and the byte offset of each."""

    lines: list[str]
    offsets: list[int]
    read: ThreadLines
    """What is told of the file, as of one of JSON Lines."""


def read_markdown(path: Path) -> MarkdownText:
    """Read a whole file. Raises ThreadUnreadable if it cannot be read."""
    with explain_errors(path):
        return parse_markdown(path, path.read_bytes())


def parse_markdown(path: Path, raw: bytes, offset: int = 0) -> MarkdownText:
    r"""Split a part of a file into lines.

    Bytes that are no UTF-8 are written out as escapes: a backslash, `x` and two hex digits.
    """
    lines: list[str] = []
    offsets: list[int] = []
    read = ThreadLines(path)
    read.bytes = size = len(raw)
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    at = offset + size - len(raw)
    for line in raw.split(b"\n"):
        lines.append(line.removesuffix(b"\r").decode("utf-8", "backslashreplace"))
        offsets.append(at)
        at += len(line) + 1
    if lines and not lines[-1]:
        lines.pop()
        offsets.pop()
    read.number = len(lines)
    return MarkdownText(lines, offsets, read)


def read_both_parts(path: Path, head: int, tail: int) -> tuple[bytes, bytes, int]:
    """Return the first bytes of a file, its last whole lines, and where these begin.

    A file that is not longer than both is all in the first. Raises OSError.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size <= head + tail:
            return file.read(), b"", size
        first = file.read(head)
        file.seek(size - tail)
        last = file.read(tail)
    cut = last.find(b"\n") + 1
    return first, last[cut:], size - tail + cut


def derive_id(prefix: str, path: Path) -> str:
    """Derive an id for a thread that has none of its own, from its path: `aider-1a2b3c4d`."""
    import hashlib

    digest = hashlib.sha256(os.path.realpath(path).encode("utf-8", "surrogateescape"))
    return f"{prefix}-{digest.hexdigest()[:8]}"


def walk_up(folder: Path) -> Iterator[Path]:
    """Yield a folder and its parents, up to that of the repository or the user's home."""
    home = os.path.realpath(find_home_folder())
    for place in (folder, *folder.parents):
        yield place
        if (place / ".git").exists() or os.path.realpath(place) == home:
            return


def strip_blank_lines(lines: Sequence[str]) -> str:
    """Join lines into one text, without the blank ones at its start and end."""
    filled = [number for number, line in enumerate(lines) if line.strip()]
    return "\n".join(lines[filled[0] : filled[-1] + 1]) if filled else ""


def find_fence(line: str) -> str:
    """Return the mark that opens or closes a block of code, empty if the line has none."""
    match = _FENCE.match(line)
    return match[1] if match else ""


def is_closing_fence(line: str, mark: str) -> bool:
    """Tell whether a line closes the block that a mark opened."""
    text = line.strip()
    return len(text) >= len(mark) and not text.strip(mark[0])


# -- edits that prose proposes -------------------------------------------------------------


def parse_edits(text: str) -> list[FileChange]:
    """Parse edits in the forms that aider asks for: SEARCH/REPLACE, diffs and patches."""
    if "*** Begin Patch" in text:
        return list(parse_patch(text[text.index("*** Begin Patch") :]))
    lines = text.split("\n")
    return list(_parse_replacements(lines)) or list(_parse_diffs(lines))


def _parse_replacements(lines: list[str]) -> Iterator[FileChange]:
    path, position = "", 0
    while position < len(lines):
        if not _SEARCH.match(lines[position]):
            position += 1
            continue
        path = _find_file_above(lines, position) or path
        middle = _find_next(lines, position + 1, _DIVIDER)
        end = _find_next(lines, middle + 1, _REPLACE)
        if end >= len(lines):
            return
        old, new = "\n".join(lines[position + 1 : middle]), "\n".join(lines[middle + 1 : end])
        yield FileChange(path=path, kind="edit" if old.strip() else "create", old=old, new=new)
        position = end + 1


def remove_edits(lines: Sequence[str]) -> list[str]:
    """Remove the SEARCH/REPLACE blocks from prose; the file names above them are kept."""
    kept: list[str] = []
    position = 0
    while position < len(lines):
        if not _SEARCH.match(lines[position]):
            kept.append(lines[position])
            position += 1
            continue
        end = _find_next(lines, _find_next(lines, position + 1, _DIVIDER) + 1, _REPLACE)
        if end >= len(lines):
            return [*kept, *lines[position:]]
        if kept and _OPENING.match(kept[-1]):
            kept.pop()
        position = end + 1
        if position < len(lines) and _CLOSING.match(lines[position]):
            position += 1
    return kept


def _find_next(lines: Sequence[str], position: int, pattern: re.Pattern[str]) -> int:
    while position < len(lines) and not pattern.match(lines[position]):
        position += 1
    return position


def _find_file_above(lines: list[str], position: int) -> str:
    """Find the file name above a block, if the line there looks like one."""
    for line in reversed(lines[max(position - 3, 0) : position]):
        name = line.strip().strip("`*#: ")
        if _REPLACE.match(line):
            return ""
        if name and not (find_fence(line) or _OPENING.match(line)):
            return name if " " not in name or "." in name.rpartition("/")[2] else ""
    return ""


def _parse_diffs(lines: list[str]) -> Iterator[FileChange]:
    for at, line in enumerate(lines):
        if (match := _DIFF_FILE.match(line)) and at and lines[at - 1].startswith("--- "):
            new_file = lines[at - 1].startswith("--- /dev/null")
            yield parse_diff(match[1], lines[at + 1 :], "create" if new_file else "edit")


def parse_diff(path: str, lines: Sequence[str], kind: str = "edit") -> FileChange:
    """Parse the change that the lines of a diff make, up to the end of the diff."""
    old: list[str] = []
    new: list[str] = []
    for line in lines:
        if line.startswith(("```", "--- ")):
            break
        if line.startswith("-"):
            old.append(line[1:])
        elif line.startswith("+"):
            new.append(line[1:])
    of: ChangeKind = "create" if kind == "create" else "edit"
    return FileChange(path, of, "\n".join(old), "\n".join(new))


def find_whole_files(text: str, path: str) -> list[FileChange]:
    """Find each block under a file's name in which prose shows the whole file."""
    lines = text.split("\n")
    changes = []
    for at in range(len(lines) - 1):
        mark = find_fence(lines[at + 1])
        if mark and lines[at].strip().strip("`*#: ") == path:
            end = at + 2
            while end < len(lines) and not is_closing_fence(lines[end], mark):
                end += 1
            new = "\n".join(lines[at + 2 : end])
            changes.append(FileChange(path=path, kind="create", new=new))
    return changes
