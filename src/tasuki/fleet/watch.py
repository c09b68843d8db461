"""Looks after what no hook tells: panes that vanish, spooled events, context use, handoffs that hang."""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import sqlalchemy as sa

from tasuki import harness as harnesses
from tasuki.errors import LaunchFailed, TasukiError
from tasuki.fleet import alerts, log, reading, spool, tables, thresholds
from tasuki.fleet.database import Database, is_gone
from tasuki.fleet.intake import Intake, Overloaded
from tasuki.fleet.lifecycle import Lifecycle
from tasuki.fleet.rows import Agent
from tasuki.fleet.signals import Signals
from tasuki.harness.hook_script import HUNG
from tasuki.harness.protocol import ThreadFile
from tasuki.launch.panes import Panes, Survey
from tasuki.launch.processes import is_alive

SPOOL_SECONDS = 0.5
LOOK_SECONDS = 2.0
SWEEP_SECONDS = 15.0
AT_ONCE = 8
"""Agents that are looked at before a pause of `PAUSE_SECONDS`."""
PAUSE_SECONDS = 0.001
SILENT_SECONDS = 86400.0
"""After which an agent is given up of which neither pane nor process is known."""
MISSED = 2
"""Looks in a row in which a pane must be missing before its agent is given up."""
ENDED = "its program ended"
"""Begins what is said of a pane that is there, and whose program is not: one look is enough."""

logger = logging.getLogger("tasuki.fleet")


