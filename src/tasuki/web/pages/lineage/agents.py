"""The chains of agents for drawings and tables, from what the fleet and the threads know."""

import time
from collections.abc import Collection, Mapping, Sequence

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import replace

from tasuki.draft.redact.redactor import Redactor
from tasuki.fleet.service import Fleet
from tasuki.fleet.store import queries, tables
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.models import FleetAgent, FleetHandoff, Persona
from tasuki.fleet.store.queries import LineageChain, LineageLink
from tasuki.text_safety import clean_for_display, shorten_to_line
from tasuki.web.pages.lineage.diagram import (
    ChainFork,
    ChainStrand,
    HandoffCut,
    Point,
    ThreadStretch,
)
from tasuki.web.pages.threads.files import READ_SECONDS, ThreadSize, ThreadSizeCache
from tasuki.web.views import display
from tasuki.web.views.display import StateBadge
from tasuki.web.views.templates import (
    format_day,
    format_duration,
    format_percent,
    format_plural,
    format_reason,
    get_harness_title,
)

MOST_MEASURED = 50_000
"""Most lines of the log that are read for one page, the newest."""
THREAD_SIZES = ThreadSizeCache()


class ChainRow(Struct, frozen=True):
    """An agent and the handoff at its end, as a line of the table."""

    place: str
    thread: str
    """The address of its thread."""
    title: str
    id: str
    entries: int | None
    used: float | None
    past: bool
    why: str
    state: StateBadge | None
    """The state of the agent or its handoff, unless the chain has gone on."""
    handoff: str
    handoff_id: str
    cut_at: float | None
    acknowledged: str
    """After how long, or why not."""
    acknowledged_at: float | None = None


class ChainStory(Struct, frozen=True):
    """One chain: its drawing's data, its table, and when anything of it changed last."""

    key: str
    title: str
    summary: str
    changed_at: float
    strand: ChainStrand
    rows: tuple[ChainRow, ...]


class ChainFacts(Struct, frozen=True):
    """What the fleet knows of the agents of some chains."""

    ends: Mapping[int, FleetHandoff]
    """The handoff of each agent that has one, by its id."""
    measured: Mapping[int, Sequence[Point]]
    """(moment, percent) by the id of the agent, the oldest first."""
    compacted: Mapping[int, Sequence[float]]
    sizes: Mapping[int, ThreadSize]
    threshold: float


def build_stories(
    fleet: Fleet, persona: Persona, *, cwd: str = "", most_agents: int = 500
) -> list[ChainStory]:
    """Build the chains of a persona, last changed first; with `cwd` those that worked there.

    Of a chain with more agents than `most_agents` the newest. Threads on another host are not
    looked for.
    """
    chains = [
        LineageChain(chain.links[-most_agents:])
        for chain in queries.build_lineage(fleet.database, persona.slug)
        if not cwd or any(link.agent.cwd == cwd for link in chain.links)
    ]
    agents = [link.agent for chain in chains for link in chain.links]
    threshold = fleet.threshold if persona.threshold is None else persona.threshold
    facts = _load_facts(fleet, agents, threshold)
    return sorted((_build_story(c, facts) for c in chains), key=lambda s: -s.changed_at)


def list_projects(database: FleetDatabase) -> list[tuple[str, tuple[str, ...]]]:
    """List the folders in which personas worked, with their slugs, last changed first."""
    agents = tables.agents.c
    query = (
        sa.select(agents.cwd, agents.persona)
        .where(agents.persona.is_not(None))
        .group_by(agents.cwd, agents.persona)
        .order_by(sa.func.max(agents.state_at).desc())
    )
    slugs_by_folder: dict[str, list[str]] = {}
    with database.read() as connection:
        for cwd, slug in connection.execute(query):
            slugs_by_folder.setdefault(cwd, []).append(slug)
    return [(cwd, tuple(slugs)) for cwd, slugs in slugs_by_folder.items()]


