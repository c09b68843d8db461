"""Orders and questions of one host to another, and the news by which they are noticed.

An order is durable, and carried out once begun, also after a crash: a workflow on the queue of the
host that it is for, where it waits until that host takes it. One that no host took in time is
withdrawn, so nothing happens later to an agent of a host that was asleep.

A question is only looked at, and answered within a second: a row and a notification. The host that is
asked takes the row away before it answers, so it answers at most once; an answer that nobody fetches
is deleted. Nothing of this survives a crash, and need not: the asker asks again.

A notification is only a hint that something is there to read: it may be lost with a connection, so
everything is read again every few seconds, too. The channels are `tasuki_log` (the id of the host
whose log grew) and `tasuki_<host id>` (a question or an answer for that host).
"""

import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec
import psycopg
import sqlalchemy as sa
from psycopg import sql
from sqlalchemy.exc import DBAPIError

from tasuki import errors
from tasuki.errors import HostAway, TasukiError
from tasuki.fleet.background import LifeSign
from tasuki.fleet.exchange.gate import ORDER_SECONDS, QUESTION_SECONDS, HostGate
from tasuki.fleet.exchange.host_list import build_database_clock, check_reachable, load_host
from tasuki.fleet.handoff.engine import ORDER_LOOK_SECONDS, HandoffEngine
from tasuki.fleet.store import tables
from tasuki.fleet.store.connections import connect_alone
from tasuki.fleet.store.database import FleetDatabase, is_temporary
from tasuki.fleet.store.failures import ServerClosing, StepFailed

BEGIN_SECONDS = 15.0
"""How long a host may take to begin an order."""
END_SECONDS = 120.0
"""How long it may take to carry it out before the asker is told that it goes on."""

logger = logging.getLogger("tasuki.fleet")


class HostOrders:
    """Gives orders to other hosts, and waits for their results."""

    def __init__(self, database: FleetDatabase, engine: HandoffEngine, gate: HostGate) -> None:
        self.database = database
        self.engine = engine
        self.gate = gate

    def give(self, host: str, name: str, arguments: dict[str, Any], *, alone: str = "") -> Any:
        """Give an order and return its result.

        While an order with the same words in `alone` is open, that one is waited for. The host itself
        knows the key of a text: what was withdrawn or refused can be ordered again with it. Raises
        HostAway, and what the other host raised.
        """
        label = check_reachable(load_host(self.database, host)).label
        wanted = f"order-{secrets.token_hex(16)}"
        signed = self.gate.sign(host, wanted, name, arguments)
        id = self.engine.give_order(host, wanted, name, signed, alone)
        deadline, is_begun = time.monotonic() + BEGIN_SECONDS, False
        while True:
            status = self.engine.read_order(id)
            if status.state == "done":
                if not alone:  # others may wait for the same one
                    self._forget(id)
                return open_answer(status.result)
            if status.state == "gone":
                raise HostAway(
                    f"The host {label} gave the order up. Nothing more is done. Try again."
                )
            if status.state == "begun" and not is_begun:
                deadline, is_begun = time.monotonic() + END_SECONDS, True
            if time.monotonic() > deadline:
                break
            time.sleep(ORDER_LOOK_SECONDS)
        if not is_begun and self.engine.withdraw_order(id):
            if not alone:
                self._forget(id)
            raise HostAway(
                f"The host {label} did not take the order within {BEGIN_SECONDS:.0f} s, so it was withdrawn: nothing was "
                "done, and nothing will be. Try again."
            )
        raise HostAway(
            f"The host {label} has begun the order and has not said how it ended: it goes on when the host does, and "
            "nothing is done twice. Look at the agent before you order something else."
        )

    def _forget(self, id: str) -> None:
        """Delete an order whose end is known; one that is left is deleted once it is old."""
        with suppress(DBAPIError):
            self.engine.forget_order(id)

    def leave(self, host: str, name: str, arguments: dict[str, Any], key: str) -> None:
        """Leave an order for a host, whenever it comes back; do not wait for it."""
        id = f"order-{key}"
        self.engine.give_order(host, id, name, self.gate.sign(host, id, name, arguments), "")


def carry_out_order(
    gate: HostGate,
    carry_out: Callable[[str, str, dict[str, Any]], Any],
    wait: Callable[[float], bool],
    id: str,
    name: str,
    arguments: dict[str, Any],
) -> dict[str, Any]:
    """Carry out an order of another host; return its result, or its error, as JSON values.

    `gate` decides whether it is carried out at all. While the database is away it waits and starts over; `wait` sleeps and tells whether the server
    ends.
    """
    checked: dict[str, Any] | None = None
    seconds = float("inf") if name == "undo_move" else ORDER_SECONDS  # it waits for a host
    while True:
        try:
            if checked is None:
                checked = gate.check(id, name, arguments, seconds)
            return {"value": carry_out(id, name, checked)}
        except TasukiError as error:
            return pack_error(error)
        except DBAPIError as error:
            if not is_temporary(error):
                logger.exception("An order of another host: %s", name)
                return pack_error(TasukiError(f"The database refused it: {error.orig}"))
            if wait(1.0):
                raise ServerClosing from error
        except Exception as error:
            logger.exception("An order of another host: %s", name)
            return pack_error(TasukiError(f"An error in tasuki itself: {type(error).__name__}."))


