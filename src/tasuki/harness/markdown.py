"""Threads kept as Markdown: tolerant reading, line by line, and the edits that prose proposes."""

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from tasuki.errors import ThreadUnreadable
from tasuki.harness import tools
from tasuki.model import FileChange, ReadReport
from tasuki.paths import home_folder

_RAW_BYTES = re.compile("[\udc80-\udcff]")
_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
_SEARCH = re.compile(r"<{5,9} SEARCH>?\s*\Z")
_DIVIDER = re.compile(r"={5,9}\s*\Z")
_REPLACE = re.compile(r">{5,9} REPLACE\s*\Z")
_OPENING = re.compile(r"\s*(?:`{3,}|~{3,}|<\w+>)[\w.+-]*\s*\Z")
_CLOSING = re.compile(r"\s*(?:`{3,}|~{3,}|</\w+>)\s*\Z")
_DIFF_FILE = re.compile(r"\+\+\+ (?:b/)?(\S.*?)\s*\Z")


class Text(Struct):
    """The lines of a file without their ends, and the byte offset of each."""

    path: Path
    lines: list[str]
    offsets: list[int]
    size: int

    def report(self, unknown: dict[str, int] | None = None) -> ReadReport:
        """What the reader met."""
        return ReadReport(lines=len(self.lines), bytes=self.size, unknown=unknown or {})


def text_of(path: Path) -> Text:
    """A whole file. Raises ThreadUnreadable if it cannot be read."""
    try:
        return text_in(path, path.read_bytes())
    except FileNotFoundError as exc:
        raise ThreadUnreadable(f"{path} vanished while it was read.") from exc
    except OSError as exc:
        raise ThreadUnreadable(f"Cannot read {path}: {exc.strerror}.") from exc


def text_in(path: Path, raw: bytes, offset: int = 0) -> Text:
    r"""A part of a file. Bytes that are no UTF-8 are written out as `\xff`."""
    lines: list[str] = []
    offsets: list[int] = []
    size = len(raw)
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    at = offset + size - len(raw)
    for line in raw.split(b"\n"):
        lines.append(_decoded(line.removesuffix(b"\r")))
        offsets.append(at)
        at += len(line) + 1
    if lines and not lines[-1]:
        lines.pop()
        offsets.pop()
    return Text(path=path, lines=lines, offsets=offsets, size=size)


