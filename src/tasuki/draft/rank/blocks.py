"""Split messages into blocks: paragraphs, list items, tables and code, in their own
characters.

A block is the smallest part of a message that is quoted. A sentence taken out of its
paragraph gives only half of what was meant.
"""

from collections.abc import Callable, Iterator

from msgspec import Struct

from tasuki.draft.text.split import MAX_LINE, strip_emphasis
from tasuki.patterns import compile_pattern

_FENCE = compile_pattern(r"^\s*(```|~~~)")
_HEADING = compile_pattern(r"^\s{0,3}#{1,6}\s+(?=\S)(.*)$")
_WHOLLY_BOLD = compile_pattern(r"^\s*\*\*([^*]{1,120}?)(:?)\*\*(:?)\s*$")
_BULLET = compile_pattern(r"^(\s*)(?:[-*+•]|\d{1,3}[.)])\s+")
_RULE = compile_pattern(r"^\s*(?:[-*_=]\s*){3,}$")
_TAG = compile_pattern(r"^\s*</?(?:thinking|analysis|summary)>\s*$")
"""What some models put around their answer; it says nothing."""
_TABLE_ROW = compile_pattern(r"^\s*\|.*\|\s*$")
_TABLE_LINE = compile_pattern(r"^[\s|:+-]{4,}$")
_PADDING = compile_pattern(r"(?<=\S) {2,}(?=\S)")

_POINTS_BACK = compile_pattern(
    r"(?:It|This|That|These|Those|They|Both|Either|Neither)\b(?! (?:is )?(?:said|way)\b)"
)
"""How a paragraph begins that says nothing without the one before it."""

LONG_ITEM = 420
"""Characters from which a list item with items below it is cut into those."""
LONG_CODE = 14
"""Lines of code or of a table that are quoted of one block, at most."""


class MessageBlock(Struct, frozen=True, gc=False):
    """A part of one message: `text` may hold several lines; `heading` is the heading above it."""

    text: str
    ref: int
    place: int
    """Its number within the message, from 0."""
    kind: str
    """paragraph, item, code, table"""
    heading: str = ""
    lead: int = -1
    """Place of the paragraph ending in a colon that introduces it, or to which its first word points; -1 if there is none."""
    begins: bool = True
    """Nothing is between it and its heading."""


def split_blocks(text: str, ref: int) -> list[MessageBlock]:
    """Return the blocks of a message in order.

    Headings and bold lines become the `heading` of what follows. A heading that nothing follows
    is a paragraph.
    """
    blocks: list[MessageBlock] = []
    heading, lead, last, is_alone, leads_on, is_first = "", -1, -1, False, False, True
    for kind, lines in (*_split_parts(text), ("heading", [""])):
        if kind in ("heading", "lead-in"):
            if is_alone:
                blocks.append(MessageBlock(heading, ref, len(blocks), "paragraph"))
            heading, lead, last, is_alone = lines[0], -1, -1, bool(lines[0])
            leads_on, is_first = kind == "lead-in", True
            continue
        body = _clean_lines(kind, lines)
        if not body:
            continue
        if leads_on and kind == "paragraph" and not is_alone:
            heading = ""  # What ended in a colon spoke of what came right below it.
        is_alone = False
        begins = is_first or not heading
        is_first = False
        own_lead = lead if kind != "paragraph" else last if _POINTS_BACK.match(body) else -1
        blocks.append(MessageBlock(body, ref, len(blocks), kind, heading, own_lead, begins))
        if kind == "paragraph":
            last = len(blocks) - 1
            lead = last if body.endswith((":", "：")) else -1
    return blocks


def _clean_lines(kind: str, lines: list[str]) -> str:
    """Return the lines of a block without emphasis marks, padding and the rules of tables."""
    if kind == "code":
        code = (line.rstrip()[:MAX_LINE] for line in _cut_middle(lines, LONG_CODE))
        return "\n".join(code).strip("\n")
    if kind == "table":
        told = (line for line in lines if not _TABLE_LINE.match(line))
        rows = [_PADDING.sub(" ", line.strip()[:MAX_LINE]) for line in told]
        return "\n".join(strip_emphasis(row) for row in _cut_middle(rows, LONG_CODE))
    kept = [strip_emphasis(line.rstrip()[:MAX_LINE]) for line in lines]
    indent = min((len(x) - len(x.lstrip()) for x in kept if x.strip()), default=0)
    return "\n".join(x[indent:] for x in kept if x.strip())


def _cut_middle(lines: list[str], limit: int) -> list[str]:
    """Return the lines without those in the middle if there are more than `limit`."""
    if len(lines) <= limit:
        return lines
    half = limit // 2
    return [*lines[:half], "[…]", *lines[-(limit - half - 1) :]]


def _split_parts(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the kind and the lines of each part of a message."""
    lines = text.split("\n")
    index = 0
    while index < len(lines):
        line = lines[index]
        if match := _FENCE.match(line):
            end = index + 1
            while end < len(lines) and not lines[end].lstrip().startswith(match[1]):
                end += 1
            yield "code", lines[index : end + 1]
            index = end + 1
        elif not line.strip() or _RULE.match(line) or _TAG.match(line):
            index += 1
        elif heading := _HEADING.match(line) or _WHOLLY_BOLD.match(line):
            text = heading[1].rstrip()
            closed = text.rstrip("#")  # `## Plan ##`, but not `## In C#`
            text = closed.rstrip() if closed != text and closed[-1:].isspace() else text
            bare = strip_emphasis(text[:MAX_LINE])
            yield "lead-in" if any(heading.groups()[1:]) else "heading", [bare]
            index += 1
        elif _TABLE_ROW.match(line):
            end = _find_run_end(lines, index, _TABLE_ROW.match)
            yield "table", lines[index:end]
            index = end
        elif _BULLET.match(line):
            end = _find_item_end(lines, index)
            yield from (("item", part) for part in _split_item(lines[index:end]))
            index = end
        else:
            end = _find_run_end(lines, index, _is_continuation)
            yield "paragraph", lines[index:end]
            index = end


def _find_run_end(lines: list[str], start: int, goes_on: Callable[[str], object]) -> int:
    end = start + 1
    while end < len(lines) and goes_on(lines[end]):
        end += 1
    return end


def _is_continuation(line: str) -> bool:
    """Return whether a line continues the paragraph above it."""
    begins = (_FENCE, _HEADING, _WHOLLY_BOLD, _BULLET, _TABLE_ROW, _RULE, _TAG)
    return bool(line.strip()) and not any(pattern.match(line) for pattern in begins)


def _find_item_end(lines: list[str], start: int) -> int:
    """Return the end of a list item, including everything indented below it."""

    def measure_indent(line: str) -> int:
        return len(line) - len(line.lstrip())

    base = measure_indent(lines[start])
    end, fenced = start + 1, False
    while end < len(lines):
        line = lines[end]
        if _FENCE.match(line) and (fenced or measure_indent(line) > base):
            fenced = not fenced
        elif fenced:
            pass
        elif not line.strip():
            after = next((n for n in range(end, len(lines)) if lines[n].strip()), len(lines))
            if after == len(lines) or measure_indent(lines[after]) <= base:
                break
            end = after
            continue
        elif measure_indent(line) <= base and (_BULLET.match(line) or not _is_continuation(line)):
            break
        end += 1
    return end


def _split_item(lines: list[str]) -> Iterator[list[str]]:
    """Yield a list item whole, or, if it is long, its head and the items below it separately."""
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
