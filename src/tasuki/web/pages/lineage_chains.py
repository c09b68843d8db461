"""The chains of agents, as they are drawn and told: what the fleet and the threads know of each."""

import time
from collections.abc import Collection, Mapping, Sequence

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import replace

from tasuki.draft.redact import Redactor
from tasuki.fleet import reading, tables
from tasuki.fleet.database import Database
from tasuki.fleet.reading import Chain, Link
from tasuki.fleet.rows import Agent, FleetHandoff, Persona
from tasuki.fleet.service import Fleet
from tasuki.plain import one_line, shown
from tasuki.web import views
from tasuki.web.pages import shapes
from tasuki.web.pages.frame import took
from tasuki.web.pages.lineage_drawing import Cut, Fork, Point, Strand, Stretch
from tasuki.web.pages.lineage_words import counted, day, harness_title, percent, reason
from tasuki.web.pages.shapes import Shown
from tasuki.web.pages.thread_sizes import SECONDS, Size, Sizes

MOST_MEASURED = 50_000
"""Lines of the log that are read for one page, the newest."""
SIZES = Sizes()


class Row(Struct, frozen=True):
    """An agent and the handoff at its end, as a line of the table."""

    place: str
    thread: str
    """Address of its thread."""
    title: str
    id: str
    entries: int | None
    used: float | None
    past: bool
    why: str
    state: Shown | None
    """How the agent or its handoff stands, where the chain is not past it."""
    handoff: str
    handoff_id: str
    cut_at: float | None
    acknowledged: str
    """After how long, or why not."""
    acknowledged_at: float | None = None


class Story(Struct, frozen=True):
    """One chain: its drawing's data, its table, and when anything of it changed last."""

    key: str
    title: str
    summary: str
    changed_at: float
    strand: Strand
    rows: tuple[Row, ...]


class Known(Struct, frozen=True):
    """What the fleet knows of the agents of some chains."""

    ends: Mapping[int, FleetHandoff]
    """The handoff of each agent that has one, by its id."""
    measured: Mapping[int, Sequence[Point]]
    """(moment, percent) by the id of the agent, the oldest first."""
    compacted: Mapping[int, Sequence[float]]
    sizes: Mapping[int, Size]
    threshold: float


def stories(
    fleet: Fleet, persona: Persona, *, cwd: str = "", most_agents: int = 500
) -> list[Story]:
    """The chains of a persona, those that changed last first; with `cwd` those that worked there.

    Of a chain with more agents than `most_agents` the newest. Threads that lie on another host are
    not looked for.
    """
    chains = [
        Chain(chain.links[-most_agents:])
        for chain in reading.lineage(fleet.database, persona.slug)
        if not cwd or any(link.agent.cwd == cwd for link in chain.links)
    ]
    agents = [link.agent for chain in chains for link in chain.links]
    threshold = fleet.threshold if persona.threshold is None else persona.threshold
    known = _known(fleet, agents, threshold)
    return sorted((_story(c, known) for c in chains), key=lambda s: -s.changed_at)


def projects(database: Database) -> list[tuple[str, tuple[str, ...]]]:
    """The folders in which personas worked, with their slugs; the one that changed last first."""
    agents = tables.agents.c
    query = (
        sa.select(agents.cwd, agents.persona)
        .where(agents.persona.is_not(None))
        .group_by(agents.cwd, agents.persona)
        .order_by(sa.func.max(agents.state_at).desc())
    )
    found: dict[str, list[str]] = {}
    with database.read() as connection:
        for cwd, slug in connection.execute(query):
            found.setdefault(cwd, []).append(slug)
    return [(cwd, tuple(slugs)) for cwd, slugs in found.items()]


def newest_persona(database: Database) -> str:
    """The slug of the persona whose agents changed last; empty where none worked."""
    agents = tables.agents.c
    query = sa.select(agents.persona).where(agents.persona.is_not(None))
    with database.read() as connection:
        found = connection.execute(query.order_by(agents.state_at.desc()).limit(1))
        return found.scalar_one_or_none() or ""


# -- what is known ---------------------------------------------------------------------


def _known(fleet: Fleet, agents: Sequence[Agent], threshold: float) -> Known:
    ids = {agent.id for agent in agents}
    with fleet.database.read() as connection:
        handoffs = reading.handoffs_of_in(connection, ids)
        measured, compacted = _measured(connection, ids)
    ends: dict[int, FleetHandoff] = {}
    for of in handoffs:
        if of.state != "cancelled":
            ends.setdefault(of.agent_id, views.redacted(of))
    until, sizes = time.monotonic() + SECONDS, {}
    for agent in sorted(agents, key=lambda agent: -agent.id):
        here = agent.host == fleet.host and agent.thread
        if here and (size := SIZES.of(agent.harness, agent.thread, until)) is not None:
            sizes[agent.id] = size
    return Known(ends, measured, compacted, sizes, threshold)


