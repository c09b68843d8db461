"""What a conversation is shown on: a terminal that scrolls, or plain output that a program reads.

Without a terminal, prompts come from standard input, and all else is plain text. In a
terminal, finished lines go above the prompt, into the part that the terminal keeps.
"""

import asyncio
import io
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol, TextIO

from msgspec import Struct
from prompt_toolkit.application import run_in_terminal
from rich.console import Console
from rich.text import Text

from tasuki.session.agent_session.backend import (
    AgentTodo,
    HandoffPhase,
    PermissionRequest,
    SessionEvent,
    TextPiece,
    TurnEnded,
    TurnStarted,
)
from tasuki.session.chat.painter import EventPainter, PaintedLine
from tasuki.session.pi_store.messages import Json
from tasuki.text_safety import clean_for_display


class NumberedChoice(Struct, frozen=True):
    """A question with numbered answers.

    `default` is the index that Enter takes, None for none; `lines` say more about the question.
    """

    question: str
    options: tuple[str, ...]
    default: int | None = None
    lines: tuple[str, ...] = ()


class ChatView(Protocol):
    """What the controllers need of an interface."""

    def take(self, event: SessionEvent) -> None:
        """Show an event of the session."""

    def leave(self) -> None:
        """End the chat."""

    def show_note(self, text: str) -> None:
        """Show that something was done."""

    def show_warning(self, text: str) -> None:
        """Show that something was not done, for a good reason."""

    def show_error(self, text: str, code: int = 1) -> None:
        """Show that something failed; `code` becomes the exit code for a program."""

    def clear_input(self) -> None:
        """Empty the input line."""

    def fill_input(self, text: str) -> None:
        """Put words into the input line, unsent, before what is there."""

    def rebuild(self, messages: Sequence[Json], todos: Sequence[AgentTodo]) -> None:
        """Show a session again: its messages, its status line and its todos."""

    async def choose(self, choice: NumberedChoice) -> int | None:
        """Let the user choose; return the index of the answer, None for no answer."""


REFUSED_CODE = 3


class PlainView:
    """The agent's answers go to standard output, all else to standard error.

    No user can be asked: a question gets its careful answer.
    """

    def __init__(self) -> None:
        self.code = 0
        """The program's exit code: that of the first failure."""
        self.has_left = False
        """Whether the conversation was left before its input ended."""
        self.answer_painter = EventPainter(
            lambda line: self._write_line(line, sys.stdout), raw=True
        )
        self.rest_painter = EventPainter(lambda line: self._write_line(line, sys.stderr), raw=True)

    def leave(self) -> None:
        """Take no more prompts."""
        self.has_left = True

    def take(self, event: SessionEvent) -> None:
        if isinstance(event, HandoffPhase):
            self._print(event.label)
        elif isinstance(event, TextPiece):
            self.answer_painter.take(event)
        elif isinstance(event, TurnStarted):
            self.answer_painter.add_gap()
        elif isinstance(event, TurnEnded):
            self.answer_painter.finish()
            self.rest_painter.take(event)
        elif not isinstance(event, PermissionRequest):
            self.rest_painter.take(event)

    def show_note(self, text: str) -> None:
        self._print(text)

    def show_warning(self, text: str) -> None:
        self.show_error(text, REFUSED_CODE)

    def show_error(self, text: str, code: int = 1) -> None:
        self.code = self.code or code
        self._print(text)

    def clear_input(self) -> None:
        """Do nothing: there is no input line."""

    def fill_input(self, text: str) -> None:
        self._print(f"Not sent: {text}")

    def rebuild(self, messages: Sequence[Json], todos: Sequence[AgentTodo]) -> None:
        """Do nothing: a program that reads the output needs no repetition."""

    async def choose(self, choice: NumberedChoice) -> int | None:
        answer = "no answer" if choice.default is None else choice.options[choice.default]
        self._print(f"{choice.question} → {answer} (no terminal to ask in)")
        return choice.default

    def _write_line(self, line: PaintedLine, stream: TextIO) -> None:
        print(line.text.plain, file=stream, flush=True)

    def _print(self, text: str) -> None:
        self.answer_painter.finish()
        self.rest_painter.finish()
        print(clean_for_display(text), file=sys.stderr, flush=True)


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
