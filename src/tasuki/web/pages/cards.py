"""The cards of the fleet: what of agents, handoffs and chains one looks at, and who comes first."""

import os
import time
from collections.abc import Iterable, Mapping

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import replace

from tasuki import harness as harnesses
from tasuki.draft.redact import Redactor
from tasuki.fleet import tables, workflow
from tasuki.fleet.reading import handoffs_of_in, personas_in, recent_agents_in
from tasuki.fleet.rows import Agent, FleetHandoff, Persona
from tasuki.fleet.service import Fleet
from tasuki.fleet.vacancies import worked_since
from tasuki.web.pages import shapes
from tasuki.web.pages.shapes import Shown

RECENT = 86400.0
"""Seconds for which an agent that ended is still among the others."""
MOST = 500
GROUPS = {"needs": "Needs you", "working": "Working", "quiet": "Quiet"}
_RANKS = {"fail": 0, "ask": 1, "wait": 2, "past": 3}
_QUIET = {"idle": 0, "end": 1}
LONGEST = 300


class Meter(Struct, frozen=True):
    """How full a context is, in percent of its window; None where nobody told."""

    used: float | None
    mark: float
    tokens: int | None = None
    window: int | None = None

    @property
    def past(self) -> bool:
        """Whether the threshold is passed."""
        return self.used is not None and self.used >= self.mark


class Place(Struct, frozen=True):
    """The place of an agent among those that succeeded one another."""

    number: int = 1
    of: int = 1


class Card(Struct, frozen=True):
    """One agent as it is looked at. `group` is needs, working or quiet; a lower `rank` comes first."""

    id: int
    name: str
    shown: Shown
    since: float
    started_at: float
    where: tuple[str, ...]
    sentence: str
    step: str
    meter: Meter
    last: str
    place: Place | None
    group: str
    rank: int
    handoff: str
    project: str
    harness: str
    can: str
    """Its button: open, follow, hand off, thread, or nothing."""


class Known(Struct, frozen=True):
    """What cards are made of, read in one transaction."""

    agents: tuple[Agent, ...]
    handoffs: Mapping[int, FleetHandoff]
    """The one that matters of each agent, by the agent's id."""
    personas: Mapping[str, Persona]
    places: Mapping[int, Place]
    threshold: float


def cards(fleet: Fleet, ids: Iterable[int] | None = None) -> list[Card]:
    """The cards of some agents, or of all that work or ended within a day: who needs you first."""
    known = _known(fleet, None if ids is None else set(ids))
    redactor = Redactor()
    made = [
        _card(agent, known, redactor)
        for agent in known.agents
        if ids is not None or not _is_succeeded(agent, known)
    ]
    return sorted(made, key=_order)


def _order(card: Card) -> tuple[int, int, float]:
    """Who needs the operator comes first, and of those who has waited for longest; of others the newest."""
    waits = card.group == "needs"
    return tuple(GROUPS).index(card.group), card.rank, card.since if waits else -card.since


def _is_succeeded(agent: Agent, known: Known) -> bool:
    """Whether an agent has ended and its successor works on: its chain tells of it."""
    of = known.handoffs.get(agent.id)
    return agent.ended_at is not None and of is not None and of.state == "done"


def _known(fleet: Fleet, ids: set[int] | None) -> Known:
    with fleet.database.read() as connection:
        if ids is None:
            found = recent_agents_in(connection, since=time.time() - RECENT, limit=MOST)
        else:
            found = recent_agents_in(connection, ids=ids)
        slugs = {agent.persona for agent in found if agent.persona}
        handoffs = _matter(connection, handoffs_of_in(connection, {agent.id for agent in found}))
        personas = {persona.slug: persona for persona in personas_in(connection, slugs)}
        places = _places(connection, slugs)
    return Known(tuple(found), handoffs, personas, places, fleet.threshold)


def _matter(connection: sa.Connection, newest_first: list[FleetHandoff]) -> dict[int, FleetHandoff]:
    """The handoff of each agent that says something of it now: no cancelled one, and no old failure."""
    found: dict[int, FleetHandoff] = {}
    for of in newest_first:
        if of.state == "cancelled" or of.agent_id in found:
            continue
        is_old = of.state in ("failed", "uncertain") and worked_since(connection, of) is not None
        if not is_old:
            found[of.agent_id] = of
    return found


