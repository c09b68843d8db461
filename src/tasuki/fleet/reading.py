"""What the fleet's tables say, as rows of `rows.py`. Nothing here writes.

A function whose name ends in `_in` reads within a transaction of the caller's.
"""

from collections.abc import Collection, Mapping
from typing import Any, TypeVar

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from tasuki.errors import AgentNotFound, HandoffNotFound, PersonaNotFound
from tasuki.fleet import tables
from tasuki.fleet.database import Database
from tasuki.fleet.rows import Agent, FleetEvent, FleetHandoff, Persona, StepRun
from tasuki.plain import one_line

T = TypeVar("T")
S = TypeVar("S", bound=Struct)
SHORTEST = 4
"""Digits of a handoff's id that are looked up; fewer name none."""
GREATEST_ID = 2**31 - 1
"""What an id of PostgreSQL's INTEGER can be."""


class Link(Struct, frozen=True):
    """An agent in its chain, and the handoff by which it came; none for the first."""

    agent: Agent
    handoff: FleetHandoff | None = None
    took_over: bool = True
    """False for a successor that was started and did not become it."""


class Chain(Struct, frozen=True):
    """Agents of one persona that succeeded one another, the oldest first."""

    links: tuple[Link, ...]


# -- personas --------------------------------------------------------------------------


def personas(database: Database, *, retired: bool | None = False) -> list[Persona]:
    """Every persona by its slug; with None those that are retired too."""
    column = tables.personas.c.retired_at
    query = sa.select(tables.personas).order_by(tables.personas.c.slug)
    if retired is not None:
        query = query.where(column.is_not(None) if retired else column.is_(None))
    with database.read() as connection:
        return [_row(Persona, row) for row in connection.execute(query).mappings()]


def personas_in(connection: sa.Connection, slugs: Collection[str]) -> list[Persona]:
    """The personas of some slugs, within a transaction."""
    query = sa.select(tables.personas).where(tables.personas.c.slug.in_(sorted(slugs)))
    return [_row(Persona, row) for row in connection.execute(query).mappings()]


def persona(database: Database, slug: str) -> Persona:
    """The persona of a slug. Raises PersonaNotFound."""
    with database.read() as connection:
        return persona_in(connection, slug)


def persona_in(connection: sa.Connection, slug: str) -> Persona:
    """The persona of a slug. Raises PersonaNotFound."""
    query = sa.select(tables.personas).where(tables.personas.c.slug == _safe(slug))
    row = connection.execute(query).mappings().one_or_none()
    if row is None:
        raise PersonaNotFound(
            f"No persona {one_line(slug, 80)!r}. List them: tasuki persona list --all"
        )
    return _row(Persona, row)


# -- agents ----------------------------------------------------------------------------


def agents(
    database: Database,
    *,
    ended: bool | None = None,
    persona: str = "",
    host: str = "",
    limit: int = 0,
    before: int = 0,
) -> list[Agent]:
    """Agents, the newest first: of a persona, of a host, running or ended, where that is said.

    `before`: the id of the last one of a page, whose next page this is.
    """
    table = tables.agents
    query = sa.select(table).order_by(table.c.id.desc())
    if before:
        query = query.where(table.c.id < before)
    if ended is not None:
        query = query.where(table.c.ended_at.is_not(None) if ended else table.c.ended_at.is_(None))
    if persona:
        query = query.where(table.c.persona == _safe(persona))
    if host:
        query = query.where(table.c.host == host)
    with database.read() as connection:
        return [_row(Agent, r) for r in connection.execute(_limited(query, limit)).mappings()]


def recent_agents_in(
    connection: sa.Connection,
    *,
    since: float = 0.0,
    ids: Collection[int] | None = None,
    limit: int = 0,
) -> list[Agent]:
    """Agents that run or ended after `since`, those that run first, then the newest; or those of some ids."""
    table = tables.agents
    query = sa.select(table).order_by(table.c.ended_at.is_not(None), table.c.id.desc())
    if ids is not None:
        query = query.where(table.c.id.in_(sorted(ids)))
    else:
        query = query.where(table.c.ended_at.is_(None) | (table.c.ended_at > since))
    return [_row(Agent, row) for row in connection.execute(_limited(query, limit)).mappings()]


