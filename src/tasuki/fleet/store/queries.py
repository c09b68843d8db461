"""Reads the fleet's tables as structs of `models.py`. Nothing here writes.

A function with a `source` reads in a transaction of the database, or in the caller's.
"""

from collections.abc import Collection
from typing import Any, NamedTuple, TypeVar

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from tasuki.errors import AgentNotFound, HandoffNotFound, PersonaNotFound
from tasuki.fleet.store import tables
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.log import CHANGES
from tasuki.fleet.store.models import FleetAgent, FleetEvent, FleetHandoff, Persona, StepRun
from tasuki.text_safety import shorten_to_line

T = TypeVar("T")
QuerySource = FleetDatabase | sa.Connection
SHORTEST_PREFIX = 4
"""Fewest digits of a handoff's id that are looked up; fewer match none."""
GREATEST_ID = 2**31 - 1
"""The greatest id of PostgreSQL's INTEGER."""


class LineageLink(Struct, frozen=True):
    """An agent in its chain, and the handoff by which it came; none for the first."""

    agent: FleetAgent
    handoff: FleetHandoff | None = None
    took_over: bool = True
    """False for a successor that was started and did not take over."""


class LineageChain(Struct, frozen=True):
    """Agents of one persona that succeeded one another, oldest first."""

    links: tuple[LineageLink, ...]


def fetch(
    source: QuerySource, query: sa.Executable, parameters: dict[str, Any] | None = None
) -> "sa.Result[*tuple[Any, ...]]":
    """Return what a query finds."""
    if isinstance(source, FleetDatabase):
        return source.fetch(query, parameters)
    return source.execute(query, parameters)


# -- personas --------------------------------------------------------------------------


def list_personas(database: FleetDatabase, *, retired: bool | None = False) -> list[Persona]:
    """List personas by slug; with `retired` None those that are retired too."""
    column = tables.personas.c.retired_at
    query = sa.select(tables.personas).order_by(tables.personas.c.slug)
    if retired is not None:
        query = query.where(column.is_not(None) if retired else column.is_(None))
    return load_rows(Persona, database, query)


def load_personas(connection: sa.Connection, slugs: Collection[str]) -> list[Persona]:
    """Load the personas of some slugs, within a transaction."""
    query = sa.select(tables.personas).where(tables.personas.c.slug.in_(sorted(slugs)))
    return load_rows(Persona, connection, query)


def load_persona(source: QuerySource, slug: str) -> Persona:
    """Load the persona of a slug. Raises PersonaNotFound."""
    query = sa.select(tables.personas).where(tables.personas.c.slug == _clean_text(slug))
    if rows := load_rows(Persona, source, query):
        return rows[0]
    raise PersonaNotFound(
        f"No persona {shorten_to_line(slug, 80)!r}. List them: tasuki persona list --all"
    )


# -- agents ----------------------------------------------------------------------------


def list_agents(
    database: FleetDatabase,
    *,
    ended: bool | None = None,
    persona: str = "",
    host: str = "",
    limit: int = 0,
    before: int = 0,
) -> list[FleetAgent]:
    """List agents, newest first: of a persona, of a host, running or ended, where that is given.

    `before`: the id of the last agent of a page; the next page is returned.
    """
    table = tables.agents
    query = sa.select(table).order_by(table.c.id.desc())
    if before:
        query = query.where(table.c.id < before)
    if ended is not None:
        query = query.where(table.c.ended_at.is_not(None) if ended else table.c.ended_at.is_(None))
    if persona:
        query = query.where(table.c.persona == _clean_text(persona))
    if host:
        query = query.where(table.c.host == host)
    return load_rows(FleetAgent, database, query.limit(limit or None))


def list_recent_agents(
    connection: sa.Connection,
    *,
    since: float = 0.0,
    ids: Collection[int] | None = None,
    limit: int = 0,
) -> list[FleetAgent]:
    """List agents that run or ended after `since`, or of some ids: those that run first."""
    table = tables.agents
    query = sa.select(table).order_by(table.c.ended_at.is_not(None), table.c.id.desc())
    if ids is not None:
        query = query.where(table.c.id.in_(sorted(ids)))
    else:
        query = query.where(table.c.ended_at.is_(None) | (table.c.ended_at > since))
    return load_rows(FleetAgent, connection, query.limit(limit or None))


