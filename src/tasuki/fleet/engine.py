"""Durable execution of handoffs. No other module knows DBOS. Seen: 3.4.

What DBOS promises is that a step which is recorded as done is not carried out again; one that was
under way at a crash is. It recovers at launch alone, so `sweep` starts again what it does not know.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from dbos import DBOS, DBOSConfig, SetWorkflowID

from tasuki.fleet import workflow
from tasuki.fleet.database import engine, give_back, is_writable, make_shrinkable, normal_url
from tasuki.fleet.start_errors import check_file, check_lock
from tasuki.plain import one_line

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
LOST_POLL_SECONDS = 2.0
"""A look for work costs 4 ms, also where there is none; agents that are lost can wait so long."""
LARGEST = "operation_outputs"
OWNED = ("workflow_status", LARGEST, "queues", "workflow_schedules", "application_versions")
"""Tables of DBOS whose rows are an application's; in the largest only where others had any."""
WAITING = ("ENQUEUED", "DELAYED")
UNDER_WAY = ("PENDING", *WAITING)
ENDED = ("SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED")
USABLE_SECONDS = 1.0
PIECE = 20
"""Workflows that are deleted at once."""
ABSENT_SECONDS = 10.0
"""How long a pending attempt may be without a thread: it may be about to get one."""
MOST_RECOVERIES = 1_000_000
"""A handoff is carried on however often the server was killed."""

Begun = tuple[str, int, str, bool, str]
"""Id and attempt of a handoff, the step it begins with, whether it is written from the thread; its queue."""
LOST_AT_ONCE = 3
"""Handoffs of lost agents that are under way at once; the others wait, also over a restart."""

_running: Callable[[str, int, str], bool] | None = None
"""What carries out one step; set while an engine is launched."""
_alive: set[str] = set()
"""The workflows that have a thread in this process."""
_broken: dict[str, str] = {}
"""The workflows whose thread ended before they did, and why."""


@DBOS.workflow(name="handoff", max_recovery_attempts=MOST_RECOVERIES)
def _handoff(id: str, attempt: int, first: str, from_thread: bool) -> None:
    def carried_out(step: str) -> bool:
        return DBOS.run_step({"name": step}, _carry_out, id, attempt, step)

    name = _workflow_id(id, attempt)
    _alive.add(name)
    try:
        workflow.hand_off(carried_out, first, from_thread=from_thread)
    except Exception as error:  # a step could not be recorded: its thread ends here
        _broken[name] = one_line(str(getattr(error, "orig", None) or error), 300)
        raise
    finally:
        _alive.discard(name)


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
        self._absent: dict[str, float] = {}
        self._looking = threading.Lock()
        self._looked_at = (float("-inf"), True)

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
        check_lock(self._engine)  # DBOS would wait for it without end, and say nothing
        make_shrinkable(self._engine)
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
        DBOS.listen_queues(
            [self.queue, lost_queue_of(self.host)]
        )  # those of other hosts are theirs
        try:
            DBOS.launch()
            DBOS.register_queue(
                self.queue, polling_interval_sec=POLL_SECONDS, on_conflict="always_update"
            )
            DBOS.register_queue(
                lost_queue_of(self.host), worker_concurrency=LOST_AT_ONCE,
                polling_interval_sec=LOST_POLL_SECONDS, on_conflict="always_update",
            )  # fmt: skip
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
            for old, new in (
                (queue_of(former), self.queue),
                (lost_queue_of(former), lost_queue_of(self.host)),
            ):
                mine = table.c.status.in_(UNDER_WAY) & (table.c.queue_name == old)
                values = {"executor_id": self.host, "queue_name": new}
                connection.execute(sa.update(table).where(mine).values(values))

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

    def why_broken(self, id: str, attempt: int) -> str:
        """Why an attempt that should be under way is not carried out any more; empty while it is.

        DBOS takes an attempt for pending for ever whose step it could not record: the thread is gone.
        """
        name = _workflow_id(id, attempt)
        status: Any = DBOS.get_workflow_status(name)
        if status is None or status.status in WAITING or name in _alive:
            self._absent.pop(name, None)
            return ""
        if status.status != "PENDING" or name in _broken:
            return _broken.get(name) or "The engine gave this attempt up."
        since = self._absent.setdefault(name, time.monotonic())
        is_gone = time.monotonic() - since > ABSENT_SECONDS and len(_alive) < THREADS
        return "Its thread ended." if is_gone else ""

    def count_broken(self) -> int:
        """How many attempts have lost their thread, and are not known to have failed yet."""
        return len(_broken)

    def forget_broken(self, under_way: Iterable[Begun]) -> None:
        """Forget the broken ones that are not under way any more."""
        names = {_workflow_id(begun[0], begun[1]) for begun in under_way}
        for name in set(_broken) - names:
            _broken.pop(name, None)

    def give_back(self, pages: int) -> bool:
        """Give some free pages of its own file back to the disk; whether there are as many left."""
        if self._engine is None or self._engine.dialect.name != "sqlite":
            return False
        with self._engine.begin() as connection:
            return give_back(connection, pages)

    def delete_ended(self, before: float) -> int:
        """Delete some workflows of this host that ended before a time; how many."""
        until = datetime.fromtimestamp(before, UTC).isoformat()
        deleted = 0
        for queue in (self.queue, lost_queue_of(self.host)):
            ended = DBOS.list_workflows(
                status=list(ENDED), completed_before=until, queue_name=queue, limit=PIECE,
                load_input=False, load_output=False,
            )  # fmt: skip
            if ended:
                DBOS.delete_workflows([one.workflow_id for one in ended])
            deleted += len(ended)
        return deleted

    def is_usable(self, *, is_fresh: bool = False) -> bool:
        """Whether its database can be read and written to now; true before the launch. It may wait for 2 s.

        Of a file the lock of a writer is taken for a moment. What was found holds for a second, unless it is
        to be fresh.
        """
        if self._engine is None:
            return True
        with self._looking:
            now = time.monotonic()
            if is_fresh or now - self._looked_at[0] > USABLE_SECONDS:
                self._looked_at = (now, self._look(self._engine))
            return self._looked_at[1]

    def _look(self, engine: sa.Engine) -> bool:
        schema = None if engine.dialect.name == "sqlite" else SCHEMA
        queues = sa.table("queues", sa.column("name"), schema=schema)
        try:
            with engine.connect() as connection:
                connection.execute(sa.select(queues.c.name).limit(1)).first()
        except sa.exc.SQLAlchemyError:
            return False
        return engine.dialect.name != "sqlite" or is_writable(Path(engine.url.database or ""))

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
