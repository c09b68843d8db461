"""Sends alerts to the browsers that asked for it, each once."""

import logging
import threading
from collections.abc import Collection
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from tasuki.errors import TasukiError
from tasuki.fleet.push.subscriptions import (
    PushSubscription,
    list_subscriptions,
    remove_subscription,
)
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.models import OperatorAlert

if TYPE_CHECKING:
    from tasuki.fleet.push.identity import ServerIdentity

SECONDS = 10.0
"""Time limit of one push service."""
KEPT_SECONDS = 3600
"""How long a push service keeps a notification for a browser that is off."""
GONE = frozenset({404, 410})
URGENT = frozenset({"failed", "needs_you"})

logger = logging.getLogger("tasuki.fleet")


class PushSender:
    """Sends to the browsers that one server knows. `users` are those whom a proxy may sign in."""

    def __init__(
        self, database: FleetDatabase, host: str, data: Path, users: Collection[str] = ()
    ) -> None:
        self.database, self.host, self.users = database, host, users
        self._folder = data
        self._identity: ServerIdentity | None = None
        self._lock = threading.Lock()

    def load_identity(self) -> "ServerIdentity":
        """Load the server's key, or make it. Raises StoreFailed."""
        from tasuki.fleet.push.identity import KEY_FILE, ServerIdentity

        with self._lock:
            if self._identity is None:
                self._identity = ServerIdentity(self._folder / KEY_FILE)
            return self._identity

    def send(self, alert: OperatorAlert, subject: str) -> tuple[int, list[str]]:
        """Send an alert to every browser; return how many took it, and problems as sentences.

        A message has the alert's title and page, and nothing of what an agent wrote. `subject` is
        the address of the dashboard. Raises StoreFailed.
        """
        subscriptions = list_subscriptions(self.database, self.host, self.users)
        if not subscriptions:
            return 0, []
        message = msgspec.json.encode(
            {"id": alert.id, "title": alert.title, "text": "", "path": alert.path}
        )
        problems = [
            self._send_to(one, message, subject, is_urgent=alert.kind in URGENT)
            for one in subscriptions
        ]
        return problems.count(""), [problem for problem in problems if problem]

    def _send_to(
        self, to: PushSubscription, message: bytes, subject: str, *, is_urgent: bool
    ) -> str:
        """Send to one browser; return what went wrong as a sentence, without its address."""
        from tasuki.fleet.push.encryption import decode_text, encrypt_message

        try:
            body = encrypt_message(message, decode_text(to.public_key), decode_text(to.secret))
            headers = {
                "Authorization": self.load_identity().build_header(to.endpoint, subject),
                "Content-Encoding": "aes128gcm", "Content-Type": "application/octet-stream",
                "TTL": str(KEPT_SECONDS), "Urgency": "high" if is_urgent else "normal",
            }  # fmt: skip
            status = _post(to.endpoint, body, headers)
        except (OSError, HTTPException, ValueError, TasukiError) as error:
            logger.info("A push service: %s", type(error).__name__)
            return f"The push service {to.service} could not be reached."
        if status in GONE:
            remove_subscription(self.database, to.endpoint)
            return f"A browser wants no notifications any more, says {to.service}."
        return "" if 200 <= status < 300 else f"The push service {to.service} answered {status}."


def _post(endpoint: str, body: bytes, headers: dict[str, str]) -> int:
    """Post a body, once; return the status. A redirect is not followed."""
    place = urlsplit(endpoint)
    kind = HTTPSConnection if place.scheme == "https" else HTTPConnection
    connection = kind(place.hostname or "", place.port, timeout=SECONDS)
    try:
        path = f"{place.path or '/'}?{place.query}" if place.query else place.path or "/"
        connection.request("POST", path, body, headers)
        return connection.getresponse().status
    finally:
        connection.close()
