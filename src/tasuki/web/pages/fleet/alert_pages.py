"""Alerts: the list of all, which marks them as seen, and those that just came."""

import asyncio
from typing import Annotated

from litestar import get, post
from litestar.params import QueryParameter

from tasuki.fleet import alerts
from tasuki.fleet.orders.bodies import SeenAlerts
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.models import OperatorAlert
from tasuki.fleet.store.queries import GREATEST_ID
from tasuki.text_safety import format_plural
from tasuki.web.api import forms
from tasuki.web.handlers import AnyRequest, FormFields, TheFleet, show_page
from tasuki.web.views import display, templates
from tasuki.web.views.display import StateBadge
from tasuki.web.views.templates import PageResponse
from tasuki.web.views.undo import UndoOffer

MOST_LISTED = 12
MOST_TOASTS = 3
"""Alerts that are shown at once over a page; the list has them all."""
ALERTS_AT_ONCE = 100
SENT_WORDS = {
    "due": "not sent yet", "sending": "being sent", "sent": "sent", "quiet": "",
    "not_sent": "not sent", "uncertain": "not known whether it was sent",
}  # fmt: skip
ShownAlert = tuple[OperatorAlert, StateBadge, str]


def list_alerts(
    database: FleetDatabase, limit: int = MOST_LISTED, before: int | None = None
) -> list[ShownAlert]:
    """List the newest alerts, each with its shape and the state of its notification."""
    return [
        (
            alert,
            display.ALERT_SHAPES[alert.kind],
            "muted" if alert.muted else SENT_WORDS[alert.state],
        )
        for alert in alerts.list_newest_alerts(database, limit, before)
    ]


@get("/alerts")
async def show_alerts(
    request: AnyRequest,
    fleet: TheFleet,
    before: Annotated[int | None, QueryParameter(ge=1, le=GREATEST_ID)] = None,
) -> PageResponse:
    """Show alerts, newest first; whoever looks at the newest has seen them."""
    listed = await asyncio.to_thread(list_alerts, fleet.database, ALERTS_AT_ONCE, before)
    if before is None and listed and any(alert.seen_at is None for alert, _, _ in listed):
        await asyncio.to_thread(alerts.mark_seen, fleet.database, listed[0][0].id)
        request.app.state.live_pages.take_topics({"alerts"})
    return await asyncio.to_thread(
        templates.render_page, request, "alerts.html", live="" if before else "alerts", alerts=listed,
        before=before, keep_days=fleet.keep_days,
        older=listed[-1][0].id if len(listed) == ALERTS_AT_ONCE else None,
    )  # fmt: skip


@show_page("/alerts/toasts")
def show_toasts(
    request: AnyRequest,
    fleet: TheFleet,
    after: Annotated[int, QueryParameter(ge=0, le=GREATEST_ID)] = 0,
) -> PageResponse:
    """Show the newest alerts after one, for a page that is open; oldest first.

    Those of muted agents are only listed.
    """
    newest = list_alerts(fleet.database, MOST_TOASTS)
    listed = [one for one in newest if one[0].id > after and not one[0].muted]
    return templates.render_page(request, "toasts.html", alerts=listed[::-1])


@post("/alerts/seen")
async def mark_seen(request: AnyRequest, fleet: TheFleet, form: FormFields) -> PageResponse:
    """Mark alerts as seen by the operator."""
    up_to = forms.fill_body(SeenAlerts, {"up_to": form.get("up_to", "")}).up_to
    moment, count = await asyncio.to_thread(alerts.mark_seen, fleet.database, up_to)
    request.app.state.live_pages.take_topics({"alerts"})
    word = format_plural(count, "alert")
    offer = UndoOffer(
        f"You have seen {word}.", lambda fleet: alerts.mark_unseen(fleet.database, moment),
        f"{word} count{'s' if count == 1 else ''} as new again.", frozenset({"alerts"}),
    )  # fmt: skip
    back = templates.find_way_back(request, "/alerts")
    return templates.redirect(request, back, offer if count else None)
