"""The stream of a page: the changes of what it shows, as pieces of HTML."""

import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Annotated

from litestar import get
from litestar.datastructures import State
from litestar.params import FromQuery, QueryParameter
from litestar.response import Stream

from tasuki.errors import TasukiError
from tasuki.fleet import alerts
from tasuki.fleet.service import Fleet
from tasuki.web.live import STREAM_HEADERS, ChangedIds, PagePiece, PageStreams, parse_last_id
from tasuki.web.pages.fleet import cards, handoffs
from tasuki.web.pages.fleet.routes import SENT_WORDS
from tasuki.web.security.sessions import is_signed_in
from tasuki.web.views import display
from tasuki.web.views.hosts import list_fleet_hosts
from tasuki.web.views.templates import AnyRequest, render_macro

MOST_PANELS = 24
HOST_TOPICS = frozenset(["fleet", "hosts"])
NEW_SECONDS = 600.0
"""How long an agent is new: pages that were made before it began may lack its card."""


@get("/live", media_type="text/event-stream", include_in_schema=False)
async def stream_page(
    request: AnyRequest,
    state: State,
    page: FromQuery[str] = "",
    after: Annotated[int, QueryParameter(ge=0)] = 0,
    hosts: Annotated[str, QueryParameter(max_length=20)] = "",
) -> Stream:
    """Stream pieces of the open page, from the state in which it was made."""
    pages: PageStreams = state.live_pages
    after = parse_last_id(request.headers.get("last-event-id", "")) or after
    pieces = _stream_while_signed_in(request, pages.stream_pieces(page[:80], after, hosts))
    return Stream(pieces, media_type="text/event-stream", headers=STREAM_HEADERS)


async def _stream_while_signed_in(
    request: AnyRequest, pieces: AsyncGenerator[bytes]
) -> AsyncIterator[bytes]:
    """Yield the pieces until its browser is signed out."""
    async with aclosing(pieces):
        async for part in pieces:
            if not is_signed_in(request):
                return
            yield part


def make_pieces(fleet: Fleet, news: ChangedIds, topics: frozenset[str]) -> list[PagePiece]:
    """Make the pieces of some news, for the open pages."""
    pieces = [
        PagePiece(
            "alert",
            render_macro(
                "alert_macros.html",
                "toast",
                alert,
                display.ALERT_SHAPES[alert.kind],
                SENT_WORDS[alert.state],
            ),
        )
        for alert in alerts.load_alerts(fleet.database, news.alerts)
    ]
    if handoffs := [id for id in news.handoffs if topics & {"handoffs", id}]:
        for id in handoffs[:MOST_PANELS]:
            pieces += _make_handoff_pieces(fleet, id)
    if (news.hosts or news.reload) and topics & HOST_TOPICS:
        pieces += _make_host_pieces(fleet, news)
    ids = {id for id in news.agents if topics & {"fleet", f"agent-{id}"}}
    if ids:
        pieces += _make_agent_pieces(fleet, ids)
    return pieces


def _make_host_pieces(fleet: Fleet, news: ChangedIds) -> list[PagePiece]:
    pieces = [PagePiece("reload", news.reload, HOST_TOPICS)] if news.reload else []
    for host in list_fleet_hosts(fleet.database):
        if host.id in news.hosts:
            for part, topic in (("head", "fleet"), ("row", "hosts")):
                html = render_macro("host_macros.html", part, host)
                pieces.append(PagePiece(f"host-{part}-{host.id}", html, frozenset([topic])))
    return pieces


def _make_agent_pieces(fleet: Fleet, ids: set[int]) -> list[PagePiece]:
    pieces = []
    for card in cards.build_cards(fleet, ids):
        html = render_macro("macros.html", "card", card)
        pieces.append(PagePiece(f"agent-{card.id}", html, frozenset(["fleet"])))
        if card.group == "needs" or card.started_at > time.time() - NEW_SECONDS:
            pieces.append(PagePiece("arrived", html, frozenset(["fleet"])))
        now_html = render_macro("agent_macros.html", "now", card)
        pieces.append(PagePiece(f"now-{card.id}", now_html, frozenset([f"agent-{card.id}"])))
    return pieces


def _make_handoff_pieces(fleet: Fleet, id: str) -> list[PagePiece]:
    """Make every part of a handoff: pages take those that they show."""
    try:
        view = handoffs.build_timeline(fleet, id)
    except TasukiError:
        return []
    pages = frozenset(["handoffs", id])
    macro = "handoff_macros.html"
    pieces = [
        PagePiece(f"h-{view.short}-{row.step}", render_macro(macro, "step", view, row), pages)
        for row in view.rows
    ]
    pieces += [
        PagePiece(f"h-{view.short}-{part}", render_macro(macro, part, view), pages)
        for part in ("head", "say", "more")
    ]
    if view.file_path:
        text = render_macro(
            macro,
            "document",
            view,
            handoffs.read_text(fleet, view),
            handoffs.build_entry_link(view),
        )
        pieces.append(PagePiece(f"h-{view.short}-document", text, frozenset([id])))
    return pieces