def list_newest_of_personas(
    database: FleetDatabase, host: str, states: Collection[str]
) -> list[FleetAgent]:
    """List each persona's newest agent on a host, unless retired, if it is in one of some states."""
    agents, personas = tables.agents, tables.personas.c
    retired = sa.select(personas.slug).where(personas.retired_at.is_not(None))
    newest = sa.select(sa.func.max(agents.c.id)).where(agents.c.persona.is_not(None))
    newest = newest.where(agents.c.host == host, agents.c.persona.not_in(retired))
    newest = newest.group_by(agents.c.persona)
    query = sa.select(agents).where(agents.c.id.in_(newest), agents.c.state.in_(sorted(states)))
    return load_rows(FleetAgent, database, query.order_by(agents.c.id))


def load_agent(source: QuerySource, agent_id: int) -> FleetAgent:
    """Load the agent of an id. Raises AgentNotFound."""
    is_possible = 0 < agent_id <= GREATEST_ID
    if is_possible and (rows := load_rows(FleetAgent, source, _FIND_AGENT, wanted=agent_id)):
        return rows[0]
    raise AgentNotFound(f"No agent {agent_id}. List them: tasuki agent list --all")


def find_last_agent(connection: sa.Connection, slug: str, harness: str) -> FleetAgent | None:
    """Find the newest agent of a persona that was started in a harness; None for none."""
    columns = tables.agents.c
    query = sa.select(tables.agents).where(columns.persona == slug, columns.harness == harness)
    rows = load_rows(FleetAgent, connection, query.order_by(columns.id.desc()).limit(1))
    return rows[0] if rows else None


def find_worker(
    connection: sa.Connection, slug: str, except_agent: int | None = None
) -> int | None:
    """Find the id of the agent that works as a persona, besides one that does not count."""
    agents = tables.agents.c
    query = sa.select(agents.id).where(
        agents.persona == slug, agents.ended_at.is_(None), agents.id != (except_agent or 0)
    )
    return connection.execute(query).scalars().first()


def find_agent_by_token(database: FleetDatabase, token_hash: str) -> int | None:
    """Find the id of the agent that was started with a token, by the token's digest."""
    query = sa.select(tables.agents.c.id).where(tables.agents.c.token_hash == token_hash)
    return database.fetch(query).scalars().first()


def find_ordered_agent(connection: sa.Connection, order_id: str) -> int | None:
    """Find the id of the agent that an order of another host created; None for none."""
    agents = tables.agents.c
    query = sa.select(agents.id).where(agents.order_id == order_id)
    return connection.execute(query).scalars().first()


# -- handoffs --------------------------------------------------------------------------


def list_handoff_page(
    database: FleetDatabase, states: Collection[str], *, limit: int, skip: int
) -> list[FleetHandoff]:
    """List a page of handoffs in some states: those under way last, the newest first."""
    table = tables.handoffs
    runs = sa.case((table.c.state == "running", 1), else_=0)
    query = sa.select(table).where(table.c.state.in_(sorted(states)))
    query = query.order_by(runs, table.c.created_at.desc(), table.c.id).limit(limit).offset(skip)
    return load_rows(FleetHandoff, database, query)


def count_handoffs(database: FleetDatabase) -> dict[str, int]:
    """Count the handoffs of each state, of all that are kept."""
    table = tables.handoffs
    query = sa.select(table.c.state, sa.func.count()).group_by(table.c.state)
    return {str(row[0]): int(row[1]) for row in database.fetch(query)}


