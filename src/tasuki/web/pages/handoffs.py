"""Handoffs of agents: the list, and one followed live with what the operator can do."""

from typing import Annotated, Any

from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, QueryParameter

from tasuki.fleet import reading
from tasuki.fleet.service import Fleet
from tasuki.web import views
from tasuki.web.api_handoffs import Order
from tasuki.web.pages import frame, shapes, timeline
from tasuki.web.pages.frame import Asked, Page

TABS = {
    "open": ("Open", ("running", "failed", "uncertain")),
    "failed": ("Failed", ("failed", "uncertain")),
    "done": ("Done", ("done",)),
    "cancelled": ("Cancelled", ("cancelled",)),
}
SHOWN = 12
"""Handoffs that are shown with all their steps; the others are lines of a table."""
LISTED = 100
"""Handoffs of one page."""


@get("/handoffs", sync_to_thread=True, include_in_schema=False)
def handoffs_page(
    request: Asked,
    fleet: NamedDependency[Fleet],
    show: FromQuery[str] = "open",
    page: Annotated[int, QueryParameter(ge=1, le=100_000)] = 1,
) -> Page:
    """Handoffs by their state; the open ones with their steps, those that failed first."""
    show = show if show in TABS else "open"
    by_state = reading.count_handoffs(fleet.database)
    counts = {
        key: sum(by_state.get(state, 0) for state in states) for key, (_, states) in TABS.items()
    }
    wanted = reading.page_of_handoffs(
        fleet.database, TABS[show][1], limit=LISTED, skip=(page - 1) * LISTED
    )
    whole = wanted[:SHOWN] if show in ("open", "failed") and page == 1 else []
    return frame.page(
        request, "handoffs.html", live="handoffs", show=show,
        page=page, pages=max(1, -(-counts[show] // LISTED)),
        tabs=[(key, word, counts[key]) for key, (word, _) in TABS.items()],
        panels=[timeline.timeline(fleet, of.id) for of in whole],
        rows=[(views.redacted(of), shapes.OF_HANDOFF[of.state], shapes.failed_step(of)) for of in wanted[len(whole):]],
    )  # fmt: skip


@get("/handoffs/{id:str}", sync_to_thread=True, include_in_schema=False)
def handoff_page(request: Asked, fleet: NamedDependency[Fleet], id: FromPath[str]) -> Page:
    """One handoff: its steps as they happen, and its document."""
    found = timeline.timeline(fleet, id)
    return frame.page(
        request, "handoff.html", live=found.id, of=found, text=views.document(found.file_path),
        linked=timeline.linked(found),
    )  # fmt: skip


@get("/handoffs/{id:str}/document.md", sync_to_thread=True, include_in_schema=False)
def raw(
    fleet: NamedDependency[Fleet], id: FromPath[str], download: FromQuery[bool] = False
) -> Response[bytes]:
    """The document of a handoff as it is, without secrets."""
    found = reading.handoff(fleet.database, id)
    text = views.document(found.file_path) or ""
    return as_text(text, f"handoff-{found.id[:8]}.md", download=download)


@post("/handoffs/{id:str}/{order:str}", sync_to_thread=True, include_in_schema=False)
def order(
    request: Asked, fleet: NamedDependency[Fleet], id: FromPath[str], order: FromPath[Order]
) -> Page:
    """Retry, cancel, finish or skip; then the handoff again."""
    whole = reading.handoff(fleet.database, id).id
    getattr(fleet, order)(whole)
    return frame.moved(request, f"/handoffs/{whole}")


def as_text(text: str, name: str, *, download: bool) -> Response[bytes]:
    """A text as a file that no browser takes for a page."""
    headers: dict[str, Any] = dict(frame.HEADERS)
    headers["Content-Security-Policy"] = "default-src 'none'; sandbox"
    if download:
        headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return Response(text.encode("utf-8", "replace"), media_type="text/plain", headers=headers)
