"""Split messages into blocks: paragraphs, list items, tables and code, in their own
characters.

A block is the smallest part of a message that is quoted. A sentence taken out of its
paragraph gives only half of what was meant.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from tasuki.draft.text.markdown import MarkdownLine, read_lines
from tasuki.draft.text.split import MAX_LINE, strip_emphasis
from tasuki.patterns import compile_pattern

_TABLE_LINE = compile_pattern(r"^[\s|:+-]{4,}$")
_PADDING = compile_pattern(r"(?<=\S) {2,}(?=\S)")

_POINTS_BACK = compile_pattern(
    r"(?:It|This|That|These|Those|They|Both|Either|Neither)\b(?! (?:is )?(?:said|way)\b)"
)
"""How a paragraph begins that says nothing without the one before it."""

MAX_TITLE = 120
"""Characters of a bold line that is a title."""
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
    lines = list(read_lines(text.split("\n")))
    index = 0
    while index < len(lines):
        line, end = lines[index], index + 1
        if line.kind == "fence":
            end = _find_run_end(lines, index, ("code",)) + 1
            yield "code", [line.raw for line in lines[index:end]]
        elif line.kind == "heading" or _is_title(line):
            is_lead = line.kind == "bold" and line.level
            yield "lead-in" if is_lead else "heading", [strip_emphasis(line.text[:MAX_LINE])]
        elif line.kind == "table":
            end = _find_run_end(lines, index, ("table",))
            yield "table", [line.raw for line in lines[index:end]]
        elif line.kind == "item":
            end = _find_item_end(lines, index)
            yield from (("item", part) for part in _split_item(lines[index:end]))
        elif line.kind not in ("blank", "rule"):
            end = _find_run_end(lines, index, _PROSE)
            yield "paragraph", [line.raw for line in lines[index:end]]
        index = end


_PROSE = ("text", "quote", "bold")


def _is_title(line: MarkdownLine) -> bool:
    return line.kind == "bold" and len(line.text) <= MAX_TITLE


def _find_run_end(lines: list[MarkdownLine], start: int, kinds: Sequence[str]) -> int:
    def is_inside(line: MarkdownLine) -> bool:
        is_bare_table = line.kind == "table" and kinds is _PROSE and line.raw.lstrip()[0] != "|"
        return (line.kind in kinds and not _is_title(line)) or is_bare_table

    return next((n for n in range(start + 1, len(lines)) if not is_inside(lines[n])), len(lines))


def _find_item_end(lines: list[MarkdownLine], start: int) -> int:
    """Return the end of a list item, including everything indented below it."""

    def is_below(line: MarkdownLine) -> bool:
        return len(line.raw) - len(line.raw.lstrip()) > lines[start].level

    end, fenced = start + 1, False
    while end < len(lines):
        line = lines[end]
        if line.kind == "fence" and (fenced or is_below(line)):
            fenced = not fenced
        elif line.kind == "blank":
            after = next((n for n in range(end, len(lines)) if lines[n].kind != "blank"), -1)
            if after < 0 or not is_below(lines[after]):
                break
            end = after
            continue
        elif not is_below(line) and not fenced and (line.kind not in _PROSE or _is_title(line)):
            break
        end += 1
    return end


def _split_item(lines: list[MarkdownLine]) -> Iterator[list[str]]:
    """Yield a list item whole, or, if it is long, its head and the items below it separately."""
    is_long = sum(len(line.raw) for line in lines) > LONG_ITEM
    part: list[str] = []
    for line in lines:
        if is_long and line.kind == "item" and part:
            yield part
            part = []
        part.append(line.raw)
    yield part
