"""The first frame of a review: the brief to read, while the screen that edits it is loaded."""

import shutil
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, islice
from typing import Literal

from tasuki.draft.brief import split_brief
from tasuki.draft.text.split import count_tokens
from tasuki.model import Thread
from tasuki.text_safety import clean_for_display, cut_line, wrap_text

ReviewDecision = tuple[Literal["start", "save", "cancel"], str]
"""What the user decided, and the brief as they left it."""
END_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
KEYS_LINE = "type to edit  ^S start  F2 save only  Esc cancel  Tab move  F3 next tab  ^Z undo"
WIDE = 100
"""Columns from which the entries are beside the brief."""
_AROUND = 5
"""Rows that are not the brief's own."""


def format_title(text: str, thread: Thread, budget: int, name: str = "", note: str = "") -> str:
    """Format the lines above a brief: its size and thread, its goal; `name` holds no secrets."""
    past, goal = split_brief(text)
    size = count_tokens(past)
    budget_note = f" of {budget:,}" if budget else ""
    over_note = "  OVER BUDGET" if budget and size > budget else ""
    title = clean_for_display(f"{thread.harness} {thread.id[:8]} {name}").strip()
    return (
        f"Brief: {size:,}{budget_note} tokens, not counting the goal{over_note}{note}   {title}\n"
        f"Goal: {clean_for_display(' '.join(goal.split())) or '(none)'}"
    )


@contextmanager
def show_first_frame(text: str, title: str) -> Iterator[None]:
    """Show a brief from its first heading on; keys that are typed meanwhile are kept.

    At the end the terminal is as it was before. Both texts are safe for a terminal.
    """
    screen, keyboard = sys.__stderr__, sys.__stdin__
    if screen is None or keyboard is None or not (screen.isatty() and keyboard.isatty()):
        yield
        return
    before = termios.tcgetattr(keyboard)
    handlers = {
        order: signal.signal(order, lambda n, _: sys.exit(128 + n)) for order in END_SIGNALS
    }
    try:
        tty.setraw(keyboard, termios.TCSANOW)
        screen.write(_draw(text, title))
        screen.flush()
        yield
    finally:
        screen.write("\x1b[?25h\x1b[?1049l")
        screen.flush()
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
        for order, handler in handlers.items():
            signal.signal(order, handler)


def _draw(text: str, title: str) -> str:
    """Return what draws a brief where the screen to come has it."""
    width, height = shutil.get_terminal_size()
    room = (width // 2 if width >= WIDE else width) - 4
    lines = text[max(text.find("\n## ") + 1, 0) :].split("\n")
    wrapped = chain.from_iterable(wrap_text(line, room) or [""] for line in lines)
    above = [f"\x1b[1m{cut_line(line, width - 2)}\x1b[m" for line in title.split("\n")]
    shown = [*above, "", *(f" {line}" for line in islice(wrapped, max(height - _AROUND, 0)))]
    drawn = "".join(f"\x1b[{row};2H{line}" for row, line in enumerate(shown, 1))
    return f"\x1b[?1049h\x1b[?25l\x1b[2J{drawn}\x1b[{height};2H{cut_line(KEYS_LINE, width - 2)}"
