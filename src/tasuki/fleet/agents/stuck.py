"""Finds agents that are busy while nothing of them moves.

Four signs of life: an event of its hooks, a byte of its thread, a word of its screen, and processor
time of the processes below its program. The program itself does not count, nor do the numbers and
signs on its screen: while a child sleeps it still draws a spinner and counts seconds.

Time is that of the running server, and a pause of the server begins the count again: neither sleep
of the machine nor a changed clock makes an agent stuck.
"""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from msgspec import Struct

from tasuki.draft.redact.redactor import Redactor
from tasuki.errors import LaunchFailed
from tasuki.fleet import alerts
from tasuki.fleet.store import log, tables
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.log import ChangeFeed
from tasuki.fleet.store.models import describe_stuck
from tasuki.harness.registry import get_containing_file
from tasuki.launch.processes import ProcessTree, read_command, read_process_tree
from tasuki.launch.tmux.panes import TmuxPanes
from tasuki.patterns import compile_pattern
from tasuki.text_safety import clean_for_display, shorten_to_line

CHECKS_WITHIN = 20
"""Checks in the time after which an agent is stuck."""
MOST_REST_SECONDS = 15.0
"""Most seconds between two checks."""
PAUSE_FACTOR = 4.0
"""A check that comes this many times too late means that the server, or its machine, slept."""
IDLE_SHARE, RECENT_SHARE = 0.002, 0.01
"""Shares of a processor that children may use and still count as idle: servers of tools have timers.

The first is measured since the last sign of life, the second since the last check.
"""
COMMAND_CHARACTERS = 200
MOST_SIDE_FILES = 200
"""Most files of sub-agents that are looked at."""
MOST_FOUND_AT_ONCE = 8
"""Most agents whose screens are read before a pause of `PAUSE_SECONDS`."""
PAUSE_SECONDS = 0.001
NO_TIMES = "The processor time of its processes is not known on this system."

_WORD = compile_pattern(r"[^\W\d_]{2,}")


class AgentSigns(Struct, frozen=True):
    """What is known without a look at an agent's screen: its row, its last event, its thread's size."""

    row: tuple[Any, ...]
    event: int
    bytes: int


class AgentSight(Struct, frozen=True):
    """The rest: words of the screen, files of sub-agents, and the processes below, None where unknown."""

    words: tuple[str, ...]
    files: tuple[tuple[str, int], ...]
    processes: frozenset[tuple[int, int]] | None
    seconds: float
    """Processor time of those processes."""
    newest: int
    """Process that began last; 0 for none."""


class _AgentWatch:
    """What was seen of one agent, and since when nothing has changed."""

    def __init__(self, signs: AgentSigns, now: float) -> None:
        self.signs = signs
        self.sight: AgentSight | None = None
        self.since = self.seen_at = now
        self.seen_seconds = 0.0

    def has_moved(self, sight: AgentSight, now: float) -> bool:
        """Whether an agent has shown a sign of life since its last change."""
        old = self.sight
        if old is None or (sight.words, sight.files) != (old.words, old.files):
            return True
        if sight.processes != old.processes:
            return True
        recent = sight.seconds - self.seen_seconds > RECENT_SHARE * (now - self.seen_at)
        return recent or sight.seconds - old.seconds > IDLE_SHARE * (now - self.since)


