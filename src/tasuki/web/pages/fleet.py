"""The fleet: a card for each agent, who needs the operator first."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any
from urllib.parse import urlencode

from litestar import get
from litestar.di import NamedDependency
from litestar.params import FromQuery, QueryParameter
from msgspec import Struct

from tasuki import harness as harnesses
from tasuki.fleet.lost_agents import find_lost_agents
from tasuki.fleet.service import Fleet
from tasuki.web.pages import alert_list, cards, frame
from tasuki.web.pages.cards import GROUPS, Card
from tasuki.web.pages.frame import Asked, Page

TABS = (("", "All"), ("needs", "Needs you"), ("working", "Working"), ("quiet", "Quiet"))
FIRST = 40
"""Cards of the first page; the others follow once they are scrolled to, or are asked for."""
MOST_IDS = 4000
"""Characters of the ids of those."""
Word = Annotated[str, QueryParameter(max_length=200)]


@get("/", sync_to_thread=True, include_in_schema=False)
def fleet_page(
    request: Asked,
    fleet: NamedDependency[Fleet],
    show: FromQuery[str] = "",
    q: Word = "",
    project: Word = "",
    harness: Word = "",
    whole: FromQuery[bool] = False,
) -> Page:
    """The cards of agents that run or ended within a day; `whole`: all of them at once."""
    found = cards.cards(fleet)
    wanted = [card for card in found if _matches(card, q, project, harness)]
    kept = [card for card in wanted if not show or card.group == show]
    others = {name: value for name, value in (("q", q), ("project", project), ("harness", harness)) if value}  # fmt: skip
    count = Counter(card.group for card in wanted)
    return frame.page(
        request, "fleet.html", live="fleet",
        counts=_counts(found),
        tabs=[(_address(key, others), word, count[key] if key else len(wanted)) for key, word in TABS],
        tab=next((n for n, (key, _) in enumerate(TABS) if key == show), 0),
        groups=_grouped(kept, len(kept) if whole else FIRST),
        newest_agent=max((card.id for card in found), default=0),
        is_filtered=bool(show or others), shown=len(kept), here=_address(show, others),
        show=show, q=q, project=project, harness=harness,
        projects=sorted({card.project for card in found}),
        harnesses=[(name, harnesses.get(name).title) for name in sorted({c.harness for c in found})],
        alerts=alert_list.newest(fleet.database),
        lost=len(find_lost_agents(fleet.database, fleet.panes, fleet.host)),
    )  # fmt: skip


@get("/summary", sync_to_thread=True, include_in_schema=False)
def summary(request: Asked, fleet: NamedDependency[Fleet]) -> Page:
    """How many agents there are, and how many need the operator."""
    return frame.page(request, "summary.html", counts=_counts(cards.cards(fleet)))


@get("/cards", sync_to_thread=True, include_in_schema=False)
def more_cards(
    request: Asked,
    fleet: NamedDependency[Fleet],
    ids: Annotated[str, QueryParameter(max_length=MOST_IDS)],
) -> Page:
    """The cards that a page did not show at first, as items of its list."""
    wanted = {int(id) for id in ids.split(",") if id.isdigit() and len(id) < 10}
    return frame.page(request, "cards.html", cards=cards.cards(fleet, wanted))


class Group(Struct, frozen=True):
    """A list of cards, and the ids of those that are not shown at first."""

    key: str
    word: str
    cards: list[Card]
    rest: list[int]

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.cards) + len(self.rest)


def _grouped(kept: Sequence[Card], first: int) -> list[Group]:
    shown = {card.id for card in kept[:first]}
    made = []
    for key, word in GROUPS.items():
        found = [card for card in kept if card.group == key]
        rest = [card.id for card in found if card.id not in shown]
        made.append(Group(key, word, [card for card in found if card.id in shown], rest))
    return made


def _matches(card: Card, q: str, project: str, harness: str) -> bool:
    text = " ".join((card.name, *card.where, card.sentence, card.last)).casefold()
    words = q.casefold().split()
    of_project = not project or card.project == project
    return of_project and harness in ("", card.harness) and all(word in text for word in words)


def _address(show: str, others: dict[str, str]) -> str:
    query = urlencode({**({"show": show} if show else {}), **others})
    return f"/?{query}" if query else "/"


def _counts(found: Sequence[Card]) -> dict[str, Any]:
    needs = [card for card in found if card.group == "needs"]
    return {
        "agents": len(found),
        "projects": len({card.project for card in found}),
        "needs": len(needs),
        "failed": sum(card.shown.tone == "fail" for card in needs),
    }
