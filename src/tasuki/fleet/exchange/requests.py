"""Questions of one host to another: what is only looked at, and answered within a second.

A question is a row and a notification. The host that is asked takes the row away before it answers,
so it answers at most once; an answer that nobody fetches is deleted. Nothing of this survives a
crash, and need not: the asker asks again.
"""

import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from tasuki import errors
from tasuki.errors import HostAway, TasukiError
from tasuki.fleet.exchange.gate import QUESTION_SECONDS, HostGate
from tasuki.fleet.exchange.host_list import build_database_clock, check_reachable, load_host
from tasuki.fleet.exchange.listener import build_host_channel, notify
from tasuki.fleet.store import tables
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.failures import StepFailed

LOOK_SECONDS = 1.0
"""How often an answer is looked for that no notification announced."""
ANSWERS_AT_ONCE = 16
"""More than a few: an answer may wait for one of another host, which may wait for this one."""
MOST_BYTES = 8 << 20
"""Bytes of the largest answer."""

logger = logging.getLogger("tasuki.fleet")


@dataclass(eq=False)
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
        """Ask a host; return its answer.

        Raises HostAway where it does not answer in time, and what it raised itself.
        """
        label = check_reachable(load_host(self.database, host)).label
        requests, answers = tables.host_requests, tables.host_answers
        id, news = secrets.token_hex(16), threading.Event()
        with self._lock:
            self._waiting[id] = news
        try:
            given = {**data, "from": self.database.host}
            question = {
                "id": id,
                "host": host,
                "kind": kind,
                "data": self.gate.sign(host, id, kind, given),
            }
            with self.database.open_transaction() as connection:
                asked_at = build_database_clock(connection)
                query = sa.insert(tables.host_requests).values(asked_at=asked_at, **question)
                connection.execute(query)
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
