"""Gives a host up that is away for good: its agents count as lost, and their work can go on elsewhere."""

import time

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import asdict

from tasuki.errors import NotPossible
from tasuki.fleet.exchange.host_list import FleetHostRow, find_host, format_seconds, load_host
from tasuki.fleet.store import log, queries, states, tables
from tasuki.fleet.store.database import FleetDatabase, update_row
from tasuki.fleet.store.models import FleetAgent, StepFailure

GAVE_UP = "its host was given up"


class GivenUpHost(Struct, frozen=True):
    """A host that was given up, and the agents lost by it.

    Each agent with whether its thread is in the database, so that its work can go on elsewhere.
    """

    host: FleetHostRow
    agents: tuple[tuple[FleetAgent, bool], ...]


def give_host_up(database: FleetDatabase, name: str) -> GivenUpHost:
    """Give a host up; what it had begun and not finished fails.

    Raises HostNotFound; NotPossible while it is alive.
    """
    host = find_host(database, name)
    if host.is_reachable:
        seen = format_seconds(host.seen_seconds or 0.0)
        raise NotPossible(
            f"The host {host.label} is alive (seen {seen} ago). Move its agents while it is: tasuki agent handoff ID "
            "--to-host HOST. To take it out of the fleet: tasuki host retire"
        )
    if host.state == "retired":
        raise NotPossible(f"The host {host.label} was retired: it has no agents.")
    agents, now = tables.agents, time.time()
    with database.write(alone=True) as connection:
        update_row(connection, tables.hosts, host.id, given_up_at=now)
        living = sa.select(agents).where(agents.c.host == host.id, agents.c.ended_at.is_(None))
        ids = []
        for row in map(dict, connection.execute(living).mappings().all()):
            states.end_agent(row, "lost", now, GAVE_UP)
            update_row(connection, agents, row["id"], **row)
            text = f"Agent {row['id']} lost: {GAVE_UP}"
            log.note(connection, "agent", text, agent_id=row["id"])
            ids.append(row["id"])
        _fail_handoffs(connection, host, now)
        text = f"The host {host.label} was given up. {len(ids)} agents of it are lost."
        log.note(connection, "host", text, data={"host": host.id})
    with database.read() as connection:
        stored = set(connection.execute(sa.select(tables.thread_copies.c.agent_id)).scalars())
    lost = tuple((queries.load_agent(database, id), id in stored) for id in ids)
    return GivenUpHost(load_host(database, host.id), lost)


def _fail_handoffs(connection: sa.Connection, host: FleetHostRow, now: float) -> None:
    """Fail the handoffs that the host was carrying out, so that they can be begun anew."""
    handoffs = tables.handoffs
    columns = (handoffs.c.id, handoffs.c.agent_id, handoffs.c.step, handoffs.c.target_host)
    running = sa.select(*columns).where(handoffs.c.host == host.id, handoffs.c.state == "running")
    for row in connection.execute(running).all():
        sentence = f"The host {host.label} was given up at this step."
        remedy = "Cancel it, then hand the agent off to another host."
        if row.step == "shut_down" and row.target_host:
            remedy = "Retry it: its successor on the other host has the work, and goes on."
        failure = StepFailure("host_given_up", row.step, sentence, remedy)
        values = {"state": "failed", "finished_at": now, "failure": asdict(failure)}
        update_row(connection, handoffs, row.id, **values)
        text = f"Handoff {row.id[:8]} failed at {row.step}: {sentence} {remedy}"
        log.note(
            connection, "alarm", text, agent_id=row.agent_id, handoff_id=row.id,
            data={"code": "host_given_up", "step": row.step},
        )  # fmt: skip
