"""Secrets on a terminal's screen, where a line may end in the middle of one.

tmux joins the lines that the terminal itself has wrapped. A program that draws its own
lines, in a box or with an indent, breaks them at unknown places. So the ends of lines are
joined too, and a secret found that way is replaced on each of its lines.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby

from tasuki.draft.redact.redactor import Redactor, SecretSpan
from tasuki.patterns import compile_pattern

_BORDER = "|\u2502\u2503\u2551\u2506\u2507\u250a\u250b\u258c\u2590\u2588"
"""Characters between the columns of a screen."""
_BEFORE = " \t\xa0>\u203a\u23bf\u2022\u25cf" + _BORDER
_AFTER = " \t\xa0\\\u21b5\u23ce\u21a9\u2026" + _BORDER
_SECRET_CHARACTER = compile_pattern(r"[A-Za-z0-9_.~+/=:%@-]")
"""A character of a secret: a line that ends with one may continue in the next that begins with one."""
_COLUMNS = compile_pattern(f"[{re.escape(_BORDER)}]")
MAX_JOINED = 6
"""Lines over which one secret may extend."""
MAX_WORD = 12

ScreenCell = tuple[int, int]
"""A part of a line: its start and end in the text."""


def redact_screen(text: str) -> str:
    """Return the text of a screen without secrets, also those that continue on the next line."""
    return Redactor().redact(replace_characters(text, _find_hidden(text)))


def find_row_secrets(rows: Sequence[str], joins: Sequence[str]) -> list[dict[int, str]]:
    """Find the secrets in the rows of a terminal: for each row its characters, with the kind.

    `joins` has for each row what ties it to the next: `wrapped` for a line that the terminal
    itself has wrapped, `full` for a row that reaches the edge and may go on, empty for nothing.
    """
    hidden: list[dict[int, str]] = [{} for _ in rows]
    redactor = Redactor()
    for ties in ("wrapped",), ("wrapped", "full"):
        if ties[-1] == "full" and "full" not in joins:
            break
        text, places = _join_rows(rows, [join in ties for join in joins])
        found = _find_hidden(text)
        for start, end, kind in redactor.find_everywhere(text):
            found.update((position, found.get(position, kind)) for position in range(start, end))
        for position, kind in found.items():
            if place := places[position]:
                hidden[place[0]][place[1]] = kind
    return hidden


def hide_rows(
    rows: Sequence[str], joins: Sequence[str], hidden: Sequence[dict[int, str]], first: int
) -> str:
    """Return the lines of the rows from number `first` on, with a mark for each secret."""
    rows, hidden = rows[first:], hidden[first:]
    text, places = _join_rows(rows, [join == "wrapped" for join in joins[first:]])
    kinds = {
        position: hidden[place[0]][place[1]]
        for position, place in enumerate(places)
        if place and place[1] in hidden[place[0]]
    }
    return Redactor().redact(replace_characters(text, kinds))


def _join_rows(
    rows: Sequence[str], joined: Sequence[bool]
) -> tuple[str, list[tuple[int, int] | None]]:
    """Return the text of the rows, and for each of its characters the row and the place in it."""
    parts: list[str] = []
    places: list[tuple[int, int] | None] = []
    for number, row in enumerate(rows):
        parts.append(row)
        places += [(number, position) for position in range(len(row))]
        if not joined[number] and number < len(rows) - 1:
            parts.append("\n")
            places.append(None)
    return "".join(parts), places


def _find_hidden(text: str) -> dict[int, str]:
    """Find the secrets that the ends of lines cut, by the places of their characters."""
    hidden: dict[int, str] = {}
    for column in _list_columns(text):
        below = [place for cell in column for place in (*range(*_strip_frame(text, cell)), -1)]
        for places in (below, *_join_runs(text, column)):
            for start, end, kind in _find_secrets(text, places):
                hidden.update((position, kind) for position in places[start:end] if position >= 0)
    return hidden


def replace_characters(text: str, hidden: dict[int, str]) -> str:
    """Return the text with a mark for each run of hidden characters."""
    parts = []
    for position, letter in enumerate(text):
        if position not in hidden:
            parts.append(letter)
        elif position - 1 not in hidden:
            parts.append(f"[REDACTED:{hidden[position]}]")
    return "".join(parts)


def _find_secrets(text: str, places: Sequence[int]) -> Iterator[SecretSpan]:
    """Yield the secrets in the characters at `places`, read in this order; -1 is a line's end."""
    joined = "".join(text[position] if position >= 0 else "\n" for position in places)
    for span in Redactor().find_secrets(joined):
        breaks = [n for n in range(span.start + 1, span.end) if places[n] > places[n - 1] + 1 > 0]
        if breaks and _is_word(joined[breaks[-1] : span.end]):
            whole = Redactor().find_secrets(joined[: breaks[-1]])
            if whole and whole[-1].end == breaks[-1]:  # the next line begins with a separate word
                span = SecretSpan(span.start, breaks[-1], span.kind)
        yield span


def _is_word(text: str) -> bool:
    return text.isalpha() and text[1:].islower() and len(text) <= MAX_WORD


def _list_columns(text: str) -> Iterator[Sequence[ScreenCell]]:
    """Yield the lines of a text, and the cells of each column where lines have columns."""
    ends = accumulate(len(line) + 1 for line in text.split("\n"))
    lines = [
        (end - 1 - len(line), end - 1) for end, line in zip(ends, text.split("\n"), strict=True)
    ]
    yield lines
    rows = []
    for start, end in lines:
        borders = list(_COLUMNS.finditer(text, start, end))
        starts = [start, *(border.end() for border in borders)]
        rows.append(list(zip(starts, [*(b.start() for b in borders), end], strict=True)))
    for _, group in groupby(rows, key=len):
        block = list(group)
        if len(block) > 1 and len(block[0]) > 1:
            yield from zip(*block, strict=True)


def _join_runs(text: str, cells: Sequence[ScreenCell]) -> Iterator[list[int]]:
    """Yield for each cell the places of it and of the cells in which it may continue.

    They are in one row, after the cell above. Each number of cells is tried: a secret of fixed
    length is only recognised where it ends.
    """
    framed = [_strip_frame(text, cell) for cell in cells]
    for first in range(len(framed) - 1):
        places = [*range(*framed[first - 1]), -1] if first else []
        places += range(*framed[first])
        for cell in framed[first + 1 : first + MAX_JOINED]:
            if not (places and places[-1] >= 0 and cell[0] < cell[1]):
                break
            if not all(map(_SECRET_CHARACTER.match, (text[places[-1]], text[cell[0]]))):
                break
            places = [*places, *range(*cell)]
            yield places


def _strip_frame(text: str, cell: ScreenCell) -> ScreenCell:
    start, end = cell
    while start < end and text[start] in _BEFORE:
        start += 1
    while end > start and text[end - 1] in _AFTER:
        end -= 1
    return start, end
