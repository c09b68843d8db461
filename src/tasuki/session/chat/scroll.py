"""Writes lines above the prompt, into the part that the terminal keeps and scrolls."""

import asyncio
import io
import sys
from contextlib import suppress

from prompt_toolkit.application import run_in_terminal
from rich.console import Console
from rich.text import Text

from tasuki.session.chat.painter import PaintedLine

PAUSE_SECONDS = 0.04
"""Seconds between two writes: the prompt is redrawn after each."""
LAST_SECONDS = 1.0


class ScrollWriter:
    """Collects lines and writes them together, in order, while a prompt is below them."""

    def __init__(self) -> None:
        self.console = Console(file=io.StringIO(), force_terminal=True, highlight=False)
        self._waiting: list[str] = []
        self._is_closed = False
        self._writer: asyncio.Task[None] | None = None

    def write(self, line: PaintedLine) -> None:
        """Write a line soon; at once where there is no prompt any more."""
        self._waiting.append(self._render_line(line))
        if self._is_closed:
            self._write_last()
        elif self._writer is None or self._writer.done():
            self._writer = asyncio.get_running_loop().create_task(self._write_waiting())

    async def close(self) -> None:
        """Write what is left, after the prompt is gone; a running write gets a second to finish."""
        self._is_closed = True
        if self._writer is not None:
            _, late = await asyncio.wait({self._writer}, timeout=LAST_SECONDS)
            for writer in late:
                writer.cancel()
        self._write_last()

    def _write_last(self) -> None:
        with suppress(OSError):  # the terminal itself may be gone
            self.write_now()

    async def _write_waiting(self) -> None:
        while self._waiting:
            with suppress(OSError):
                await run_in_terminal(self.write_now)
            await asyncio.sleep(PAUSE_SECONDS)

    def write_now(self) -> None:
        """Write the waiting lines while no prompt is shown."""
        text, self._waiting = "".join(self._waiting), []
        sys.stdout.write(text)
        sys.stdout.flush()

    def _render_line(self, line: PaintedLine) -> str:
        with self.console.capture() as capture:
            for part in fit_line(line, self.console):
                self.console.print(part, soft_wrap=True)
        return capture.get()


def fit_line(line: PaintedLine, console: Console) -> list[Text]:
    """Split a line into pieces that fit the terminal, the later ones indented."""
    width = max(console.width - 1, 20)
    if not line.wrapped or not line.text.plain.strip():
        return [line.text]
    indent = min(line.indent, width // 2)
    first, *rest = line.text.wrap(console, width) or [line.text]
    if not rest:
        return [first]
    later = line.text[len(first.plain) :]
    blanks = len(later.plain) - len(later.plain.lstrip(" "))
    return [
        first,
        *(Text(" " * indent) + part for part in later[blanks:].wrap(console, width - indent)),
    ]