def _measured(
    connection: sa.Connection, ids: Collection[int]
) -> tuple[dict[int, list[Point]], dict[int, list[float]]]:
    """Context use and compactions as hooks told them, by the agent's id; the log keeps 30 days."""
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
    for id, at, kind, told in reversed(connection.execute(query).all()):
        if kind == "compacted":
            compacted.setdefault(id, []).append(at)
        if told is not None:
            measured.setdefault(id, []).append((at, told))
    return measured, compacted


# -- one chain -------------------------------------------------------------------------


def _story(chain: Chain, known: Known) -> Story:
    main, others = _branched(chain.links)
    teller = _Teller(known, len(main))
    places = {link.agent.id: n for n, link in enumerate(main)}
    forks = [
        Fork(
            _after(path[0], places, chain.links), tuple(teller.stretch(link) for link in path),
            _fork_words(path[0]),
        )
        for path in others
    ]  # fmt: skip
    agents = [link.agent for link in chain.links]
    persona = agents[0].persona or ""
    strand = Strand(
        persona,
        tuple(teller.stretch(link, n) for n, link in enumerate(main, 1)),
        tuple(forks),
        known.threshold,
    )
    rows = [teller.row(link, str(n)) for n, link in enumerate(main, 1)]
    rows += [teller.row(link, "fork") for path in others for link in path]
    return Story(
        key=str(agents[0].id),
        title=persona,
        summary=_summary(agents, known, len(forks), teller.redactor),
        changed_at=max(_changed(agent, known) for agent in agents),
        strand=strand,
        rows=tuple(rows),
    )


def _branched(links: Sequence[Link]) -> tuple[list[Link], list[list[Link]]]:
    """The agents that became the chain, and beside them each line of others."""
    by_id = {link.agent.id: link for link in links}
    after: dict[int, list[Link]] = {}
    for link in links[1:]:
        after.setdefault(link.agent.previous_agent_id or 0, []).append(link)
    main = _path(links[0], after)
    taken = {link.agent.id for link in main}
    others = []
    for link in by_id.values():
        if link.agent.id not in taken:
            path = _path(link, after)
            taken |= {one.agent.id for one in path}
            others.append(path)
    return main, others


def _path(begin: Link, after: Mapping[int, Sequence[Link]]) -> list[Link]:
    path = [begin]
    while True:
        next = [link for link in after.get(path[-1].agent.id, ()) if link.took_over]
        if not next:
            return path
        path.append(next[-1])


def _after(link: Link, places: Mapping[int, int], links: Sequence[Link]) -> int:
    """The place in the chain at whose end a line of others hangs."""
    before = {one.agent.id: one.agent.previous_agent_id for one in links}
    id = link.agent.previous_agent_id
    while id is not None and id not in places:
        id = before.get(id)
    return places.get(id, 0) if id is not None else 0


def _fork_words(link: Link) -> tuple[str, str]:
    said = "" if link.took_over else ", did not take over"
    handoff = link.handoff
    came = f"from handoff {handoff.id[:8]}" if handoff else f"after agent {link.agent.previous_agent_id}"  # fmt: skip
    return f"Agent {link.agent.id}{said}", came


def _summary(agents: Sequence[Agent], known: Known, forks: int, redactor: Redactor) -> str:
    handoffs = sum(agent.id in known.ends for agent in agents)
    said = [counted(len(agents), "agent"), counted(handoffs, "handoff")]
    if forks:
        said.append(counted(forks, "fork"))
    folders = list(dict.fromkeys(agent.cwd for agent in agents))
    where = redactor.redact(one_line(folders[-1], 200))
    more = f" and {counted(len(folders) - 1, 'other folder')}" if len(folders) > 1 else ""
    return f"{', '.join(said)} since {day(agents[0].started_at)} in {where}{more}."


def _changed(agent: Agent, known: Known) -> float:
    of = known.ends.get(agent.id)
    return max(agent.state_at, agent.context_at or 0.0, (of.finished_at or of.created_at) if of else 0.0)  # fmt: skip