def agent(database: Database, id: int) -> Agent:
    """The agent of an id. Raises AgentNotFound."""
    with database.read() as connection:
        return agent_in(connection, id)


def agent_in(connection: sa.Connection, id: int) -> Agent:
    """The same within a transaction."""
    row = None
    if 0 < id <= GREATEST_ID:
        row = connection.execute(_AGENT, {"wanted": id}).one_or_none()
    if row is None:
        raise AgentNotFound(f"No agent {id}. List them: tasuki agent list --all")
    return _struct(Agent, row)


def agent_of_token(database: Database, token_hash: str) -> int | None:
    """The id of the agent that was started with a token, by the token's digest."""
    query = sa.select(tables.agents.c.id).where(tables.agents.c.token_hash == token_hash)
    with database.read() as connection:
        return connection.execute(query).scalars().first()


# -- handoffs --------------------------------------------------------------------------


def handoffs(
    database: Database,
    *,
    agent_id: int | None = None,
    persona: str = "",
    state: str = "",
    host: str = "",
    limit: int = 0,
    before: str = "",
) -> list[FleetHandoff]:
    """Handoffs, the newest first: of an agent, a persona, a state, a host, where that is said.

    `before`: the id of the last one of a page, whose next page this is. Raises HandoffNotFound.
    """
    with database.read() as connection:
        return handoffs_in(
            connection, agent_id=agent_id, persona=persona, state=state, host=host, limit=limit,
            before=before,
        )  # fmt: skip


def page_of_handoffs(
    database: Database, states: Collection[str], *, limit: int, skip: int
) -> list[FleetHandoff]:
    """Handoffs in some states: what is not under way first, then the newest; `skip` of them left out."""
    table = tables.handoffs
    runs = sa.case((table.c.state == "running", 1), else_=0)
    query = sa.select(table).where(table.c.state.in_(sorted(states)))
    query = query.order_by(runs, table.c.created_at.desc(), table.c.id).limit(limit).offset(skip)
    with database.read() as connection:
        return [_row(FleetHandoff, row) for row in connection.execute(query).mappings()]


def count_handoffs(database: Database) -> dict[str, int]:
    """How many handoffs there are of each state, of all that are kept."""
    table = tables.handoffs
    query = sa.select(table.c.state, sa.func.count()).group_by(table.c.state)
    with database.read() as connection:
        return {str(row[0]): int(row[1]) for row in connection.execute(query)}


def handoffs_in(
    connection: sa.Connection,
    *,
    agent_id: int | None = None,
    persona: str = "",
    state: str = "",
    host: str = "",
    limit: int = 0,
    before: str = "",
) -> list[FleetHandoff]:
    """The same within a transaction."""
    table = tables.handoffs
    query = sa.select(table).order_by(table.c.created_at.desc(), table.c.id)
    if before:
        last = handoff_in(connection, before)
        same = (table.c.created_at == last.created_at) & (table.c.id > last.id)
        query = query.where((table.c.created_at < last.created_at) | same)
    wanted: dict[str, Any] = {
        "agent_id": agent_id, "persona": _safe(persona) or None, "state": _safe(state) or None,
        "host": host or None,
    }  # fmt: skip
    for name, value in wanted.items():
        if value is not None:
            query = query.where(table.c[name] == value)
    rows = connection.execute(_limited(query, limit)).mappings()
    return [_row(FleetHandoff, row) for row in rows]


def handoffs_of_in(connection: sa.Connection, agents: Collection[int]) -> list[FleetHandoff]:
    """The handoffs of some agents, the newest first, within a transaction."""
    table = tables.handoffs
    query = sa.select(table).order_by(table.c.created_at.desc(), table.c.id)
    query = query.where(table.c.agent_id.in_(sorted(agents)))
    return [_row(FleetHandoff, row) for row in connection.execute(query).mappings()]


