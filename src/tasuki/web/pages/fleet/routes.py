"""The fleet page: which agents, as cards or as a list, in which groups and order; those that need the operator first.

A view is its query: a link and a bookmark keep it.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, get_args
from urllib.parse import urlencode

import msgspec
from litestar import get
from msgspec import Struct
from msgspec.structs import asdict, replace

from tasuki.fleet.agents.agent_ends import find_lost_agents
from tasuki.fleet.service import Fleet
from tasuki.web.handlers import AnyRequest, TheFleet
from tasuki.web.pages.agent.first_start import build_first_start
from tasuki.web.pages.agent.goal_templates import list_shown
from tasuki.web.pages.fleet import cards
from tasuki.web.pages.fleet.alert_pages import list_alerts
from tasuki.web.pages.fleet.cards import GROUPS, OTHER_HOSTS, AgentCard
from tasuki.web.views import templates
from tasuki.web.views.display import get_harness_title
from tasuki.web.views.hosts import ShownHost, list_fleet_hosts
from tasuki.web.views.parts import RenderedPage, compute_hash
from tasuki.web.views.templates import PageResponse

Shown = Literal["", "needs", "working", "quiet"]
Look = Literal["", "list"]
Grouping = Literal["", "project", "role", "host", "harness", "none"]
Order = Literal["", "name", "project", "context", "longest", "newest"]

TABS: Mapping[Shown, str] = {
    "": "All",
    "needs": "Needs you",
    "working": "Working",
    "quiet": "Quiet",
}
LOOKS: Mapping[Look, str] = {"": "Cards", "list": "List"}
GROUPINGS: Mapping[Grouping, str] = {
    "": "by state", "project": "by project", "role": "by role", "host": "by host",
    "harness": "by harness", "none": "not at all",
}  # fmt: skip
ORDERS: Mapping[Order, str] = {
    "": "need, then newest", "name": "name", "project": "project", "context": "fullest context",
    "longest": "longest in its state", "newest": "started last",
}  # fmt: skip
SORT_KEYS: Mapping[Order, Callable[[AgentCard], Any]] = {
    "name": lambda card: card.name,
    "project": lambda card: (card.project, card.name),
    "context": lambda card: -(card.meter.used if card.meter.used is not None else -1.0),
    "longest": lambda card: card.since,
    "newest": lambda card: -card.started_at,
}
NO_ROLE = "Without a persona"
MOST_CHARACTERS = 200


class FleetView(Struct, frozen=True):
    """The query of the fleet page; empty fields are its defaults."""

    show: Shown = ""
    q: str = ""
    """Words that a card must contain."""
    project: str = ""
    harness: str = ""
    host: str = ""
    look: Look = ""
    by: Grouping = ""
    sort: Order = ""

    @property
    def is_filtered(self) -> bool:
        """Whether agents are left out."""
        return bool(self.show or self.q or self.project or self.harness or self.host)

    @property
    def is_narrowed(self) -> bool:
        """Whether something that the form *View* holds is not as it is by default."""
        return bool(self.project or self.harness or self.host or self.by or self.sort)

    def build_address(self, **changes: str) -> str:
        """Build the address of this view, with some fields changed."""
        fields = asdict(replace(self, **changes))
        query = urlencode({name: value for name, value in fields.items() if value})
        return f"/?{query}" if query else "/"

    def matches(self, card: AgentCard) -> bool:
        """Whether a card is in this view, whatever its group."""
        text = " ".join((card.name, *card.where, card.sentence, card.last)).casefold()
        return (
            self.project in ("", card.project)
            and self.harness in ("", card.harness)
            and self.host in ("", card.host_id)
            and all(word in text for word in self.q.casefold().split())
        )


def parse_view(values: Mapping[str, str]) -> FleetView:
    """Parse the query of a view; what is not known is left out."""
    fields: dict[str, str] = {}
    for name in FleetView.__struct_fields__:
        value = values.get(name, "")[:MOST_CHARACTERS]
        try:
            msgspec.convert({name: value}, FleetView)
        except msgspec.ValidationError:
            continue
        fields[name] = value
    return msgspec.convert(fields, FleetView)


class CardGroup(Struct, frozen=True):
    """Agents that stand together."""

    key: str
    word: str
    cards: tuple[AgentCard, ...]
    host: ShownHost | None = None
    """The host of its agents; None where the group is not a host."""
    is_listed: bool = False
    """It is shown although nobody is in it."""

    @property
    def anchor(self) -> str:
        """Its key as the id of an element; a project of the name of a state has another one."""
        is_plain = self.key.isascii() and self.key.replace("-", "").isalnum()
        is_plain = is_plain and GROUPS.get(self.key, self.word) == self.word
        return self.key if is_plain else f"g{compute_hash(self.key)}"

    @property
    def is_shown(self) -> bool:
        """Whether it is shown now."""
        return self.is_listed or bool(self.cards)


def group_cards(
    view: FleetView, cards: Sequence[AgentCard], hosts: Sequence[ShownHost]
) -> list[CardGroup]:
    """Group the cards of a view: those that need the operator, then the others as is wanted.

    Every group that the view can have is there, so that an open page knows its place.
    """
    if view.sort:
        cards = sorted(cards, key=SORT_KEYS[view.sort])
    grouping = view.by or ("host" if hosts else "")
    needs = tuple(card for card in cards if card.group == "needs")
    others = [card for card in cards if card.group != "needs"]
    groups = [CardGroup("needs", GROUPS["needs"], needs)]
    if grouping == "none":
        return [*groups, CardGroup("others", "Others", tuple(others))]
    if grouping == "host" and hosts:
        return [*groups, *_group_by_host(view, others, hosts)]
    if grouping in ("", "host"):
        rest = [(key, word) for key, word in GROUPS.items() if key != "needs"]
        return [*groups, *_fill_groups(rest, others, lambda card: card.group)]
    get_key = _GROUP_KEYS[grouping]
    keys = sorted({get_key(card) for card in others})
    name = get_harness_title if grouping == "harness" else lambda key: key or NO_ROLE
    named = [(key, name(key)) for key in keys]
    return [*groups, *_fill_groups(named, others, get_key)]


_GROUP_KEYS: Mapping[str, Callable[[AgentCard], str]] = {
    "project": lambda card: card.project,
    "role": lambda card: card.role,
    "harness": lambda card: card.harness,
}


def _fill_groups(
    named: Sequence[tuple[str, str]],
    cards: Sequence[AgentCard],
    get_key: Callable[[AgentCard], str],
) -> list[CardGroup]:
    return [
        CardGroup(key, word, tuple(card for card in cards if get_key(card) == key))
        for key, word in named
    ]


def _group_by_host(
    view: FleetView, cards: Sequence[AgentCard], hosts: Sequence[ShownHost]
) -> list[CardGroup]:
    known = {host.id for host in hosts}
    groups = []
    for host in hosts:
        of_host = tuple(card for card in cards if card.host_id == host.id)
        is_listed = host.id == view.host or not view.is_filtered
        groups.append(CardGroup(host.id, host.label, of_host, host, is_listed))
    left = tuple(card for card in cards if card.host_id not in known)
    return [*groups, CardGroup(OTHER_HOSTS, "Hosts that left", left)]


assert {name for name in get_args(Order) if name} == set(SORT_KEYS)


# -- its page --------------------------------------------------------------------------


@get("/")
async def show_fleet(request: AnyRequest, fleet: TheFleet) -> PageResponse:
    """Show the agents that run or ended within a day.

    The query is a `FleetView`. Browsers that ask for the same view at once get the same answer.
    """
    view = parse_view(request.query_params)
    return await templates.share_page(request, view, partial(_render_fleet, request, fleet, view))


def _render_fleet(request: AnyRequest, fleet: Fleet, view: FleetView) -> RenderedPage:
    hosts = list_fleet_hosts(fleet.database)
    all_cards = cards.build_cards(fleet, hosts=hosts)
    matching = [card for card in all_cards if view.matches(card)]
    visible = [card for card in matching if view.show in ("", card.group)]
    count = Counter(card.group for card in matching)
    tabs = [
        (key, view.build_address(show=key), word, count[key] if key else len(matching))
        for key, word in TABS.items()
    ]
    return templates.render_for_all(
        request, "fleet.html", live="agents alerts hosts templates" if all_cards else "agents alerts hosts templates settings personas", view=view, tabs=tabs,
        counts=_count_cards(all_cards), groups=group_cards(view, visible, hosts),
        shown=len(visible), hosts=hosts, looks=LOOKS, orders=ORDERS,
        groupings={key: word for key, word in GROUPINGS.items() if hosts or key != "host"},
        render=partial(cards.render_card, place="row" if view.look == "list" else "card"),
        projects=sorted({card.project for card in all_cards}),
        harnesses=[(name, get_harness_title(name)) for name in sorted({c.harness for c in all_cards})],
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
