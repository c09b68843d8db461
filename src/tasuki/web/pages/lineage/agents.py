"""The chains of agents as rows, from what the fleet and the threads know."""

import time
from collections.abc import Collection, Mapping, Sequence

import sqlalchemy as sa
from msgspec import Struct

from tasuki.draft.redact.redactor import Redactor
from tasuki.fleet.service import Fleet
from tasuki.fleet.store import queries, tables
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.models import FleetAgent, FleetHandoff, Persona
from tasuki.fleet.store.queries import LineageChain, LineageLink
from tasuki.text_safety import format_plural
from tasuki.web.pages.lineage.rows import (
    NEWEST,
    ChainRow,
    ChainStory,
    Point,
    Sparkline,
    arrange_rows,
    build_sparkline,
)
from tasuki.web.pages.threads.files import READ_SECONDS, ThreadSize, ThreadSizeCache
from tasuki.web.views import display
from tasuki.web.views.display import get_harness_title
from tasuki.web.views.templates import format_duration, format_reason

MOST_MEASURED = 50_000
"""Most lines of the log that are read for one page, the newest."""
THREAD_SIZES = ThreadSizeCache()


class ChainFacts(Struct, frozen=True):
    """What the fleet knows of the agents of some chains."""

    ends: Mapping[int, FleetHandoff]
    """The handoff of each agent that has one, by its id."""
    measured: Mapping[int, Sequence[Point]]
    """(moment, percent) by the id of the agent, the oldest first."""
    compacted: Mapping[int, Sequence[float]]
    threshold: float
    until: float
    """Until when threads may be read, on the clock of `time.monotonic`."""


def build_stories(
    fleet: Fleet, persona: Persona, *, cwd: str = "", newest: int = NEWEST, most_agents: int = 500
) -> list[ChainStory]:
    """Build the chains of a persona, last changed first; with `cwd` those that worked there.

    Of each chain the `newest` agents and the oldest ones are rows; of one with more than
    `most_agents` nothing else is known. Threads on another host are not looked for.
    """
    chains = [
        LineageChain(chain.links[-most_agents:])
        for chain in queries.build_lineage(fleet.database, persona.slug)
        if not cwd or any(link.agent.cwd == cwd for link in chain.links)
    ]
    threshold = fleet.threshold if persona.threshold is None else persona.threshold
    facts = _load_facts(fleet, [link.agent for chain in chains for link in chain.links], threshold)
    stories = [_build_story(fleet, chain, facts, newest) for chain in chains]
    return sorted(stories, key=lambda story: -story.changed_at)


def list_projects(database: FleetDatabase) -> list[tuple[str, tuple[str, ...]]]:
    """List the folders in which personas worked, with their slugs, last changed first."""
    agents = tables.agents.c
    query = sa.select(agents.cwd, agents.persona).where(agents.persona.is_not(None))
    query = query.group_by(agents.cwd, agents.persona).order_by(sa.func.max(agents.state_at).desc())
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
    return ChainFacts(ends, measured, compacted, threshold, time.monotonic() + READ_SECONDS)


def _load_measurements(
    connection: sa.Connection, ids: Collection[int]
) -> tuple[dict[int, list[Point]], dict[int, list[float]]]:
    """Load context use and compactions as hooks reported them, by the agent's id.

    The log keeps 30 days.
    """
    events = tables.events.c
    used = events.data["used"].as_float()
    is_wanted = events.kind.in_(("context", "idle", "compacted"))
    query = sa.select(events.agent_id, events.at, events.kind, used).where(is_wanted)
    query = query.where(events.agent_id.in_(sorted(ids)))
    query = query.order_by(events.id.desc()).limit(MOST_MEASURED)
    measured: dict[int, list[Point]] = {}
    compacted: dict[int, list[float]] = {}
    for id, at, kind, percent_used in reversed(connection.execute(query).all()):
        if kind == "compacted":
            compacted.setdefault(id, []).append(at)
        if percent_used is not None:
            measured.setdefault(id, []).append((at, percent_used))
    return measured, compacted


# -- one chain -------------------------------------------------------------------------


def _build_story(fleet: Fleet, chain: LineageChain, facts: ChainFacts, newest: int) -> ChainStory:
    main, others = _split_branches(chain.links)
    agents = [link.agent for link in chain.links]
    places = {link.agent.id: n for n, link in enumerate(main)}
    forks: dict[int, list[LineageLink]] = {}
    for path in others:  # each before the thread that it came from, the newest first
        forks.setdefault(_find_place(path[0], places, chain.links), [])[:0] = path[::-1]
    redactor = Redactor()

    def build_rows(place: int) -> list[ChainRow]:
        links = [*((link, "fork") for link in forks.get(place, ())), (main[place], str(place + 1))]
        return [_build_row(fleet, facts, redactor, link, name) for link, name in links]

    rows, hidden, hidden_after = arrange_rows(len(main), newest, build_rows)
    return ChainStory(
        key=str(agents[0].id), title=agents[0].persona or "",
        summary=_format_summary(agents, facts, len(others), redactor),
        since=agents[0].started_at, changed_at=max(_find_changed_at(agent, facts) for agent in agents),
        rows=rows, hidden=hidden, hidden_after=hidden_after,
    )  # fmt: skip