def handoff_to(database: Database, successor_id: int) -> FleetHandoff | None:
    """The handoff by which an agent came; None for one that is no successor."""
    with database.read() as connection:
        return handoff_to_in(connection, successor_id)


def handoff_to_in(connection: sa.Connection, successor_id: int) -> FleetHandoff | None:
    """The same within a transaction."""
    table = tables.handoffs
    query = sa.select(table).where(table.c.successor_id == successor_id)
    row = connection.execute(query.order_by(table.c.created_at.desc())).mappings().first()
    return _row(FleetHandoff, row) if row else None


def handoff(database: Database, prefix: str) -> FleetHandoff:
    """The handoff whose id begins with `prefix`, of 4 digits or more. Raises HandoffNotFound."""
    with database.read() as connection:
        return handoff_in(connection, prefix)


def handoff_in(connection: sa.Connection, prefix: str) -> FleetHandoff:
    """The same within a transaction."""
    wanted = prefix.strip().lower()
    shown = one_line(prefix, 40)
    if not (SHORTEST <= len(wanted) <= 32 and set(wanted) <= set("0123456789abcdef")):
        raise HandoffNotFound(
            f"{shown!r} is no id of a handoff: {SHORTEST} to 32 of the digits 0-9 and a-f. "
            "List them: tasuki handoffs --agents"
        )
    query = _HANDOFF if len(wanted) == 32 else _HANDOFF_BY_PREFIX
    rows = connection.execute(query, {"wanted": wanted}).all()
    if len(rows) == 1:
        return _struct(FleetHandoff, rows[0])
    why = "More than one handoff begins" if rows else "No handoff of an agent begins"
    raise HandoffNotFound(f"{why} with {shown!r}. List them: tasuki handoffs --agents")


def needed_handoffs(database: Database) -> set[str]:
    """Ids of handoffs that may still be carried on, or whose successor works."""
    handoffs, agents = tables.handoffs, tables.agents
    works = agents.c.id.is_not(None) & agents.c.ended_at.is_(None)
    query = (
        sa.select(handoffs.c.id)
        .join(agents, agents.c.id == handoffs.c.successor_id, isouter=True)
        .where(handoffs.c.state.in_(("running", "failed", "uncertain")) | works)
    )
    with database.read() as connection:
        return set(connection.execute(query).scalars())


def is_handed_off_in(connection: sa.Connection, agent_id: int) -> bool:
    """Whether a handoff is under way that an agent leaves or comes by: its failure tells of the agent's."""
    table = tables.handoffs
    mine = (table.c.agent_id == agent_id) | (table.c.successor_id == agent_id)
    query = sa.select(table.c.id).where(mine, table.c.state == "running")
    return connection.execute(query).first() is not None


def is_under_way(database: Database, handoff_id: str, attempt: int) -> bool:
    """Whether this attempt of a handoff is wanted: nobody cancelled it, or began another one."""
    with database.read() as connection:
        found = connection.execute(_ATTEMPT, {"wanted": handoff_id}).one_or_none()
    return found is not None and tuple(found) == ("running", attempt)


def steps(database: Database, handoff_id: str) -> list[StepRun]:
    """The steps of a handoff in the order in which they were begun. Takes a whole id."""
    table = tables.steps
    query = (
        sa.select(table)
        .where(table.c.handoff_id == _safe(handoff_id))
        .order_by(table.c.attempt, table.c.started_at)
    )
    with database.read() as connection:
        return [_row(StepRun, row) for row in connection.execute(query).mappings()]


# -- the log ---------------------------------------------------------------------------


def events_after(
    database: Database, id: int, limit: int, agent_id: int | None = None
) -> list[FleetEvent]:
    """Lines of the log with a greater id, the oldest first; of one agent where that is said."""
    if not id <= GREATEST_ID:
        return []
    query = _EVENTS if agent_id is None else _EVENTS_OF_AGENT
    known = {"after": id, "most": limit} | ({"of": agent_id} if agent_id is not None else {})
    with database.read() as connection:
        return [_struct(FleetEvent, row) for row in connection.execute(query, known)]