def list_handoffs(
    source: QuerySource,
    *,
    agent_id: int | None = None,
    persona: str = "",
    state: str = "",
    host: str = "",
    fork: bool | None = None,
    limit: int = 0,
    before: str = "",
) -> list[FleetHandoff]:
    """List handoffs, newest first: of an agent, a persona, a state, a host, where that is given.

    `fork`: only forks, or none of them.

    `before`: the id of the last handoff of a page; the next page is returned. Raises
    HandoffNotFound.
    """
    table = tables.handoffs
    query = sa.select(table).order_by(table.c.created_at.desc(), table.c.id)
    if before:
        last = load_handoff(source, before)
        same = (table.c.created_at == last.created_at) & (table.c.id > last.id)
        query = query.where((table.c.created_at < last.created_at) | same)
    conditions: dict[str, Any] = {
        "agent_id": agent_id, "persona": _clean_text(persona) or None, "state": _clean_text(state) or None,
        "host": host or None, "fork": fork,
    }  # fmt: skip
    for name, value in conditions.items():
        if value is not None:
            query = query.where(table.c[name] == value)
    return load_rows(FleetHandoff, source, query.limit(limit or None))


def list_agent_handoffs(connection: sa.Connection, agents: Collection[int]) -> list[FleetHandoff]:
    """List the handoffs of some agents, newest first, within a transaction; no forks."""
    table = tables.handoffs
    query = sa.select(table).order_by(table.c.created_at.desc(), table.c.id)
    query = query.where(table.c.agent_id.in_(sorted(agents)), ~table.c.fork)
    return load_rows(FleetHandoff, connection, query)


def find_incoming_handoff(source: QuerySource, successor_id: int) -> FleetHandoff | None:
    """Find the handoff by which an agent came; None for one that is no successor."""
    table = tables.handoffs
    query = sa.select(table).where(table.c.successor_id == successor_id)
    rows = load_rows(FleetHandoff, source, query.order_by(table.c.created_at.desc()).limit(1))
    return rows[0] if rows else None


def load_handoff(source: QuerySource, prefix: str) -> FleetHandoff:
    """Load the handoff whose id begins with `prefix`, 4 digits or more. Raises HandoffNotFound."""
    wanted = prefix.strip().lower()
    shown = shorten_to_line(prefix, 40)
    if not (SHORTEST_PREFIX <= len(wanted) <= 32 and set(wanted) <= set("0123456789abcdef")):
        raise HandoffNotFound(
            f"{shown!r} is not the id of a handoff: {SHORTEST_PREFIX} to 32 of the digits 0-9 and a-f. "
            "List them: tasuki handoffs --agents"
        )
    query = _FIND_HANDOFF if len(wanted) == 32 else _FIND_HANDOFF_BY_PREFIX
    rows = load_rows(FleetHandoff, source, query, wanted=wanted)
    if len(rows) == 1:
        return rows[0]
    problem = "More than one handoff begins" if rows else "No handoff of an agent begins"
    raise HandoffNotFound(f"{problem} with {shown!r}. List them: tasuki handoffs --agents")


def find_needed_handoffs(database: FleetDatabase) -> set[str]:
    """Find the ids of handoffs that may continue, or with which an agent began that works."""
    handoffs, agents = tables.handoffs, tables.agents
    works = agents.c.id.is_not(None) & agents.c.ended_at.is_(None)
    is_needed = handoffs.c.state.in_(("running", "failed", "uncertain")) | works
    query = sa.select(handoffs.c.id).where(is_needed)
    query = query.join(agents, agents.c.id == handoffs.c.successor_id, isouter=True)
    begun = sa.select(agents.c.brief).where(agents.c.brief != "", agents.c.ended_at.is_(None))
    return set(database.fetch(query.union(begun)).scalars())


def is_handed_off(connection: sa.Connection, agent_id: int) -> bool:
    """Whether a handoff is under way by which an agent leaves or comes: its failure covers it."""
    table = tables.handoffs
    leaves = (table.c.agent_id == agent_id) & ~table.c.fork
    mine = leaves | (table.c.successor_id == agent_id)
    query = sa.select(table.c.id).where(mine, table.c.state == "running")
    return connection.execute(query).first() is not None