LOOK_SECONDS = 1.0
"""How often an answer is looked for that no notification announced."""
ANSWERS_AT_ONCE = 16
"""More than a few: an answer may wait for one of another host, which may wait for this one."""
MOST_BYTES = 8 << 20
"""Bytes of the largest answer."""


@dataclass(eq=False, repr=False)
class HostRequests:
    """Asks other hosts, and answers them.

    `carry_out` takes the id, the name and the arguments of an order, and returns a JSON value.
    """

    database: FleetDatabase
    gate: HostGate
    carry_out: Callable[[str, str, Mapping[str, Any]], Any]

    def __post_init__(self) -> None:
        self._waiting: dict[str, threading.Event] = {}
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(ANSWERS_AT_ONCE, thread_name_prefix="answers")

    def close(self) -> None:
        """Answer nothing more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def ask(self, host: str, kind: str, data: Mapping[str, Any], seconds: float) -> Any:
        """Ask a host; return its answer. Raises HostAway for none in time, and what it raised."""
        label = check_reachable(load_host(self.database, host)).label
        requests, answers = tables.host_requests, tables.host_answers
        id, news = secrets.token_hex(16), threading.Event()
        with self._lock:
            self._waiting[id] = news
        try:
            signed = self.gate.sign(host, id, kind, {**data, "from": self.database.host})
            question = {"id": id, "host": host, "kind": kind, "data": signed}
            with self.database.open_transaction() as connection:
                asked_at = build_database_clock(connection)
                connection.execute(sa.insert(requests).values(asked_at=asked_at, **question))
                notify(connection, build_host_channel(host))
            deadline = time.monotonic() + seconds
            while (left := deadline - time.monotonic()) > 0:
                news.wait(min(left, LOOK_SECONDS))
                news.clear()
                answer = sa.delete(answers).where(answers.c.id == id).returning(answers.c.content)
                with self.database.open_transaction() as connection:
                    row = connection.execute(answer).first()
                if row:
                    return open_answer(row.content)
        finally:
            with self._lock:
                self._waiting.pop(id, None)
        with self.database.open_transaction() as connection:
            withdrawn = connection.execute(sa.delete(requests).where(requests.c.id == id)).rowcount
        if withdrawn:  # nobody has taken it
            raise HostAway(f"The host {label} did not answer within {seconds:.0f} s. Nothing was done. Try again.")  # fmt: skip
        raise HostAway(
            f"The host {label} took the request and did not answer within {seconds:.0f} s: it is not known what was "
            "done. Look at it before you try again."
        )

    def look(self) -> None:
        """Wake those who wait for answers, and answer what other hosts ask; from any thread."""
        with self._lock:
            for news in self._waiting.values():
                news.set()
        try:
            for id, kind, data in self._take_questions():
                self._pool.submit(self._answer, id, kind, data)
        except (DBAPIError, RuntimeError):  # the database is away, or the server ends
            return

    def _take_questions(self) -> list[tuple[str, str, dict[str, Any]]]:
        requests, answers = tables.host_requests, tables.host_answers
        with self.database.open_transaction() as connection:
            clock = build_database_clock(connection)
            own = requests.c.host == self.database.host
            columns = (requests.c.id, requests.c.kind, requests.c.data, requests.c.asked_at)
            rows = connection.execute(sa.delete(requests).where(own).returning(*columns)).all()
            if not rows:
                return []
            now = float(connection.execute(sa.select(clock)).scalar_one())
            connection.execute(
                sa.delete(answers).where(answers.c.answered_at < now - 2 * QUESTION_SECONDS)
            )
        return [
            (row.id, row.kind, row.data) for row in rows if now - row.asked_at < QUESTION_SECONDS
        ]

    def _answer(self, id: str, kind: str, data: dict[str, Any]) -> None:
        content = self._build_answer(id, kind, data)
        answers = tables.host_answers
        try:
            with self.database.open_transaction() as connection:
                clock = build_database_clock(connection)
                values = {"id": id, "content": content, "answered_at": clock}
                connection.execute(sa.insert(answers).values(values))
                notify(connection, build_host_channel(str(data.get("from"))))
        except DBAPIError:
            logger.warning("An answer to another host could not be written: the database is away.")

    def _build_answer(self, id: str, kind: str, data: dict[str, Any]) -> dict[str, Any]:
        try:
            checked = self.gate.check(id, kind, data, QUESTION_SECONDS)
            content = {"value": self.carry_out(id, kind, checked)}
        except TasukiError as error:
            return pack_error(error)
        except Exception as error:
            logger.exception("A question of another host: %s", kind)
            return pack_error(TasukiError(f"An error in tasuki itself: {type(error).__name__}."))
        if len(msgspec.json.encode(content)) > MOST_BYTES:
            return pack_error(
                errors.NotPossible("That is too large to be shown from another host.")
            )
        return content


def pack_error(error: TasukiError) -> dict[str, Any]:
    """Pack an error so that the host that asked can raise it."""
    details = error.details if isinstance(error, errors.AlreadyUnderWay) else {}
    return {"error": str(error), "kind": type(error).__name__, "details": details,
            "code": getattr(error, "code", "")}  # fmt: skip


def open_answer(content: Mapping[str, Any]) -> Any:
    """Return the value of an answer, or raise the error that it holds."""
    if "error" not in content:
        return content.get("value")
    sentence, kind = str(content["error"]), str(content.get("kind", ""))
    if kind == "StepFailed":
        raise StepFailed(str(content["code"]), sentence)
    error_class = getattr(errors, kind, None)
    if error_class is errors.AlreadyUnderWay:
        raise errors.AlreadyUnderWay(sentence, **content.get("details", {}))
    if isinstance(error_class, type) and issubclass(error_class, TasukiError):
        raise error_class(sentence)
    raise TasukiError(sentence)


LOG_CHANNEL = "tasuki_log"
NET_SECONDS = 5.0
"""How often everything is read although nothing was announced."""
TOGETHER_SECONDS = 0.03
"""News of this time are announced together."""
RECONNECT_SECONDS = 1.0


def build_host_channel(host: str) -> str:
    """Return the channel on which questions and answers for a host are announced."""
    return f"tasuki_{host}"


@dataclass(eq=False, repr=False)
class HostListener:
    """Two threads: one that listens, one that announces. SQLite has one host and needs neither.

    `on_log` is called when another host's log grew, `on_message` when a question or an answer may
    be there for this host. `has_others` tells whether anybody would hear an announcement.
    """

    database: FleetDatabase
    on_log: Callable[[], None]
    on_message: Callable[[], None]
    has_others: Callable[[], bool]

    def __post_init__(self) -> None:
        self.sign = LifeSign("Listening to other hosts")
        self._stop = threading.Event()
        self._news = threading.Event()
        self._threads = [
            threading.Thread(target=self._listen, name="listen", daemon=True),
            threading.Thread(target=self._announce, name="announce", daemon=True),
        ]

    def start(self) -> None:
        """Start both threads."""
        if not self.database.is_sqlite:
            self.sign.note_work()
            for thread in self._threads:
                thread.start()

    def close(self, seconds: float) -> None:
        """Stop; wait some seconds for each thread."""
        self._stop.set()
        self._news.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(seconds)

    def announce_log(self) -> None:
        """Announce soon that this host's log grew; callable from any thread."""
        self._news.set()

    def _listen(self) -> None:
        while not self._stop.is_set():
            try:
                with suppress(psycopg.Error, DBAPIError):
                    self._listen_once()
                self._read_all()
            except Exception:
                logger.exception("Listening to other hosts")
            self._stop.wait(RECONNECT_SECONDS)

    def _listen_once(self) -> None:
        """Listen until the connection breaks, or the server ends."""
        name = f"tasuki {self.database.host} listens"
        with connect_alone(self.database.url, application_name=name) as raw:
            for channel in (LOG_CHANNEL, build_host_channel(self.database.host)):
                raw.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
            while not self._stop.is_set():
                raw.execute("SELECT 1")
                self.sign.note_work()
                self._read_all()
                self._wait_for_news(raw, time.monotonic() + NET_SECONDS)

    def _wait_for_news(self, raw: psycopg.Connection, until: float) -> None:
        while not self._stop.is_set() and time.monotonic() < until:
            for notice in raw.notifies(timeout=0.5, stop_after=1):
                if notice.channel != LOG_CHANNEL:
                    self.on_message()
                elif notice.payload != self.database.host:
                    self.on_log()

    def _read_all(self) -> None:
        self.on_log()
        self.on_message()

    def _announce(self) -> None:
        """Announce news outside of their transactions.

        Within, each commit with a NOTIFY would wait for those of all other hosts, and cost a round
        trip. A killed server announces nothing: others read its last lines within `NET_SECONDS`.
        """
        while not self._stop.is_set():
            self._news.wait()
            self._stop.wait(TOGETHER_SECONDS)
            self._news.clear()
            if self._stop.is_set() or not self.has_others():
                continue
            try:
                with self.database.read() as connection:
                    notify(connection, LOG_CHANNEL, self.database.host)
            except DBAPIError:
                self._stop.wait(RECONNECT_SECONDS)


def notify(connection: sa.Connection, channel: str, payload: str = "") -> None:
    """Announce something on a channel, at the end of the connection's transaction."""
    connection.execute(sa.select(sa.func.pg_notify(channel, payload)))
