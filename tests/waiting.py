"""Waiting for real processes without guessing how long they take."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def retry_until(condition: Callable[[], T], seconds: float = 10.0) -> T:
    """What `condition` returns once it is true; AssertionError after `seconds`."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"still {found!r} after {seconds} s"
        time.sleep(0.03)
    return found