def is_under_way(database: FleetDatabase, handoff_id: str, attempt: int) -> bool:
    """Whether this attempt of a handoff is wanted: not cancelled, and no newer attempt."""
    attempt_row = database.fetch(_FIND_ATTEMPT, {"wanted": handoff_id}).one_or_none()
    return attempt_row is not None and tuple(attempt_row) == ("running", attempt)


def list_steps(database: FleetDatabase, handoff_id: str) -> list[StepRun]:
    """List the steps of a handoff in the order in which they began. Takes a whole id."""
    table = tables.steps
    query = sa.select(table).where(table.c.handoff_id == _clean_text(handoff_id))
    return load_rows(StepRun, database, query.order_by(table.c.attempt, table.c.started_at))


# -- the log ---------------------------------------------------------------------------


class LogPlace(NamedTuple):
    """A place in the log: the transaction that wrote a line, and the line's id.

    Lines of several hosts are read in this order. Ids alone do not do: a transaction of another
    host may commit a smaller one later.
    """

    xid: int
    id: int


def find_newest_place(database: FleetDatabase) -> LogPlace:
    """Find the place of the newest line that readers may see; (0, 0) in an empty log."""
    query = _FIND_NEWEST_PLACE if database.is_sqlite else _FIND_NEWEST_SETTLED
    row = database.fetch(query).first()
    return LogPlace(*row) if row else LogPlace(0, 0)


def find_place(database: FleetDatabase, event_id: int) -> LogPlace:
    """Find the place of a line.

    Before all others where it was deleted with the oldest; the newest where no line has the id yet.
    """
    with database.read() as connection:
        row = connection.execute(_FIND_PLACE, {"wanted": min(event_id, GREATEST_ID)}).first()
        if row:
            return LogPlace(*row)
        greatest = connection.execute(sa.select(sa.func.max(_EVENTS.id))).scalar_one() or 0
    return LogPlace(0, event_id) if event_id < greatest else find_newest_place(database)


def list_lines_after(
    database: FleetDatabase, place: LogPlace, limit: int, agent_id: int | None = None
) -> list[tuple[LogPlace, FleetEvent]]:
    """List lines after a place, oldest first, each with its own place.

    On PostgreSQL those of transactions are left out that began after one which still runs: it may
    write lines that belong before them.
    """
    query = _FIND_LINES if database.is_sqlite else _FIND_SETTLED_LINES
    parameters = {"xid": place.xid, "after": place.id, "most": limit}
    if agent_id is not None:
        query = query.where(tables.events.c.agent_id == agent_id)
    rows = database.fetch(query, parameters).all()
    return [(LogPlace(*row[:2]), FleetEvent(*row[1:])) for row in rows]


def list_events_after(
    database: FleetDatabase, after_id: int, limit: int, agent_id: int | None = None
) -> list[FleetEvent]:
    """List lines of the log after a line, oldest first; of one agent where that is given."""
    if not after_id <= GREATEST_ID:
        return []
    place = find_place(database, after_id)
    return [event for _, event in list_lines_after(database, place, limit, agent_id)]


def list_last_events(database: FleetDatabase, agent_id: int, limit: int) -> list[FleetEvent]:
    """List the last lines of the log of one agent, newest first, without what it changed."""
    query = select_fields(FleetEvent, tables.events).where(
        tables.events.c.agent_id == agent_id, tables.events.c.kind != CHANGES
    )
    return load_rows(FleetEvent, database, query.order_by(tables.events.c.id.desc()).limit(limit))


# -- lineage ---------------------------------------------------------------------------


