"""The fleet page: each agent as a card or a row, those that need the operator first; its alerts."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

from litestar import get

from tasuki.fleet.agents.agent_ends import find_lost_agents
from tasuki.fleet.service import Fleet
from tasuki.web.handlers import AnyRequest, TheFleet
from tasuki.web.pages.agent.first_start import build_first_start
from tasuki.web.pages.agent.goal_templates import list_shown
from tasuki.web.pages.fleet import cards, fleet_view
from tasuki.web.pages.fleet.alert_pages import list_alerts
from tasuki.web.pages.fleet.cards import AgentCard
from tasuki.web.pages.fleet.fleet_view import FleetView
from tasuki.web.views import templates
from tasuki.web.views.hosts import list_fleet_hosts
from tasuki.web.views.parts import RenderedPage
from tasuki.web.views.templates import PageResponse


@get("/")
async def show_fleet(request: AnyRequest, fleet: TheFleet) -> PageResponse:
    """Show the agents that run or ended within a day.

    The query is a `FleetView`. Browsers that ask for the same view at once get the same answer.
    """
    view = fleet_view.parse_view(request.query_params)
    return await templates.share_page(request, view, partial(_render_fleet, request, fleet, view))


def _render_fleet(request: AnyRequest, fleet: Fleet, view: FleetView) -> RenderedPage:
    hosts = list_fleet_hosts(fleet.database)
    all_cards = cards.build_cards(fleet, hosts=hosts)
    matching = [card for card in all_cards if view.matches(card)]
    visible = [card for card in matching if view.show in ("", card.group)]
    count = Counter(card.group for card in matching)
    tabs = [
        (key, view.build_address(show=key), word, count[key] if key else len(matching))
        for key, word in fleet_view.TABS.items()
    ]
    return templates.render_for_all(
        request, "fleet.html", live="agents alerts hosts templates" if all_cards else "agents alerts hosts templates settings personas", view=view, tabs=tabs,
        counts=_count_cards(all_cards), groups=fleet_view.group_cards(view, visible, hosts),
        shown=len(visible), hosts=hosts, looks=fleet_view.LOOKS, orders=fleet_view.ORDERS,
        groupings={key: word for key, word in fleet_view.GROUPINGS.items() if hosts or key != "host"},
        render=cards.render_row if view.look == "list" else cards.render_card,
        projects=sorted({card.project for card in all_cards}),
        harnesses=[(name, templates.get_harness_title(name)) for name in sorted({c.harness for c in all_cards})],
        alerts=list_alerts(fleet.database),
        goal_templates=list_shown(fleet)[:12],
        steps=None if all_cards else build_first_start(fleet),
        lost=len(find_lost_agents(fleet.database, fleet.panes, fleet.host)),
    )  # fmt: skip


def _count_cards(all_cards: Sequence[AgentCard]) -> dict[str, Any]:
    needs = [card for card in all_cards if card.group == "needs"]
    return {
        "agents": len(all_cards),
        "projects": len({card.project for card in all_cards}),
        "needs": len(needs),
        "failed": sum(card.shown.tone == "fail" for card in needs),
        "past": sum(card.is_past for card in all_cards),
    }
