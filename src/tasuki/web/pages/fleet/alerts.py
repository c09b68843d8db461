"""Alerts: what happened to whom, and what became of each notification."""

from typing import Annotated

from litestar import get, post
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from tasuki.fleet import alerts
from tasuki.fleet.service import Fleet
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.models import OperatorAlert
from tasuki.fleet.store.queries import GREATEST_ID
from tasuki.web.api.bodies import SeenAlerts
from tasuki.web.pages import forms
from tasuki.web.views import states, templates
from tasuki.web.views.states import StateShape
from tasuki.web.views.templates import AnyRequest, PageResponse

MOST_LISTED = 12
SENT_WORDS = {
    "due": "not sent yet", "sending": "being sent", "sent": "sent", "quiet": "",
    "not_sent": "not sent", "uncertain": "not known whether it was sent",
}  # fmt: skip


def list_alerts(
    database: FleetDatabase, limit: int = MOST_LISTED, before: int | None = None
) -> list[tuple[OperatorAlert, StateShape, str]]:
    """List the newest alerts, each with its shape and the state of its notification."""
    return [
        (alert, states.ALERT_SHAPES[alert.kind], SENT_WORDS[alert.state])
        for alert in alerts.list_newest_alerts(database, limit, before)
    ]


ALERTS_AT_ONCE = 100


@get("/alerts", sync_to_thread=True, include_in_schema=False)
def show_alerts(
    request: AnyRequest,
    fleet: NamedDependency[Fleet],
    before: Annotated[int | None, QueryParameter(ge=1, le=GREATEST_ID)] = None,
) -> PageResponse:
    """Show alerts, newest first."""
    listed = list_alerts(fleet.database, ALERTS_AT_ONCE, before)
    return templates.render_page(
        request, "alerts.html", alerts=listed, before=before,
        newest_alert=max((alert.id for alert, _, _ in listed), default=0),
        older=listed[-1][0].id if len(listed) == ALERTS_AT_ONCE else None,
    )  # fmt: skip


@post("/alerts/seen", sync_to_thread=True, include_in_schema=False)
def mark_seen(
    request: AnyRequest, fleet: NamedDependency[Fleet], form: NamedDependency[dict[str, str]]
) -> PageResponse:
    """Mark alerts as seen by the operator."""
    alerts.mark_seen(
        fleet.database, forms.fill_body(SeenAlerts, {"up_to": form.get("up_to", "")}).up_to
    )
    return templates.redirect(request, "/alerts")


HANDLERS = (show_alerts, mark_seen)
