"""Sends the operator's alerts: on the desktop, or where the setting `notify` says."""

import logging
import threading

from sqlalchemy.exc import DBAPIError

from tasuki import notify
from tasuki.errors import TasukiError
from tasuki.fleet import alerts
from tasuki.fleet.database import Database
from tasuki.fleet.rows import Alert

LOOK_SECONDS = 0.5
"""How often is looked whether an alert is due."""

logger = logging.getLogger("tasuki.fleet")


class Notifier:
    """Sends alerts from a thread of its own: a slow address holds nothing up.

    `take` changes where it sends and which kinds, while it runs. Without an address the desktop is
    told, where there is one.
    """

    def __init__(self, database: Database, host: str, where: str, about: str) -> None:
        self.database = database
        self.host = host
        self.where = where
        self.about = about
        self.problem = ""
        """What went wrong with the last one that was to be sent; empty where nothing did."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="notifier", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        alerts.recover(self.database, self.host)
        self._thread.start()

    def close(self, seconds: float) -> None:
        """End; what is being sent is waited for, for some seconds."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def take(self, where: str, about: str) -> None:
        """Send from now on to these places, and these kinds; of new places nothing is known yet."""
        if where != self.where:
            self.problem = ""
        self.where, self.about = where, about

    def places(self) -> str:
        """Where alerts go now, in words; empty for nowhere but the list."""
        return self.where or (notify.DESKTOP if notify.has_desktop() else "")

    def test(self) -> list[str]:
        """Send a notification to try it; what went wrong, as sentences."""
        places = self.places()
        if not places:
            return [
                "Nothing is set: name an address in `notify`. This machine shows no notifications itself."
            ]
        problems = self._sent(places, "A test", "Notifications of tasuki arrive here.")
        self.problem = " ".join(problems)
        return problems

    def _run(self) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            try:
                while not self._stop.is_set() and (of := self._next()):
                    self._send(of)
            except DBAPIError:
                logger.warning("Notifications wait: the database does not answer.")

    def _next(self) -> Alert | None:
        return alerts.begin(self.database, self.host, self.about.split())

    def _send(self, of: Alert) -> None:
        places = self.places()
        if not places:
            alerts.settle(self.database, of.id, "quiet")
            return
        problems = self._sent(places, of.title, of.text)
        problem = " ".join(problems)
        arrived = len(problems) < len(notify.places(places))
        alerts.settle(self.database, of.id, "sent" if arrived else "not_sent", problem)
        if problem and problem != self.problem:  # once: the log is no place for echoes
            logger.warning("%s", problem)
        self.problem = problem

    def _sent(self, places: str, title: str, text: str) -> list[str]:
        try:
            return notify.send(places, f"tasuki: {title}", text)
        except TasukiError as error:
            return [str(error)]
        except Exception as error:  # of a service's own code: the others must not wait for ever
            logger.exception("A notification")
            return [f"A notification failed: {type(error).__name__}."]
