"""Tells the operator of failures: on the desktop, or where the setting `notify` says."""

import logging
import queue
import threading
import time

from tasuki import notify
from tasuki.errors import TasukiError

logger = logging.getLogger("tasuki.fleet")
MOST = 100


class Notifier:
    """Sends notifications from a thread of its own: a slow address holds nothing up."""

    def __init__(self, where: str) -> None:
        self.where = where or notify.DESKTOP
        self._queue: queue.Queue[tuple[str, str] | None] = queue.Queue(MOST)
        self._thread = threading.Thread(target=self._run, name="notifier", daemon=True)
        self._told: set[str] = set()

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def send(self, title: str, body: str) -> None:
        """Send one; dropped, with a line in the log, where a hundred wait."""
        try:
            self._queue.put_nowait((f"tasuki: {title}", body))
        except queue.Full:
            logger.warning("Too many notifications wait; this one is in the log alone: %s", title)

    def close(self, seconds: float) -> None:
        """Send what waits, for some seconds; the rest is in the log alone."""
        deadline = time.monotonic() + seconds
        if not self._thread.is_alive():
            return
        try:
            self._queue.put(None, timeout=seconds)
        except queue.Full:
            logger.warning("%s notifications are in the log alone: they could not be sent.", MOST)
            return
        self._thread.join(max(0.0, deadline - time.monotonic()))

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            try:
                problems = notify.send(self.where, *item)
            except TasukiError as error:
                problems = [str(error)]
            for problem in problems:
                if problem not in self._told:  # once: the log is no place for echoes
                    self._told.add(problem)
                    logger.warning("%s", problem)
