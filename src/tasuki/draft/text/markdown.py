"""Markdown, line by line: what each line is, and its text without its marks.

Models write Markdown that no standard allows: lists behind indented code, titles in bold, tables
without a head. So lines are told apart as people read them.
"""

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from tasuki.patterns import compile_pattern

LineKind = Literal[
    "blank", "fence", "code", "heading", "bold", "item", "quote", "table", "rule", "text"
]
_HEADING = compile_pattern(r"(#{1,6})(?:\s+|(?<=##)(?=[^\W\d_]))(\S.*?)(?:\s+#+)?\s*$")
_BOLD = compile_pattern(r"\*\*([^*]+?)(:?)\*\*(:?)\s*$")
_ITEM = compile_pattern(r"(?:[-*+•]|\d{1,3}[.)])\s+(?:\[([ xX~-])\]\s+)?")
_RULE = compile_pattern(
    r"(?:[-*_=]\s*){3,}$|</?(?:think(?:ing)?|analysis|summary|reasoning|reflection|scratchpad|(?:proposed_|final_)?(?:plan|answer|response))>\s*$"
)
"""Also what some models put around their answer: it says nothing."""
_TABLE = compile_pattern(r"\|.*\|\s*$|[\s|:+=-]{4,}$")
_MARKS = frozenset("`~#*-+•<>|=_:0123456789")
"""How a line begins that may be more than text."""


class MarkdownLine(NamedTuple):
    """One line. `text` is what a heading or an item says, else the line as it is."""

    kind: LineKind
    text: str
    raw: str
    level: int = 0
    """Of a heading, 1 to 6; of an item its indentation; of a bold line whether it ends in a colon."""
    box: str = ""
    """The content of an item's box: a blank, x or another sign."""


def read_line(raw: str) -> MarkdownLine:
    """Return what a line is by itself; the first line of a block of code is a `fence`, as the last."""
    bare = raw.lstrip()
    first = bare[:1]
    if not bare:
        return MarkdownLine("blank", "", raw)
    if first not in _MARKS:
        return MarkdownLine("text", raw, raw)
    indent = len(raw) - len(bare)
    if bare.startswith(("```", "~~~")):
        return MarkdownLine("fence", bare[:3], raw)
    if first == "#":
        if indent <= 3 and (match := _HEADING.match(bare)):
            return MarkdownLine("heading", match[2], raw, len(match[1]))
    elif not first.isdigit() and _RULE.match(bare):
        return MarkdownLine("rule", raw, raw)
    elif _TABLE.match(bare):
        return MarkdownLine("table", raw, raw)
    elif match := _ITEM.match(bare):
        return MarkdownLine("item", bare[match.end() :], raw, indent, (match[1] or "").lower())
    elif first == "*" and (match := _BOLD.match(bare)):
        return MarkdownLine("bold", match[1], raw, int(bool(match[2] or match[3])))
    elif first == ">" and bare[1:2].isspace():
        return MarkdownLine("quote", bare[2:].lstrip(), raw)
    return MarkdownLine("text", raw, raw)


def read_lines(lines: Iterable[str]) -> Iterator[MarkdownLine]:
    """Yield what lines are; those between two fences of the same kind are `code`."""
    fence = ""
    for raw in lines:
        line = read_line(raw)
        if fence and not (line.kind == "fence" and line.text == fence):
            yield MarkdownLine("code", raw, raw)
        else:
            if line.kind == "fence":
                fence = "" if fence else line.text
            yield line
