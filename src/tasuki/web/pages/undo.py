"""Undo an order that was just given, by the key of its note."""

import asyncio

from litestar import post
from litestar.di import NamedDependency

from tasuki.errors import NotPossible, TasukiError
from tasuki.fleet.service import Fleet
from tasuki.web.views import templates
from tasuki.web.views.templates import AnyRequest, PageResponse
from tasuki.web.views.undo import PageNote, UndoOffer


@post("/undo", include_in_schema=False)
async def undo_order(
    request: AnyRequest, fleet: NamedDependency[Fleet], form: NamedDependency[dict[str, str]]
) -> PageResponse:
    """Undo it, once; go back to the page that offered it, which says what became of that."""
    back = templates.find_way_back(request, "/")
    offer = request.app.state.notices.take(form.get("key", ""), UndoOffer)
    try:
        if offer is None:
            raise NotPossible("That was undone already, or is too long ago. Nothing was changed.")
        await asyncio.to_thread(offer.put_back, fleet)
    except TasukiError as error:
        if request.headers.get("hx-request"):
            raise
        return templates.redirect(request, back, PageNote(str(error), tone="fail"))
    fleet.changes.notify()
    request.app.state.live_pages.take_topics(set(offer.topics))
    return templates.redirect(request, back, PageNote(offer.undone))


HANDLERS = (undo_order,)
