"""The fleet page: a card for each agent, those that need the operator first; and its alerts."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any
from urllib.parse import urlencode

from litestar import get, post
from litestar.di import NamedDependency
from litestar.params import FromQuery, QueryParameter
from msgspec import Struct

from tasuki.fleet import alerts
from tasuki.fleet.agents.agent_ends import find_lost_agents
from tasuki.fleet.service import Fleet
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.models import OperatorAlert
from tasuki.fleet.store.queries import GREATEST_ID
from tasuki.harness import registry as harnesses
from tasuki.web.api import bodies
from tasuki.web.api.bodies import SeenAlerts
from tasuki.web.pages.fleet import cards
from tasuki.web.pages.fleet.cards import GROUPS, OTHER_HOSTS, AgentCard
from tasuki.web.views import display, templates
from tasuki.web.views.display import StateBadge
from tasuki.web.views.hosts import ShownHost, list_fleet_hosts
from tasuki.web.views.templates import AnyRequest, PageResponse

TABS = (("", "All"), ("needs", "Needs you"), ("working", "Working"), ("quiet", "Quiet"))
FIRST_CARDS = 40
"""Cards of the first page; the others follow when they are scrolled to, or requested."""
MOST_IDS_CHARACTERS = 4000
"""Most characters of the ids of the other cards."""
WordQuery = Annotated[str, QueryParameter(max_length=200)]


@get("/", sync_to_thread=True, include_in_schema=False)
def show_fleet(
    request: AnyRequest,
    fleet: NamedDependency[Fleet],
    show: FromQuery[str] = "",
    q: WordQuery = "",
    project: WordQuery = "",
    harness: WordQuery = "",
    host: WordQuery = "",
    whole: FromQuery[bool] = False,
) -> PageResponse:
    """Show the cards of agents that run or ended within a day; `whole`: all of them at once."""
    hosts = list_fleet_hosts(fleet.database)
    all_cards = cards.build_cards(fleet, hosts=hosts)
    matching = [
        card
        for card in all_cards
        if _matches(card, q, project, harness) and host in ("", card.host_id)
    ]
    visible = [card for card in matching if not show or card.group == show]
    filters = (("q", q), ("project", project), ("harness", harness), ("host", host))
    others = {name: value for name, value in filters if value}
    listed_hosts = [one for one in hosts if one.id == host or not (host or others or show)]
    count = Counter(card.group for card in matching)
    return templates.render_page(
        request, "fleet.html", live="fleet",
        counts=_count_cards(all_cards),
        tabs=[(_build_address(key, others), word, count[key] if key else len(matching)) for key, word in TABS],
        tab=next((n for n, (key, _) in enumerate(TABS) if key == show), 0),
        groups=_group_cards(visible, len(visible) if whole else FIRST_CARDS, hosts, listed_hosts),
        newest_agent=max((card.id for card in all_cards), default=0),
        is_filtered=bool(show or others), shown=len(visible), here=_build_address(show, others),
        show=show, q=q, project=project, harness=harness, host=host, hosts=hosts,
        projects=sorted({card.project for card in all_cards}),
        harnesses=[(name, harnesses.get_harness(name).title) for name in sorted({c.harness for c in all_cards})],
        alerts=list_alerts(fleet.database),
        lost=len(find_lost_agents(fleet.database, fleet.panes, fleet.host)),
    )  # fmt: skip


@get("/summary", sync_to_thread=True, include_in_schema=False)
def show_summary(request: AnyRequest, fleet: NamedDependency[Fleet]) -> PageResponse:
    """Show how many agents there are, and how many need the operator."""
    return templates.render_page(
        request, "summary.html", counts=_count_cards(cards.build_cards(fleet))
    )


@get("/cards", sync_to_thread=True, include_in_schema=False)
def show_more_cards(
    request: AnyRequest,
    fleet: NamedDependency[Fleet],
    ids: Annotated[str, QueryParameter(max_length=MOST_IDS_CHARACTERS)],
) -> PageResponse:
    """Show the cards that a page did not show at first, as items of its list."""
    card_ids = {int(id) for id in ids.split(",") if id.isdigit() and len(id) < 10}
    return templates.render_page(request, "cards.html", cards=cards.build_cards(fleet, card_ids))


class CardGroup(Struct, frozen=True):
    """A list of cards, and the ids of those that are not shown at first."""

    key: str
    word: str
    cards: list[AgentCard]
    rest: list[int]
    host: ShownHost | None = None
    """The host of its agents; None where the list is not of one host."""
    is_listed: bool = False
    """It is shown although it has no cards."""

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.cards) + len(self.rest)

    @property
    def is_shown(self) -> bool:
        """Whether it is shown now."""
        return self.is_listed or self.count > 0


def _group_cards(
    visible: Sequence[AgentCard],
    first: int,
    hosts: Sequence[ShownHost],
    listed_hosts: Sequence[ShownHost],
) -> list[CardGroup]:
    """Group cards: with one host by their state, with several those that need nobody by host."""
    first_ids = {card.id for card in visible[:first]}
    groups = []
    for key, word, host in _list_groups(hosts):
        group_cards = [card for card in visible if card.list == key]
        rest = [card.id for card in group_cards if card.id not in first_ids]
        cards_shown = [card for card in group_cards if card.id in first_ids]
        groups.append(CardGroup(key, word, cards_shown, rest, host, host in listed_hosts))
    return groups


def _list_groups(hosts: Sequence[ShownHost]) -> list[tuple[str, str, ShownHost | None]]:
    """List the groups of cards by key and heading."""
    if not hosts:
        return [(key, word, None) for key, word in GROUPS.items()]
    of_hosts = [(host.id, host.label, host) for host in hosts]
    return [("needs", GROUPS["needs"], None), *of_hosts, (OTHER_HOSTS, "Hosts that left", None)]


def _matches(card: AgentCard, q: str, project: str, harness: str) -> bool:
    text = " ".join((card.name, *card.where, card.sentence, card.last)).casefold()
    words = q.casefold().split()
    of_project = not project or card.project == project
    return of_project and harness in ("", card.harness) and all(word in text for word in words)


def _build_address(show: str, others: dict[str, str]) -> str:
    query = urlencode({**({"show": show} if show else {}), **others})
    return f"/?{query}" if query else "/"


def _count_cards(all_cards: Sequence[AgentCard]) -> dict[str, Any]:
    needs = [card for card in all_cards if card.group == "needs"]
    return {
        "agents": len(all_cards),
        "projects": len({card.project for card in all_cards}),
        "needs": len(needs),
        "failed": sum(card.shown.tone == "fail" for card in needs),
    }


MOST_LISTED = 12
SENT_WORDS = {
    "due": "not sent yet", "sending": "being sent", "sent": "sent", "quiet": "",
    "not_sent": "not sent", "uncertain": "not known whether it was sent",
}  # fmt: skip


def list_alerts(
    database: FleetDatabase, limit: int = MOST_LISTED, before: int | None = None
) -> list[tuple[OperatorAlert, StateBadge, str]]:
    """List the newest alerts, each with its shape and the state of its notification."""
    return [
        (alert, display.ALERT_SHAPES[alert.kind], SENT_WORDS[alert.state])
        for alert in alerts.list_newest_alerts(database, limit, before)
    ]


ALERTS_AT_ONCE = 100


@get("/alerts", sync_to_thread=True, include_in_schema=False)
def show_alerts(
    request: AnyRequest,
    fleet: NamedDependency[Fleet],
    before: Annotated[int | None, QueryParameter(ge=1, le=GREATEST_ID)] = None,
) -> PageResponse:
    """Show alerts, newest first."""
    listed = list_alerts(fleet.database, ALERTS_AT_ONCE, before)
    return templates.render_page(
        request, "alerts.html", alerts=listed, before=before,
        newest_alert=max((alert.id for alert, _, _ in listed), default=0),
        older=listed[-1][0].id if len(listed) == ALERTS_AT_ONCE else None,
    )  # fmt: skip


@post("/alerts/seen", sync_to_thread=True, include_in_schema=False)
def mark_seen(
    request: AnyRequest, fleet: NamedDependency[Fleet], form: NamedDependency[dict[str, str]]
) -> PageResponse:
    """Mark alerts as seen by the operator."""
    alerts.mark_seen(
        fleet.database, bodies.fill_body(SeenAlerts, {"up_to": form.get("up_to", "")}).up_to
    )
    return templates.redirect(request, "/alerts")


HANDLERS = (show_alerts, mark_seen)
