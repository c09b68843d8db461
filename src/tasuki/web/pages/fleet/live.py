"""The stream of news that one browser gets for all its open pages."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Annotated

from litestar import get
from litestar.datastructures import State
from litestar.params import QueryParameter
from litestar.response import Stream

from tasuki.fleet import alerts
from tasuki.fleet.service import Fleet
from tasuki.fleet.store.queries import GREATEST_ID
from tasuki.web.handlers import AnyRequest
from tasuki.web.live import STREAM_HEADERS, parse_last_id
from tasuki.web.page_news import PageCounts, PageStreams
from tasuki.web.pages.fleet import cards
from tasuki.web.security.sessions import is_signed_in


@get("/live", media_type="text/event-stream")
async def stream_news(
    request: AnyRequest,
    state: State,
    after: Annotated[int | None, QueryParameter(ge=0, le=GREATEST_ID)] = None,
) -> Stream:
    """Stream what changes, until its browser is signed out; alerts also since the line `after`."""
    pages: PageStreams = state.live_pages
    last_id = parse_last_id(request.headers.get("last-event-id", ""))
    known = after if last_id is None else min(last_id, GREATEST_ID)
    pieces = _stream_while_signed_in(request, pages.stream_pieces(state.live.position.id, known))
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


def count_for_pages(fleet: Fleet) -> PageCounts:
    """Count what the frame of every page shows."""
    unseen, newest = alerts.find_unseen_and_newest(fleet.database)
    needs = sum(card.group == "needs" for card in cards.build_cards(fleet))
    return PageCounts(needs, unseen, newest)
