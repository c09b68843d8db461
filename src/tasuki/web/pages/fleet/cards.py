"""The cards of the fleet: what an operator sees of agents and handoffs, in order of need."""

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import sqlalchemy as sa
from msgspec import Struct

from tasuki.draft.redact.redactor import Redactor
from tasuki.fleet.agents.personas import find_later_agent
from tasuki.fleet.handoff import workflow
from tasuki.fleet.service import Fleet
from tasuki.fleet.store import tables
from tasuki.fleet.store.agent_question import AgentQuestion
from tasuki.fleet.store.models import FleetAgent, FleetHandoff, Persona, WorkSummary, describe_stuck
from tasuki.fleet.store.queries import list_agent_handoffs, list_recent_agents, load_personas
from tasuki.web.pages.agent.actions import ActionFacts, Place, Step, list_actions
from tasuki.web.views import display
from tasuki.web.views.display import StateBadge, get_harness_title
from tasuki.web.views.hosts import ShownHost, index_hosts, list_fleet_hosts
from tasuki.web.views.templates import format_mute, render_macro

RECENT_SECONDS = 86400.0
"""Seconds for which an agent that ended is still shown with the others."""
MOST_CARDS = 500
OTHER_HOSTS = "others"
"""The list of agents whose host has left the fleet."""
GROUPS = {"needs": "Needs you", "working": "Working", "quiet": "Quiet"}
_GROUPS = {"fail": "needs", "attn": "needs", "run": "working"}
"""The groups of cards by the tone of their states."""
_RANKS = {"fail": 0, "wait": 1, "ask": 2, "past": 3}
_QUIET = {"idle": 0, "end": 1}
MOST_SENTENCE_CHARACTERS = 300
HOST_AWAY = StateBadge("todo", "Host away", "rest")
"""The state of an agent whose host is away or off: it is kept, and goes on when the host is back."""


class ContextMeter(Struct, frozen=True):
    """How full a context is, in percent of its window; None where it is unknown."""

    used: float | None
    mark: float
    tokens: int | None = None
    window: int | None = None

    @property
    def past(self) -> bool:
        """Whether the threshold is crossed."""
        return self.used is not None and self.used >= self.mark


class ChainPlace(Struct, frozen=True):
    """The place of an agent in its chain."""

    number: int = 1
    of: int = 1


class AgentCard(ActionFacts, frozen=True, kw_only=True):
    """One agent as the fleet page shows it.

    `group` is needs, working or quiet; a lower `rank` comes first.
    """

    name: str
    since: float
    started_at: float
    where: tuple[str, ...]
    sentence: str
    step: str
    meter: ContextMeter
    last: str
    place: ChainPlace | None
    group: str
    rank: int
    project: str
    harness: str
    host: str = ""
    """The name of its host, where the fleet has several."""
    host_id: str = ""
    asleep: bool = False
    """Its host is away or off: nothing reaches it now."""
    work: WorkSummary | None = None
    """What it has changed."""
    role: str = ""
    """The role of its persona; empty for none."""
    has_thread: bool = False
    """Its session has begun, so there is a thread to read."""
    muted: str = ""
    """Until when its alerts are muted, in words; empty where they are not."""
    can_mute: bool = False
    """It has not ended, so that it may still raise alerts."""

    @property
    def initials(self) -> str:
        """The initials of its persona's role and name, or of its harness."""
        words = self.name.replace("-", " ").split()
        return "".join(word[0] for word in words[: 2 if self.role else 1]).upper()

    @property
    def title(self) -> str:
        """Its name, with its place among those of its persona: `developer-con-1 · 3 of 3`."""
        place = self.place if self.place and self.place.of > 1 else None
        return f"{self.name} · {place.number} of {place.of}" if place else self.name

    @property
    def is_past(self) -> bool:
        """Whether it is past its threshold, and can be handed off."""
        return self.is_full and self.can == "hand off"


class CardFacts(Struct, frozen=True):
    """The data for cards, read in one transaction."""

    agents: tuple[FleetAgent, ...]
    handoffs: Mapping[int, FleetHandoff]
    """The relevant handoff of each agent, by the agent's id."""
    personas: Mapping[str, Persona]
    places: Mapping[int, ChainPlace]
    threshold: float
    hosts: Mapping[str, ShownHost] = {}
    """By their ids; empty where the fleet has one."""


