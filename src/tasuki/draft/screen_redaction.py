"""Secrets on a terminal's screen, where a line may end in the middle of one.

tmux joins the lines that the terminal itself has wrapped. A program that draws its own lines, in a box or with an
indent, breaks them where nobody can tell: so the ends of lines are put together too, and what is a secret then is
replaced on each of its lines.
"""

import re
from collections.abc import Iterator, Sequence

from tasuki.draft.redact import Redactor, Span

_BORDER = "|\u2502\u2503\u2551\u2506\u2507\u250a\u250b\u258c\u2590\u2588"
"""Characters that stand between the columns of a screen."""
_BEFORE = " \t\xa0>\u203a\u23bf\u2022\u25cf" + _BORDER
_AFTER = " \t\xa0\\\u21b5\u23ce\u21a9\u2026" + _BORDER
_JOINED = re.compile(r"[A-Za-z0-9_.~+/=:%@-]")
"""What a secret is made of: a line that ends with it may go on in the next one that begins with it."""
_COLUMNS = re.compile(f"[{re.escape(_BORDER)}]")
MOST_JOINED = 6
"""Lines over which one secret may go."""
LONGEST_WORD = 12

Cell = tuple[int, int]
"""A part of a line: where it begins and ends in the text."""


def redact_screen(text: str, above: str = "") -> str:
    """The text of a screen without secrets, also those that go from the end of one line to the next.

    `above` are the lines over it, in which a secret may begin.
    """
    above = above and above.removesuffix("\n") + "\n"
    text = above + text
    hidden: dict[int, str] = {}
    for column in _columns(text):
        for places in (_join(text, column), *_joined_from_each(text, column)):
            for start, end, kind in _find(text, places):
                hidden.update((at, kind) for at in places[start:end] if at >= 0)
    return Redactor().redact(_hide(text, hidden, len(above)))


def _hide(text: str, hidden: dict[int, str], at: int) -> str:
    """The text from a place on, with a mark for each run of hidden characters."""
    parts, first = [], at
    while at < len(text):
        if at not in hidden:
            parts.append(text[at])
        elif at == first or at - 1 not in hidden:
            parts.append(f"[REDACTED:{hidden[at]}]")
        at += 1
    return "".join(parts)


def _find(text: str, places: Sequence[int]) -> Iterator[Span]:
    """The secrets in characters of a text, which are read in this order; a place of -1 is a line's end."""
    joined = "".join(text[at] if at >= 0 else "\n" for at in places)
    for span in Redactor().find(joined):
        breaks = [n for n in range(span.start + 1, span.end) if places[n] > places[n - 1] + 1 > 0]
        if breaks and _is_word(joined[breaks[-1] : span.end]):
            whole = Redactor().find(joined[: breaks[-1]])
            if whole and whole[-1].end == breaks[-1]:  # the next line begins with a word of its own
                span = Span(span.start, breaks[-1], span.kind)
        yield span


def _is_word(text: str) -> bool:
    return text.isalpha() and text[1:].islower() and len(text) <= LONGEST_WORD


def _columns(text: str) -> Iterator[Sequence[Cell]]:
    """The lines of a text; where some of them have columns, the cells of each column too."""
    lines = list(_lines(text))
    yield lines
    block: list[list[Cell]] = []
    for line in lines:
        cells = _cells(text, line)
        if block and len(cells) != len(block[-1]):
            yield from _columns_of(block)
            block = []
        block.append(cells)
    yield from _columns_of(block)


def _columns_of(block: Sequence[Sequence[Cell]]) -> Iterator[Sequence[Cell]]:
    if len(block) > 1 and len(block[0]) > 1:
        yield from zip(*block, strict=True)


def _joined_from_each(text: str, cells: Sequence[Cell]) -> Iterator[list[int]]:
    """From each cell on, it and those in which it may go on, in one row, below the cell above it.

    Each number of cells is tried: what has a fixed length is only known where it ends.
    """
    framed = [_without_frame(text, cell) for cell in cells]
    for first in range(len(framed) - 1):
        places = [*range(*framed[first - 1]), -1] if first else []
        places += range(*framed[first])
        for cell in framed[first + 1 : first + MOST_JOINED]:
            if not (places and places[-1] >= 0 and cell[0] < cell[1]):
                break
            if not (_JOINED.match(text[places[-1]]) and _JOINED.match(text[cell[0]])):
                break
            places = [*places, *range(*cell)]
            yield places


def _join(text: str, cells: Sequence[Cell]) -> list[int]:
    """The places of all cells, one below the other."""
    places: list[int] = []
    for cell in cells:
        places += [*range(*_without_frame(text, cell)), -1]
    return places


def _without_frame(text: str, cell: Cell) -> Cell:
    start, end = cell
    while start < end and text[start] in _BEFORE:
        start += 1
    while end > start and text[end - 1] in _AFTER:
        end -= 1
    return start, end


def _lines(text: str) -> Iterator[Cell]:
    at = 0
    for line in text.split("\n"):
        yield at, at + len(line)
        at += len(line) + 1


def _cells(text: str, line: Cell) -> list[Cell]:
    """The columns of a line."""
    start, end = line
    cells = []
    for border in _COLUMNS.finditer(text, start, end):
        cells.append((start, border.start()))
        start = border.end()
    return [*cells, (start, end)]