class _Teller:
    """Says of each agent of a chain what is known of it."""

    def __init__(self, known: Known, count: int) -> None:
        self.known = known
        self.count = count
        self.redactor = Redactor()

    def stretch(self, link: Link, number: int = 0) -> Stretch:
        """The thread of an agent as it is drawn; `number` is its place, 0 in a fork."""
        agent = link.agent
        size = self.known.sizes.get(agent.id)
        title, short, when = harness_title(agent.harness), shown(agent.session[:8]), day(agent.started_at)  # fmt: skip
        entries = size.entries if size else None
        known = counted(entries, "entry", "entries") if entries is not None else ""
        what = f"Thread {number} of {self.count}" if number else f"Fork, agent {agent.id}"
        used = percent(agent.context_used)
        end = "now" if agent.ended_at is None else "at its end"
        ends = time.time() if agent.ended_at is None else agent.ended_at
        return Stretch(
            href=_thread(agent),
            name=f"{what}, {title} {short}, {when}, {known or 'entries not known'}, context {used} {end}",
            words=(title, short, f"{when}, {known}" if known else when),
            entries=entries,
            seconds=max(ends - agent.started_at, 0.0),
            points=_points(agent, self.known, size, ends),
            compactions=_compactions(agent, self.known, size, ends),
            works=agent.ended_at is None,
            used=agent.context_used,
            cut=self._cut(agent, number),
        )

    def _cut(self, agent: Agent, number: int) -> Cut | None:
        of = self.known.ends.get(agent.id)
        if of is None:
            return None
        why, used = _why(of), percent(agent.context_used)
        state = "" if of.state == "done" else f", {shapes.OF_HANDOFF[of.state].word.lower()}"
        what = f"Handoff {number} of {self.count}" if number else "Handoff"
        return Cut(
            href=f"/handoffs/{of.id}",
            name=f"{what}, {of.id[:8]}{state}: {why}, context {used}",
            used=agent.context_used,
            past=self._past(agent),
            why=f"handoff{state.replace(',', '')}" if state else why,
        )

    def row(self, link: Link, place: str) -> Row:
        """The same as a line of the table."""
        agent = link.agent
        of = self.known.ends.get(agent.id)
        size = self.known.sizes.get(agent.id)
        state = shapes.OF_AGENT[agent.state] if of is None else None
        if of is not None and of.state != "done":
            state = shapes.OF_HANDOFF[of.state]
            state = replace(state, word=f"Handoff {state.word.lower()}")
        return Row(
            place=place,
            thread=_thread(agent),
            title=harness_title(agent.harness),
            id=shown(agent.session[:8]),
            entries=size.entries if size else None,
            used=agent.context_used,
            past=self._past(agent),
            why=_why(of) if of else self.redactor.redact(one_line(agent.end_reason, 120)),
            state=state,
            handoff=f"/handoffs/{of.id}" if of else "",
            handoff_id=of.id[:8] if of else "",
            cut_at=(of.recorded_at or of.created_at) if of else None,
            acknowledged=_acknowledged(of),
            acknowledged_at=of.acknowledged_at if of else None,
        )

    def _past(self, agent: Agent) -> bool:
        return agent.context_used is not None and agent.context_used >= self.known.threshold


def _why(of: FleetHandoff) -> str:
    return reason(of.reason)


def _acknowledged(of: FleetHandoff | None) -> str:
    if of is None:
        return "not due"
    if of.acknowledged_at is not None:
        return f"after {took(of.acknowledged_at - (of.recorded_at or of.created_at))}"
    return "not waited for" if of.state == "done" else "not yet"


def _thread(agent: Agent) -> str:
    return f"/agents/{agent.id}/thread" if agent.session else f"/agents/{agent.id}"


def _points(agent: Agent, known: Known, size: Size | None, ends: float) -> tuple[Point, ...]:
    """Its measurements by the part of the thread that was there then; what was told last holds on."""
    measured = [
        (_part(agent, size, at, ends), used) for at, used in known.measured.get(agent.id, ())
    ]
    if agent.context_used is not None:
        measured.append((1.0, agent.context_used))
    return tuple(sorted(measured, key=lambda point: point[0]))


def _compactions(agent: Agent, known: Known, size: Size | None, ends: float) -> tuple[float, ...]:
    if size is not None:
        return size.compactions
    return tuple(_part(agent, size, at, ends) for at in known.compacted.get(agent.id, ()))


def _part(agent: Agent, size: Size | None, at: float, ends: float) -> float:
    if size is not None and size.entries:
        return size.part(at)
    return min(max((at - agent.started_at) / max(ends - agent.started_at, 1.0), 0.0), 1.0)