def build_cards(
    fleet: Fleet, ids: Iterable[int] | None = None, hosts: Sequence[ShownHost] | None = None
) -> list[AgentCard]:
    """Build the cards of some agents, or of all that work or ended within a day.

    Those that need the operator come first. `hosts` are those of the fleet, where they are known.
    """
    if hosts is None:
        hosts = list_fleet_hosts(fleet.database)
    facts = _load_facts(fleet, None if ids is None else set(ids), hosts)
    redactor = Redactor()
    built = [
        _build_card(agent, facts, redactor)
        for agent in facts.agents
        if ids is not None or not _is_succeeded(agent, facts)
    ]
    return sorted(built, key=_build_order)


@lru_cache(4 * MOST_CARDS)
def render_card(card: AgentCard, place: Place) -> str:
    """Render a card, or the row of a list for it; one that is as before is not rendered again."""
    return render_macro("macros.html", place, card, list_actions(card, place))


def _build_order(card: AgentCard) -> tuple[int, int, float]:
    """Build the sort key: agents that need the operator first, longest wait first.

    Then the newest.
    """
    needs_operator = card.group == "needs"
    return tuple(GROUPS).index(card.group), card.rank, card.since if needs_operator else -card.since


def _is_succeeded(agent: FleetAgent, facts: CardFacts) -> bool:
    """Whether an agent has ended and its successor works on: its chain shows it."""
    handoff = facts.handoffs.get(agent.id)
    return agent.ended_at is not None and handoff is not None and handoff.state == "done"


def _load_facts(fleet: Fleet, ids: set[int] | None, hosts: Sequence[ShownHost]) -> CardFacts:
    with fleet.database.read() as connection:
        since, limit = time.time() - RECENT_SECONDS, MOST_CARDS if ids is None else 0
        agents = list_recent_agents(connection, since=since, ids=ids, limit=limit)
        slugs = {agent.persona for agent in agents if agent.persona}
        handoffs = _select_handoffs(
            connection, list_agent_handoffs(connection, {agent.id for agent in agents})
        )
        personas = {persona.slug: persona for persona in load_personas(connection, slugs)}
        places = _find_places(connection, slugs)
    return CardFacts(tuple(agents), handoffs, personas, places, fleet.threshold, index_hosts(hosts))


def _select_handoffs(
    connection: sa.Connection, newest_first: list[FleetHandoff]
) -> dict[int, FleetHandoff]:
    """Select the handoff of each agent that matters now: no cancelled one, and no old failure."""
    selected: dict[int, FleetHandoff] = {}
    for handoff in newest_first:
        if handoff.state == "cancelled" or handoff.agent_id in selected:
            continue
        has_failed = handoff.state in ("failed", "uncertain")
        if not has_failed or find_later_agent(connection, handoff) is None:
            selected[handoff.agent_id] = handoff
    return selected


def _find_places(connection: sa.Connection, slugs: set[str]) -> dict[int, ChainPlace]:
    agents = tables.agents.c
    query = sa.select(agents.id, agents.previous_agent_id).where(agents.persona.in_(sorted(slugs)))
    number: dict[int, int] = {}
    first: dict[int, int] = {}
    longest: dict[int, int] = {}
    for id, before in connection.execute(query.order_by(agents.id)):
        number[id] = number.get(before, 0) + 1
        first[id] = first.get(before, id)
        longest[first[id]] = max(longest.get(first[id], 0), number[id])
    return {id: ChainPlace(number[id], longest[first[id]]) for id in number}


# -- one card --------------------------------------------------------------------------


