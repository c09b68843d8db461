"""A chain of agents that succeeded one another, written straight into the fleet's tables."""

import time
from collections.abc import Sequence
from pathlib import Path

import sqlalchemy as sa
from fleet_records import SLUG, agent, handoff

from tasuki.fleet.store import tables
from tasuki.fleet.store.database import FleetDatabase
from tasuki_testing.builder import ThreadBuilder

DAY = 86400.0


def told(database: FleetDatabase, id: int, points: Sequence[tuple[float, float]]) -> None:
    """Lines of the log in which an agent tells its context use: (moment, percent)."""
    rows = [
        {"at": at, "received_at": at, "kind": "context", "agent_id": id, "data": {"used": used}}
        for at, used in points
    ]
    with database.write() as connection:
        connection.execute(sa.insert(tables.events), rows)


def chain(
    database: FleetDatabase,
    uses: Sequence[float],
    *,
    persona: str = SLUG,
    cwd: str = "/home/dev/orchard-api",
    reason: str = "context_limit",
    session: str = "5e55104d",
    host: str = "h",
) -> list[int]:
    """Agents that handed off to one another at these context uses; the last one works. Their ids."""
    ids: list[int] = []
    begin = time.time() - DAY * len(uses)
    for n, used in enumerate(uses):
        start, last = begin + DAY * n, n == len(uses) - 1
        ids.append(agent(
            database, persona=persona, cwd=cwd, host=host, started_at=start, session=f"{session}-{n}",
            state="busy" if last else "ended", state_at=start + DAY / 2,
            ended_at=None if last else start + DAY / 2, context_used=used,
            previous_agent_id=ids[-1] if ids else None,
        ))  # fmt: skip
        told(database, ids[-1], [(start + DAY / 2 * i / 20, used * i / 20) for i in range(1, 21)])
    for n, (before, after) in enumerate(zip(ids, ids[1:], strict=False), 1):
        at = begin + DAY * n - DAY / 2
        handoff(
            database, f"{before:08x}" * 4, before, persona=persona, state="done", reason=reason,
            created_at=at, recorded_at=at, acknowledged_at=at + 60, finished_at=at + 60,
            successor_id=after,
        )  # fmt: skip
    return ids


def thread(folder: Path, turns: int, *, compacted: bool = False) -> Path:
    """A thread of Claude Code of twice as many entries, and one more where it was compacted."""
    builder = ThreadBuilder("claude")
    for turn in range(turns):
        if compacted and turn == turns // 2:
            builder.compaction("What came before.")
        builder.user(f"Do step {turn}").assistant(f"Step {turn} is done.")
    folder.mkdir(exist_ok=True)
    return builder.write(folder / f"{builder.id}.jsonl")
