"""Ways to go somewhere by keyboard: the palette, the next agent that waits, and the list of keys."""

from typing import Annotated

from litestar import get
from litestar.params import QueryParameter
from msgspec import Struct

from tasuki.fleet.store.queries import GREATEST_ID
from tasuki.web.handlers import AnyRequest, TheFleet, show_page
from tasuki.web.pages.agent.goal_templates import list_shown
from tasuki.web.pages.fleet import cards
from tasuki.web.views import templates
from tasuki.web.views.templates import PageResponse


class PaletteEntry(Struct, frozen=True):
    """Something to go to or to do. `kind` is what it is, in one word."""

    kind: str
    word: str
    href: str
    note: str = ""
    is_form: bool = False
    """It opens over the page."""


PAGES = (
    PaletteEntry("page", "Fleet", "/"),
    PaletteEntry("page", "Fleet as a list", "/?look=list"),
    PaletteEntry("page", "Who needs you", "/?show=needs"),
    PaletteEntry("page", "Handoffs", "/handoffs"),
    PaletteEntry("page", "Drafts", "/briefs"),
    PaletteEntry("page", "Lineage", "/lineage"),
    PaletteEntry("page", "Threads", "/threads"),
    PaletteEntry("page", "Personas", "/personas"),
    PaletteEntry("page", "Alerts", "/alerts"),
    PaletteEntry("page", "Hosts", "/hosts"),
    PaletteEntry("page", "Settings", "/settings"),
    PaletteEntry("page", "Settings: hooks", "/settings/hooks"),
    PaletteEntry("page", "Settings: notifications", "/settings/notifications"),
    PaletteEntry("page", "Doctor", "/doctor"),
    PaletteEntry("action", "Start an agent", "/agents/new"),
    PaletteEntry("action", "New template", "/templates/new"),
    PaletteEntry("action", "Hand off all past the threshold", "/bulk?do=handoff&past=true", is_form=True),
    PaletteEntry("action", "Next that waits", "/next"),
    PaletteEntry("action", "Keys", "/keys", is_form=True),
)  # fmt: skip
KEYS = (
    ("/", "search"), ("Ctrl K", "go to anything"), ("n", "next agent that waits"),
    ("j, k", "next and previous agent, or match in a thread"), ("Enter", "open it"), ("Space", "peek at it; again: close"), ("a", "answer it"), ("h", "hand it off"),
    ("x", "select it, in the list"), ("z", "undo what was just done, while the note is there"), ("g f, g h, g t, g p, g l, g a", "fleet, handoffs, threads, personas, lineage, alerts"),
    ("?", "this list"), ("Escape", "close, leave a field"),
)  # fmt: skip


@show_page("/palette")
def show_palette(request: AnyRequest, fleet: TheFleet) -> PageResponse:
    """List where one can go: agents first, then pages and actions."""
    entries = [
        PaletteEntry("agent", card.title, f"/agents/{card.id}", f"{card.project}, {card.shown.word.lower()}")
        for card in cards.build_cards(fleet)
    ]  # fmt: skip
    found = [
        PaletteEntry("template", one.name, f"/templates/{one.id}", "start an agent", is_form=True)
        for one, _ in list_shown(fleet)
    ]
    return templates.render_page(request, "palette.html", entries=[*entries, *found, *PAGES])


@get("/keys", sync_to_thread=False)
def show_keys(request: AnyRequest) -> PageResponse:
    """List the keys."""
    return templates.render_page(request, "keys.html", keys=KEYS)


@show_page("/next")
def show_next(
    request: AnyRequest,
    fleet: TheFleet,
    after: Annotated[int, QueryParameter(ge=0, le=GREATEST_ID)] = 0,
) -> PageResponse:
    """Go to the next agent that needs the operator, after another one in the fleet's order."""
    needing = [card for card in cards.build_cards(fleet) if card.group == "needs"]
    place = next((n for n, card in enumerate(needing) if card.id == after), -1)
    if not needing:
        return templates.redirect(request, "/?show=needs")
    card = needing[(place + 1) % len(needing)]
    is_handoff = card.can == "open"
    address = f"/handoffs/{card.handoff}" if is_handoff else f"/agents/{card.id}"
    return templates.redirect(request, address)