def build_lineage(database: FleetDatabase, slug: str) -> list[LineageChain]:
    """Build the chains of a persona's agents, oldest first. Raises PersonaNotFound."""
    with database.read() as connection:
        load_persona(connection, slug)
        agents = tables.agents.c
        query = sa.select(tables.agents).where(agents.persona == slug).order_by(agents.id)
        rows = load_rows(FleetAgent, connection, query)
        handoffs = list_handoffs(connection, persona=slug)
    by_agent = _select_handoffs([handoff for handoff in handoffs if not handoff.fork])
    forks = {handoff.successor_id: handoff for handoff in handoffs if handoff.fork}
    first: dict[int, int] = {}
    chains: dict[int, list[LineageLink]] = {}
    for member in rows:  # a successor's id is greater than its predecessor's
        before = member.previous_agent_id
        first[member.id] = first.get(before, member.id) if before is not None else member.id
        handoff = forks.get(member.id) if before is None else by_agent.get(before)
        link = LineageLink(
            member, handoff, took_over=handoff is None or handoff.successor_id == member.id
        )
        chains.setdefault(first[member.id], []).append(link)
    return [LineageChain(tuple(links)) for links in chains.values()]


def _select_handoffs(newest_first: list[FleetHandoff]) -> dict[int, FleetHandoff]:
    """Select the handoff of each agent: the one that was not cancelled, else the newest."""
    by_agent: dict[int, FleetHandoff] = {}
    for handoff in newest_first:
        chosen = by_agent.get(handoff.agent_id)
        if chosen is None or (chosen.state == "cancelled" and handoff.state != "cancelled"):
            by_agent[handoff.agent_id] = handoff
    return by_agent


# -- shared ----------------------------------------------------------------------------


def load_rows(
    kind: type[T], source: QuerySource, query: "sa.Select[Any]", **parameters: Any
) -> list[T]:
    """Load all rows of a query into structs; columns that callers do not see are left out."""
    result = fetch(source, query, parameters)
    names = tuple(map(str, result.keys()))
    return [msgspec.convert(dict(zip(names, row, strict=True)), kind) for row in result]


def select_fields(kind: type[Struct], table: sa.Table) -> "sa.Select[Any]":
    """Build a query for the columns of a table that its struct has, in the order of its fields."""
    return sa.select(*(table.c[name] for name in kind.__struct_fields__))


_FIND_AGENT = select_fields(FleetAgent, tables.agents).where(
    tables.agents.c.id == sa.bindparam("wanted")
)
_SELECT_HANDOFFS = select_fields(FleetHandoff, tables.handoffs).limit(2)
_FIND_HANDOFF = _SELECT_HANDOFFS.where(tables.handoffs.c.id == sa.bindparam("wanted"))
_FIND_HANDOFF_BY_PREFIX = _SELECT_HANDOFFS.where(
    tables.handoffs.c.id.startswith(sa.bindparam("wanted"))
)
_EVENTS = tables.events.c
_SETTLED = _EVENTS.xid < sa.text("(pg_snapshot_xmin(pg_current_snapshot())::text)::bigint")
"""Whether no transaction runs that could still write a line before this one."""
_FIND_PLACE = sa.select(_EVENTS.xid, _EVENTS.id).where(_EVENTS.id == sa.bindparam("wanted"))
_FIND_NEWEST_PLACE = (
    sa.select(_EVENTS.xid, _EVENTS.id).order_by(_EVENTS.xid.desc(), _EVENTS.id.desc()).limit(1)
)
_FIND_NEWEST_SETTLED = _FIND_NEWEST_PLACE.where(_SETTLED)
_FIND_LINES = (
    sa.select(_EVENTS.xid, *(_EVENTS[name] for name in FleetEvent.__struct_fields__))
    .where(
        sa.tuple_(_EVENTS.xid, _EVENTS.id) > sa.tuple_(sa.bindparam("xid"), sa.bindparam("after"))
    )
    .order_by(_EVENTS.xid, _EVENTS.id)
    .limit(sa.bindparam("most"))
)
_FIND_SETTLED_LINES = _FIND_LINES.where(_SETTLED)
_FIND_ATTEMPT = sa.select(tables.handoffs.c.state, tables.handoffs.c.attempt).where(
    tables.handoffs.c.id == sa.bindparam("wanted")
)
"""Statements that every step runs often are built once: that takes as long as running one."""


def _clean_text(text: str) -> str:
    """Make a text comparable in a database: PostgreSQL takes neither NUL nor a lone surrogate."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
