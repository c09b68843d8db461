"""Every alert, and what became of its notification."""

from typing import Annotated

from litestar import get, post
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from tasuki.fleet import alerts
from tasuki.fleet.reading import GREATEST_ID
from tasuki.fleet.service import Fleet
from tasuki.web.bodies import Seen
from tasuki.web.pages import alert_list, forms, frame
from tasuki.web.pages.frame import Asked, Page

AT_ONCE = 100


@get("/alerts", sync_to_thread=True, include_in_schema=False)
def alerts_page(
    request: Asked,
    fleet: NamedDependency[Fleet],
    before: Annotated[int | None, QueryParameter(ge=1, le=GREATEST_ID)] = None,
) -> Page:
    """Alerts, the newest first."""
    found = alert_list.newest(fleet.database, AT_ONCE, before)
    return frame.page(
        request, "alerts.html", alerts=found, before=before,
        newest_alert=max((of.id for of, _, _ in found), default=0),
        older=found[-1][0].id if len(found) == AT_ONCE else None,
    )  # fmt: skip


@post("/alerts/seen", sync_to_thread=True, include_in_schema=False)
def seen(
    request: Asked, fleet: NamedDependency[Fleet], form: NamedDependency[dict[str, str]]
) -> Page:
    """The operator has seen them."""
    alerts.see(fleet.database, forms.filled(Seen, {"up_to": form.get("up_to", "")}).up_to)
    return frame.moved(request, "/alerts")


HANDLERS = (alerts_page, seen)
