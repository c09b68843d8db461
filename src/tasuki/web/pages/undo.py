"""Undo an order that was just given, by the key of its note."""

import asyncio

from litestar import post

from tasuki.errors import NoLongerPossible, TasukiError
from tasuki.fleet.service import Fleet
from tasuki.web.handlers import AnyRequest, FormFields, TheFleet
from tasuki.web.views import templates
from tasuki.web.views.notices import PageNotices
from tasuki.web.views.templates import PageResponse
from tasuki.web.views.undo import UNDO_SECONDS, PageNote, UndoOffer


@post("/undo")
async def undo_order(request: AnyRequest, fleet: TheFleet, form: FormFields) -> PageResponse:
    """Undo it, once; where that is refused for now, its key stays good. Go back to the page that offered it, which says what became of that."""
    back = templates.find_way_back(request, "/")
    notices, key = request.app.state.notices, form.get("key", "")
    offer = notices.take(key, UndoOffer)
    try:
        if offer is None:
            raise NoLongerPossible(
                "That was undone already, or is too long ago. Nothing was changed."
            )
        await asyncio.to_thread(_put_back, offer, key, fleet, notices)
    except TasukiError as error:
        if request.headers.get("hx-request"):
            raise
        again = "" if isinstance(error, NoLongerPossible) else key
        return templates.redirect(request, back, PageNote(str(error), again, tone="fail"))
    fleet.changes.notify()
    request.app.state.live_pages.take_topics(set(offer.topics))
    return templates.redirect(request, back, PageNote(offer.undone))


def _put_back(offer: UndoOffer, key: str, fleet: Fleet, notices: PageNotices) -> None:
    """Put back what an order changed; where that fails, it can be tried again by the same key."""
    try:
        offer.put_back(fleet)
    except NoLongerPossible:
        raise
    except Exception:
        notices.give_back(key, offer, UNDO_SECONDS)
        raise
