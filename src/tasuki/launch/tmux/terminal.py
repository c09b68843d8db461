"""What tmux captures of a pane with colours, as rows of plain text and harmless styles.

`capture-pane -e` writes escape sequences of the program's own choice: colours, but also links.
Only styles pass, written anew; everything else of a sequence is dropped. Seen: tmux 3.3a.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from msgspec import Struct

from tasuki.patterns import compile_pattern
from tasuki.text_safety import clean_for_display, count_columns

_SEQUENCE = compile_pattern(
    r"\x1b\[([0-9:;]*)m"
    r"|\x1b[\]P_^X][^\x07\x1b]*(?:\x07|\x1b\\)?"  # a title, a link, what a program sends itself
    r"|\x1b\[[0-?]*[ -/]*[@-~]?"
    r"|\x1b[ -/]*[0-~]?"
    r"|[\x0e\x0f]"
)
_LINES = str.maketrans("`afgijklmnopqrstuvwxyz{|}~0,+.-", "◆▒°±␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·█←→↓↑")
"""The letters by which VT100 programs draw lines, between shift out and shift in."""
_SWITCHES = {
    "1": "bold", "2": "dim", "3": "italic", "4": "underline", "7": "inverse", "8": "hidden",
    "9": "struck",
}  # fmt: skip
_OFF = {
    "22": ("bold", "dim"), "23": ("italic",), "24": ("underline",), "27": ("inverse",),
    "28": ("hidden",), "29": ("struck",), "39": ("ink",), "49": ("ground",),
}  # fmt: skip
_ORDER = ("bold", "dim", "italic", "underline", "inverse", "hidden", "struck", "ink", "ground")
_COLOUR_NUMBERS = {"5": 1, "2": 3}
"""How many numbers follow each kind of a colour."""
_SEEN_ON_BLANKS = ("underline", "inverse", "struck", "ground")
TAB = 8
"""Columns from one tab stop to the next."""


class TerminalRow(Struct, frozen=True):
    """A row of a pane. `continues`: the terminal wrapped it, the next row is the rest of its line.

    `styles` are positions in the text from which on a style holds, each with its parameters of
    SGR (ECMA-48), `1;38;5;2`; empty for none.
    """

    text: str
    styles: tuple[tuple[int, str], ...] = ()
    continues: bool = False


class TerminalCapture(Struct, frozen=True):
    """The screen of a pane and the rows above it that were asked for; the cursor from 0, or None."""

    above: tuple[TerminalRow, ...]
    screen: tuple[TerminalRow, ...]
    columns: int
    cursor: tuple[int, int] | None
    history: int
    """Rows that tmux keeps above the screen."""
    pid: int


def parse_rows(coloured: str, joined: str) -> list[TerminalRow]:
    """Parse captured rows, `capture-pane -e -N` and the same with `-J`, which joins wrapped ones."""
    style: dict[str, str] = {}
    rows, raw, shifted = [], [], False
    for line in coloured.split("\n"):
        row, style, shifted = _parse_row(line, style, is_shifted=shifted)
        rows.append(row)
        raw.append(_SEQUENCE.sub("", line))
    wrapped = _find_wrapped(raw, joined.split("\n"))
    return [TerminalRow(row.text, row.styles, number in wrapped) for number, row in enumerate(rows)]


def _find_wrapped(rows: Sequence[str], lines: Sequence[str]) -> set[int]:
    """Return the numbers of the rows that continue in the next one."""
    wrapped, number = set(), 0
    for line in lines:
        rest = line
        while number < len(rows) - 1 and len(rest) > len(rows[number]) > 0:
            row = rows[number]
            if not rest.startswith(row):
                row = row.removesuffix(" ")  # no room for a character of two columns
            if not rest.startswith(row):
                break
            rest = rest[len(row) :]
            wrapped.add(number)
            number += 1
        number += 1
    return wrapped


def _parse_row(
    line: str, style: dict[str, str], *, is_shifted: bool
) -> tuple[TerminalRow, dict[str, str], bool]:
    text, styles, position = "", [(0, _write_style(style))], 0
    for sequence in _SEQUENCE.finditer(line):
        text += _clean_part(line[position : sequence.start()], text, is_shifted=is_shifted)
        position = sequence.end()
        if sequence[1] is not None:
            style = change_style(style, sequence[1])
            styles.append((len(text), _write_style(style)))
        elif sequence[0] in "\x0e\x0f":
            is_shifted = sequence[0] == "\x0e"
    text += _clean_part(line[position:], text, is_shifted=is_shifted)
    if (cleaned := _clean(text)) != text:  # what only the whole row shows to be unsafe
        return TerminalRow(cleaned), style, is_shifted
    return TerminalRow(text, tuple(_settle_styles(styles, len(text)))), style, is_shifted


def _clean(text: str) -> str:
    return clean_for_display(text).replace("\n", "")


def _clean_part(text: str, before: str, *, is_shifted: bool) -> str:
    text = text.translate(_LINES) if is_shifted else text
    if "\t" not in text:
        return _clean(text)
    first, *others = map(_clean, text.split("\t"))
    for part in others:
        first += " " * (TAB - count_columns(before + first) % TAB) + part
    return first


def _settle_styles(styles: Sequence[tuple[int, str]], end: int) -> Iterator[tuple[int, str]]:
    """Yield the changes of style that can be seen."""
    last = ""
    for (position, style), following in zip(styles, [*styles[1:], (end, "")], strict=True):
        if following[0] > position and style != last:
            yield position, style
            last = style


def separate_dim(coloured: str) -> tuple[str, str]:
    """Return the plain text of a capture with styles, and the same with blanks for what is dim.

    Below a cursor that a program draws itself, in inverse, the first letter of a dim hint is not dim.
    """
    style: dict[str, str] = {}
    plain = solid = ""
    position, is_cursor = 0, False
    for sequence in (*_SEQUENCE.finditer(coloured), None):
        part = coloured[position : sequence.start() if sequence else None]
        plain += part
        if part and "dim" in style:
            solid = (solid[:-1] + " " if is_cursor else solid) + re.sub(r"[^\n]", " ", part)
        else:
            solid += part
        if part:
            is_cursor = "inverse" in style and len(part) == 1 and not part.isspace()
        if sequence:
            position = sequence.end()
            style = change_style(style, sequence[1]) if sequence[1] is not None else style
    return plain, solid


def change_style(style: Mapping[str, str], parameters: str) -> dict[str, str]:
    """Return a style after the parameters of SGR; those that are not known change nothing."""
    changed = dict(style)
    numbers = iter(parameters.split(";"))
    for word in numbers:
        number, *parts = word.split(":")
        number = number.lstrip("0") or "0"
        if number == "0":
            changed.clear()
        elif number in ("38", "48"):
            if not parts:
                kind = next(numbers, "")
                parts = [kind, *(next(numbers, "") for _ in range(_COLOUR_NUMBERS.get(kind, 0)))]
            if colour := _read_colour(parts):
                changed["ink" if number == "38" else "ground"] = f"{number};{colour}"
        elif number == "4" and parts == ["0"]:
            changed.pop("underline", None)
        elif number in _SWITCHES:
            changed[_SWITCHES[number]] = number
        elif number in _OFF:
            for name in _OFF[number]:
                changed.pop(name, None)
        elif number.isdecimal() and (30 <= int(number) <= 37 or 90 <= int(number) <= 97):
            changed["ink"] = number
        elif number.isdecimal() and (40 <= int(number) <= 47 or 100 <= int(number) <= 107):
            changed["ground"] = number
    return changed


def _read_colour(parts: Sequence[str]) -> str:
    """Return a colour as `5;n` or `2;r;g;b`; empty for none."""
    kind, *values = parts
    wanted = _COLOUR_NUMBERS.get(kind, 0)
    values = values[-wanted:] if wanted else []  # `2::r:g:b` names a colour space first
    if len(values) != wanted or not wanted:
        return ""
    if not all(value.isdecimal() and len(value) < 4 and int(value) < 256 for value in values):
        return ""
    return ";".join((kind, *(str(int(value)) for value in values)))


def _write_style(style: Mapping[str, str]) -> str:
    return ";".join(style[name] for name in _ORDER if name in style)


def render_row(row: TerminalRow, hidden: Mapping[int, str]) -> str:
    """Return a row with its styles as escape sequences, and marks as wide as what is `hidden`.

    `hidden` has the kind of the secret for each of its characters. Blanks at the end of a line
    are left out; a row that does not continue ends with a newline.
    """
    cells = _hide_cells(row.text, hidden)
    styles = [*row.styles, (len(cells), "")]
    if styles[0][0] > 0:
        styles.insert(0, (0, ""))
    parts = [
        ("".join(cells[start:end]), style)
        for (start, style), (end, _) in zip(styles, styles[1:], strict=False)
    ]
    while parts and not row.continues:  # Blanks at its end that nobody would see are left out.
        text, style = parts.pop()
        if any(name in change_style({}, style) for name in _SEEN_ON_BLANKS):
            parts.append((text, style))
            break
        if text := text.rstrip(" "):
            parts.append((text, style))
            break
    written = "".join(
        f"\x1b[{style}m{text}\x1b[m" if style else text for text, style in parts if text
    )
    return written if row.continues else f"{written}\n"


def _hide_cells(text: str, hidden: Mapping[int, str]) -> list[str]:
    """Return what stands for each character of a text: itself, or a part of a mark as wide."""
    cells, start = list(text), 0
    while hidden and start < len(text):
        kind, end = hidden.get(start), start + 1
        while end < len(text) and hidden.get(end) == kind:
            end += 1
        if kind is not None:
            columns = count_columns(text[start:end])
            marks = (f"[REDACTED:{kind}]", "[REDACTED]", "")
            mark = iter(next(m for m in marks if len(m) <= columns).ljust(columns, "*"))
            for position in range(start, end):
                cells[position] = "".join(islice(mark, count_columns(text[position])))
        start = end
    return cells
