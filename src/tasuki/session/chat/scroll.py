"""Lines that go above the prompt, into what the terminal keeps and scrolls."""

import asyncio
import io
import sys
from contextlib import suppress

from prompt_toolkit.application import run_in_terminal
from rich.console import Console
from rich.text import Text

from tasuki.session.chat.markdown import Line

PAUSE = 0.04
"""Seconds between two writings: the prompt is redrawn after each."""
LAST = 1.0


class Scroll:
    """Collects lines and writes them together, in order, while a prompt stands below them."""

    def __init__(self) -> None:
        self.console = Console(file=io.StringIO(), force_terminal=True, highlight=False)
        self._waiting: list[str] = []
        self._closed = False
        self._writer: asyncio.Task[None] | None = None

    def write(self, line: Line) -> None:
        """Have a line written soon; at once where there is no prompt any more."""
        self._waiting.append(self._rendered(line))
        if self._closed:
            self._last()
        elif self._writer is None or self._writer.done():
            self._writer = asyncio.get_running_loop().create_task(self._write())

    async def close(self) -> None:
        """The prompt is gone: write what is left. What is under way gets a second for it."""
        self._closed = True
        if self._writer is not None:
            _, late = await asyncio.wait({self._writer}, timeout=LAST)
            for writer in late:
                writer.cancel()
        self._last()

    def _last(self) -> None:
        with suppress(OSError):  # the terminal itself may be gone
            self.now()

    async def _write(self) -> None:
        while self._waiting:
            with suppress(OSError):
                await run_in_terminal(self.now)
            await asyncio.sleep(PAUSE)

    def now(self) -> None:
        """Write what waits, where no prompt is shown."""
        text, self._waiting = "".join(self._waiting), []
        sys.stdout.write(text)
        sys.stdout.flush()

    def _rendered(self, line: Line) -> str:
        with self.console.capture() as capture:
            for part in fitted(line, self.console):
                self.console.print(part, soft_wrap=True)
        return capture.get()


def fitted(line: Line, console: Console) -> list[Text]:
    """A line in pieces that fit the terminal, the later ones indented."""
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