@dataclass(eq=False, repr=False)
class StuckAgents:
    """Checks the busy agents of a host now and then; `seconds` without any sign make one stuck.

    0 seconds switch it off. `clock` is in seconds and never goes back.
    """

    database: FleetDatabase
    panes: TmuxPanes
    changes: ChangeFeed
    host: str
    seconds: float
    _: KW_ONLY
    clock: Callable[[], float] = time.monotonic
    read_tree: Callable[[], ProcessTree | None] = read_process_tree

    def __post_init__(self) -> None:
        self.looked_at = 0
        """Screens that were read, since the start."""
        self._watched: dict[int, _AgentWatch] = {}
        self._checked_at: float | None = None

    @property
    def rest(self) -> float:
        """Seconds between two checks."""
        return min(MOST_REST_SECONDS, self.seconds / CHECKS_WITHIN)

    def check_if_due(self) -> None:
        """Check all agents, unless that was done just now."""
        now = self.clock()
        if self.seconds and (self._checked_at is None or now - self._checked_at >= self.rest):
            self.check_agents()

    def check_agents(self) -> None:
        """Check all busy agents once."""
        now = self.clock()
        late = self._checked_at is not None and now - self._checked_at > PAUSE_FACTOR * self.rest
        self._checked_at = now
        agents = self._load_agents()
        if late:  # What happened meanwhile was not seen.
            self._watched.clear()
        self._watched = {id: one for id, one in self._watched.items() if id in agents}
        tree, looked = None, 0
        for id, agent in agents.items():
            watched = self._watched.get(id)
            is_known = watched is not None and agent["state"] == "stuck"
            # The watch's own events are no sign of life.
            event = watched.signs.event if watched and is_known else int(agent["event"])
            row = tuple(str(agent[name]) for name in _SIGNS)
            signs = AgentSigns(row, event, measure_file(agent["thread"]))
            if watched is None or watched.signs != signs:
                self._watched[id] = _AgentWatch(signs, now)
                if watched is not None and agent["state"] == "stuck":
                    self._mark_moving(agent)
                continue
            tree = tree or self.read_tree()
            self._check_sight(agent, watched, tree, now)
            looked += 1
            if looked % MOST_FOUND_AT_ONCE == 0:
                time.sleep(PAUSE_SECONDS)  # Hooks need the interpreter meanwhile.

    def _check_sight(
        self, agent: dict[str, Any], watched: _AgentWatch, tree: ProcessTree | None, now: float
    ) -> None:
        sight = self._read_sight(agent, tree)
        if sight is None:
            return
        was_seen, has_moved = watched.sight is not None, watched.has_moved(sight, now)
        watched.seen_at, watched.seen_seconds = now, sight.seconds
        if has_moved:
            watched.sight, watched.since = sight, now
            if was_seen and agent["state"] == "stuck":
                self._mark_moving(agent)
        elif agent["state"] == "busy" and now - watched.since >= self.seconds:
            self._mark_stuck(agent, sight, now - watched.since)

    def _load_agents(self) -> dict[int, dict[str, Any]]:
        """Load the busy agents of this host that have a pane, with the id of their last event."""
        with self.database.read() as connection:
            rows = connection.execute(_FIND_BUSY, {"here": self.host}).mappings().all()
            ids = [row["id"] for row in rows]
            newest = {x.agent_id: x.newest for x in connection.execute(_FIND_EVENTS, {"ids": ids})}
        return {row["id"]: {**row, "event": newest.get(row["id"], 0)} for row in rows}

    def _read_sight(self, agent: dict[str, Any], tree: ProcessTree | None) -> AgentSight | None:
        try:
            screenshot = self.panes.capture_screen(agent["pane"])
        except LaunchFailed:
            return None
        self.looked_at += 1
        program = agent["process"] or agent["pid"] or screenshot.pid
        below = tree.list_below(program) if tree else []
        return AgentSight(
            words=tuple(_WORD.findall(screenshot.text)),
            files=_list_side_files(agent["thread"]),
            processes=frozenset((p.pid, p.started) for p in below) if tree else None,
            seconds=sum(p.seconds for p in below),
            newest=below[-1].pid if below else 0,
        )

    def _mark_stuck(self, agent: dict[str, Any], sight: AgentSight, seconds: float) -> None:
        command = read_command(sight.newest) if sight.newest else ""
        shown = Redactor().redact(clean_for_display(command))
        now = time.time()
        values = {
            "state": "stuck", "state_at": now, "stuck_at": now - seconds,
            "stuck_with": shorten_to_line(shown, COMMAND_CHARACTERS),
        }  # fmt: skip
        text = f"{describe_stuck(values['stuck_with'])}, for {seconds / 60:.0f} minutes."  # type: ignore[arg-type]
        text = f"{text} {NO_TIMES}" if sight.processes is None else text
        with self.database.write() as connection:
            if not connection.execute(build_change(agent, values)).rowcount:
                return
            log.note(connection, "stuck", text, agent_id=agent["id"], data={"seen": True})
            alerts.raise_agent_alert(connection, "stuck", agent, now, text)
        self.changes.notify([agent["id"]])

    def _mark_moving(self, agent: dict[str, Any]) -> None:
        values = {"state": "busy", "state_at": time.time(), "stuck_at": None, "stuck_with": ""}
        with self.database.write() as connection:
            if connection.execute(build_change(agent, values)).rowcount:
                log.note(
                    connection, "busy", "It moves again.", agent_id=agent["id"], data={"seen": True}
                )
        self.changes.notify([agent["id"]])


def measure_file(thread: str) -> int:
    """Return the bytes of a thread's file; 0 where there is none."""
    with suppress(OSError):
        return get_containing_file(Path(thread)).stat().st_size if thread else 0
    return 0


def _list_side_files(thread: str) -> tuple[tuple[str, int], ...]:
    """List the files in the folder that is named like a thread: those of its sub-agents, with sizes."""
    found: list[tuple[str, int]] = []
    for folder, _, names in os.walk(os.path.splitext(thread)[0] if thread else ""):
        for name in sorted(names)[: MOST_SIDE_FILES - len(found)]:
            path = os.path.join(folder, name)
            found.append((path, measure_file(path)))
    return tuple(sorted(found))


def build_change(agent: dict[str, Any], values: dict[str, Any]) -> sa.Update:
    """Build the change of a row that nobody else has changed meanwhile."""
    columns = tables.agents.c
    same = (columns.id == agent["id"]) & (columns.state == agent["state"])
    same &= columns.state_at == agent["state_at"]
    return sa.update(tables.agents).where(same).values(**values)


_SIGNS = ("turn_at", "context_at", "context_tokens", "children", "session", "thread", "model")
_COLUMNS = ("id", "state", "state_at", "host", "persona", "pane", "pid", "process", *_SIGNS)
_FIND_BUSY = sa.select(*(tables.agents.c[name] for name in _COLUMNS)).where(
    tables.agents.c.state.in_(("busy", "stuck")),
    tables.agents.c.pane != "",
    tables.agents.c.ended_at.is_(None),
    tables.agents.c.host == sa.bindparam("here"),
)
_FIND_EVENTS = (
    sa.select(tables.events.c.agent_id, sa.func.max(tables.events.c.id).label("newest"))
    .where(
        tables.events.c.agent_id.in_(sa.bindparam("ids", expanding=True)),
        tables.events.c.kind != log.CHANGES,  # It is no sign of life.
    )
    .group_by(tables.events.c.agent_id)
)