class Watch:
    """A thread that looks at everything now and then. `sweep` starts handoffs that should be under way."""

    def __init__(
        self,
        database: Database,
        panes: Panes,
        lifecycle: Lifecycle,
        intake: Intake,
        spool_folder: Path,
        sweep: Callable[[], None],
        automatic: Callable[[set[int]], None],
        threshold: float,
    ) -> None:
        self.database = database
        self.panes = panes
        self.lifecycle = lifecycle
        self.intake = intake
        self.spool_folder = spool_folder
        self.sweep = sweep
        self.automatic = automatic
        self.threshold = threshold
        self.signals = Signals(database, panes, intake.changes)
        self._missed: dict[int, int] = {}
        self._to_read: set[int] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more from now on."""
        self._stop.set()

    def close(self, seconds: float) -> None:
        """Stop looking, and wait for the last look."""
        self.stop()
        self._thread.join(seconds)

    def _run(self) -> None:
        looked = swept = 0.0
        while not self._stop.wait(SPOOL_SECONDS):
            self._safely(self.take_spool)
            now = time.monotonic()
            if now - looked >= LOOK_SECONDS:
                self._safely(self.look)
                self._safely(self.read_context)
                self._safely(self.database.tidy)
                looked = time.monotonic()
            if now - swept >= SWEEP_SECONDS:
                self._safely(self.sweep)
                swept = time.monotonic()

    def _safely(self, work: Callable[[], None]) -> None:
        try:
            work()
        except sa.exc.DBAPIError as error:
            if not is_gone(error):
                logger.exception("The watch")
        except Exception:
            logger.exception("The watch")

    # -- the spool ---------------------------------------------------------------------

    def take_spool(self) -> None:
        """Take in what hooks kept while the server was away, the oldest first."""
        self._tell_dropped()
        (self.spool_folder.parent / HUNG).unlink(missing_ok=True)  # hooks may ask again
        for path in spool.waiting(self.spool_folder):
            if self._stop.is_set():
                return
            path = spool.taken(path)
            post = spool.read(path)
            if post is None:
                spool.set_aside(path)
                continue
            done = threading.Event()
            try:
                self.intake.put(post, lambda said, done=done: done.set())  # type: ignore[misc]
            except Overloaded:
                return
            while not done.wait(1.0):
                if self._stop.is_set():
                    return
            path.unlink(missing_ok=True)

    def _tell_dropped(self) -> None:
        """An alarm where the spool was full, and events were lost."""
        if not (count := spool.dropped(self.spool_folder)):
            return
        said = f"The spool was full: {count} events of hooks were lost while no server answered."
        with self.database.write() as connection:
            log.note(connection, "alarm", said, data={"code": "events_lost"})
        spool.told(self.spool_folder)
        self.intake.changes.happened()

    # -- panes and processes -----------------------------------------------------------

    def look(self) -> None:
        """Notice agents whose pane or process went without a word."""
        agents = self._known()
        with_pane = [agent for agent in agents if agent.pane]
        survey = self.panes.status() if with_pane else Survey(running=False)
        for agent in _gently(agents):
            why = self._why_gone(agent, survey)
            if not why:
                self._missed.pop(agent.id, None)
                continue
            self._missed[agent.id] = self._missed.get(agent.id, 0) + 1
            if self._missed[agent.id] >= MISSED or why.startswith(ENDED):
                self._gone(agent, why)
        there = [agent for agent in agents if agent.id not in self._missed]
        self.signals.look(_gently(there))

    def _known(self) -> list[Agent]:
        """The agents of this host that have not ended, with the few fields that are looked at here."""
        with self.database.read() as connection:
            rows = connection.execute(_KNOWN, {"here": self.lifecycle.host}).all()
        return [Agent(**dict(zip(_LOOKED_AT, row, strict=True))) for row in rows]

    def _why_gone(self, agent: Agent, survey: Survey) -> str:
        known = agent.process if agent.ordered_at is None else None
        if known and not is_alive(known, agent.process_began):
            return "its process is gone"
        if not agent.pane:
            silent = not agent.process and time.time() - agent.state_at > SILENT_SECONDS
            return "nothing was heard of it for a day" if silent else ""
        state = survey.panes.get(agent.pane)
        if state is None or (agent.pid and state.pid != agent.pid):
            return "its pane is gone" if survey.running else "tmux is gone with all its panes"
        if state.dead:
            return f"{ENDED} with status {'?' if state.status is None else state.status}"
        return ""

    def _gone(self, agent: Agent, why: str) -> None:
        self._missed.pop(agent.id, None)
        said = ""
        if "status" in why:
            try:
                said = self.panes.last_words(agent.pane)
                self.panes.close(agent.pane)
            except LaunchFailed:
                pass
        ended = agent.state == "ended" or "status 0" in why
        reason = f"{why}; it said: {said}" if said and not ended else why
        self.lifecycle.gone(agent.id, "ended" if ended else "lost", reason)
        self.intake.changes.happened([agent.id])

    # -- context -----------------------------------------------------------------------

    def context_of(self, ids: Iterable[int]) -> None:
        """A turn of these agents ended: look at their threads when there is time."""
        self._to_read.update(ids)

    def read_context(self) -> None:
        """Take the context use of agents from their threads, where nothing newer is known.

        A thread tells tokens; a percentage only where the window is known.
        """
        ids, self._to_read = self._to_read, set()
        for id in ids:
            agent = reading.agent(self.database, id)
            if agent.context_source in ("status line", "hook") or not agent.thread:
                continue
            tokens = _tokens(agent)
            if tokens is not None and tokens != agent.context_tokens:
                self._told(id, tokens)

    def _told(self, id: int, tokens: int) -> None:
        """Write down what a thread tells; the threshold may be passed by it."""
        with self.database.write(synced=False) as connection:
            row = dict(connection.execute(_AGENT, {"agent": id}).mappings().one())
            window = row["context_window"]
            row.update(
                context_tokens=tokens,
                context_at=time.time(),
                context_source="thread",
                context_used=100.0 * tokens / window if window else None,
            )
            if passed := thresholds.Personas(connection, self.threshold).passed(row):
                log.note(connection, "threshold", passed, agent_id=id)
                alerts.of_agent(connection, "threshold", row, row["context_at"], passed)
            connection.execute(_MEASURED, {"agent": id, **{f"b_{x}": row[x] for x in _CONTEXT}})
        if passed:
            self.automatic({id})


_CONTEXT = (
    "context_tokens", "context_at", "context_source", "context_used", "over_threshold",
)  # fmt: skip
_AGENT = sa.select(tables.agents).where(tables.agents.c.id == sa.bindparam("agent"))
_MEASURED = (
    sa.update(tables.agents)
    .where(tables.agents.c.id == sa.bindparam("agent"))
    .values({name: sa.bindparam(f"b_{name}") for name in _CONTEXT})
)
_LOOKED_AT = (
    "id", "harness", "state", "state_at", "cwd", "host", "started_at", "session", "pane", "pid",
    "process", "process_began", "ordered_at",
)  # fmt: skip
_KNOWN = sa.select(*(tables.agents.c[name] for name in _LOOKED_AT)).where(
    tables.agents.c.ended_at.is_(None), tables.agents.c.host == sa.bindparam("here")
)


def _gently(agents: Iterable[Agent]) -> Iterator[Agent]:
    """The same agents, with a pause now and then: hooks that come meanwhile need the interpreter too."""
    for number, agent in enumerate(agents):
        if number % AT_ONCE == AT_ONCE - 1:
            time.sleep(PAUSE_SECONDS)
        yield agent


def _tokens(agent: Agent) -> int | None:
    path = Path(agent.thread)
    try:
        found = os.stat(harnesses.file_of(path))
        head = harnesses.get(agent.harness).head(ThreadFile(path, found.st_mtime, found.st_size))
    except (OSError, TasukiError):
        return None
    return head.context_tokens if head else None
