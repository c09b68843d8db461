"""Alerts for the operator: each event is written down once, then sent; of muted agents they are only listed.

An alert becomes a row before anything is sent, in the same transaction as the event itself, so a
crash loses none. It is marked before it is sent, so a crash sends none twice. It goes to the
desktop, or to the addresses of the setting `notify`.
"""

import logging
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from msgspec import Struct

from tasuki import notify
from tasuki.draft.redact.redactor import Redactor
from tasuki.errors import NoLongerPossible, TasukiError, UsageError
from tasuki.fleet.background import BackgroundWork
from tasuki.fleet.store import log, queries, tables
from tasuki.fleet.store.database import FleetDatabase, update_row
from tasuki.fleet.store.models import MUTED_FOR_GOOD, FleetAgent, OperatorAlert
from tasuki.harness.reading.usage_limits import describe_reset
from tasuki.patterns import compile_pattern
from tasuki.text_safety import shorten_to_line

MOST_TEXT_CHARACTERS = 600
MOST_MISSED = 20
"""Alerts of which a browser is told that was cut off from the server."""
TOO_LATE_SECONDS = 3600.0
"""An alert that waited for this long is only listed: it is too old to wake anyone."""

_TABLE = tables.alerts
_AGENT_TITLES = {
    "needs_you": "waits for you", "threshold": "is past its threshold", "failed": "is lost",
    "limited": "is at a usage limit", "turn_failed": "could not finish its turn",
    "stuck": "seems to be stuck",
}  # fmt: skip


