"""The keys of the chat, beside those that every input line has."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

if TYPE_CHECKING:
    from tasuki.session.chat.screen import Screen

TWICE = 2.0
"""Seconds within which a second Ctrl-C leaves."""
AGAIN = "Ctrl-C again leaves"


def bindings(screen: "Screen") -> KeyBindings:
    """The keys of a screen."""
    keys = KeyBindings()
    typing = has_focus(DEFAULT_BUFFER)
    asked = Condition(lambda: screen.choice is not None and not screen.typed) & typing
    interrupted = -TWICE

    @keys.add("enter", filter=typing)
    def _(event: KeyPressEvent) -> None:
        screen.accept()

    @keys.add("escape", "enter", filter=typing)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("escape", filter=typing)
    def _(event: KeyPressEvent) -> None:
        _cancel(screen)

    @keys.add("c-c")
    def _(event: KeyPressEvent) -> None:
        nonlocal interrupted
        now, before = time.monotonic(), interrupted
        interrupted = now
        if now - before < TWICE:
            screen.leave()
        elif event.current_buffer.text:
            event.current_buffer.reset()
            interrupted = -TWICE
        else:
            _cancel(screen)
            screen.remark(AGAIN, TWICE)

    @keys.add("c-d", filter=typing & Condition(lambda: not screen.typed))
    def _(event: KeyPressEvent) -> None:
        screen.leave()

    for number in range(9):
        keys.add(str(number + 1), filter=asked)(_answering(screen, number))
    return keys


def _answering(screen: "Screen", index: int) -> Callable[[KeyPressEvent], None]:
    def answer(event: KeyPressEvent) -> None:
        if screen.choice is not None and index < len(screen.choice.options):
            screen.decide(index)

    return answer


def _cancel(screen: "Screen") -> None:
    """Take back the question, or break off what is under way."""
    if screen.choice is not None:
        screen.decide(None)
    else:
        screen.interrupt()