def find_newest_persona(database: FleetDatabase) -> str:
    """Find the slug of the persona whose agents changed last; empty where none worked."""
    agents = tables.agents.c
    query = sa.select(agents.persona).where(agents.persona.is_not(None))
    with database.read() as connection:
        result = connection.execute(query.order_by(agents.state_at.desc()).limit(1))
        return result.scalar_one_or_none() or ""


# -- facts -----------------------------------------------------------------------------


def _load_facts(fleet: Fleet, agents: Sequence[FleetAgent], threshold: float) -> ChainFacts:
    ids = {agent.id for agent in agents}
    with fleet.database.read() as connection:
        handoffs = queries.list_agent_handoffs(connection, ids)
        measured, compacted = _load_measurements(connection, ids)
    ends: dict[int, FleetHandoff] = {}
    for handoff in handoffs:
        if handoff.state != "cancelled":
            ends.setdefault(handoff.agent_id, display.redact_row(handoff))
    until, sizes = time.monotonic() + READ_SECONDS, {}
    for agent in sorted(agents, key=lambda agent: -agent.id):
        is_local = agent.host == fleet.host and agent.thread
        if (
            is_local
            and (size := THREAD_SIZES.get_size(agent.harness, agent.thread, until)) is not None
        ):
            sizes[agent.id] = size
    return ChainFacts(ends, measured, compacted, sizes, threshold)


def _load_measurements(
    connection: sa.Connection, ids: Collection[int]
) -> tuple[dict[int, list[Point]], dict[int, list[float]]]:
    """Load context use and compactions as hooks reported them, by the agent's id.

    The log keeps 30 days.
    """
    events = tables.events.c
    used = events.data["used"].as_float()
    query = (
        sa.select(events.agent_id, events.at, events.kind, used)
        .where(events.agent_id.in_(sorted(ids)))
        .where(events.kind.in_(("context", "idle", "compacted")))
        .order_by(events.id.desc())
        .limit(MOST_MEASURED)
    )
    measured: dict[int, list[Point]] = {}
    compacted: dict[int, list[float]] = {}
    for id, at, kind, percent_used in reversed(connection.execute(query).all()):
        if kind == "compacted":
            compacted.setdefault(id, []).append(at)
        if percent_used is not None:
            measured.setdefault(id, []).append((at, percent_used))
    return measured, compacted


# -- one chain -------------------------------------------------------------------------


def _build_story(chain: LineageChain, facts: ChainFacts) -> ChainStory:
    main, others = _split_branches(chain.links)
    describer = _AgentDescriber(facts, len(main))
    places = {link.agent.id: n for n, link in enumerate(main)}
    forks = [
        ChainFork(
            _find_place(path[0], places, chain.links),
            tuple(describer.build_stretch(link) for link in path),
            _format_fork(path[0]),
        )
        for path in others
    ]
    agents = [link.agent for link in chain.links]
    persona = agents[0].persona or ""
    strand = ChainStrand(
        persona,
        tuple(describer.build_stretch(link, n) for n, link in enumerate(main, 1)),
        tuple(forks),
        facts.threshold,
    )
    rows = [describer.build_row(link, str(n)) for n, link in enumerate(main, 1)]
    rows += [describer.build_row(link, "fork") for path in others for link in path]
    return ChainStory(
        key=str(agents[0].id),
        title=persona,
        summary=_format_summary(agents, facts, len(forks), describer.redactor),
        changed_at=max(_find_changed_at(agent, facts) for agent in agents),
        strand=strand,
        rows=tuple(rows),
    )


def _split_branches(
    links: Sequence[LineageLink],
) -> tuple[list[LineageLink], list[list[LineageLink]]]:
    """Split the agents that became the chain from each line of others."""
    by_id = {link.agent.id: link for link in links}
    successors: dict[int, list[LineageLink]] = {}
    for link in links[1:]:
        successors.setdefault(link.agent.previous_agent_id or 0, []).append(link)
    main = _follow_path(links[0], successors)
    taken_ids = {link.agent.id for link in main}
    others = []
    for link in by_id.values():
        if link.agent.id not in taken_ids:
            path = _follow_path(link, successors)
            taken_ids |= {one.agent.id for one in path}
            others.append(path)
    return main, others


