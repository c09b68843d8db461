"""Draws what a terminal showed as one SVG that plays in a loop: CSS only, no script, no font of another host."""

import re
from html import escape
from io import StringIO
from typing import NamedTuple

from rich.console import Console
from rich.style import Style
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

CELL, LINE, FONT = 9.0, 19.0, 15
EDGE, HEAD = 18.0, 62.0
"""Margin around the terminal, and the height of the caption above it, in pixels."""
GROUND, INK, CAPTION = "#16181d", "#d8dade", "#ffffff"
STROKES = {
    "─": "lr", "│": "ud", "━": "LR", "┃": "UD", "╸": "L", "╺": "R", "╭": "rd", "╮": "ld", "╰": "ru", "╯": "lu",
    "┏": "RD", "┓": "LD", "┗": "RU", "┛": "LU",
}  # fmt: skip
"""Where the strokes of a character of boxes go from its middle; fonts leave gaps between the rows."""
PARTS = re.compile("─+|━+|[{0}]|[^\\s{0}]+(?: [^\\s{0}]+)*".format("".join(STROKES)))
"""Lines, single characters of boxes, and words with single blanks between them."""
HEAVY = 2.5
ENDS = {"l": (-0.5, 0.0), "r": (0.5, 0.0), "u": (0.0, -0.5), "d": (0.0, 0.5)}


Row = list[tuple[str, Style]]
"""A row of cells: its texts and their styles."""


class Frame(NamedTuple):
    """What the terminal showed, how long it is shown, and what a line above says about it."""

    screen: str
    """Rows with escape sequences, as `tmux capture-pane -e` prints them."""
    cursor: tuple[int, int] | None
    """Its column and row; None where the program hides it."""
    seconds: float
    caption: str
    width: int = 0
    """The column to which a row goes on in the colour of its end; tmux leaves out empty cells."""


