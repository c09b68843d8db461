"""The stream of a page: what changed of what it shows, as pieces of HTML."""

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
from tasuki.fleet.rows import Alert
from tasuki.fleet.service import Fleet
from tasuki.web import views
from tasuki.web.live_pages import LivePages, News, Piece
from tasuki.web.pages import cards, shapes, timeline
from tasuki.web.pages.alert_list import SENT
from tasuki.web.pages.frame import Asked, piece
from tasuki.web.sessions import current_session

HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
MOST_PANELS = 24
NEW_SECONDS = 600.0
"""How long an agent is new: pages that were made before it began may lack its card."""


@get("/live", media_type="text/event-stream", include_in_schema=False)
async def live(
    request: Asked,
    state: State,
    page: FromQuery[str] = "",
    after: Annotated[int, QueryParameter(ge=0)] = 0,
) -> Stream:
    """Pieces of the page that is open, from what was known when it was made on."""
    pages: LivePages = state.live_pages
    last = request.headers.get("last-event-id", "")
    if last.isascii() and last.isdigit() and len(last) < 20:
        after = max(after, int(last))
    pieces = _while_signed_in(request, pages.pieces(page[:80], after))
    return Stream(pieces, media_type="text/event-stream", headers=HEADERS)


async def _while_signed_in(request: Asked, pieces: AsyncGenerator[bytes]) -> AsyncIterator[bytes]:
    """The pieces, until the session of the request ends."""
    async with aclosing(pieces):
        async for part in pieces:
            if current_session(request) is None:
                return
            yield part


def made(fleet: Fleet, news: News, topics: frozenset[str]) -> list[Piece]:
    """The pieces of some news, for the pages that are open."""
    found = [_toast(of) for of in alerts.of_ids(fleet.database, news.alerts)]
    if handoffs := [id for id in news.handoffs if topics & {"handoffs", id}]:
        for id in handoffs[:MOST_PANELS]:
            found += _of_handoff(fleet, id)
    ids = {id for id in news.agents if topics & {"fleet", f"agent-{id}"}}
    if ids:
        found += _of_agents(fleet, ids)
    return found


def _toast(of: Alert) -> Piece:
    html = piece("alert_macros.html", "toast", of, shapes.OF_ALERT[of.kind], SENT[of.state])
    return Piece("alert", html)


def _of_agents(fleet: Fleet, ids: set[int]) -> list[Piece]:
    found = []
    for card in cards.cards(fleet, ids):
        html = piece("macros.html", "card", card)
        found.append(Piece(f"agent-{card.id}", html, frozenset(["fleet"])))
        if card.group == "needs" or card.started_at > time.time() - NEW_SECONDS:
            found.append(Piece("arrived", html, frozenset(["fleet"])))
        now = piece("agent_macros.html", "now", card)
        found.append(Piece(f"now-{card.id}", now, frozenset([f"agent-{card.id}"])))
    return found


def _of_handoff(fleet: Fleet, id: str) -> list[Piece]:
    """Every part of a handoff: pages take those that they show."""
    try:
        of = timeline.timeline(fleet, id)
    except TasukiError:
        return []
    pages = frozenset(["handoffs", id])
    macro = "handoff_macros.html"
    found = [
        Piece(f"h-{of.short}-{row.step}", piece(macro, "step", of, row), pages) for row in of.rows
    ]
    found += [
        Piece(f"h-{of.short}-{part}", piece(macro, part, of), pages)
        for part in ("head", "say", "more")
    ]
    if of.file_path:
        text = piece(macro, "document", of, views.document(of.file_path), timeline.linked(of))
        found.append(Piece(f"h-{of.short}-document", text, frozenset([id])))
    return found