def _places(connection: sa.Connection, slugs: set[str]) -> dict[int, Place]:
    agents = tables.agents.c
    query = (
        sa.select(agents.id, agents.previous_agent_id)
        .where(agents.persona.in_(sorted(slugs)))
        .order_by(agents.id)
    )
    number: dict[int, int] = {}
    first: dict[int, int] = {}
    longest: dict[int, int] = {}
    for id, before in connection.execute(query):
        number[id] = number.get(before, 0) + 1
        first[id] = first.get(before, id)
        longest[first[id]] = max(longest.get(first[id], 0), number[id])
    return {id: Place(number[id], longest[first[id]]) for id in number}


# -- one card --------------------------------------------------------------------------


def _card(agent: Agent, known: Known, redactor: Redactor) -> Card:
    harness = harnesses.get(agent.harness).title
    of = known.handoffs.get(agent.id)
    persona = known.personas.get(agent.persona or "")
    own = persona.threshold if persona else None
    meter = Meter(
        agent.context_used, known.threshold if own is None else own, agent.context_tokens,
        agent.context_window,
    )  # fmt: skip
    shown, since, sentence = _state(agent, of, meter)
    group = _group(shown)
    project = os.path.basename(agent.cwd.rstrip("/")) or agent.cwd
    who = () if agent.persona else ("No persona",)
    where = (*who, harness, project) if agent.persona else ("No persona", project)
    return Card(
        id=agent.id,
        name=shapes.name_of(agent, harness),
        shown=shown,
        since=since,
        started_at=agent.started_at,
        where=tuple(redactor.redact(word) for word in where),
        sentence=redactor.redact(sentence[:LONGEST]),
        step=_step(of) if of and shown is shapes.HANDING_OFF else "",
        meter=meter,
        last=agent.last_words,
        place=known.places.get(agent.id) if agent.persona else None,
        group=group,
        rank=_RANKS.get(shown.icon, _QUIET.get(shown.icon, 5)),
        handoff=of.id if of else "",
        project=redactor.redact(project),
        harness=agent.harness,
        can=_can(agent, of, known.places.get(agent.id)),
    )


def _state(agent: Agent, of: FleetHandoff | None, meter: Meter) -> tuple[Shown, float, str]:
    """How an agent stands, since when, and a sentence about that."""
    if of and of.state in ("failed", "uncertain"):
        shown = shapes.OF_HANDOFF[of.state]
        said = f"{shapes.failed_step(of)}: {of.failure.sentence}" if of.failure else ""
        word = "Handoff failed" if of.state == "failed" else "Handoff uncertain"
        return replace(shown, word=word), of.finished_at or of.created_at, said
    if of and of.state == "running":
        return shapes.HANDING_OFF, of.created_at, ""
    if of and of.state == "done" and agent.ended_at is not None:
        said = f"Handed off to agent {of.successor_id}." if of.successor_id else "Handed off."
        return replace(shapes.OF_AGENT["ended"], word="Handed off"), agent.state_at, said
    if agent.state == "idle" and meter.past and agent.persona:
        return shapes.PAST, agent.state_at, "Idle since its turn ended."
    return shapes.OF_AGENT[agent.state], agent.state_at, _doing(agent)


def _doing(agent: Agent) -> str:
    if agent.state == "waiting":
        return agent.waiting_for or "It asks something in its pane."
    if agent.state in ("ended", "lost"):
        said = agent.end_reason
        return f"{said[:1].upper()}{said[1:]}".rstrip(".") + "." if said else ""
    if agent.children:
        count = len(agent.children)
        return f"{count} in the background: {agent.children[0]}"
    if agent.state == "idle":
        return "Ready for a prompt"
    if agent.state == "busy":
        return "Works on a prompt"
    return "Its program is being started" if agent.state == "starting" else ""


def _step(of: FleetHandoff) -> str:
    order = workflow.steps(from_thread=of.from_thread)
    number = order.index(of.step) + 1 if of.step in order else len(order)
    return f"Step {number} of {len(order)}: {shapes.failed_step(of).lower()}"


def _group(shown: Shown) -> str:
    if shown.tone in ("fail", "attn"):
        return "needs"
    return "working" if shown.tone == "run" else "quiet"


def _can(agent: Agent, of: FleetHandoff | None, place: Place | None) -> str:
    """What its button does."""
    if of and of.state in ("failed", "uncertain"):
        return "open"
    if of and of.state == "running":
        return "follow"
    if not agent.persona:
        return "thread"
    if agent.ended_at is None:
        return "hand off"
    is_last = place is None or place.number == place.of
    return "from thread" if of is None and is_last else "thread"
