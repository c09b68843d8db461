"""Lines of lists that fit a terminal: cut and wrapped between words, East Asian characters counted as two."""

from collections.abc import Sequence

from tasuki.patterns import compile_pattern
from tasuki.text_safety import count_columns

_PIECE = compile_pattern(r"\s+|[⺀-鿿가-힯豈-﫿！-｠]|[^\s⺀-鿿가-힯豈-﫿！-｠]+")
"""Blanks, a character that a line may end after, or a word."""
LEAST_ROOM = 24
"""Columns that the words of a row need beside its cells; with fewer they are below."""
INDENT = "    "


def cut_line(text: str, width: int) -> str:
    """Cut a line at a width, between words where one ends in its second half."""
    text = text.rstrip()
    if count_columns(text) <= width:
        return text
    kept, end, used = "", 0, 0
    for piece in _PIECE.findall(text):
        if used + count_columns(piece) >= width:
            break
        kept += piece
        used += count_columns(piece)
        end = used if not piece.isspace() else end
    if 2 * end < width:  # One word is most of it.
        kept = text
    while count_columns(kept.rstrip()) >= width:
        kept = kept[:-1]
    return f"{kept.rstrip()}…"


def wrap_text(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    """Wrap a text into lines, words kept whole: a path or a command can be copied."""
    lines, line, is_begun = list[str](), first, False
    for piece in _PIECE.findall(text.strip()):
        is_full = count_columns(line) + count_columns(piece) > width
        if is_begun and is_full and not piece.isspace():
            lines.append(line.rstrip())
            line, is_begun = rest, False
        if is_begun or not piece.isspace():
            line, is_begun = line + (" " if "\n" in piece else piece), True
    return [*lines, line.rstrip()] if is_begun else lines


def pad(cell: str, width: int, *, right: bool = False) -> str:
    """Pad a cell to a width in columns."""
    blanks = " " * (width - count_columns(cell))
    return blanks + cell if right else cell + blanks


def format_row(
    cells: Sequence[str], words: str, width: int, rest: str = "", *, is_below: bool = False
) -> str:
    """Format a row of a list: cells, and words that are cut at the edge of the terminal.

    Where there is too little room for the words, or with `is_below`, they are on a line of their
    own, and so are cells that do not fit. `rest` is what each further line begins with.
    """
    head = "  ".join(cells)
    room = width - count_columns(head) - 2
    if words and not is_below and room >= min(LEAST_ROOM, count_columns(words)):
        return f"{head}  {cut_line(words, room)}"
    head = head.rstrip()
    lines = [head]
    if count_columns(head) > width:
        first = head[: len(head) - len(head.lstrip())]
        compact = "  ".join(" ".join(cell.split()) for cell in cells if cell.strip())
        lines = wrap_text(compact, width, first, rest + INDENT)
    below = rest + INDENT
    if words:
        lines.append(below + cut_line(words, width - count_columns(below)))
    return "\n".join(lines)