def raise_alert(
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
    """Write an alert in the caller's transaction, once for each `key`; secrets are replaced.

    That of an agent that is muted is only listed.
    """
    if connection.execute(_FIND_BY_KEY, {"wanted": key}).first() is not None:
        return
    redactor = Redactor()
    texts = {"title": redactor.redact_line(title, 200), "text": redactor.redact_line(text, MOST_TEXT_CHARACTERS)}  # fmt: skip
    now = time.time()
    until = connection.execute(_FIND_MUTE, {"wanted": agent_id}).scalar()
    muted = until is not None and until > now
    values: dict[str, Any] = {
        "key": key, "at": now, "kind": kind, "host": host, "agent_id": agent_id, "handoff_id": handoff_id,
        "state": "quiet" if muted else "due", "problem": "", "muted": muted, **texts,
    }  # fmt: skip
    id = int(connection.execute(_INSERT, values).scalar_one())
    log.note(
        connection, "alert", f"{texts['title']}: {texts['text']}", agent_id=agent_id,
        handoff_id=handoff_id, data={"alert": id, "kind": kind},
    )  # fmt: skip


def raise_alarm(
    connection: sa.Connection,
    code: str,
    key: str,
    title: str,
    why: str,
    *,
    host: str,
    agent_id: int,
) -> None:
    """Write that the operator is needed, into the log and as an alert, once for each `key`."""
    text, data = f"{title}: {why}", {"code": code}
    log.note(connection, "alarm", text, agent_id=agent_id, data=data)
    raise_alert(connection, "needs_you", f"{code}/{key}", title, why, host=host, agent_id=agent_id)


def raise_agent_alert(
    connection: sa.Connection, kind: str, agent: Mapping[str, Any], happened_at: float, text: str
) -> None:
    """Raise an alert for an agent that waits, passed its threshold, is limited, stuck or lost.

    `kind` is that of the alert, or `turn_failed` for one of an error: the alert's is `failed` then.
    Only agents with a persona raise alerts. `agent` gives its `id`, `host` and `persona`; `at`
    is when it happened, and distinguishes two occasions.
    """
    if agent["persona"]:
        raise_alert(
            connection, "failed" if kind == "turn_failed" else kind, f"{kind}/{agent['id']}/{happened_at}", f"{agent['persona']} {_AGENT_TITLES[kind]}",
            text, host=agent["host"], agent_id=agent["id"],
        )  # fmt: skip


def list_newest_alerts(
    database: FleetDatabase, limit: int, before: int | None = None
) -> list[OperatorAlert]:
    """List alerts, newest first; only those with an id smaller than `before` where it is given."""
    query = sa.select(_TABLE).order_by(_TABLE.c.id.desc()).limit(limit)
    if before is not None:
        query = query.where(_TABLE.c.id < before)
    return queries.load_rows(OperatorAlert, database, query)


def load_alerts(database: FleetDatabase, ids: Collection[int]) -> list[OperatorAlert]:
    """Load alerts by their ids, oldest first."""
    if not ids:
        return []
    query = sa.select(_TABLE).where(_TABLE.c.id.in_(sorted(ids))).order_by(_TABLE.c.id)
    return queries.load_rows(OperatorAlert, database, query)


def find_alerts_since(database: FleetDatabase, line: int, kinds: Collection[str]) -> set[int]:
    """Find the ids of alerts of some kinds after a line of the log, the newest `MOST_MISSED`."""
    events = tables.events.c
    query = sa.select(events.data).where(events.kind == "alert", events.id > line)
    with database.read() as connection:
        rows = connection.execute(query.order_by(events.id.desc()).limit(MOST_MISSED)).scalars()
        return {data["alert"] for data in rows if data["kind"] in kinds}


def count_unseen(database: FleetDatabase) -> int:
    """Count the alerts that the operator has not seen."""
    return find_unseen_and_newest(database)[0]


def find_unseen_and_newest(database: FleetDatabase) -> tuple[int, int]:
    """Return how many alerts are unseen, and the id of the newest one; 0 for none."""
    with database.read() as connection:
        unseen = connection.execute(_COUNT_UNSEEN).scalar_one()
        newest = connection.execute(sa.select(sa.func.max(_TABLE.c.id))).scalar_one()
    return int(unseen), int(newest or 0)


def mark_seen(database: FleetDatabase, up_to: int) -> tuple[float, int]:
    """Mark the alerts up to an id as seen by the operator; return the moment, and how many."""
    query = sa.update(_TABLE).where(_TABLE.c.id <= up_to, _TABLE.c.seen_at.is_(None))
    moment = time.time()
    return moment, database.change(query.values(seen_at=moment))


def mark_unseen(database: FleetDatabase, moment: float) -> None:
    """Mark the alerts as unseen that were marked as seen at a moment, and no others."""
    query = sa.update(_TABLE).where(_TABLE.c.seen_at == moment)
    database.change(query.values(seen_at=None))


def begin_sending(
    database: FleetDatabase, host: str, kinds: Collection[str]
) -> OperatorAlert | None:
    """Return the oldest alert of a host that is due, marked as being sent; None where none is due.

    Alerts whose kind is not in `kinds` are settled without being sent, and so are those that
    are too late.
    """
    with database.read() as connection:
        if connection.execute(_FIND_DUE, {"here": host}).first() is None:
            return None
    with database.write() as connection:
        for alert in queries.load_rows(OperatorAlert, connection, _FIND_DUE, here=host):
            if alert.kind not in kinds:
                _set_state(connection, alert.id, "quiet")
            elif alert.at < time.time() - TOO_LATE_SECONDS:
                problem = "It is too old: the server was not running."
                _set_state(connection, alert.id, "not_sent", problem)
            else:
                _set_state(connection, alert.id, "sending")
                return alert
    return None


def record_outcome(database: FleetDatabase, id: int, state: str, problem: str = "") -> None:
    """Record the outcome of an alert that was sent."""
    with database.write() as connection:
        _set_state(connection, id, state, problem)


def _set_state(connection: sa.Connection, id: int, state: str, problem: str = "") -> None:
    values = {"state": state, "problem": Redactor().redact_line(problem, MOST_TEXT_CHARACTERS)}
    update_row(connection, _TABLE, id, **values)


_FIND_BY_KEY = sa.select(_TABLE.c.id).where(_TABLE.c.key == sa.bindparam("wanted"))
_INSERT = sa.insert(_TABLE).returning(_TABLE.c.id)
_COUNT_UNSEEN = sa.select(sa.func.count()).select_from(_TABLE).where(_TABLE.c.seen_at.is_(None))
_FIND_DUE = (
    sa.select(_TABLE)
    .where(_TABLE.c.state == "due", _TABLE.c.host == sa.bindparam("here"))
    .order_by(_TABLE.c.id)
    .limit(50)
)


LOOK_SECONDS = 0.5
"""How often due alerts are looked for."""

logger = logging.getLogger("tasuki.fleet")


@dataclass(eq=False, repr=False)
class AlertNotifier(BackgroundWork):
    """Sends alerts from a separate thread, so that a slow address delays nothing else.

    `configure` changes the addresses and the kinds while it runs. Without an address the
    desktop is used, where there is one.
    """

    database: FleetDatabase
    host: str
    addresses: str
    kinds: str
    problem: str = ""
    """What went wrong with the last alert that was sent; empty where nothing did."""
    origin: str = ""
    """Where browsers open the dashboard, `http://name:8787`; empty where no pages are served."""
    name, pause = "notifier", LOOK_SECONDS

    def start(self) -> None:
        """Start sending; what a killed server was sending is uncertain, and not sent again."""
        query = sa.update(_TABLE).where(_TABLE.c.state == "sending", _TABLE.c.host == self.host)
        problem = "The server ended while it was sent."
        self.database.change(query.values(state="uncertain", problem=problem))
        super().start()

    def configure(self, addresses: str, kinds: str) -> None:
        """Send these kinds to these addresses; problems of old addresses are forgotten."""
        if addresses != self.addresses:
            self.problem = ""
        self.addresses, self.kinds = addresses, kinds

    def get_addresses(self) -> str:
        """Return the addresses that alerts go to now; empty where they are only listed."""
        return self.addresses or (notify.DESKTOP if notify.has_desktop() else "")

    def test(self) -> list[str]:
        """Send a test notification; return what went wrong, as sentences."""
        addresses = self.get_addresses()
        if not addresses:
            return [
                "No address is set in `notify`, and this machine shows no desktop notifications."
            ]
        text = "Notifications of tasuki arrive here."
        problems = self._try_send(addresses, "A test", text, "/alerts")
        self.problem = " ".join(problems)
        return problems

    def _work(self) -> None:
        while not self._stop.is_set() and (
            alert := begin_sending(self.database, self.host, self.kinds.split())
        ):
            self._send(alert)

    def _send(self, alert: OperatorAlert) -> None:
        addresses = self.get_addresses()
        if not addresses:
            record_outcome(self.database, alert.id, "quiet")
            return
        problems = self._try_send(addresses, alert.title, alert.text, alert.path)
        arrived = len(problems) < len(notify.list_places(addresses))
        problem = " ".join(problems)
        record_outcome(self.database, alert.id, "sent" if arrived else "not_sent", problem)
        if problem and problem != self.problem:  # once: the log does not repeat it
            logger.warning("%s", problem)
        self.problem = problem

    def _try_send(self, addresses: str, title: str, text: str, path: str) -> list[str]:
        link = f"{self.origin}{path}" if self.origin else ""
        try:
            return notify.send_notification(addresses, f"tasuki: {title}", text, link)
        except TasukiError as error:
            return [str(error)]
        except Exception as error:  # in a service's own code: other alerts must not wait for ever
            logger.exception("A notification")
            return [f"A notification failed: {type(error).__name__}."]


TOMORROW, OFF = "tomorrow", "off"
MORNING_HOUR = 8
"""When `tomorrow` begins, on the clock of the server."""
MOST_DAYS = 365
_SPAN = compile_pattern(r"([0-9]{1,6}) ?(m|min|h|d)")
_UNITS = {"m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def parse_mute(span: str, now: float) -> float | None:
    """Parse for how long: `30m`, `1h`, `2d`, `tomorrow`, empty for good; None for `off`.

    Returns seconds since 1970. Raises UsageError.
    """
    if span in ("", OFF):
        return None if span else MUTED_FOR_GOOD
    if span == TOMORROW:
        day = datetime.fromtimestamp(now).astimezone() + timedelta(days=1)
        return day.replace(hour=MORNING_HOUR, minute=0, second=0, microsecond=0).timestamp()
    match = _SPAN.fullmatch(span)
    seconds = int(match[1]) * _UNITS[match[2]] if match else 0.0
    if not 0 < seconds <= MOST_DAYS * 86400:
        raise UsageError(
            f"An agent cannot be muted for {shorten_to_line(span, 40)!r}. Say 30m, 1h, 2d or tomorrow, at most {MOST_DAYS}d."
        )
    return now + seconds


class MuteChange(Struct, frozen=True):
    """Until when an agent was muted before an order and after it."""

    agent_id: int
    before: float | None
    after: float | None


def mute_agent(database: FleetDatabase, agent: FleetAgent, span: str) -> MuteChange:
    """Mute an agent for a span, or no longer; the log says so. Raises UsageError."""
    until = parse_mute(span, time.time())
    with database.write(alone=True) as connection:
        before = connection.execute(_FIND_MUTE, {"wanted": agent.id}).scalar()
        _set_mute(connection, agent.id, until)
    return MuteChange(agent.id, before, until)


def restore_mute(database: FleetDatabase, change: MuteChange) -> None:
    """Mute an agent as it was before an order. Raises NoLongerPossible where it was muted anew since."""
    with database.write(alone=True) as connection:
        now = connection.execute(_FIND_MUTE, {"wanted": change.agent_id}).scalar()
        if now != change.after:
            raise NoLongerPossible(
                f"Agent {change.agent_id} was muted or unmuted again since: that stays."
            )
        _set_mute(connection, change.agent_id, change.before)


def _set_mute(connection: sa.Connection, agent_id: int, until: float | None) -> None:
    update_row(connection, tables.agents, agent_id, muted_until=until)
    text = f"Agent {agent_id} is {'muted' if describe_mute(until) else 'no longer muted'}."
    log.note(connection, "agent", text, agent_id=agent_id)


def describe_mute(until: float | None, now: float | None = None) -> str:
    """Describe until when an agent is muted: `muted until 15:00`, `muted`; empty where it is not."""
    if until is None or until <= (time.time() if now is None else now):
        return ""
    return "muted" if until >= MUTED_FOR_GOOD else f"muted until {describe_reset(until, now)}"


_FIND_MUTE = sa.select(tables.agents.c.muted_until).where(
    tables.agents.c.id == sa.bindparam("wanted")
)
