"""Rows written straight into the fleet's tables."""

import time
from typing import Any

import sqlalchemy as sa

from tasuki.fleet.store import tables
from tasuki.fleet.store.database import FleetDatabase

SLUG = "developer-con-1"


def persona(database: FleetDatabase, slug: str = SLUG, **values: Any) -> None:
    """The row of a persona."""
    role, name, number = slug.rsplit("-", 2)
    row = {
        "slug": slug,
        "role": role,
        "name": name,
        "number": int(number),
        "folder": "/f",
        "created_at": 1.0,
    }
    with database.write() as connection:
        connection.execute(sa.insert(tables.personas).values(**row, **values))


def agent(database: FleetDatabase, **values: Any) -> int:
    """The row of an agent; its id."""
    row = {
        "harness": "claude",
        "state": "idle",
        "state_at": 1.0,
        "cwd": "/",
        "host": "h",
        "started_at": 1.0,
    }
    query = sa.insert(tables.agents).values(**{**row, **values}).returning(tables.agents.c.id)
    with database.write() as connection:
        return int(connection.execute(query).scalar_one())


def handoff(database: FleetDatabase, id: str, agent_id: int, **values: Any) -> None:
    """The row of a handoff."""
    row = {
        "id": id, "agent_id": agent_id, "persona": SLUG, "reason": "r", "state": "running",
        "step": "instruct", "created_at": time.time(), "host": "h", "queue": "q",
    }  # fmt: skip
    with database.write() as connection:
        connection.execute(sa.insert(tables.handoffs).values(**{**row, **values}))
