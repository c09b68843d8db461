"""What the operator is told of: each event once, written down with what it tells of, then sent.

An alert is a row before anything is sent, in the transaction in which the thing itself is written: a
crash loses none. It is marked before it is sent: a crash sends none twice.
"""

import time
from collections.abc import Collection, Mapping
from typing import Any

import msgspec
import sqlalchemy as sa

from tasuki.draft.redact import Redactor
from tasuki.fleet import log, tables
from tasuki.fleet.database import Database
from tasuki.fleet.rows import Alert
from tasuki.plain import one_line

LONGEST = 600
TOO_LATE_SECONDS = 3600.0
"""An alert that waited for so long is in the list alone: nobody is woken by what was yesterday."""

_TABLE = tables.alerts
_OF_AGENT = {
    "needs_you": "waits for you",
    "threshold": "is past its threshold",
    "failed": "is lost",
}


def raise_(
    connection: sa.Connection,
    kind: str,
    key: str,
    title: str,
    text: str,
    *,
    host: str,
    agent_id: int | None = None,
    handoff_id: str | None = None,
) -> None:
    """Write an alert down, in the caller's transaction; once for a `key`. Secrets are replaced."""
    if connection.execute(_KNOWN, {"wanted": key}).first() is not None:
        return
    redactor = Redactor()
    said = {"title": one_line(redactor.redact(title), 200), "text": one_line(redactor.redact(text), LONGEST)}  # fmt: skip
    values: dict[str, Any] = {
        "key": key, "at": time.time(), "kind": kind, "host": host, "agent_id": agent_id,
        "handoff_id": handoff_id, "state": "due", "problem": "", **said,
    }  # fmt: skip
    id = int(connection.execute(_INSERT, values).scalar_one())
    log.note(
        connection, "alert", f"{said['title']}: {said['text']}", agent_id=agent_id,
        handoff_id=handoff_id, data={"alert": id, "kind": kind},
    )  # fmt: skip


def of_agent(
    connection: sa.Connection, kind: str, agent: Mapping[str, Any], at: float, text: str
) -> None:
    """An agent waits, passed its threshold, or is lost: an alert where somebody runs it as a persona.

    `agent` gives its `id`, `host` and `persona`; `at` is when it happened, and tells two times apart.
    """
    if agent["persona"]:
        raise_(
            connection, kind, f"{kind}/{agent['id']}/{at}", f"{agent['persona']} {_OF_AGENT[kind]}",
            text, host=agent["host"], agent_id=agent["id"],
        )  # fmt: skip


# -- the list --------------------------------------------------------------------------


def newest(database: Database, limit: int, before: int | None = None) -> list[Alert]:
    """Alerts, the newest first; those with a smaller id than `before`, where that is said."""
    query = sa.select(_TABLE).order_by(_TABLE.c.id.desc()).limit(limit)
    if before is not None:
        query = query.where(_TABLE.c.id < before)
    return _read(database, query)


def of_ids(database: Database, ids: Collection[int]) -> list[Alert]:
    """Some alerts by their ids, the oldest first."""
    if not ids:
        return []
    return _read(
        database, sa.select(_TABLE).where(_TABLE.c.id.in_(sorted(ids))).order_by(_TABLE.c.id)
    )


def unseen(database: Database) -> int:
    """How many alerts the operator has not seen."""
    return known(database)[0]


def known(database: Database) -> tuple[int, int]:
    """How many alerts the operator has not seen, and the id of the newest of all; 0 for none."""
    with database.read() as connection:
        unseen = connection.execute(_UNSEEN).scalar_one()
        newest = connection.execute(sa.select(sa.func.max(_TABLE.c.id))).scalar_one()
    return int(unseen), int(newest or 0)


def see(database: Database, up_to: int) -> None:
    """The operator has seen the alerts up to an id."""
    query = sa.update(_TABLE).where(_TABLE.c.id <= up_to, _TABLE.c.seen_at.is_(None))
    with database.write() as connection:
        connection.execute(query.values(seen_at=time.time()))


# -- sending ---------------------------------------------------------------------------


def begin(database: Database, host: str, about: Collection[str]) -> Alert | None:
    """The oldest alert of a host that is to be sent, marked as being sent; None where none waits.

    Those whose kind is not in `about` are settled without being sent, and those that are too late.
    """
    with database.read() as connection:
        if connection.execute(_DUE, {"here": host}).first() is None:
            return None
    with database.write() as connection:
        for row in connection.execute(_DUE, {"here": host}).mappings().all():
            of = _alert(row)
            if of.kind not in about:
                _set(connection, of.id, "quiet")
            elif of.at < time.time() - TOO_LATE_SECONDS:
                _set(connection, of.id, "not_sent", "It is too old: the server was away.")
            else:
                _set(connection, of.id, "sending")
                return of
    return None


def settle(database: Database, id: int, state: str, problem: str = "") -> None:
    """Write down what became of one that was sent."""
    with database.write() as connection:
        _set(connection, id, state, problem)


def recover(database: Database, host: str) -> None:
    """Those that a server was sending when it was killed: nobody knows, and none is sent again."""
    query = sa.update(_TABLE).where(_TABLE.c.state == "sending", _TABLE.c.host == host)
    said = "The server ended while it was sent."
    with database.write() as connection:
        connection.execute(query.values(state="uncertain", problem=said))


def _set(connection: sa.Connection, id: int, state: str, problem: str = "") -> None:
    values = {"state": state, "problem": one_line(problem, LONGEST)}
    connection.execute(sa.update(_TABLE).where(_TABLE.c.id == id).values(**values))


def _alert(row: sa.RowMapping) -> Alert:
    return msgspec.convert({str(name): value for name, value in row.items()}, Alert)


def _read(database: Database, query: "sa.Select[Any]") -> list[Alert]:
    with database.read() as connection:
        return [_alert(row) for row in connection.execute(query).mappings()]


_KNOWN = sa.select(_TABLE.c.id).where(_TABLE.c.key == sa.bindparam("wanted"))
_INSERT = sa.insert(_TABLE).returning(_TABLE.c.id)
_UNSEEN = sa.select(sa.func.count()).select_from(_TABLE).where(_TABLE.c.seen_at.is_(None))
_DUE = (
    sa.select(_TABLE)
    .where(_TABLE.c.state == "due", _TABLE.c.host == sa.bindparam("here"))
    .order_by(_TABLE.c.id)
    .limit(50)
)
