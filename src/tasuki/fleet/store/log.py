"""The fleet's log: one ordered list of everything that happened, the source of live events.

`ChangeFeed` notifies those who wait for news of an agent, or for new rows of the log.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import sqlalchemy as sa

from tasuki.draft.redact.redactor import Redactor
from tasuki.fleet.store import tables
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.models import FleetEvent

_INSERT = sa.insert(tables.events).inline()  # nobody asks for the new ids
CHANGES = "changes"
"""The kind of the line with what an agent changed; of each agent there is only the newest."""
EXCERPT_CHARACTERS = 300
"""Characters of a prompt or an answer that the log keeps."""


def note(
    source: sa.Connection | FleetDatabase,
    kind: str,
    text: str,
    *,
    agent_id: int | None = None,
    handoff_id: str | None = None,
    data: dict[str, Any] | None = None,
) -> None:
    """Write one line of tasuki's own into the log, in the caller's transaction or one of its own.

    Secrets in it are replaced, because every reader of the log sees it. Takes some 25 µs for a
    sentence.
    """
    lines = [build_line(kind, text, agent_id, handoff_id, data)]
    with source.write() if isinstance(source, FleetDatabase) else nullcontext(source) as connection:
        write_lines(connection, lines)


def list_handoff_lines(connection: sa.Connection, handoff_id: str, most: int) -> list[FleetEvent]:
    """List the newest lines about a handoff, oldest first. Takes a whole id."""
    columns = [tables.events.c[name] for name in FleetEvent.__struct_fields__]
    query = sa.select(*columns).where(tables.events.c.handoff_id == handoff_id)
    rows = connection.execute(query.order_by(tables.events.c.id.desc()).limit(most)).all()
    return [FleetEvent(*row) for row in reversed(rows)]


def replace_line(
    connection: sa.Connection, line: int | None, kind: str, text: str, agent_id: int
) -> int:
    """Write a line in place of one that says the same of an earlier time; return its id.

    It comes after all others, so that readers notice it. None where the earlier line is not known:
    it is searched among those of the agent.
    """
    events = tables.events.c
    same = (events.agent_id == agent_id) & (events.kind == kind)
    connection.execute(sa.delete(tables.events).where(same if line is None else events.id == line))
    values = build_line(kind, text, agent_id)
    query = sa.insert(tables.events).values(values).returning(tables.events.c.id)
    return int(connection.execute(query).scalar_one())


def build_line(
    kind: str,
    text: str,
    agent_id: int | None,
    handoff_id: str | None = None,
    data: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Build a line of tasuki's own, without secrets."""
    redactor, now = Redactor(), time.time()
    redacted: dict[str, Any] = redactor.redact_data({"text": text, "data": data or {}})
    return {
        "event_id": None, "at": now, "received_at": now, "kind": kind, "agent_id": agent_id,
        "handoff_id": handoff_id, **redacted,
    }  # fmt: skip


def write_lines(connection: sa.Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Write lines of the log; each has every column but the id."""
    if rows:
        connection.execute(_INSERT, list(rows))


class ChangeFeed:
    """Wakes waiting threads: handoff steps by agent, live events by the log."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[int, set[threading.Event]] = defaultdict(set)
        self._callbacks: list[Callable[[], None]] = []
        self._readers: list[Callable[[], None]] = []
        self.generation = 0
        """Grows with each change that is known: of this host's, before its order is answered."""
        self.closing = threading.Event()

    @contextmanager
    def subscribe(self, agents: Iterable[int]) -> Iterator[threading.Event]:
        """Yield an event that is set whenever something happens to one of the agents."""
        mine, ids = threading.Event(), tuple(agents)
        with self._lock:
            for id in ids:
                self._waiting[id].add(mine)
        try:
            yield mine
        finally:
            with self._lock:
                for id in ids:
                    self._waiting[id].discard(mine)
                    if not self._waiting[id]:
                        del self._waiting[id]

    def count_change(self) -> None:
        """Count a change, also one of which the log has no line; callable from any thread."""
        with self._lock:
            self.generation += 1

    def notify(self, agents: Iterable[int] = ()) -> None:
        """Notify that something about these agents, and in the log, was committed."""
        self.count_change()
        with self._lock:
            for id in agents:
                for waiting in self._waiting.get(id, ()):
                    waiting.set()
        for callback in (*self._callbacks, *self._readers):
            callback()

    def notify_log(self) -> None:
        """Notify that another host may have written into the log."""
        for reader in self._readers:
            reader()

    def on_log(self, callback: Callable[[], None]) -> None:
        """Call `callback`, from any thread, after this host committed new rows of the log."""
        self._callbacks.append(callback)

    def on_any_log(self, callback: Callable[[], None]) -> None:
        """Call `callback`, from any thread, when any host may have committed new rows."""
        self._readers.append(callback)

    def close(self) -> None:
        """Wake all waiting threads for the last time."""
        self.closing.set()
        with self._lock:
            for waiting in self._waiting.values():
                for one in waiting:
                    one.set()
