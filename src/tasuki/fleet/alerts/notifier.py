"""Sends the operator's alerts: on the desktop, or where the setting `notify` says."""

import logging
import threading

from sqlalchemy.exc import DBAPIError

from tasuki import notify
from tasuki.errors import TasukiError
from tasuki.fleet.alerts import alerts
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.models import OperatorAlert

LOOK_SECONDS = 0.5
"""How often due alerts are looked for."""

logger = logging.getLogger("tasuki.fleet")


class AlertNotifier:
    """Sends alerts from a thread of its own, so that a slow address holds nothing up.

    `configure` changes the addresses and the kinds while it runs. Without an address the
    desktop is used, where there is one.
    """

    def __init__(self, database: FleetDatabase, host: str, addresses: str, kinds: str) -> None:
        self.database = database
        self.host = host
        self.addresses = addresses
        self.kinds = kinds
        self.problem = ""
        """What went wrong with the last alert that was sent; empty where nothing did."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="notifier", daemon=True)

    def start(self) -> None:
        """Start sending."""
        alerts.recover_unfinished(self.database, self.host)
        self._thread.start()

    def close(self, seconds: float) -> None:
        """Stop; wait some seconds for the alert that is being sent."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def configure(self, addresses: str, kinds: str) -> None:
        """Send to these addresses, and these kinds, from now on.

        Problems of old addresses are forgotten.
        """
        if addresses != self.addresses:
            self.problem = ""
        self.addresses, self.kinds = addresses, kinds

    def get_addresses(self) -> str:
        """Return the addresses that alerts go to now; empty where they are only listed."""
        return self.addresses or (notify.DESKTOP if notify.has_desktop() else "")

    def test(self) -> list[str]:
        """Send a test notification; return what went wrong, as sentences."""
        addresses = self.get_addresses()
        if not addresses:
            return [
                "Nothing is set: name an address in `notify`. This machine shows no notifications itself."
            ]
        problems = self._try_send(addresses, "A test", "Notifications of tasuki arrive here.")
        self.problem = " ".join(problems)
        return problems

    def _run(self) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            try:
                while not self._stop.is_set() and (alert := self._begin_next()):
                    self._send(alert)
            except DBAPIError:
                logger.warning("Notifications wait: the database does not answer.")

    def _begin_next(self) -> OperatorAlert | None:
        return alerts.begin_sending(self.database, self.host, self.kinds.split())

    def _send(self, alert: OperatorAlert) -> None:
        addresses = self.get_addresses()
        if not addresses:
            alerts.record_outcome(self.database, alert.id, "quiet")
            return
        problems = self._try_send(addresses, alert.title, alert.text)
        problem = " ".join(problems)
        arrived = len(problems) < len(notify.list_places(addresses))
        alerts.record_outcome(self.database, alert.id, "sent" if arrived else "not_sent", problem)
        if problem and problem != self.problem:  # once: the log does not repeat it
            logger.warning("%s", problem)
        self.problem = problem

    def _try_send(self, addresses: str, title: str, text: str) -> list[str]:
        try:
            return notify.send_notification(addresses, f"tasuki: {title}", text)
        except TasukiError as error:
            return [str(error)]
        except (
            Exception
        ) as error:  # an error in a service's own code: other alerts must not wait for ever
            logger.exception("A notification")
            return [f"A notification failed: {type(error).__name__}."]
