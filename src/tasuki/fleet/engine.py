"""Durable execution of handoffs. No other module knows DBOS. Seen: 3.4.

What DBOS promises is that a step which is recorded as done is not carried out again; one that was
under way at a crash is. It recovers at launch alone, so `sweep` starts again what it does not know.
"""

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any

import sqlalchemy as sa
from dbos import DBOS, DBOSConfig, SetWorkflowID

from tasuki.fleet import workflow
from tasuki.fleet.database import engine

VERSION = "fleet-1"
"""Pinned: handoffs that an older tasuki began are carried on by a newer one."""
THREADS = 256
"""Handoffs that can be under way at once; each waits in a thread of its own."""
POLL_SECONDS = 0.25
MOST_RECOVERIES = 1_000_000
"""A handoff is carried on however often the server was killed."""

Begun = tuple[str, int, str, bool, str]
"""Id and attempt of a handoff, the step it begins with, whether it is written from the thread; its queue."""
LOST_AT_ONCE = 3
"""Handoffs of lost agents that are under way at once; the others wait, also over a restart."""

_running: Callable[[str, int, str], bool] | None = None
"""What carries out one step; set while an engine is launched."""


@DBOS.workflow(name="handoff", max_recovery_attempts=MOST_RECOVERIES)
def _handoff(id: str, attempt: int, first: str, from_thread: bool) -> None:
    def carried_out(step: str) -> bool:
        return DBOS.run_step({"name": step}, _carry_out, id, attempt, step)

    workflow.hand_off(carried_out, first, from_thread=from_thread)


def _carry_out(id: str, attempt: int, step: str) -> bool:
    assert _running is not None
    return _running(id, attempt, step)


class Engine:
    """Runs handoffs on the queue of one host.

    `url` is DBOS's own database: another file of SQLite, or another schema of PostgreSQL.
    """

    def __init__(self, url: str, host: str, carry_out: Callable[[str, int, str], bool]) -> None:
        self.url = url
        self.host = host
        self.queue = queue_of(host)
        self.carry_out = carry_out
        self._engine: sa.Engine | None = None
        self._lock = threading.Lock()

    def launch(self) -> None:
        """Begin; what was under way when the last server ended is carried on."""
        global _running
        _running = self.carry_out
        logging.getLogger("dbos").setLevel(logging.ERROR)
        # a step that it forgets with the machine is found done, and one that it never knew is begun
        self._engine = engine(self.url, synced=False)
        config: DBOSConfig = {
            "name": f"tasuki-{self.host}",
            "system_database_url": self.url,
            "system_database_engine": self._engine,
            "dbos_system_schema": "tasuki_workflows",
            "application_version": VERSION,
            "executor_id": self.host,
            "max_executor_threads": THREADS,
            "use_listen_notify": False,
            "log_level": "ERROR",
            "enable_otlp": False,
        }
        DBOS(config=config)
        DBOS.launch()
        DBOS.register_queue(
            self.queue, polling_interval_sec=POLL_SECONDS, on_conflict="always_update"
        )
        DBOS.register_queue(
            lost_queue_of(self.host), worker_concurrency=LOST_AT_ONCE,
            polling_interval_sec=POLL_SECONDS, on_conflict="always_update",
        )  # fmt: skip

    def begin(self, begun: Begun) -> None:
        """Start a handoff, or an attempt of it; nothing happens where that was started before."""
        id, attempt, first, from_thread, queue = begun
        with self._lock, SetWorkflowID(_workflow_id(id, attempt)):
            DBOS.enqueue_workflow(queue, _handoff, id, attempt, first, from_thread)

    def sweep(self, under_way: Iterable[Begun]) -> list[str]:
        """Start those that should be under way and are not; their ids."""
        started = []
        for begun in under_way:
            status = DBOS.get_workflow_status(_workflow_id(begun[0], begun[1]))
            if status is None:
                self.begin(begun)
                started.append(begun[0])
        return started

    def is_broken(self, id: str, attempt: int) -> bool:
        """Whether the engine gave an attempt up that should be under way."""
        status: Any = DBOS.get_workflow_status(_workflow_id(id, attempt))
        return status is not None and status.status not in ("PENDING", "ENQUEUED", "DELAYED")

    def close(self) -> None:
        """Stop; what is under way goes on at the next launch."""
        global _running
        DBOS.destroy()
        if self._engine:
            self._engine.dispose()
        _running = None


def queue_of(host: str) -> str:
    """The queue on which the handoffs of one host run."""
    return f"host-{host}"


def lost_queue_of(host: str) -> str:
    """The queue on which lost agents of one host are carried on, a few at once."""
    return f"lost-{host}"


def _workflow_id(id: str, attempt: int) -> str:
    return f"{id}-{attempt}"