def _follow_path(
    first: LineageLink, successors: Mapping[int, Sequence[LineageLink]]
) -> list[LineageLink]:
    path = [first]
    while True:
        candidates = [link for link in successors.get(path[-1].agent.id, ()) if link.took_over]
        if not candidates:
            return path
        path.append(candidates[-1])


def _find_place(link: LineageLink, places: Mapping[int, int], links: Sequence[LineageLink]) -> int:
    """Find the place in the chain at whose end a line of others begins."""
    before = {one.agent.id: one.agent.previous_agent_id for one in links}
    id = link.agent.previous_agent_id
    while id is not None and id not in places:
        id = before.get(id)
    return places.get(id, 0) if id is not None else 0


def _format_fork(link: LineageLink) -> tuple[str, str]:
    note = "" if link.took_over else ", did not take over"
    handoff = link.handoff
    origin = f"from handoff {handoff.id[:8]}" if handoff else f"after agent {link.agent.previous_agent_id}"  # fmt: skip
    return f"Agent {link.agent.id}{note}", origin


def _format_summary(
    agents: Sequence[FleetAgent], facts: ChainFacts, forks: int, redactor: Redactor
) -> str:
    handoffs = sum(agent.id in facts.ends for agent in agents)
    counts = [format_plural(len(agents), "agent"), format_plural(handoffs, "handoff")]
    if forks:
        counts.append(format_plural(forks, "fork"))
    folders = list(dict.fromkeys(agent.cwd for agent in agents))
    folder = redactor.redact(shorten_to_line(folders[-1], 200))
    more = f" and {format_plural(len(folders) - 1, 'other folder')}" if len(folders) > 1 else ""
    origin = agents[0].forked_from
    forked = f", forked from agent {origin}" if origin is not None else ""
    return (
        f"{', '.join(counts)} since {format_day(agents[0].started_at)} in {folder}{more}{forked}."
    )


def _find_changed_at(agent: FleetAgent, facts: ChainFacts) -> float:
    handoff = facts.ends.get(agent.id)
    return max(agent.state_at, agent.context_at or 0.0, (handoff.finished_at or handoff.created_at) if handoff else 0.0)  # fmt: skip