def draw(frames: list[Frame], columns: int, rows: int) -> str:
    """Draw frames side by side on a strip; a window over it jumps from one to the next."""
    width, height = columns * CELL + 2 * EDGE, rows * LINE + HEAD + EDGE
    total, begins, steps = sum(frame.seconds for frame in frames), 0.0, ""
    shapes: dict[str, str] = {}
    strip = ""
    for number, frame in enumerate(frames):
        steps += f"{begins / total:.3%}{{transform:translateX({-number * width:g}px)}}"
        begins += frame.seconds
        strip += f'<g transform="translate({number * width:g})">{_draw_frame(frame, shapes)}</g>\n'
    bar = f'<rect id="done" y="{HEAD - 14:g}" width="{width:g}" height="3"/>' * (len(frames) > 1)
    defined = "\n".join(f'<g id="{name}">{shape}</g>' for shape, name in shapes.items())
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img">
<title>{escape("; ".join(dict.fromkeys(frame.caption for frame in frames)))}</title>
<style>
rect {{ shape-rendering: crispEdges }}
text {{ font: {FONT}px ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; white-space: pre; fill: {INK} }}
.bold {{ font-weight: bold }} .italic {{ font-style: italic }} .dim {{ opacity: .6 }}
.c {{ font: bold 20px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: {CAPTION} }}
#strip {{ animation: play {total:g}s step-end infinite }}
#done {{ animation: grow {total:g}s linear infinite; fill: #6cb6ff }}
@keyframes play {{ {steps} }}
@keyframes grow {{ from {{ transform: scaleX(0) }} }}
@media (prefers-reduced-motion) {{ #strip, #done {{ animation: none; transform: translateX({-(len(frames) - 1) * width:g}px) }} }}
</style>
<defs>
{defined}
</defs>
<clipPath id="window"><rect width="{width:g}" height="{height:g}" rx="10" style="shape-rendering:auto"/></clipPath>
<g clip-path="url(#window)">
<rect width="{width:g}" height="{height:g}" fill="{GROUND}"/>
<rect width="{width:g}" height="{HEAD - 14:g}" fill="#2b303b"/>
{bar}
<g id="strip">
{strip}</g>
</g>
</svg>
"""


def _draw_frame(frame: Frame, shapes: dict[str, str]) -> str:
    """Draw one frame; rows that are equal share their shape."""
    drawn = f'<text class="c" x="{EDGE:g}" y="31">{escape(frame.caption)}</text>'
    console = Console(
        file=StringIO(), width=1000, force_terminal=True, color_system="truecolor", highlight=False
    )
    for number, line in enumerate(Text.from_ansi(frame.screen).split("\n", allow_blank=True)):
        row = [(part.text, part.style or Style.null()) for part in line.render(console)]
        if row and row[-1][1].bgcolor:
            row.append((" " * (frame.width - len(line)), row[-1][1]))
        if shape := _draw_row(row):
            name = shapes.setdefault(shape, f"r{len(shapes)}")
            drawn += f'<use href="#{name}" x="{EDGE:g}" y="{HEAD + number * LINE:g}"/>'
    if frame.cursor:
        column, line = frame.cursor
        drawn += (
            f'<rect x="{EDGE + column * CELL:g}" y="{HEAD + line * LINE:g}" width="{CELL:g}"'
            f' height="{LINE:g}" fill="{INK}" opacity=".8"/>'
        )
    return drawn


def _draw_row(row: Row) -> str:
    """Draw a row of cells: grounds first, then words and the strokes of boxes."""
    column, grounds, words = 0, "", ""
    for text, style in row:
        ink, ground = _find_colours(style)
        if ground:
            grounds += f'<rect x="{column * CELL:g}" width="{len(text) * CELL:g}" height="{LINE:g}" fill="{ground}"/>'
        words += _draw_words(text, column, style, ink)
        column += len(text)
    return grounds + words


def _draw_words(text: str, column: int, style: Style, ink: str) -> str:
    """Draw the text of one style: each group of words at its own column, so that no font moves the next."""
    return "".join(
        _draw_strokes(found[0], column + found.start(), ink)
        if found[0][0] in STROKES
        else _draw_text(found[0], column + found.start(), style, ink)
        for found in PARTS.finditer(text)
    )


def _draw_text(words: str, column: int, style: Style, ink: str) -> str:
    classes = " ".join(name for name in ("bold", "italic", "dim") if getattr(style, name))
    named = f' class="{classes}"' if classes else ""
    fill = f' style="fill:{ink}"' if ink != INK else ""
    size = f' textLength="{len(words) * CELL:g}" lengthAdjust="spacingAndGlyphs"'
    return (
        f'<text x="{column * CELL:g}" y="14"{named}{fill}{size}>{escape(words, quote=False)}</text>'
    )


def _draw_strokes(signs: str, column: int, ink: str) -> str:
    """Draw a character of boxes, or several of the same line."""
    ways, x, y = STROKES[signs[0]], (column + 0.5) * CELL, LINE / 2
    ends = [(ENDS[way][0] * CELL, ENDS[way][1] * LINE) for way in ways.lower()]
    if len(signs) > 1:
        x, ends = column * CELL, [(len(signs) * CELL, 0.0)]
    path = "".join(f"M{x:g} {y:g}l{right:g} {down:g}" for right, down in ends)
    width = f' stroke-width="{HEAVY}"' if ways.isupper() else ""
    return f'<path d="{path}" stroke="{ink}"{width}/>'


def _find_colours(style: Style) -> tuple[str, str]:
    """Find the colours of the ink and of the ground; empty for the terminal's own ground."""
    theme = DIMMED_MONOKAI
    ink = INK if not style.color or style.color.is_default else style.color.get_truecolor(theme).hex
    ground = (
        ""
        if not style.bgcolor or style.bgcolor.is_default
        else style.bgcolor.get_truecolor(theme).hex
    )
    return (ground or GROUND, ink) if style.reverse else (ink, ground)
