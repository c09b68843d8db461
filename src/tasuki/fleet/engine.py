"""Durable execution of handoffs. No other module knows DBOS. Seen: 3.4.

What DBOS promises is that a step which is recorded as done is not carried out again; one that was
under way at a crash is. It recovers at launch alone, so `sweep` starts again what it does not know.
"""

import logging
import threading
from collections.abc import Callable, Collection, Iterable
from typing import Any

import sqlalchemy as sa
from dbos import DBOS, DBOSConfig, SetWorkflowID

from tasuki.fleet import workflow
from tasuki.fleet.database import engine, normal_url
from tasuki.fleet.start_errors import check_file

APPLICATION = "tasuki"
"""What DBOS calls the fleet, on every host."""
FORMER_APPLICATION = "tasuki-%"
"""What an older tasuki called it: the host's name was a part of it."""
VERSION = "fleet-1"
"""Pinned, for the whole fleet: handoffs that an older tasuki began are carried on by a newer one."""
SCHEMA = "tasuki_workflows"
"""Of PostgreSQL; SQLite has a file instead."""
THREADS = 256
"""Handoffs that can be under way at once; each waits in a thread of its own."""
POLL_SECONDS = 0.25
LARGEST = "operation_outputs"
OWNED = ("workflow_status", LARGEST, "queues", "workflow_schedules", "application_versions")
"""Tables of DBOS whose rows are an application's; in the largest only where others had any."""
UNDER_WAY = ("PENDING", "ENQUEUED", "DELAYED")
MOST_RECOVERIES = 1_000_000
"""A handoff is carried on however often the server was killed."""

Begun = tuple[str, int, str, bool]
"""Id and attempt of a handoff, the step it begins with, and whether it is written from the thread."""

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
        self.url = normal_url(url)
        self.host = host
        self.queue = queue_of(host)
        self.carry_out = carry_out
        self._engine: sa.Engine | None = None
        self._lock = threading.Lock()

    def launch(self, formers: Collection[str] = ()) -> None:
        """Begin; what was under way when the last server ended is carried on.

        `formers` are hosts whose handoffs are this host's from now on.
        """
        global _running
        _running = self.carry_out
        logging.getLogger("dbos").setLevel(logging.CRITICAL)  # who starts it says what went wrong
        # a step that it forgets with the machine is found done, and one that it never knew is begun
        self._engine = engine(self.url, synced=False)
        check_file(self._engine)
        self._take_over(self._engine, formers)
        config: DBOSConfig = {
            "name": APPLICATION,
            "system_database_url": self.url,
            "system_database_engine": self._engine,
            "dbos_system_schema": SCHEMA,
            "application_version": VERSION,
            "executor_id": self.host,
            "max_executor_threads": THREADS,
            "use_listen_notify": False,
            "log_level": "CRITICAL",
            "enable_otlp": False,
        }
        DBOS(config=config)
        DBOS.listen_queues([self.queue])  # those of other hosts are theirs
        try:
            DBOS.launch()
            DBOS.register_queue(
                self.queue, polling_interval_sec=POLL_SECONDS, on_conflict="always_update"
            )
        except Exception:
            self.close()
            raise
        logging.getLogger("dbos").setLevel(logging.ERROR)

    def _take_over(self, engine: sa.Engine, formers: Collection[str]) -> None:
        """Give what an older tasuki wrote its present names, before DBOS looks for it."""
        schema = None if engine.dialect.name == "sqlite" else SCHEMA
        if not sa.inspect(engine).has_table(OWNED[-1], schema):
            return
        with engine.begin() as connection:
            renamed = 0
            for name in OWNED:
                if name == LARGEST and not renamed:
                    continue
                owner = sa.column("application_name", sa.Text)
                former = owner.like(FORMER_APPLICATION)
                table = sa.update(sa.table(name, owner, schema=schema)).where(former)
                renamed += connection.execute(table.values(application_name=APPLICATION)).rowcount
            self._take_workflows(connection, schema, formers)

    def _take_workflows(
        self, connection: sa.Connection, schema: str | None, formers: Collection[str]
    ) -> None:
        names = ("executor_id", "queue_name", "status")
        table = sa.table("workflow_status", *map(sa.column, names), schema=schema)
        for former in formers:
            mine = table.c.status.in_(UNDER_WAY) & (table.c.queue_name == queue_of(former))
            values = {"executor_id": self.host, "queue_name": self.queue}
            connection.execute(sa.update(table).where(mine).values(values))

    def begin(self, begun: Begun) -> None:
        """Start a handoff, or an attempt of it; nothing happens where that was started before."""
        id, attempt, first, from_thread = begun
        with self._lock, SetWorkflowID(_workflow_id(id, attempt)):
            DBOS.enqueue_workflow(self.queue, _handoff, id, attempt, first, from_thread)

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
        return status is not None and status.status not in UNDER_WAY

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


def _workflow_id(id: str, attempt: int) -> str:
    return f"{id}-{attempt}"
