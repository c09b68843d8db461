"""What the server does beside its answers, in a thread of its own."""

import logging
import threading
import time
from collections.abc import Callable

from sqlalchemy.exc import DBAPIError

from tasuki.fleet.store.database import is_temporary

SILENT_SECONDS = 30.0
"""A part of the server that did nothing for longer than this does not work."""


logger = logging.getLogger("tasuki.fleet")


class BackgroundWork:
    """A thread that does some work, waits for `pause` seconds, and so on until it is told to stop."""

    name = ""
    pause = 1.0

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)

    def start(self) -> None:
        """Start."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after what is being done."""
        self._stop.set()

    def close(self, seconds: float) -> None:
        """Stop, and wait for what is being done; one that never began is not waited for."""
        self.stop()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def _run(self) -> None:
        while not self._stop.wait(self.pause):
            self._run_safely(self._work)

    def _work(self) -> None:
        """Do the work once; a longer one looks at `_stop` meanwhile."""
        raise NotImplementedError

    def _run_safely(self, work: Callable[[], object]) -> None:
        """Do some work; failures are logged, an absence of the database is not."""
        try:
            work()
        except Exception as error:
            if not isinstance(error, DBAPIError) or not is_temporary(error):
                logger.exception("The work of the thread %s", self._thread.name)


class LifeSign:
    """When a part of the server last did its work; reading it waits for nothing."""

    def __init__(self, part: str) -> None:
        self.part = part
        self._worked_at: float | None = None
        self._has_failed = False

    def note_work(self) -> None:
        """Note that the part has just worked, or begins to."""
        self._worked_at, self._has_failed = time.monotonic(), False

    def note_failure(self) -> None:
        """Note that the part has just failed."""
        self._has_failed = True

    def describe_silence(self) -> str:
        """Describe since when the part has not worked; empty where it works, or never began."""
        seconds = 0.0 if self._worked_at is None else time.monotonic() - self._worked_at
        if self._worked_at is None or not (self._has_failed or seconds > SILENT_SECONDS):
            return ""
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time.time() - seconds))
        return f"{self.part} has not worked since {since} ({seconds:.0f} s ago)."
