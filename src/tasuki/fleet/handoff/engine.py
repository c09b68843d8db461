"""Durable execution of handoffs. No other module knows DBOS. Seen: 3.4.

There is one ledger of steps: the fleet's own table, which `runner.py` keeps. DBOS only knows which
attempts are under way, and carries them on after a crash: the workflow runs again from its first
step, and passes over those that the table says are done. DBOS recovers only at launch, so
`reconcile` starts again what it lost.

Its rows are JSON. Whoever may write a pickled one would run any program in every server, so none is
ever unpickled.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import sqlalchemy as sa
from dbos import (
    DBOS,
    DBOSConfig,
    DBOSPortableJSONSerializer,
    SetEnqueueOptions,
    SetWorkflowID,
    _sys_db,
)
from dbos._serialization import DefaultSerializer
from msgspec import Struct

from tasuki.draft.redact.redactor import Redactor
from tasuki.errors import StoreFailed
from tasuki.fleet.background import LifeSign
from tasuki.fleet.handoff import workflow
from tasuki.fleet.handoff.workflow import MoveKind
from tasuki.fleet.store.connections import ENGINE_POOL_SIZE
from tasuki.fleet.store.database import (
    create_engine,
    give_back_pages,
    is_writable,
    make_shrinkable,
    normalize_url,
)
from tasuki.fleet.store.models import FleetHandoff
from tasuki.fleet.store.start_errors import check_file, check_lock

APPLICATION = "tasuki"
"""The name of the fleet in DBOS, the same on every host."""
VERSION = "fleet-1"
"""Pinned for the whole fleet: a newer tasuki continues handoffs that an older one began."""
SCHEMA = "tasuki_workflows"
"""The schema in PostgreSQL; SQLite has a file instead."""
THREADS = 256
"""Handoffs that can be under way at once; each waits in a separate thread."""
POLL_SECONDS, SHARED_POLL_SECONDS = 0.25, 1.0
"""How often a host looks for work; on PostgreSQL, which all hosts share, less often."""
LOST_POLL_SECONDS = 2.0
"""A poll costs 4 ms even when there is no work; lost agents can wait this long."""
ORDER_LOOK_SECONDS = 0.1
WORKFLOW_COLUMNS = (
    "workflow_uuid", "status", "queue_name", "executor_id", "deduplication_id", "owner_xid",
    "started_at_epoch_ms",
)  # fmt: skip
WAITING_STATUSES = ("ENQUEUED", "DELAYED")
OPEN_STATUSES = ("PENDING", *WAITING_STATUSES)
ENDED_STATUSES = ("SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED")
LONGEST_PAUSE_SECONDS = 5.0
DELETED_AT_ONCE = 20
"""Workflows that are deleted at once."""
ABSENT_SECONDS = 10.0
"""How long a pending attempt may lack a thread: it may be about to get one."""
MOST_RECOVERIES = 1_000_000
"""A handoff continues however often the server was killed."""
JSON = DBOSPortableJSONSerializer()
JSON_RULE = "only_json"
"""The constraint by which PostgreSQL takes no other rows."""
refused_rows: list[str] = []
"""Why rows were refused that nobody was told of yet."""


def _refuse_pickle(_serializer: DefaultSerializer, _text: str) -> Any:
    why = (
        "A pickled row in the database of the engine was refused: it could have run any program here. "
        "tasuki writes none; whoever wrote it has the database role of a host."
    )
    logging.getLogger("tasuki.fleet").error(why)
    refused_rows.append(why)
    raise StoreFailed(why)


DefaultSerializer.deserialize = _refuse_pickle  # type: ignore[method-assign, assignment]


def name_attempt(handoff: FleetHandoff) -> str:
    """Return the id of the workflow that carries out this attempt of a handoff, or this leg of it."""
    leg = workflow.find_shape(handoff).find_leg(handoff.step)
    return f"{handoff.id}-{handoff.attempt}-{leg}" if leg else f"{handoff.id}-{handoff.attempt}"


OrderState = Literal["waiting", "begun", "done", "gone"]


_ORDER_STATES: dict[str, OrderState] = {
    "PENDING": "begun", **dict.fromkeys(WAITING_STATUSES, "waiting"),
}  # fmt: skip


class OrderStatus(Struct, frozen=True):
    """How far an order for another host has come, and its result."""

    state: OrderState
    result: dict[str, Any] = {}


LOST_AT_ONCE = 3
"""Handoffs of lost agents that run at once; the others wait, also over a restart."""


def refuse_order(_id: str, name: str, _arguments: dict[str, Any]) -> dict[str, Any]:
    """Refuse an order: this engine runs handoffs alone."""
    raise NotImplementedError(name)


_SHORT_PAUSES = SimpleNamespace(
    time=time.time, sleep=lambda seconds: time.sleep(min(seconds, LONGEST_PAUSE_SECONDS))
)
"""The module `time` for DBOS, which would sleep for up to 90 s before it asks a lost database again."""


@dataclass(eq=False, repr=False)
class HandoffEngine:
    """Runs handoffs, and orders of other hosts, on the queue of one host.

    `url` is DBOS's own database: another file of SQLite, or another schema of PostgreSQL.
    `carry_out_order` takes the id, the name and the arguments of an order, and returns its result.
    """

    url: str
    host: str
    carry_out: Callable[[str, int, str], bool]
    carry_out_order: Callable[[str, str, dict[str, Any]], dict[str, Any]] = refuse_order

    def __post_init__(self) -> None:
        self.url = normalize_url(self.url)
        self.queue = build_queue_name(self.host)
        self._live: set[str] = set()
        """The workflows that have a thread in this process."""
        self._broken: dict[str, str] = {}
        """The workflows whose thread ended too early, and why."""
        self._engine: sa.Engine | None = None
        self._workflow: Callable[[str, int, str, bool, bool, MoveKind], None] | None = None
        """The function that DBOS knows as the workflow; registered at the launch."""
        self._order: Callable[[str, dict[str, Any]], dict[str, Any]] | None = None
        self._lock = threading.Lock()
        self.sign = LifeSign("The queue of handoffs and orders")
        self._absent: dict[str, float] = {}

    def launch(self, former_hosts: Collection[str] = ()) -> None:
        """Launch; handoffs that were under way when the last server ended are continued.

        `former_hosts` are hosts whose handoffs belong to this host from now on.
        """
        logging.getLogger("dbos").setLevel(logging.CRITICAL)  # the caller reports what went wrong
        vars(_sys_db)["time"] = _SHORT_PAUSES
        # After a power loss DBOS may forget a finished step. Steps check their effect first.
        pool = {} if self.url.startswith("sqlite") else {"pool_size": ENGINE_POOL_SIZE}
        self._engine = create_engine(self.url, synced=False, **pool)
        sa.event.listen(self._engine, "after_cursor_execute", self._note_statement)
        check_file(self._engine)
        check_lock(self._engine)  # DBOS would wait for it for ever, in silence
        make_shrinkable(self._engine)
        _require_json(self._engine)
        self._take_workflows(self._engine, former_hosts)
        config: DBOSConfig = {
            "name": APPLICATION, "system_database_url": self.url,
            "system_database_engine": self._engine, "dbos_system_schema": SCHEMA,
            "application_version": VERSION, "executor_id": self.host,
            "max_executor_threads": THREADS, "use_listen_notify": False, "serializer": JSON,
            "log_level": "CRITICAL", "enable_otlp": False,
        }  # fmt: skip
        DBOS(config=config)
        self._workflow, self._order = self._register_workflow(), self._register_order()
        # Not the queues of other hosts.
        DBOS.listen_queues([self.queue, build_lost_queue_name(self.host)])
        try:
            DBOS.launch()
            _require_json(self._engine)
            seconds = POLL_SECONDS if self.url.startswith("sqlite") else SHARED_POLL_SECONDS
            lost = build_lost_queue_name(self.host)
            for queue, pause, most in (
                (self.queue, seconds, None),
                (lost, LOST_POLL_SECONDS, LOST_AT_ONCE),
            ):
                DBOS.register_queue(
                    queue, worker_concurrency=most, polling_interval_sec=pause, on_conflict="always_update",
                )  # fmt: skip
        except Exception:
            self.close()
            raise
        logging.getLogger("dbos").setLevel(logging.ERROR)
        self.sign.note_work()

    def _note_statement(self, _connection: Any, _cursor: Any, statement: str, *_more: Any) -> None:
        """Note that DBOS's thread of this host's queue looked for work."""
        is_of_queue = threading.current_thread().name == f"queue-worker-{self.queue}"
        if is_of_queue and "workflow_status" in statement:
            self.sign.note_work()

    def _register_workflow(self) -> Callable[[str, int, str, bool, bool, MoveKind], None]:
        @DBOS.workflow(name="handoff", max_recovery_attempts=MOST_RECOVERIES)
        def run_handoff(
            id: str,
            attempt: int,
            first: str,
            from_thread: bool,
            fork: bool = False,
            move: MoveKind = "",
        ) -> None:
            shape, name = workflow.HandoffShape(from_thread, fork, move), str(DBOS.workflow_id)
            self._live.add(name)
            try:
                workflow.run_steps(partial(self.carry_out, id, attempt), first, shape)
            except Exception as error:
                why = str(getattr(error, "orig", None) or error)
                self._broken[name] = Redactor().redact_line(why, 300)
                raise
            finally:
                self._live.discard(name)

        return run_handoff

    def _register_order(self) -> Callable[[str, dict[str, Any]], dict[str, Any]]:
        @DBOS.workflow(name="order", max_recovery_attempts=MOST_RECOVERIES)
        def run_order(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
            id = str(DBOS.workflow_id)
            self._live.add(id)
            try:
                return self.carry_out_order(id, name, arguments)
            finally:
                self._live.discard(id)

        return run_order

    def _take_workflows(self, engine: sa.Engine, former_hosts: Collection[str]) -> None:
        table = self._build_workflow_table()
        if not former_hosts or not sa.inspect(engine).has_table(table.name, table.schema):
            return
        with engine.begin() as connection:
            for former, name in product(former_hosts, (build_queue_name, build_lost_queue_name)):
                mine = table.c.status.in_(OPEN_STATUSES) & (table.c.queue_name == name(former))
                values = {"executor_id": self.host, "queue_name": name(self.host)}
                connection.execute(sa.update(table).where(mine).values(values))

    def _build_workflow_table(self) -> sa.TableClause:
        assert self._engine
        schema = None if self._engine.dialect.name == "sqlite" else SCHEMA
        return sa.table("workflow_status", *map(sa.column, WORKFLOW_COLUMNS), schema=schema)

    def begin_handoff(self, handoff: FleetHandoff) -> None:
        """Start this attempt of a handoff with its step; do nothing where that was started before."""
        assert self._workflow
        words: list[Any] = [
            handoff.id, handoff.attempt, handoff.step, handoff.from_thread, handoff.fork,
        ]  # fmt: skip
        if handoff.move:  # an older tasuki does not know the word
            words.append(handoff.move.kind)
        with self._lock, SetWorkflowID(name_attempt(handoff)):
            DBOS.enqueue_workflow(handoff.queue, self._workflow, *words)

    def give_order(
        self, host: str, id: str, name: str, arguments: dict[str, Any], alone: str
    ) -> str:
        """Give an order to a host, once for an `id`; return the id under which it is carried out.

        That is another one where the host has an open order with the same words in `alone`.
        """
        assert self._order
        policy: Any = "return-existing" if alone else None
        options = SetEnqueueOptions(deduplication_id=alone or None, duplication_policy=policy)
        with self._lock, SetWorkflowID(id), options:
            handle = DBOS.enqueue_workflow(build_queue_name(host), self._order, name, arguments)
        return str(handle.workflow_id)

    def read_order(self, id: str) -> OrderStatus:
        """Read how far an order has come."""
        status: Any = DBOS.get_workflow_status(id)
        if status is not None and status.status == "SUCCESS":
            return OrderStatus("done", status.output)
        return OrderStatus(_ORDER_STATES.get(status.status if status else "", "gone"))

    def withdraw_order(self, id: str) -> bool:
        """Take an order back that no host has begun; return whether that was still possible."""
        assert self._engine
        table = self._build_workflow_table()
        waits = (table.c.workflow_uuid == id) & table.c.status.in_(WAITING_STATUSES)
        query = sa.update(table).where(waits).values(status="CANCELLED", deduplication_id=None)
        with self._engine.begin() as connection:
            return connection.execute(query).rowcount > 0

    def forget_order(self, id: str) -> None:
        """Delete an order that has ended: it holds the text that was sent."""
        DBOS.delete_workflow(id)

    def reconcile(
        self, handoffs: Iterable[FleetHandoff], give_up: Callable[[FleetHandoff, str], None]
    ) -> list[str] | None:
        """Bring the engine in line with the handoffs that should be under way.

        Those that it no longer carries out are given up, with the reason; those that it lacks
        are started. Return the ids of those; None where its database is not usable now.
        """
        wanted = {name_attempt(handoff): handoff for handoff in handoffs}
        for name in list(wanted):
            if why := self._explain_broken(name):
                give_up(wanted.pop(name), why)
        for name in set(self._broken) - set(wanted):
            self._broken.pop(name, None)
        if not self.is_usable():
            return None
        self._queue_lost_again()
        missing = [wanted[name] for name in wanted if DBOS.get_workflow_status(name) is None]
        for handoff in missing:
            self.begin_handoff(handoff)
        return [handoff.id for handoff in missing]

    def _explain_broken(self, name: str) -> str:
        """Return why an attempt is no longer carried out; empty while it is, or is not known."""
        status: Any = DBOS.get_workflow_status(name)
        if status is None or status.status in WAITING_STATUSES or name in self._live:
            return ""
        if status.status == "PENDING" and name not in self._broken:
            return ""
        return self._broken.get(name) or "The engine gave this attempt up."

    def _queue_lost_again(self) -> None:
        """Queue again what this host took and no thread has: an answer, or an end, was lost."""
        assert self._engine
        now, table = time.monotonic(), self._build_workflow_table()
        taken = (table.c.status == "PENDING") & (table.c.executor_id == self.host)
        with self._engine.begin() as connection:
            ids = connection.execute(sa.select(table.c.workflow_uuid).where(taken)).scalars().all()
            absent = set(ids) - self._live - set(self._broken)
            self._absent = {id: self._absent.get(id, now) for id in absent}
            late = [id for id, since in self._absent.items() if now - since > ABSENT_SECONDS]
            if late and len(self._live) < THREADS:
                lost = taken & table.c.workflow_uuid.in_(late)
                values = {"status": "ENQUEUED", "owner_xid": None, "started_at_epoch_ms": None}
                connection.execute(sa.update(table).where(lost).values(values))

    def count_broken(self) -> int:
        """Count the attempts that lost their thread and are not yet known to have failed."""
        return len(self._broken)

    def give_back_pages(self, pages: int) -> bool:
        """Give some free pages of its file back to the disk; return whether as many are left."""
        if self._engine is None or self._engine.dialect.name != "sqlite":
            return False
        with self._engine.begin() as connection:
            return give_back_pages(connection, pages)

    def delete_ended(self, before: float) -> int:
        """Delete some workflows of this host that ended before a time; return how many."""
        until = datetime.fromtimestamp(before, UTC).isoformat()
        deleted = 0
        for queue in (self.queue, build_lost_queue_name(self.host)):
            ended = DBOS.list_workflows(
                status=list(ENDED_STATUSES), completed_before=until, queue_name=queue, limit=DELETED_AT_ONCE,
                load_input=False, load_output=False,
            )  # fmt: skip
            if ended:
                DBOS.delete_workflows([one.workflow_id for one in ended])
            deleted += len(ended)
        return deleted

    def is_usable(self) -> bool:
        """Whether its database can be read and written now; True before the launch.

        May wait for 2 s. For a file, the writer's lock is taken for a moment.
        """
        if (engine := self._engine) is None:
            return True
        schema = None if engine.dialect.name == "sqlite" else SCHEMA
        queues = sa.table("queues", sa.column("name"), schema=schema)
        try:
            with engine.connect() as connection:
                connection.execute(sa.select(queues.c.name).limit(1)).first()
        except sa.exc.SQLAlchemyError:
            return False
        return engine.dialect.name != "sqlite" or is_writable(Path(engine.url.database or ""))

    def close(self) -> None:
        """Stop; handoffs under way continue at the next launch."""
        DBOS.destroy(destroy_registry=True)
        if self._engine:
            self._engine.dispose()


def _require_json(engine: sa.Engine) -> None:
    """Let no pickled row be in the engine's tables, of which an older tasuki left some.

    They are deleted: a handoff that was under way fails, and can be retried. PostgreSQL takes none
    afterwards.
    """
    schema = None if engine.dialect.name == "sqlite" else SCHEMA
    inspector = sa.inspect(engine)
    rules = inspector.get_multi_check_constraints(schema)
    for key, columns in sorted(inspector.get_multi_columns(schema).items()):
        name, has_rule = key[1], JSON_RULE in {rule["name"] for rule in rules.get(key, ())}
        if has_rule or "serialization" not in {column["name"] for column in columns}:
            continue
        table = sa.table(name, sa.column("serialization"), schema=schema)
        with engine.begin() as connection:
            if schema:
                connection.exec_driver_sql(f"LOCK TABLE {schema}.{name}")
            connection.execute(sa.delete(table).where(table.c.serialization != JSON.name()))
            if schema:
                rule = f"CONSTRAINT {JSON_RULE} CHECK (serialization = '{JSON.name()}')"
                connection.exec_driver_sql(f"ALTER TABLE {schema}.{name} ADD {rule}")


def build_queue_name(host: str) -> str:
    """Return the name of the queue on which the handoffs of one host run."""
    return f"host-{host}"


def build_lost_queue_name(host: str) -> str:
    """Return the name of the queue for lost agents of one host; a few run at once."""
    return f"lost-{host}"
