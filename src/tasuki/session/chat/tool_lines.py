"""A tool call on the screen: its title, a few lines of its output, a short difference."""

import difflib
from collections.abc import Iterator
from pathlib import Path

from rich.text import Text

from tasuki.plain import one_line, shown
from tasuki.session.backend import Diff, Tool
from tasuki.session.chat.markdown import Line

OUTPUT_LINES = 6
DIFF_LINES = 16
TITLE = 200
_READING = ("read", "search", "fetch", "think")
"""Kinds whose output is not shown where all went well."""


def tool_title(tool: Tool) -> str:
    """One line that says what is done."""
    return one_line(tool.title or tool.kind, TITLE)


def tool_lines(tool: Tool) -> Iterator[Line]:
    """A tool that ended."""
    failed = tool.status == "failed"
    mark = Text("✗ ", "bold red") if failed else Text("✓ ", "green")
    yield Line(mark.append(tool_title(tool), "bold"), 2)
    for diff in tool.diffs:
        yield from diff_lines(
            diff, named=len(tool.diffs) > 1 or Path(diff.path).name not in tool.title
        )
    if tool.output and not tool.diffs and (failed or tool.kind not in _READING):
        yield from _output(tool.output)


def diff_lines(diff: Diff, named: bool = True) -> Iterator[Line]:
    """What changed in a file, a few lines of it."""
    if named:
        yield Line(Text(f"  {one_line(diff.path, TITLE)}", "dim"), 2)
    changed = list(_changes(diff))
    yield from changed[:DIFF_LINES]
    yield from _more(len(changed) - DIFF_LINES, "lines changed")


def _changes(diff: Diff) -> Iterator[Line]:
    old, new = ((text or "").splitlines() for text in (diff.old, diff.new))
    for line in list(difflib.unified_diff(old, new, n=1, lineterm=""))[2:]:
        style = {"+": "green", "-": "red", "@": "dim"}.get(line[:1], "dim")
        if not line.startswith("@"):
            text = shown(line[1:]).replace("\n", " ")[:TITLE]
            yield Line(Text(f"  {line[:1]} {text}", style), 4, wrapped=False)


def _output(output: str) -> Iterator[Line]:
    """The end of an output, where its result stands."""
    lines = [line for line in shown(output).strip("\n").split("\n") if line.strip()]
    left = len(lines) - OUTPUT_LINES
    yield from _more(left, "lines above")
    for line in lines[max(left, 0) :]:
        yield Line(Text(f"  {line[:TITLE]}", "dim"), 2, wrapped=False)


def _more(count: int, what: str) -> Iterator[Line]:
    if count > 0:
        yield Line(Text(f"  … {count} more {what}", "dim italic"), 2)