def _split_branches(
    links: Sequence[LineageLink],
) -> tuple[list[LineageLink], list[list[LineageLink]]]:
    """Split the agents that became the chain from each line of others."""
    successors: dict[int, list[LineageLink]] = {}
    for link in links[1:]:
        successors.setdefault(link.agent.previous_agent_id or 0, []).append(link)
    main = _follow_path(links[0], successors)
    taken_ids = {link.agent.id for link in main}
    others = []
    for link in links:
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


def _format_summary(
    agents: Sequence[FleetAgent], facts: ChainFacts, forks: int, redactor: Redactor
) -> str:
    handoffs = sum(agent.id in facts.ends for agent in agents)
    counts = [format_plural(len(agents), "agent"), format_plural(handoffs, "handoff")]
    if forks:
        counts.append(format_plural(forks, "fork"))
    folders = list(dict.fromkeys(agent.cwd for agent in agents))
    folder = redactor.redact_line(folders[-1], 200)
    more = f" and {format_plural(len(folders) - 1, 'other folder')}" if len(folders) > 1 else ""
    origin = agents[0].forked_from
    forked = f", forked from agent {origin}" if origin is not None else ""
    return f"{', '.join(counts)} in {folder}{more}{forked}"


def _find_changed_at(agent: FleetAgent, facts: ChainFacts) -> float:
    handoff = facts.ends.get(agent.id)
    return max(agent.state_at, agent.context_at or 0.0, (handoff.finished_at or handoff.created_at) if handoff else 0.0)  # fmt: skip


def _build_row(
    fleet: Fleet, facts: ChainFacts, redactor: Redactor, link: LineageLink, place: str
) -> ChainRow:
    """Build the row of an agent; `place` is its number, or `fork`."""
    agent, is_fork = link.agent, place == "fork"
    handoff, used = facts.ends.get(agent.id), agent.context_used
    size = None
    if agent.host == fleet.host and agent.thread:
        size = THREAD_SIZES.get_size(agent.harness, agent.thread, facts.until)
    reason = format_reason(handoff.reason) if handoff else ""
    why = reason or redactor.redact_line(display.describe_end(agent.end_reason), 120)
    if is_fork and not link.took_over:
        origin = f"from handoff {link.handoff.id[:8]}" if link.handoff else f"after agent {agent.previous_agent_id}"  # fmt: skip
        why = f"did not take over {origin}{'. ' if why else ''}{why}"
    return ChainRow(
        place=place,
        thread=f"/agents/{agent.id}/thread" if agent.session else f"/agents/{agent.id}",
        title=get_harness_title(agent.harness), id=redactor.redact_line(agent.session, 80),
        began=agent.started_at, entries=size.entries if size else None,
        line=_draw_use(agent, facts, size, is_cut=handoff is not None),
        used=used, past=used is not None and used >= facts.threshold, why=why,
        state=None if handoff and handoff.state == "done" else display.get_agent_shape(agent, handoff), handoff=f"/handoffs/{handoff.id}" if handoff else "",
        handoff_id=handoff.id if handoff else "",
        cut_at=(handoff.recorded_at or handoff.created_at) if handoff else None,
        acknowledged=_format_acknowledgement(handoff), is_fork=is_fork,
    )  # fmt: skip


def _format_acknowledgement(handoff: FleetHandoff | None) -> str:
    if handoff is None:
        return "not due"
    if handoff.acknowledged_at is not None:
        return f"confirmed after {format_duration(handoff.acknowledged_at - (handoff.recorded_at or handoff.created_at))}"
    return "done without waiting for a confirmation" if handoff.state == "done" else "not yet"


def _draw_use(
    agent: FleetAgent, facts: ChainFacts, size: ThreadSize | None, *, is_cut: bool
) -> Sparkline | None:
    """Draw its measurements by their part of the thread; the last one lasts to the end."""
    ends = time.time() if agent.ended_at is None else agent.ended_at

    def compute_part(moment: float) -> float:
        if size is not None and size.entries:
            return size.compute_part(moment)
        return min(max((moment - agent.started_at) / max(ends - agent.started_at, 1.0), 0.0), 1.0)

    points = [(compute_part(at), used) for at, used in facts.measured.get(agent.id, ())]
    if agent.context_used is not None:
        points.append((1.0, agent.context_used))
    points.sort(key=lambda point: point[0])
    compactions = tuple(map(compute_part, facts.compacted.get(agent.id, ())))
    if size is not None:
        compactions = size.compactions
    return build_sparkline(points, facts.threshold, compactions, is_cut=is_cut)
