"""Threads kept as Markdown: tolerant reading, line by line, and the edits that prose proposes."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from tasuki.files import find_home_folder
from tasuki.harness.reading.jsonl import ThreadLines, explain_errors
from tasuki.model import ChangeKind, FileChange
from tasuki.patterns import compile_pattern

_FENCE = compile_pattern(r"\s*(`{3,}|~{3,})")


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


def parse_diff(path: str, lines: Sequence[str], kind: ChangeKind = "edit") -> FileChange:
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
    return FileChange(path, kind, "\n".join(old), "\n".join(new))