def _decoded(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        text = line.decode("utf-8", "surrogateescape")
        return _RAW_BYTES.sub(lambda m: f"\\x{ord(m[0]) - 0xDC00:02x}", text)


def both_parts(path: Path, head: int, tail: int) -> tuple[bytes, bytes, int]:
    """The first bytes of a file, the last whole lines of it, and where these begin.

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


def stable_id(prefix: str, place: Path) -> str:
    """An id for a thread that has none of its own: `aider-1a2b3c4d`, from where it lies."""
    digest = hashlib.sha256(os.path.realpath(place).encode("utf-8", "surrogateescape"))
    return f"{prefix}-{digest.hexdigest()[:8]}"


def upwards(folder: Path) -> Iterator[Path]:
    """A folder and those above it, up to that of the repository or the user's own."""
    home = os.path.realpath(home_folder())
    for place in (folder, *folder.parents):
        yield place
        if (place / ".git").exists() or os.path.realpath(place) == home:
            return


def stripped(lines: Sequence[str]) -> str:
    """Lines as one text, without the blank ones at its start and end."""
    first, last = 0, len(lines)
    while first < last and not lines[first].strip():
        first += 1
    while last > first and not lines[last - 1].strip():
        last -= 1
    return "\n".join(lines[first:last])


def fence(line: str) -> str:
    """The mark that opens or closes a block of code, empty if the line has none."""
    match = _FENCE.match(line)
    return match[1] if match else ""


def closes(line: str, mark: str) -> bool:
    """Whether a line closes the block that a mark opened."""
    text = line.strip()
    return len(text) >= len(mark) and not text.strip(mark[0])


def first_words(text: str) -> str:
    """What a list shows of a text."""
    return " ".join(text.split())[:120]


# -- edits that prose proposes -------------------------------------------------------------


def edits(text: str) -> list[FileChange]:
    """Edits in the forms that aider asks for: SEARCH/REPLACE, diffs, patches; in their order."""
    if "*** Begin Patch" in text:
        return list(tools.patch_changes(text[text.index("*** Begin Patch") :]))
    lines = text.split("\n")
    return list(_replacements(lines)) or list(_diffs(lines))


def _replacements(lines: list[str]) -> Iterator[FileChange]:
    path, at = "", 0
    while at < len(lines):
        if not _SEARCH.match(lines[at]):
            at += 1
            continue
        path = _file_above(lines, at) or path
        middle = _next(lines, at + 1, _DIVIDER)
        end = _next(lines, middle + 1, _REPLACE)
        if end >= len(lines):
            return
        old, new = "\n".join(lines[at + 1 : middle]), "\n".join(lines[middle + 1 : end])
        yield FileChange(path=path, kind="edit" if old.strip() else "create", old=old, new=new)
        at = end + 1


def without_edits(lines: Sequence[str]) -> list[str]:
    """Prose without the SEARCH/REPLACE blocks in it; the names of the files above them stay."""
    kept: list[str] = []
    at = 0
    while at < len(lines):
        end = at
        if _SEARCH.match(lines[at]):
            end = _next(lines, _next(lines, at + 1, _DIVIDER) + 1, _REPLACE)
            if end >= len(lines):
                return [*kept, *lines[at:]]
        if end == at:
            kept.append(lines[at])
            at += 1
            continue
        if kept and _OPENING.match(kept[-1]):
            kept.pop()
        at = end + 1
        if at < len(lines) and _CLOSING.match(lines[at]):
            at += 1
    return kept


def _next(lines: Sequence[str], at: int, pattern: re.Pattern[str]) -> int:
    while at < len(lines) and not pattern.match(lines[at]):
        at += 1
    return at


def _file_above(lines: list[str], at: int) -> str:
    """The file name that stands above a block, if the line there looks like one."""
    for line in reversed(lines[max(at - 3, 0) : at]):
        name = line.strip().strip("`*#: ")
        if _REPLACE.match(line):
            return ""
        if name and not fence(line):
            return name if " " not in name or "." in name.rpartition("/")[2] else ""
    return ""


def _diffs(lines: list[str]) -> Iterator[FileChange]:
    for at, line in enumerate(lines):
        if (match := _DIFF_FILE.match(line)) and at and lines[at - 1].startswith("--- "):
            new_file = lines[at - 1].startswith("--- /dev/null")
            yield diff_change(match[1], lines[at + 1 :], "create" if new_file else "edit")


def diff_change(path: str, lines: Sequence[str], kind: str = "edit") -> FileChange:
    """The change that the lines of a diff make, up to where it ends."""
    old: list[str] = []
    new: list[str] = []
    for line in lines:
        if line.startswith(("```", "--- ")):
            break
        if line.startswith("-"):
            old.append(line[1:])
        elif line.startswith("+"):
            new.append(line[1:])
    made: FileChange = FileChange(
        path=path,
        kind="create" if kind == "create" else "edit",
        old="\n".join(old),
        new="\n".join(new),
    )
    return made


def whole_files(text: str, path: str) -> list[FileChange]:
    """The file that prose shows whole in a block under its name, each time it does."""
    lines = text.split("\n")
    found = []
    for at in range(len(lines) - 1):
        mark = fence(lines[at + 1])
        if mark and lines[at].strip().strip("`*#: ") == path:
            end = at + 2
            while end < len(lines) and not closes(lines[end], mark):
                end += 1
            new = "\n".join(lines[at + 2 : end])
            found.append(FileChange(path=path, kind="create", new=new))
    return found