def _build_card(agent: FleetAgent, facts: CardFacts, redactor: Redactor) -> AgentCard:
    harness = get_harness_title(agent.harness)
    handoff = facts.handoffs.get(agent.id)
    persona = facts.personas.get(agent.persona or "")
    own = persona.threshold if persona else None
    meter = ContextMeter(
        agent.context_used, facts.threshold if own is None else own, agent.context_tokens,
        agent.context_window,
    )  # fmt: skip
    shown = display.get_agent_shape(agent, handoff, is_past=meter.past)
    since, sentence = _describe_state(agent, handoff, shown)
    host = facts.hosts.get(agent.host)
    has_failed = shown.tone == "fail" or shown.word == "Handoff uncertain"
    asleep = host is not None and host.is_asleep and agent.ended_at is None
    if host and asleep and not has_failed:
        sentence = f"{host.label} is {host.shown.word.lower()}. Before that: {shown.word[:1].lower()}{shown.word[1:]}."
        shown, since = HOST_AWAY, host.since or since
    question = _choose_question(agent, shown)
    group = "needs" if question else _GROUPS.get(shown.tone, "quiet")
    project = os.path.basename(agent.cwd.rstrip("/")) or agent.cwd
    place_words = [harness if agent.persona else "No persona", project]
    place_words += [host.label] if host else []
    return AgentCard(
        id=agent.id, name=display.format_agent_name(agent), shown=shown, since=since,
        started_at=agent.started_at, where=tuple(redactor.redact(word) for word in place_words),
        sentence=redactor.redact_line(sentence, MOST_SENTENCE_CHARACTERS),
        step=_format_step(handoff) if handoff and shown is display.HANDING_OFF else "",
        meter=meter, is_full=meter.past, is_own=is_managed(agent) and agent.ended_at is None,
        last=agent.last_words, place=facts.places.get(agent.id) if agent.persona else None,
        group=group, rank=_RANKS.get(shown.icon, _QUIET.get(shown.icon, 5)),
        handoff=handoff.id if handoff else "", project=redactor.redact(project),
        harness=agent.harness,
        can=_get_thread_step(agent) if shown is HOST_AWAY else _choose_step(agent, handoff, facts.places.get(agent.id)),
        host=host.label if host else "", host_id=agent.host, asleep=asleep,
        role=persona.role if persona else "", question=question, work=agent.changes,
        has_thread=bool(agent.session),
        muted=format_mute(agent.muted_until) if agent.ended_at is None else "",
        can_mute=agent.ended_at is None,
    )  # fmt: skip


def _describe_state(
    agent: FleetAgent, handoff: FleetHandoff | None, shown: StateBadge
) -> tuple[float, str]:
    """Describe since when the state of an agent lasts, and what that means, in a sentence."""
    if handoff and handoff.state in ("failed", "uncertain"):
        step, failure = display.get_step_name(handoff), handoff.failure
        since = handoff.finished_at or handoff.created_at
        return since, f"{step}: {failure.sentence}" if failure else ""
    if handoff and handoff.state == "running":
        return handoff.created_at, ""
    if handoff and shown is display.HANDED_OFF:
        to = f" to agent {handoff.successor_id}" if handoff.successor_id else ""
        return agent.state_at, f"Handed off{to}."
    if shown is display.PAST_THRESHOLD:
        return agent.state_at, "Idle since its turn ended."
    return agent.state_at, _describe_activity(agent)


def _describe_activity(agent: FleetAgent) -> str:
    if agent.state == "waiting":
        return agent.waiting_for or "It asks something in its terminal."
    if agent.state in ("limited", "failed"):
        return agent.failure.text if agent.failure else agent.limit_text
    if agent.state == "stuck":
        return describe_stuck(agent.stuck_with)
    if agent.state in ("ended", "lost"):
        return display.describe_end(agent.end_reason)
    if agent.children:
        count = len(agent.children)
        return f"{count} in the background: {agent.children[0]}"
    if agent.state == "idle":
        return "Ready for a prompt"
    if agent.state == "busy":
        command = agent.changes.command if agent.changes else ""
        return f"Runs {command}" if command else "Works on a prompt"
    return "Its program is being started" if agent.state == "starting" else ""


def _choose_question(agent: FleetAgent, shown: StateBadge) -> AgentQuestion | None:
    """Choose the question that a card shows, also in the middle of a handoff.

    None where its agent cannot be answered from here.
    """
    is_shown = shown is display.HANDING_OFF or shown.icon == "wait"
    if agent.question is None or agent.state != "waiting" or not is_managed(agent) or not is_shown:
        return None
    return agent.question


def is_managed(agent: FleetAgent) -> bool:
    """Whether tasuki started or adopted an agent, so that it may type to it."""
    return agent.ordered_at is not None or agent.adopted


def _format_step(handoff: FleetHandoff) -> str:
    order = workflow.find_shape(handoff).list_steps()
    number = order.index(handoff.step) + 1 if handoff.step in order else len(order)
    return f"Step {number} of {len(order)}: {display.get_step_name(handoff).lower()}"


def _choose_step(agent: FleetAgent, handoff: FleetHandoff | None, place: ChainPlace | None) -> Step:
    """Choose what is next for an agent."""
    if handoff and handoff.state in ("failed", "uncertain"):
        return "open"
    if handoff and handoff.state == "running":
        return "follow"
    if not agent.persona:
        return _get_thread_step(agent)
    if agent.ended_at is None:
        return "hand off"
    is_last = place is None or place.number == place.of
    return "from thread" if handoff is None and is_last else _get_thread_step(agent)


def _get_thread_step(agent: FleetAgent) -> Step:
    return "thread" if agent.session else ""
