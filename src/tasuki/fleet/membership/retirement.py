"""Hosts that leave the fleet, by the operator's order."""

import logging
import time
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from tasuki.errors import NotPossible, ServerFailed
from tasuki.fleet.exchange.host_list import find_host
from tasuki.fleet.hosts import count_alive
from tasuki.fleet.membership.roles import build_role_name, execute, require_owner
from tasuki.fleet.store import tables
from tasuki.fleet.store.database import FleetDatabase, update_row
from tasuki.fleet.store.log import note

STILL_OWNS = "2BP01"
"""The SQLSTATE of a role that is not dropped because something belongs to it."""

log = logging.getLogger("tasuki.fleet")


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
        if moving := count_moving(connection, id):
            raise NotPossible(
                f"{moving} handoff{'s' if moving > 1 else ''} under way need{'' if moving > 1 else 's'} {label}. Wait for "
                "the end, or cancel first: tasuki handoffs --agents"
            )
        if not database.is_sqlite:
            require_owner(connection)
        now = time.time()
        update_row(connection, tables.hosts, id, retired_at=now)
        note(connection, "host", f"The host {label} was retired.", data={"host": id})
    role = "shared" if database.is_sqlite else retire_role(database, id)
    return {"id": id, "label": label, "retired_at": now, "role": role}


def count_moving(connection: sa.Connection, host_id: str) -> int:
    """Count the handoffs under way that a host carries out, or whose work comes to it."""
    handoffs = tables.handoffs.c
    query = sa.select(sa.func.count()).where(
        handoffs.state == "running",
        (handoffs.host == host_id) | (handoffs.target_host == host_id),
    )
    return int(connection.execute(query).scalar_one())


def retire_role(database: FleetDatabase, host_id: str) -> str:
    """Take a host's role away: no new connections, none that last, then the role itself.

    Returns `dropped`; `disabled` where something still belongs to the role; `shared` where the
    host has no role of its own. Raises NotPossible where the server's role may not do that.
    """
    role = build_role_name(host_id)
    with database.write() as connection:
        rights = require_owner(connection)
        if not _is_member(connection, role, rights.hosts_group):
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
        log.warning("The role %s of PostgreSQL is disabled, but not dropped: %s", role, error.orig)
        return "disabled"
    return "dropped"


def _is_member(connection: sa.Connection, role: str, group: str) -> bool:
    query = sa.text(
        "SELECT 1 FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid JOIN pg_roles r ON r.oid = m.member "
        "WHERE g.rolname = :group AND r.rolname = :role"
    )
    return bool(connection.execute(query, {"group": group, "role": role}).scalar())


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
