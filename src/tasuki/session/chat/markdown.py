"""Markdown painted line by line, as it streams in: readable, and still to be copied as it is meant."""

import re

from msgspec import Struct
from rich.text import Text

_FENCE = re.compile(r"\s*(```+|~~~+)\s*(\S*)")
_HEADING = re.compile(r"(#{1,6})\s+(.*)")
_ITEM = re.compile(r"(\s*)([-*+]|\d{1,3}[.)])\s+(.*)")
_RULE = re.compile(r"\s*(?:[-*_]\s*){3,}")
_INLINE = re.compile(
    r"(`+)(?P<code>.+?)\1"
    r"|\*\*(?P<bold>\S(?:.*?\S)?)\*\*"
    r"|(?<![\w*])\*(?P<italic>[^\s*](?:[^*]*[^\s*])?)\*(?![\w*])"
    r"|\[(?P<words>[^\]\n]+)\]\((?P<address>[^()\s]+)\)"
)
CODE = "cyan"
_BOXES = {"[ ] ": "☐ ", "[x] ": "☑ ", "[X] ": "☑ "}


class Line(Struct):
    """A line to print; where it is wrapped, what follows stands `indent` columns in."""

    text: Text
    indent: int = 0
    wrapped: bool = True
    """Code is not wrapped at blanks."""


class Markdown:
    """Paints one line after the other; it knows whether it is inside a block of code."""

    def __init__(self) -> None:
        self._fence = ""

    def line(self, line: str) -> Line | None:
        """A line as it is shown; None for a mark that is not."""
        if (match := _FENCE.fullmatch(line)) and self._toggled(match[1]):
            return None
        if self._fence:
            return Line(Text(f"  {line}", CODE), 4, wrapped=False)
        if match := _HEADING.fullmatch(line):
            return Line(_styled(match[2], "bold" if len(match[1]) < 3 else "bold italic"))
        if _RULE.fullmatch(line):
            return Line(Text("─" * 20, "dim"))
        if match := _ITEM.fullmatch(line):
            return _item(match[1], match[2], match[3])
        if line.startswith(">"):
            return Line(Text("│ ", "dim").append(_styled(line.lstrip("> "), "italic")), 2)
        return Line(_styled(line))

    def _toggled(self, mark: str) -> bool:
        """Whether a mark begins or ends a block of code."""
        if not self._fence:
            self._fence = mark
            return True
        if mark.startswith(self._fence):
            self._fence = ""
            return True
        return False


def _item(blanks: str, mark: str, words: str) -> Line:
    mark = mark if mark[0].isdigit() else "•"
    for box, shown in _BOXES.items():
        if words.startswith(box):
            mark, words = shown.strip(), words[len(box) :]
    head = f"{blanks}{mark} "
    return Line(Text(head).append(_styled(words)), len(head))


def _styled(line: str, style: str = "") -> Text:
    """A line with its code, emphasis and links shown as what they are."""
    text = Text(style=style)
    at = 0
    for match in _INLINE.finditer(line):
        text.append(line[at : match.start()])
        at = match.end()
        if match["code"]:
            text.append(match["code"].strip(), CODE)
        elif match["words"]:
            text.append(match["words"], "underline").append(f" ({match['address']})", "dim")
        else:
            text.append(match["bold"] or match["italic"], "bold" if match["bold"] else "italic")
    return text.append(line[at:])
