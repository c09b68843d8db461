"""What a conversation is shown on: a terminal's screen, or plain output that a program reads.

Without a terminal, prompts come from standard input, and all else is plain text.
"""

import sys
from collections.abc import Sequence
from typing import Protocol, TextIO

from msgspec import Struct

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
        ...

    def show_note(self, text: str) -> None:
        """Show that something was done."""
        ...

    def show_warning(self, text: str) -> None:
        """Show that something was not done, for a good reason."""
        ...

    def show_error(self, text: str, code: int = 1) -> None:
        """Show that something failed; `code` becomes the exit code for a program."""
        ...

    def clear_input(self) -> None:
        """Empty the input line."""
        ...

    def fill_input(self, text: str) -> None:
        """Put words into the input line, unsent, before what is there."""
        ...

    def rebuild(self, messages: Sequence[Json], todos: Sequence[AgentTodo]) -> None:
        """Show a session again: its messages, its status line and its todos."""
        ...

    async def choose(self, choice: NumberedChoice) -> int | None:
        """Let the user choose; return the index of the answer, None for no answer."""
        ...


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
