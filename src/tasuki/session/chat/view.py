"""What a conversation is shown on: a terminal's screen, or plain output that a program reads."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from tasuki.session.backend import Todo
from tasuki.session.events import SessionEvent
from tasuki.session.messages import Json


class Choice(Struct, frozen=True):
    """A question with numbered answers. `default` is the index that Enter takes, None for none;
    `lines` say more about what is asked."""

    question: str
    options: tuple[str, ...]
    default: int | None = None
    lines: tuple[str, ...] = ()


class View(Protocol):
    """What the controllers need of an interface."""

    def take(self, event: SessionEvent) -> None:
        """Show what the session tells."""
        ...

    def note(self, text: str) -> None:
        """Say that something was done."""
        ...

    def warn(self, text: str) -> None:
        """Say that something was not done, for a good reason."""
        ...

    def error(self, text: str, code: int = 1) -> None:
        """Say that something failed; `code` is what a program is told."""
        ...

    def clear_input(self) -> None:
        """Empty the input line."""
        ...

    def fill_input(self, text: str) -> None:
        """Put words into the input line, unsent, before what stands there."""
        ...

    def rebuild(self, messages: Sequence[Json], todos: Sequence[Todo]) -> None:
        """Show a session anew: its messages, its status line and its todos."""
        ...

    async def choose(self, choice: Choice) -> int | None:
        """The index of the answer; None for no answer."""
        ...
