"""Mute an agent: its alerts are listed, and notify nobody."""

import time

from markupsafe import Markup

from tasuki.fleet.alerts import OFF, TOMORROW, MuteChange, parse_mute
from tasuki.fleet.orders.agents import mute_agent, restore_mute
from tasuki.fleet.orders.bodies import MuteOrder
from tasuki.fleet.service import Fleet
from tasuki.fleet.store import queries
from tasuki.web.api import forms
from tasuki.web.handlers import AnyRequest, FormFields, PathId, TheFleet, show_page, take_form
from tasuki.web.pages.fleet import cards
from tasuki.web.views import display, templates
from tasuki.web.views.templates import PageResponse
from tasuki.web.views.undo import UndoOffer


@show_page("/agents/{id:int}/mute")
def show_mute_form(request: AnyRequest, fleet: TheFleet, id: PathId) -> PageResponse:
    """Ask for how long an agent is muted."""
    queries.load_agent(fleet.database, id)
    card = cards.build_cards(fleet, [id])[0]
    morning = templates.format_moment(parse_mute(TOMORROW, time.time()) or 0.0)
    choices = {"1h": "For 1 hour", TOMORROW: Markup("Until ") + morning, "": "Until it is unmuted"}
    return templates.render_page(request, "mute_form.html", card=card, choices=choices, off=OFF)


@take_form("/agents/{id:int}/mute")
def mute_shown_agent(
    request: AnyRequest, fleet: TheFleet, id: PathId, form: FormFields
) -> PageResponse:
    """Mute it, or unmute it; go back to where that was asked for."""
    order = forms.fill_body(MuteOrder, {"for": form.get("for", "")})
    change = mute_agent(fleet, id, order.span)
    default = f"/agents/{id}"
    back = templates.find_way_back(request, default)
    back = default if back.partition("?")[0] == f"{default}/mute" else back
    return templates.redirect(request, back, _offer_undo(fleet, change))


def _offer_undo(fleet: Fleet, change: MuteChange) -> UndoOffer | None:
    if change.before == change.after:
        return None
    agent = queries.load_agent(fleet.database, change.agent_id)
    name = display.format_agent_name(agent)
    return UndoOffer(
        Markup("{} is {}.").format(name, templates.format_mute(change.after) or "no longer muted"),
        lambda fleet: restore_mute(fleet, change),
        Markup("{} is {}, as before.").format(
            name, templates.format_mute(change.before) or "not muted"
        ),
    )