def last_events(database: Database, agent_id: int, limit: int) -> list[FleetEvent]:
    """The last lines of the log of one agent, the newest first."""
    query = _columns(FleetEvent, tables.events).where(tables.events.c.agent_id == agent_id)
    query = query.order_by(tables.events.c.id.desc()).limit(limit)
    with database.read() as connection:
        return [_struct(FleetEvent, row) for row in connection.execute(query)]


def newest_event(database: Database) -> int:
    """Id of the newest line of the log; 0 for an empty one."""
    with database.read() as connection:
        return connection.execute(sa.select(sa.func.max(tables.events.c.id))).scalar_one() or 0


# -- lineage ---------------------------------------------------------------------------


def lineage(database: Database, slug: str) -> list[Chain]:
    """The chains of a persona's agents, the oldest first. Raises PersonaNotFound."""
    with database.read() as connection:
        persona_in(connection, slug)
        query = (
            sa.select(tables.agents)
            .where(tables.agents.c.persona == slug)
            .order_by(tables.agents.c.id)
        )
        found = [_row(Agent, row) for row in connection.execute(query).mappings()]
        came_by = _ends(handoffs_in(connection, persona=slug))
    first: dict[int, int] = {}
    chains: dict[int, list[Link]] = {}
    for one in found:  # a successor's id is greater than that of the one before it
        before = one.previous_agent_id
        first[one.id] = first.get(before, one.id) if before is not None else one.id
        of = came_by.get(before) if before is not None else None
        link = Link(one, of, took_over=of is None or of.successor_id == one.id)
        chains.setdefault(first[one.id], []).append(link)
    return [Chain(tuple(links)) for links in chains.values()]


def _ends(newest_first: list[FleetHandoff]) -> dict[int, FleetHandoff]:
    """The handoff of each agent: the one that was not cancelled, else the newest."""
    by_agent: dict[int, FleetHandoff] = {}
    for of in newest_first:
        known = by_agent.get(of.agent_id)
        if known is None or (known.state == "cancelled" and of.state != "cancelled"):
            by_agent[of.agent_id] = of
    return by_agent


# -- what they share -------------------------------------------------------------------


def _row(kind: type[T], row: Mapping[Any, Any]) -> T:
    """A row as its struct; columns that callers are not told are left out."""
    return msgspec.convert({str(name): row[name] for name in row}, kind)


def _columns(kind: type[Struct], table: sa.Table) -> "sa.Select[Any]":
    """A query for the columns of a table that its struct has, in the order of its fields."""
    return sa.select(*(table.c[name] for name in kind.__struct_fields__))


def _struct(kind: type[S], row: sa.Row[Any]) -> S:
    """A row of such a query as its struct."""
    return msgspec.convert(dict(zip(kind.__struct_fields__, row, strict=True)), kind)


_AGENT = _columns(Agent, tables.agents).where(tables.agents.c.id == sa.bindparam("wanted"))
_HANDOFFS = _columns(FleetHandoff, tables.handoffs).limit(2)
_HANDOFF = _HANDOFFS.where(tables.handoffs.c.id == sa.bindparam("wanted"))
_HANDOFF_BY_PREFIX = _HANDOFFS.where(tables.handoffs.c.id.startswith(sa.bindparam("wanted")))
_EVENTS = (
    _columns(FleetEvent, tables.events)
    .where(tables.events.c.id > sa.bindparam("after"))
    .order_by(tables.events.c.id)
    .limit(sa.bindparam("most"))
)
_EVENTS_OF_AGENT = _EVENTS.where(tables.events.c.agent_id == sa.bindparam("of"))
_ATTEMPT = sa.select(tables.handoffs.c.state, tables.handoffs.c.attempt).where(
    tables.handoffs.c.id == sa.bindparam("wanted")
)
"""Statements that every step asks many times are made once: to make one takes as long as it does."""


def _limited(query: sa.Select[Any], limit: int) -> sa.Select[Any]:
    return query.limit(limit) if limit else query


def _safe(text: str) -> str:
    """A text that a database can compare with: PostgreSQL takes no NUL, and neither a lone surrogate."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
