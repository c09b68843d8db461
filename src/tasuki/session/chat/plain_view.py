"""A conversation without a terminal: prompts are lines of standard input, all else is plain text."""

import sys
from collections.abc import Sequence
from typing import TextIO

from tasuki.plain import shown
from tasuki.session.backend import Permission, Text, Todo
from tasuki.session.chat.markdown import Line
from tasuki.session.chat.painter import Painter
from tasuki.session.chat.view import Choice
from tasuki.session.events import HandoffPhase, SessionEvent, TurnEnded, TurnStarted
from tasuki.session.messages import Json

REFUSED = 3


class PlainView:
    """What the agent says goes to standard output, all else to standard error.

    There is nobody to ask: a question gets its careful answer.
    """

    def __init__(self) -> None:
        self.code = 0
        """What the program is told: that of the first failure."""
        self.left = False
        """Whether the conversation was left before its input ended."""
        self.answers = Painter(lambda line: self._write(line, sys.stdout), raw=True)
        self.rest = Painter(lambda line: self._write(line, sys.stderr), raw=True)

    def leave(self) -> None:
        """Take no more prompts."""
        self.left = True

    def take(self, event: SessionEvent) -> None:
        if isinstance(event, HandoffPhase):
            self._tell(event.label)
        elif isinstance(event, Text):
            self.answers.take(event)
        elif isinstance(event, TurnStarted):
            self.answers.gap()
        elif isinstance(event, TurnEnded):
            self.answers.finish()
            self.rest.take(event)
        elif not isinstance(event, Permission):
            self.rest.take(event)

    def note(self, text: str) -> None:
        self._tell(text)

    def warn(self, text: str) -> None:
        self.error(text, REFUSED)

    def error(self, text: str, code: int = 1) -> None:
        self.code = self.code or code
        self._tell(text)

    def clear_input(self) -> None:
        """There is no input line."""

    def fill_input(self, text: str) -> None:
        self._tell(f"Not sent: {text}")

    def rebuild(self, messages: Sequence[Json], todos: Sequence[Todo]) -> None:
        """A program needs no second showing of what it read."""

    async def choose(self, choice: Choice) -> int | None:
        answer = "no answer" if choice.default is None else choice.options[choice.default]
        self._tell(f"{choice.question} → {answer} (no terminal to ask in)")
        return choice.default

    def _write(self, line: Line, to: TextIO) -> None:
        print(line.text.plain, file=to, flush=True)

    def _tell(self, text: str) -> None:
        self.answers.finish()
        self.rest.finish()
        print(shown(text), file=sys.stderr, flush=True)
