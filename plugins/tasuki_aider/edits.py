"""Edits that the prose of a model proposes, in the forms that aider asks for."""

import re
from collections.abc import Iterator, Sequence

from tasuki.harness.reading import markdown
from tasuki.harness.tool_table.patches import parse_patch
from tasuki.model import FileChange
from tasuki.patterns import compile_pattern

_SEARCH = compile_pattern(r"<{5,9} SEARCH>?\s*\Z")
_DIVIDER = compile_pattern(r"={5,9}\s*\Z")
_REPLACE = compile_pattern(r">{5,9} REPLACE\s*\Z")
_OPENING = compile_pattern(r"\s*(?:`{3,}|~{3,}|<\w+>)[\w.+-]*\s*\Z")
_CLOSING = compile_pattern(r"\s*(?:`{3,}|~{3,}|</\w+>)\s*\Z")
_DIFF_FILE = compile_pattern(r"\+\+\+ (?:b/)?(\S.*?)\s*\Z")


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
        if name and not (markdown.find_fence(line) or _OPENING.match(line)):
            return name if " " not in name or "." in name.rpartition("/")[2] else ""
    return ""


def _parse_diffs(lines: list[str]) -> Iterator[FileChange]:
    for at, line in enumerate(lines):
        if (match := _DIFF_FILE.match(line)) and at and lines[at - 1].startswith("--- "):
            new_file = lines[at - 1].startswith("--- /dev/null")
            yield markdown.parse_diff(match[1], lines[at + 1 :], "create" if new_file else "edit")


def find_whole_files(text: str, path: str) -> list[FileChange]:
    """Find each block under a file's name in which prose shows the whole file."""
    lines = text.split("\n")
    changes = []
    for at in range(len(lines) - 1):
        mark = markdown.find_fence(lines[at + 1])
        if mark and lines[at].strip().strip("`*#: ") == path:
            end = at + 2
            while end < len(lines) and not markdown.is_closing_fence(lines[end], mark):
                end += 1
            new = "\n".join(lines[at + 2 : end])
            changes.append(FileChange(path=path, kind="create", new=new))
    return changes
