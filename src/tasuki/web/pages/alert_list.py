"""Alerts as pages list them: what happened to whom, and whether it was sent."""

from tasuki.fleet import alerts
from tasuki.fleet.database import Database
from tasuki.fleet.rows import Alert
from tasuki.web.pages import shapes
from tasuki.web.pages.shapes import Shown

NEWEST = 12
SENT = {
    "due": "not sent yet", "sending": "being sent", "sent": "sent", "quiet": "",
    "not_sent": "not sent", "uncertain": "not known whether it was sent",
}  # fmt: skip


def newest(
    database: Database, limit: int = NEWEST, before: int | None = None
) -> list[tuple[Alert, Shown, str]]:
    """The newest alerts, each with its shape and what became of its notification."""
    return [
        (of, shapes.OF_ALERT[of.kind], SENT[of.state])
        for of in alerts.newest(database, limit, before)
    ]
