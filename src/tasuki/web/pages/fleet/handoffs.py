"""Handoffs of agents: the list, and a live page of one with the operator's orders."""

from typing import Annotated, Any

from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, QueryParameter

from tasuki.fleet.service import Fleet
from tasuki.fleet.store import queries
from tasuki.web.api.handoffs import HandoffOrder
from tasuki.web.pages.fleet import timeline
from tasuki.web.views import redacted, templates
from tasuki.web.views import states as shapes
from tasuki.web.views.templates import AnyRequest, PageResponse

TABS = {
    "open": ("Open", ("running", "failed", "uncertain")),
    "failed": ("Failed", ("failed", "uncertain")),
    "done": ("Done", ("done",)),
    "cancelled": ("Cancelled", ("cancelled",)),
}
MOST_SHOWN = 12
"""Most handoffs that are shown with all their steps; the others are lines of a table."""
LISTED_PER_PAGE = 100
"""Handoffs of one page."""


@get("/handoffs", sync_to_thread=True, include_in_schema=False)
def show_handoffs(
    request: AnyRequest,
    fleet: NamedDependency[Fleet],
    show: FromQuery[str] = "open",
    page: Annotated[int, QueryParameter(ge=1, le=100_000)] = 1,
) -> PageResponse:
    """Show handoffs by state; the open ones with their steps, failed ones first."""
    show = show if show in TABS else "open"
    by_state = queries.count_handoffs(fleet.database)
    counts = {
        key: sum(by_state.get(state, 0) for state in states) for key, (_, states) in TABS.items()
    }
    listed = queries.list_handoff_page(
        fleet.database, TABS[show][1], limit=LISTED_PER_PAGE, skip=(page - 1) * LISTED_PER_PAGE
    )
    detailed = listed[:MOST_SHOWN] if show in ("open", "failed") and page == 1 else []
    return templates.render_page(
        request, "handoffs.html", live="handoffs", show=show,
        page=page, pages=max(1, -(-counts[show] // LISTED_PER_PAGE)),
        tabs=[(key, word, counts[key]) for key, (word, _) in TABS.items()],
        panels=[timeline.build_timeline(fleet, handoff.id) for handoff in detailed],
        rows=[(redacted.redact_row(of), shapes.HANDOFF_SHAPES[of.state], shapes.get_step_name(of)) for of in listed[len(detailed):]],
    )  # fmt: skip


@get("/handoffs/{id:str}", sync_to_thread=True, include_in_schema=False)
def show_handoff(
    request: AnyRequest, fleet: NamedDependency[Fleet], id: FromPath[str]
) -> PageResponse:
    """Show one handoff: its steps as they happen, and its document."""
    view = timeline.build_timeline(fleet, id)
    return templates.render_page(
        request, "handoff.html", live=view.id, of=view, text=redacted.read_document(view.file_path),
        linked=timeline.build_entry_link(view),
    )  # fmt: skip


@get("/handoffs/{id:str}/document.md", sync_to_thread=True, include_in_schema=False)
def show_document(
    fleet: NamedDependency[Fleet], id: FromPath[str], download: FromQuery[bool] = False
) -> Response[bytes]:
    """Show the document of a handoff unchanged, but without secrets."""
    handoff = queries.load_handoff(fleet.database, id)
    text = redacted.read_document(handoff.file_path) or ""
    return build_text_response(text, f"handoff-{handoff.id[:8]}.md", download=download)


@post("/handoffs/{id:str}/{order:str}", sync_to_thread=True, include_in_schema=False)
def order_handoff(
    request: AnyRequest,
    fleet: NamedDependency[Fleet],
    id: FromPath[str],
    order: FromPath[HandoffOrder],
) -> PageResponse:
    """Retry, cancel, finish or skip; then show the handoff again."""
    whole_id = queries.load_handoff(fleet.database, id).id
    getattr(fleet, order)(whole_id)
    return templates.redirect(request, f"/handoffs/{whole_id}")


def build_text_response(text: str, name: str, *, download: bool) -> Response[bytes]:
    """Build a response of a text that no browser takes for a page."""
    headers: dict[str, Any] = dict(templates.PAGE_HEADERS)
    headers["Content-Security-Policy"] = "default-src 'none'; sandbox"
    if download:
        headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return Response(text.encode("utf-8", "replace"), media_type="text/plain", headers=headers)
