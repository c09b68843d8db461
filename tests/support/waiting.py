"""Real processes: whether they run, and waiting for them without guessing how long they take."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def retry_until(condition: Callable[[], T], seconds: float = 10.0, pause: float = 0.05) -> T:
    """What `condition` returns once it is true; AssertionError after `seconds`.

    A longer `pause` is for what stays true: a server needs 4 ms to answer.
    """
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"still {found!r} after {seconds} s"
        time.sleep(pause)
    return found


def runs(pid: int) -> bool:
    """Whether a process is there, and not just waiting to be seen off."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return sys.platform == "darwin"


def children(pid: int) -> list[int]:
    """The processes that a process started and that are there."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
