"""Messages cut into blocks: paragraphs, list items, tables and code, each in its own characters.

A block is the smallest part of a message that is quoted: a sentence taken out of its paragraph
tells half of what was meant.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

from tasuki.draft.text import MAX_LINE

_FENCE = re.compile(r"^\s*(```|~~~)")
_HEADING = re.compile(r"^\s{0,3}#{1,6}\s+(?=\S)(.*)$")
_WHOLLY_BOLD = re.compile(r"^\s*\*\*([^*]{1,120}?)(:?)\*\*(:?)\s*$")
_BULLET = re.compile(r"^(\s*)(?:[-*+•]|\d{1,3}[.)])\s+")
_RULE = re.compile(r"^\s*(?:[-*_=]\s*){3,}$")
_TAG = re.compile(r"^\s*</?(?:thinking|analysis|summary)>\s*$")
"""What some models put around their answer; it says nothing."""
_TABLE_ROW = re.compile(r"^\s*\|.*\|\s*$")
_TABLE_LINE = re.compile(r"^[\s|:+-]{4,}$")
_EMPHASIS = re.compile(r"(?<![*\w])\*\*(?=[^\s*])((?:(?!\*\*).)+?)(?<=\S)\*\*(?![*\w])")
_PADDING = re.compile(r"(?<=\S) {2,}(?=\S)")

LONG_ITEM = 420
"""Characters from which a list item with items below it is cut into those."""
LONG_CODE = 14
"""Lines of code or of a table that are quoted of one block, at most."""


class Block(Struct, frozen=True, gc=False):
    """A part of one message: `text` may hold several lines; `heading` is what it stands below."""

    text: str
    ref: int
    place: int
    """Its number within the message, from 0."""
    kind: str
    """paragraph, item, code, table"""
    heading: str = ""
    lead: int = -1
    """Place of the paragraph ending in a colon that introduces it, -1 if there is none."""
    begins: bool = True
    """Nothing stands between it and its heading."""


def split_blocks(text: str, ref: int) -> list[Block]:
    """The blocks of a message, in order; headings and bold lines become the `heading` of what follows.

    One that nothing follows is a paragraph.
    """
    blocks: list[Block] = []
    heading, lead, is_alone, leads_on, is_first = "", -1, False, False, True
    for kind, lines in (*_parts(text), ("heading", [""])):
        if kind in ("heading", "lead-in"):
            if is_alone:
                blocks.append(Block(heading, ref, len(blocks), "paragraph"))
            heading, lead, is_alone = lines[0], -1, bool(lines[0])
            leads_on, is_first = kind == "lead-in", True
            continue
        body = _plain(kind, lines)
        if not body:
            continue
        if leads_on and kind == "paragraph" and not is_alone:
            heading = ""  # What ended in a colon spoke of what came right below it.
        is_alone = False
        begins = is_first or not heading
        is_first = False
        blocks.append(
            Block(
                body,
                ref,
                len(blocks),
                kind,
                heading,
                lead if kind != "paragraph" else -1,
                begins=begins,
            )
        )
        if kind == "paragraph":
            lead = len(blocks) - 1 if body.endswith((":", "：")) else -1
    return blocks


def _plain(kind: str, lines: list[str]) -> str:
    """The lines of a block without emphasis marks, padding and the rules of tables."""
    if kind == "code":
        return "\n".join(line.rstrip()[:MAX_LINE] for line in _cut_middle(lines, LONG_CODE)).strip(
            "\n"
        )
    if kind == "table":
        rows = [
            _PADDING.sub(" ", line.strip()[:MAX_LINE])
            for line in lines
            if not _TABLE_LINE.match(line)
        ]
        return "\n".join(_EMPHASIS.sub(r"\1", row) for row in _cut_middle(rows, LONG_CODE))
    kept = [_EMPHASIS.sub(r"\1", line.rstrip()[:MAX_LINE]) for line in lines]
    indent = min((len(x) - len(x.lstrip()) for x in kept if x.strip()), default=0)
    return "\n".join(x[indent:] for x in kept if x.strip())


def _cut_middle(lines: list[str], most: int) -> list[str]:
    """Lines with those in the middle left out where there are more than `most`."""
    if len(lines) <= most:
        return lines
    half = most // 2
    return [*lines[:half], "[…]", *lines[-(most - half - 1) :]]


def _parts(text: str) -> Iterator[tuple[str, list[str]]]:
    """Kind and lines of each part of a message."""
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        line = lines[at]
        if match := _FENCE.match(line):
            end = at + 1
            while end < len(lines) and not lines[end].lstrip().startswith(match[1]):
                end += 1
            yield "code", lines[at : end + 1]
            at = end + 1
        elif not line.strip() or _RULE.match(line) or _TAG.match(line):
            at += 1
        elif heading := _HEADING.match(line) or _WHOLLY_BOLD.match(line):
            bare = _EMPHASIS.sub(r"\1", _without_closing_marks(heading[1])[:MAX_LINE])
            yield "lead-in" if any(heading.groups()[1:]) else "heading", [bare]
            at += 1
        elif _TABLE_ROW.match(line):
            end = _while(lines, at, lambda x: bool(_TABLE_ROW.match(x)))
            yield "table", lines[at:end]
            at = end
        elif _BULLET.match(line):
            end = _end_of_item(lines, at)
            yield from (("item", part) for part in _items(lines[at:end]))
            at = end
        else:
            end = _while(lines, at, _continues)
            yield "paragraph", lines[at:end]
            at = end


def _without_closing_marks(heading: str) -> str:
    """A heading without the marks that may close it: `## Plan ##`, but not `## In C#`."""
    text = heading.rstrip()
    bare = text.rstrip("#")
    return bare.rstrip() if bare != text and bare[-1:].isspace() else text


def _while(lines: list[str], at: int, holds: "re.Pattern[str] | object") -> int:
    end = at + 1
    while end < len(lines) and holds(lines[end]):  # type: ignore[operator]
        end += 1
    return end


def _continues(line: str) -> bool:
    """Whether a line goes on with the paragraph above it."""
    return bool(line.strip()) and not (
        _FENCE.match(line)
        or _HEADING.match(line)
        or _WHOLLY_BOLD.match(line)
        or _BULLET.match(line)
        or _TABLE_ROW.match(line)
        or _RULE.match(line)
        or _TAG.match(line)
    )


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _end_of_item(lines: list[str], at: int) -> int:
    """Where a list item ends, with everything that is indented below it."""
    base = _indent(lines[at])
    end, fenced = at + 1, False
    while end < len(lines):
        line = lines[end]
        if _FENCE.match(line) and (fenced or _indent(line) > base):
            fenced = not fenced
        elif fenced:
            pass
        elif not line.strip():
            after = next((n for n in range(end, len(lines)) if lines[n].strip()), len(lines))
            if after == len(lines) or _indent(lines[after]) <= base:
                break
            end = after
            continue
        elif _indent(line) <= base and (_BULLET.match(line) or not _continues(line)):
            break
        end += 1
    return end


def _items(lines: list[str]) -> Iterator[list[str]]:
    """A list item whole, or cut into its head and the items below it where it is long."""
    if sum(map(len, lines)) <= LONG_ITEM:
        yield lines
        return
    part = lines[:1]
    fenced = False
    for line in lines[1:]:
        if _FENCE.match(line):
            fenced = not fenced
        if not fenced and _BULLET.match(line) and part:
            yield part
            part = []
        part.append(line)
    yield part
