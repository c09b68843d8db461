"""Hosts that leave the fleet, by the operator's order: retired, or given up because they are away for good.

The agents of a host that was given up count as lost, and their work can go on elsewhere.
"""

import logging
import time
from typing import Any

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import asdict
from sqlalchemy.exc import DBAPIError

from tasuki.errors import NotPossible, ServerFailed
from tasuki.fleet.exchange.host_list import FleetHostRow, find_host, format_seconds, load_host
from tasuki.fleet.handoff.commands import note_handoff
from tasuki.fleet.hosts import count_alive
from tasuki.fleet.membership.roles import build_role_name, execute, require_owner
from tasuki.fleet.store import log, queries, states, tables
from tasuki.fleet.store.database import FleetDatabase, update_row
from tasuki.fleet.store.models import FleetAgent, StepFailure

STILL_OWNS = "2BP01"
"""The SQLSTATE of a role that is not dropped because something belongs to it."""

_IS_MEMBER = sa.text(
    "SELECT 1 FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid JOIN pg_roles r ON r.oid = m.member "
    "WHERE g.rolname = :group AND r.rolname = :role"
)

logger = logging.getLogger("tasuki.fleet")


def retire_host(database: FleetDatabase, name: str, own_host: str) -> dict[str, Any]:
    """Retire a host: its server starts no more, and its role of PostgreSQL is taken away.

    Returns `id`, `label`, `retired_at` in seconds, and `role`: `dropped`, `disabled`, or `shared`
    where the host used a role that is not its own. Raises HostNotFound; NotPossible while agents
    live there, or a handoff needs it.
    """
    host = find_host(database, name)
    id, label = host.id, host.label
    with database.write(alone=True) as connection:
        if id == own_host:
            raise NotPossible(
                f"{label} is the host whose server was asked. Retire it from another one, or just end its server."
            )
        if alive := count_alive(connection, [id]):
            raise NotPossible(
                f"{alive} agent{'s' if alive > 1 else ''} of {label} ha{'ve' if alive > 1 else 's'} not ended. Hand them "
                "off or stop them first; where the host is gone for good, give it up first."
            )
        handoffs = tables.handoffs.c
        query = sa.select(sa.func.count()).where(
            handoffs.state == "running", (handoffs.host == id) | (handoffs.target_host == id)
        )
        if moving := connection.execute(query).scalar_one():  # carried out there, or coming
            raise NotPossible(
                f"{moving} handoff{'s' if moving > 1 else ''} under way need{'' if moving > 1 else 's'} {label}. Wait for "
                "the end, or cancel first: tasuki handoffs --agents"
            )
        if not database.is_sqlite:
            require_owner(connection)
        now = time.time()
        update_row(connection, tables.hosts, id, retired_at=now)
        log.note(connection, "host", f"The host {label} was retired.", data={"host": id})
    role = "shared" if database.is_sqlite else retire_role(database, id)
    return {"id": id, "label": label, "retired_at": now, "role": role}


def retire_role(database: FleetDatabase, host_id: str) -> str:
    """Take a host's role away: no new connections, none that last, then the role itself.

    Returns `dropped`; `disabled` where something still belongs to the role; `shared` where the
    host has no role of its own. Raises NotPossible where the server's role may not do that.
    """
    role = build_role_name(host_id)
    with database.write() as connection:
        rights = require_owner(connection)
        member = {"group": rights.hosts_group, "role": role}
        if not connection.execute(_IS_MEMBER, member).scalar():
            return "shared"
        execute(connection, "ALTER ROLE {} NOLOGIN", role)
        if not rights.is_super:  # to be allowed to end its connections
            execute(connection, "GRANT {} TO {}", role, rights.name)
    with database.write() as connection:
        end = sa.text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = :role")  # fmt: skip
        connection.execute(end, {"role": role})
    try:
        with database.write() as connection:
            execute(connection, "DROP ROLE {}", role)
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", "") != STILL_OWNS:
            raise
        logger.warning(
            "The role %s of PostgreSQL is disabled, but not dropped: %s", role, error.orig
        )
        return "disabled"
    return "dropped"


def check_retired(database: FleetDatabase, host_id: str) -> None:
    """Raise ServerFailed where this host was retired."""
    hosts = tables.hosts.c
    with database.read() as connection:
        query = sa.select(hosts.retired_at).where(hosts.id == host_id)
        retired_at = connection.execute(query).scalar()
    if retired_at is not None:
        day = time.strftime("%Y-%m-%d %H:%M", time.localtime(retired_at))
        raise ServerFailed(
            f"This host was retired on {day}: its server does not start. To use it again, join again: tasuki host add, "
            "on a host of the fleet, prints how."
        )


GAVE_UP = "its host was given up"


class GivenUpHost(Struct, frozen=True):
    """A host that was given up, and its lost agents, each with whether its thread is stored."""

    host: FleetHostRow
    agents: tuple[tuple[FleetAgent, bool], ...]


def give_host_up(database: FleetDatabase, name: str) -> GivenUpHost:
    """Give a host up; what it had begun fails. Raises HostNotFound; NotPossible if it is alive."""
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
    stored = set(database.fetch(sa.select(tables.thread_copies.c.agent_id)).scalars())
    lost = tuple((queries.load_agent(database, id), id in stored) for id in ids)
    return GivenUpHost(load_host(database, host.id), lost)


def _fail_handoffs(connection: sa.Connection, host: FleetHostRow, now: float) -> None:
    """Fail the handoffs that the host was carrying out, so that they can be begun anew."""
    handoffs = tables.handoffs
    for row in queries.list_handoffs(connection, host=host.id, state="running"):
        sentence = f"The host {host.label} was given up at this step."
        remedy = "Cancel it, then hand the agent off to another host."
        if row.step == "shut_down" and row.target_host:
            remedy = "Retry it: its successor on the other host has the work, and goes on."
        failure = StepFailure("host_given_up", row.step, sentence, remedy)
        values = {"state": "failed", "finished_at": now, "failure": asdict(failure)}
        update_row(connection, handoffs, row.id, **values)
        text = f"Handoff {row.id[:8]} failed at {row.step}: {sentence} {remedy}"
        note_handoff(connection, row, text, kind="alarm", code="host_given_up", step=row.step)