class _AgentDescriber:
    """Describes each agent of a chain."""

    def __init__(self, facts: ChainFacts, count: int) -> None:
        self.facts = facts
        self.count = count
        self.redactor = Redactor()

    def build_stretch(self, link: LineageLink, number: int = 0) -> ThreadStretch:
        """Build the thread of an agent for the drawing; `number` is its place, 0 in a fork."""
        agent = link.agent
        size = self.facts.sizes.get(agent.id)
        title, short, when = get_harness_title(agent.harness), clean_for_display(agent.session[:8]), format_day(agent.started_at)  # fmt: skip
        entries = size.entries if size else None
        facts = format_plural(entries, "entry", "entries") if entries is not None else ""
        title_words = f"Thread {number} of {self.count}" if number else f"Fork, agent {agent.id}"
        used = format_percent(agent.context_used)
        end = "now" if agent.ended_at is None else "at its end"
        ends = time.time() if agent.ended_at is None else agent.ended_at
        return ThreadStretch(
            href=_build_thread_address(agent),
            name=f"{title_words}, {title} {short}, {when}, {facts or 'entries not known'}, context {used} {end}",
            words=(title, short, f"{when}, {facts}" if facts else when),
            entries=entries,
            seconds=max(ends - agent.started_at, 0.0),
            points=_build_points(agent, self.facts, size, ends),
            compactions=_list_compactions(agent, self.facts, size, ends),
            works=agent.ended_at is None,
            used=agent.context_used,
            cut=self._build_cut(agent, number),
        )

    def _build_cut(self, agent: FleetAgent, number: int) -> HandoffCut | None:
        handoff = self.facts.ends.get(agent.id)
        if handoff is None:
            return None
        reason_words, used = format_reason(handoff.reason), format_percent(agent.context_used)
        state = (
            ""
            if handoff.state == "done"
            else f", {display.HANDOFF_SHAPES[handoff.state].word.lower()}"
        )
        title_words = f"Handoff {number} of {self.count}" if number else "Handoff"
        return HandoffCut(
            href=f"/handoffs/{handoff.id}",
            name=f"{title_words}, {handoff.id[:8]}{state}: {reason_words}, context {used}",
            used=agent.context_used,
            past=self._is_past(agent),
            why=f"handoff{state.replace(',', '')}" if state else reason_words,
        )

    def build_row(self, link: LineageLink, place: str) -> ChainRow:
        """Build the same as a line of the table."""
        agent = link.agent
        handoff = self.facts.ends.get(agent.id)
        size = self.facts.sizes.get(agent.id)
        state = display.get_agent_shape(agent) if handoff is None else None
        if handoff is not None and handoff.state != "done":
            state = display.HANDOFF_SHAPES[handoff.state]
            state = replace(state, word=f"Handoff {state.word.lower()}")
        return ChainRow(
            place=place,
            thread=_build_thread_address(agent),
            title=get_harness_title(agent.harness),
            id=clean_for_display(agent.session[:8]),
            entries=size.entries if size else None,
            used=agent.context_used,
            past=self._is_past(agent),
            why=format_reason(handoff.reason)
            if handoff
            else self.redactor.redact(shorten_to_line(agent.end_reason, 120)),
            state=state,
            handoff=f"/handoffs/{handoff.id}" if handoff else "",
            handoff_id=handoff.id[:8] if handoff else "",
            cut_at=(handoff.recorded_at or handoff.created_at) if handoff else None,
            acknowledged=_format_acknowledgement(handoff),
            acknowledged_at=handoff.acknowledged_at if handoff else None,
        )

    def _is_past(self, agent: FleetAgent) -> bool:
        return agent.context_used is not None and agent.context_used >= self.facts.threshold


def _format_acknowledgement(handoff: FleetHandoff | None) -> str:
    if handoff is None:
        return "not due"
    if handoff.acknowledged_at is not None:
        return f"after {format_duration(handoff.acknowledged_at - (handoff.recorded_at or handoff.created_at))}"
    return "not waited for" if handoff.state == "done" else "not yet"


def _build_thread_address(agent: FleetAgent) -> str:
    return f"/agents/{agent.id}/thread" if agent.session else f"/agents/{agent.id}"


def _build_points(
    agent: FleetAgent, facts: ChainFacts, size: ThreadSize | None, ends: float
) -> tuple[Point, ...]:
    """Build its measurements by their part of the thread; the last one lasts to the end."""
    measured = [
        (_compute_part(agent, size, at, ends), used)
        for at, used in facts.measured.get(agent.id, ())
    ]
    if agent.context_used is not None:
        measured.append((1.0, agent.context_used))
    return tuple(sorted(measured, key=lambda point: point[0]))


def _list_compactions(
    agent: FleetAgent, facts: ChainFacts, size: ThreadSize | None, ends: float
) -> tuple[float, ...]:
    if size is not None:
        return size.compactions
    return tuple(_compute_part(agent, size, at, ends) for at in facts.compacted.get(agent.id, ()))


def _compute_part(agent: FleetAgent, size: ThreadSize | None, moment: float, ends: float) -> float:
    if size is not None and size.entries:
        return size.compute_part(moment)
    return min(max((moment - agent.started_at) / max(ends - agent.started_at, 1.0), 0.0), 1.0)
