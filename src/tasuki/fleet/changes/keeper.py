"""Keeps the summaries of what agents changed, in a thread of its own: no page waits for git."""

import logging
import os
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass

import sqlalchemy as sa
from msgspec import to_builtins
from msgspec.structs import replace
from sqlalchemy.exc import DBAPIError

from tasuki.draft.redact.redactor import Redactor
from tasuki.fleet.agents.stuck import measure_file
from tasuki.fleet.background import BackgroundWork
from tasuki.fleet.changes.work import build_start_values, summarize_work
from tasuki.fleet.store import log, queries, tables
from tasuki.fleet.store.database import FleetDatabase, update_row
from tasuki.fleet.store.log import ChangeFeed
from tasuki.fleet.store.models import FleetAgent, WorkSummary
from tasuki.launch import processes

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


@dataclass(eq=False, repr=False)
class WorkKeeper(BackgroundWork):
    """Reads what agents of this host changed after events of theirs, and now and then while they are busy."""

    database: FleetDatabase
    changes: ChangeFeed
    host: str
    name, pause = "changes", STEP_SECONDS

    def __post_init__(self) -> None:
        self._looked_at = time.monotonic()
        self._queued: set[int] = set()
        self._lock = threading.Lock()
        self._due: dict[int, float] = {}
        """When each agent may be read again, by the clock that never goes back."""
        self._sizes: dict[int, int] = {}
        """Bytes of the threads of busy agents when they were read last."""
        self._lines: dict[int, int] = {}
        """The line of the log that each agent's last change wrote."""
        super().__post_init__()

    def queue(self, agents: Iterable[int]) -> None:
        """Queue agents to which something happened; callable from any thread."""
        with self._lock:
            self._queued.update(agents)

    def _work(self) -> None:
        if time.monotonic() - self._looked_at >= BUSY_SECONDS:
            self._looked_at = time.monotonic()
            self._run_safely(self._queue_busy)
        self.read_due()

    def read_due(self) -> None:
        """Read the queued agents whose last reading was long enough ago."""
        tree, now = None, time.monotonic()
        with self._lock:
            due = sorted(id for id in self._queued if self._due.get(id, 0.0) <= now)
            self._queued.difference_update(due)
        for number, id in enumerate(due):
            if self._stop.is_set():
                return
            tree = processes.read_process_tree() if number % 8 == 0 else tree
            started = time.monotonic()
            try:
                self.read_agent(id, tree)
            except DBAPIError:
                self.queue([id])
                raise
            rest = max(LEAST_SECONDS, REST_FACTOR * (time.monotonic() - started))
            self._due[id] = time.monotonic() + rest

    def _queue_busy(self) -> None:
        """Queue busy agents whose threads have grown since they were read, or that have none."""
        rows = self.database.fetch(_FIND_BUSY, {"here": self.host}).all()
        sizes = {row.id: measure_file(row.thread) for row in rows}
        self.queue(id for id, size in sizes.items() if not size or size != self._sizes.get(id))
        self._sizes = sizes

    def read_agent(self, agent_id: int, tree: processes.ProcessTree | None) -> None:
        """Read what an agent changed, and note it where that is news."""
        agent = queries.load_agent(self.database, agent_id)
        if agent.host != self.host:
            return
        if agent.begun_commit is None and time.time() - agent.started_at < NEW_SECONDS:
            same = (tables.agents.c.id == agent.id) & tables.agents.c.begun_commit.is_(None)
            start = sa.update(tables.agents).where(same).values(build_start_values(agent.cwd))
            self.database.change(start, synced=False)
            agent = queries.load_agent(self.database, agent.id)
        command = find_command(agent, tree) if agent.state in WORKING else ""
        summary = replace(summarize_work(agent), command=command)
        if agent.changes is None or replace(summary, at=agent.changes.at) != agent.changes:
            self._write(agent, summary)

    def _write(self, agent: FleetAgent, summary: WorkSummary) -> None:
        """Write a summary, and a line of the log in place of the last one: pages follow the log."""
        with self.database.write(synced=False) as connection:
            update_row(connection, tables.agents, agent.id, changes=to_builtins(summary))
            if _is_shown(summary) or (agent.changes and _is_shown(agent.changes)):
                line, text = self._lines.get(agent.id), describe_work(summary)
                line = log.replace_line(connection, line, log.CHANGES, text, agent.id)
                self._lines[agent.id] = line
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


_FIND_BUSY = sa.select(tables.agents.c.id, tables.agents.c.thread).where(
    tables.agents.c.state.in_(WORKING),
    tables.agents.c.ended_at.is_(None),
    tables.agents.c.host == sa.bindparam("here"),
)


COMMAND_CHARACTERS = 160
SHELLS = frozenset({"sh", "bash", "zsh", "dash", "fish", "ksh"})
HOOKS_PATH = "/api/hooks/"
HOOK_SCRIPT = "/fleet/hook.sh"
EARLY_SECONDS = 1.0
"""A turn is reported a moment after it began."""


def find_command(agent: FleetAgent, tree: processes.ProcessTree | None) -> str:
    """Return the command that the current turn of an agent has begun, without secrets.

    Servers of its tools, which began before the turn, are left out. Of several it is the first that
    is no shell. Empty where it runs none, or where this system does not tell.
    """
    program = agent.process or agent.pid
    if tree is None or not program or agent.turn_at is None:
        return ""
    # In the ticks since boot by which a process says when it began.
    since_boot = time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
    seconds = time.time() - agent.turn_at + EARLY_SECONDS
    since = (since_boot - seconds) * processes.TICKS_PER_SECOND
    below = tree.list_below(program)
    words = {pid: processes.read_command(pid) for pid in (program, *(one.pid for one in below))}
    own = (HOOKS_PATH, HOOK_SCRIPT)  # The script of the fleet's hooks, or the curl that it runs.
    hooks = {one.pid for one in below if any(part in words[one.pid] for part in own)}
    for one in below:  # The oldest first: what a hook started is a part of it.
        if one.parent in hooks:
            hooks.add(one.pid)
    commands = [
        words[one.pid] for one in below
        # A process that has yet to become its own program has its parent's words.
        if one.started >= since and one.pid not in hooks and words[one.pid] not in ("", words[one.parent])
    ]  # fmt: skip
    names = [os.path.basename(text.split(" ", 1)[0]).lstrip("-") for text in commands]
    programs = [text for text, name in zip(commands, names, strict=True) if name not in SHELLS]
    chosen = next(iter([*programs, *commands[-1:]]), "")
    return Redactor().redact_line(chosen, COMMAND_CHARACTERS)
