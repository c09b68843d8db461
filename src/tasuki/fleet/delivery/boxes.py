"""Ticks the boxes of a question, each seen on the screen before the next key, and sends the answer."""

import time
from collections.abc import Callable, Collection
from functools import partial
from typing import TypeVar

from msgspec import Struct

from tasuki.errors import NotPossible
from tasuki.fleet.store.agent_question import AgentQuestion
from tasuki.fleet.store.questions import is_on_screen, is_reviewed
from tasuki.harness.questions import ScreenChoice, ScreenQuestion

TAKEN_SECONDS = 3.0
"""How long the screen may take to show that a key was taken."""
POLL_SECONDS = 0.1
MOST_KEYS = 20
Found = TypeVar("Found")


class QuestionScreen(Struct, frozen=True):
    """The screen that shows a question: what it asks now, and how a key is pressed."""

    question: AgentQuestion
    read: Callable[[], ScreenQuestion | None]
    press: Callable[[tuple[str, ...]], None]

    def await_shown(self) -> ScreenQuestion:
        """Return what the screen asks; one that is half drawn is looked at again.

        Raises NotPossible where it is not this question.
        """
        seen = _wait_for(self.find_boxes)
        if seen is None:
            raise NotPossible(
                "The pane shows something else by now: boxes may be ticked, and nothing was sent. Look at it."
            )
        return seen

    def find_boxes(self) -> ScreenQuestion | None:
        """Return what the screen asks; None where it does not show the boxes of this question."""
        seen = self.read()
        is_shown = seen and seen.takes_several and is_on_screen(self.question, seen)
        return seen if is_shown else None

    def find_next(self) -> ScreenQuestion | None:
        """Return what the screen asks after this question; None while it shows none."""
        seen = self.read()
        return None if seen is None or is_on_screen(self.question, seen) else seen


def tick_boxes(screen: QuestionScreen, keys: Collection[str]) -> None:
    """Tick these boxes and no other one, and go on; send the answer where it is the only one.

    What is sent last is a review of the answers. One of several stays on the screen, as a question
    of its own. Stops where nothing shows that a key was taken. Raises NotPossible.
    """
    for _ in range(MOST_KEYS):
        seen = screen.await_shown()
        wrong = next((one for one in seen.choices if one.is_ticked != (one.key in keys)), None)
        if wrong is None:
            break
        screen.press(wrong.keys)
        if not _wait_for(partial(_is_turned, screen, wrong)):
            screen.await_shown()
            return
    else:
        return
    screen.press(seen.next_keys)
    review = _wait_for(screen.find_next)
    if review and review.answers == 1 and is_reviewed(screen.question, review):
        time.sleep(3 * POLL_SECONDS)
        screen.press(review.choices[0].keys)


def _is_turned(screen: QuestionScreen, box: ScreenChoice) -> bool:
    """Whether a box is seen to be turned; on a screen that is half drawn it is not yet."""
    seen = screen.find_boxes()
    return seen is not None and any(
        one.key == box.key and one.is_ticked != box.is_ticked for one in seen.choices
    )


def _wait_for(find: Callable[[], Found]) -> Found | None:
    """Return what is found first; None where nothing is in time."""
    deadline = time.monotonic() + TAKEN_SECONDS
    while True:
        if found := find():
            return found
        if time.monotonic() >= deadline:
            return None
        time.sleep(POLL_SECONDS)
