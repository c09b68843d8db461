"""Ticks the boxes of a question, each seen on the screen before the next key, and sends the answer."""

import time
from collections.abc import Callable, Collection
from functools import partial

from msgspec import Struct

from tasuki.errors import NotPossible
from tasuki.fleet.store.models import AgentQuestion
from tasuki.fleet.store.questions import is_on_screen, is_reviewed
from tasuki.harness.questions import ScreenChoice, ScreenQuestion

TAKEN_SECONDS = 3.0
"""How long the screen may take to show that a key was taken."""
POLL_SECONDS = 0.1
MOST_KEYS = 20


class QuestionScreen(Struct, frozen=True):
    """The screen that shows a question: what it asks now, and how a key is pressed."""

    question: AgentQuestion
    read: Callable[[], ScreenQuestion | None]
    press: Callable[[tuple[str, ...]], None]

    def check_shown(self) -> ScreenQuestion:
        """Return what the screen asks. Raises NotPossible where it is not this question."""
        seen = self.read()
        if seen is None or not seen.takes_several or not is_on_screen(self.question, seen):
            raise NotPossible(
                "The pane shows something else by now: boxes may be ticked, and nothing was sent. Look at it."
            )
        return seen


def tick_boxes(screen: QuestionScreen, keys: Collection[str]) -> None:
    """Tick these boxes and no other one, and go on; send the answer where it is the only one.

    What is sent last is a review of the answers. One of several stays on the screen, as a question
    of its own. Stops where nothing shows that a key was taken. Raises NotPossible.
    """
    for _ in range(MOST_KEYS):
        seen = screen.check_shown()
        wrong = _find_wrong(seen, keys)
        if wrong is None:
            break
        screen.press(wrong.keys)
        if not _wait_until(partial(_is_turned, screen, wrong)):
            return
    else:
        return
    screen.press(seen.next_keys)
    if not _wait_until(lambda: not _is_shown(screen.question, screen.read())):
        return
    review = screen.read()
    if review and review.answers == 1 and is_reviewed(screen.question, review):
        time.sleep(3 * POLL_SECONDS)
        screen.press(review.choices[0].keys)


def _is_shown(question: AgentQuestion, seen: ScreenQuestion | None) -> bool:
    return seen is not None and is_on_screen(question, seen)


def _find_wrong(seen: ScreenQuestion, keys: Collection[str]) -> ScreenChoice | None:
    return next((one for one in seen.choices if one.is_ticked != (one.key in keys)), None)


def _is_turned(screen: QuestionScreen, box: ScreenChoice) -> bool:
    shown = {one.key: one.is_ticked for one in screen.check_shown().choices}
    return shown.get(box.key) == (not box.is_ticked)


def _wait_until(is_so: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + TAKEN_SECONDS
    while time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
        if is_so():
            return True
    return False
