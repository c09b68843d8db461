"""Keeps the summaries of what agents changed, in a thread of its own: no page waits for git."""

import logging
import threading
import time
from collections.abc import Iterable, Iterator

import sqlalchemy as sa
from msgspec import to_builtins
from msgspec.structs import replace
from sqlalchemy.exc import DBAPIError

from tasuki.fleet.agents.stuck import measure_file
from tasuki.fleet.background import BackgroundWork
from tasuki.fleet.changes.commands import find_command
from tasuki.fleet.changes.starts import build_start_values
from tasuki.fleet.changes.work import summarize_work
from tasuki.fleet.store import log, queries, tables
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.log import ChangeFeed
from tasuki.fleet.store.models import FleetAgent, WorkSummary
from tasuki.launch.processes import ProcessTree, read_process_tree

LEAST_SECONDS = 10.0
"""Between two readings of one agent."""
REST_FACTOR = 20.0
"""Of a large repository git rests this many times as long as it took."""
BUSY_SECONDS = 15.0
"""How often busy agents are looked at: most harnesses report no tool."""
STEP_SECONDS = 0.5
NEW_SECONDS = 60.0
"""How long after its start an agent's repository still says where it began."""
WORKING = ("busy", "compacting", "stuck", "waiting")

logger = logging.getLogger("tasuki.fleet")


class WorkKeeper(BackgroundWork):
    """Reads what agents of this host changed after events of theirs, and now and then while they are busy."""

    def __init__(self, database: FleetDatabase, changes: ChangeFeed, host: str) -> None:
        self.database = database
        self.changes = changes
        self.host = host
        self._queued: set[int] = set()
        self._lock = threading.Lock()
        self._due: dict[int, float] = {}
        """When each agent may be read again, by the clock that never goes back."""
        self._sizes: dict[int, int] = {}
        """Bytes of the threads of busy agents when they were read last."""
        self._lines: dict[int, int] = {}
        """The line of the log that each agent's last change wrote."""
        super().__init__("changes")

    def queue(self, agents: Iterable[int]) -> None:
        """Queue agents to which something happened; callable from any thread."""
        with self._lock:
            self._queued.update(agents)

    def _run(self) -> None:
        looked_at = time.monotonic()
        while not self._stop.wait(STEP_SECONDS):
            if time.monotonic() - looked_at >= BUSY_SECONDS:
                looked_at = time.monotonic()
                self._run_safely(lambda: self.queue(self._find_busy()))
            self._run_safely(self.read_due)

    def read_due(self) -> None:
        """Read the queued agents whose last reading was long enough ago."""
        tree: ProcessTree | None = None
        for number, id in enumerate(self._take_due()):
            if self._stop.is_set():
                return
            tree = read_process_tree() if number % 8 == 0 else tree
            started = time.monotonic()
            try:
                self.read_agent(id, tree)
            except DBAPIError:
                self.queue([id])
                raise
            rest = max(LEAST_SECONDS, REST_FACTOR * (time.monotonic() - started))
            self._due[id] = time.monotonic() + rest

    def _take_due(self) -> Iterator[int]:
        now = time.monotonic()
        with self._lock:
            due = sorted(id for id in self._queued if self._due.get(id, 0.0) <= now)
            self._queued.difference_update(due)
        return iter(due)

    def _find_busy(self) -> list[int]:
        """Find busy agents whose threads have grown since they were read, or that have none."""
        with self.database.read() as connection:
            rows = connection.execute(_FIND_BUSY, {"here": self.host}).all()
        sizes = {row.id: measure_file(row.thread) for row in rows}
        grown = [id for id, size in sizes.items() if not size or size != self._sizes.get(id)]
        self._sizes = sizes
        return grown

    def read_agent(self, agent_id: int, tree: ProcessTree | None) -> None:
        """Read what an agent changed, and note it where that is news."""
        agent = queries.load_agent(self.database, agent_id)
        if agent.host != self.host:
            return
        if agent.begun_commit is None and time.time() - agent.started_at < NEW_SECONDS:
            same = (tables.agents.c.id == agent.id) & tables.agents.c.begun_commit.is_(None)
            start = sa.update(tables.agents).where(same).values(build_start_values(agent.cwd))
            with self.database.write(synced=False) as connection:
                connection.execute(start)
            agent = queries.load_agent(self.database, agent.id)
        command = find_command(agent, tree) if agent.state in WORKING else ""
        summary = replace(summarize_work(agent), command=command)
        if agent.changes is None or replace(summary, at=agent.changes.at) != agent.changes:
            self._write(agent, summary)

    def _write(self, agent: FleetAgent, summary: WorkSummary) -> None:
        """Write a summary, and a line of the log in place of the last one: pages follow the log."""
        with self.database.write(synced=False) as connection:
            connection.execute(_UPDATE, {"agent": agent.id, "b_changes": to_builtins(summary)})
            if _is_shown(summary) or (agent.changes and _is_shown(agent.changes)):
                line = self._lines.get(agent.id)
                text = describe_work(summary)
                self._lines[agent.id] = log.replace_line(
                    connection, line, log.CHANGES, text, agent.id
                )
        self.changes.notify([agent.id])


def describe_work(summary: WorkSummary) -> str:
    """Describe what an agent changed in a line: `main: +120 −14 in 6 files, 2 commits`."""
    parts = []
    if summary.files:
        files = f"{summary.files:,} file{'s' if summary.files != 1 else ''}"
        parts.append(f"+{summary.added:,} −{summary.removed:,} in {files}")
    if summary.commits:
        parts.append(f"{summary.commits:,} commit{'s' if summary.commits != 1 else ''}")
    work = ", ".join(parts) or summary.problem or "nothing changed"
    return f"{summary.branch}: {work}" if summary.branch else work


def _is_shown(summary: WorkSummary) -> bool:
    """Whether a card says anything of a summary."""
    return bool(summary.branch or summary.has_work or summary.command)


_UPDATE = (
    sa.update(tables.agents)
    .where(tables.agents.c.id == sa.bindparam("agent"))
    .values(changes=sa.bindparam("b_changes", type_=sa.JSON(none_as_null=True)))
)
_FIND_BUSY = sa.select(tables.agents.c.id, tables.agents.c.thread).where(
    tables.agents.c.state.in_(WORKING),
    tables.agents.c.ended_at.is_(None),
    tables.agents.c.host == sa.bindparam("here"),
)
