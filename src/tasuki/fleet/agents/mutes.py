"""Agents whose alerts are muted: these are only listed, and notify nobody."""

import time
from datetime import datetime, timedelta

import sqlalchemy as sa
from msgspec import Struct

from tasuki.errors import NoLongerPossible, UsageError
from tasuki.fleet.store import log, tables
from tasuki.fleet.store.database import FleetDatabase, update_row
from tasuki.fleet.store.models import MUTED_FOR_GOOD, FleetAgent
from tasuki.harness.reading.usage_limits import describe_reset
from tasuki.patterns import compile_pattern
from tasuki.text_safety import shorten_to_line

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
    agents = tables.agents.c
    with database.write(alone=True) as connection:
        query = sa.select(agents.muted_until).where(agents.id == agent.id)
        before = connection.execute(query).scalar()
        _set_mute(connection, agent.id, until)
    return MuteChange(agent.id, before, until)


def restore_mute(database: FleetDatabase, change: MuteChange) -> None:
    """Mute an agent as it was before an order. Raises NoLongerPossible where it was muted anew since."""
    agents = tables.agents.c
    with database.write(alone=True) as connection:
        query = sa.select(agents.muted_until).where(agents.id == change.agent_id)
        if connection.execute(query).scalar() != change.after:
            raise NoLongerPossible(
                f"Agent {change.agent_id} was muted or unmuted again since: that stays."
            )
        _set_mute(connection, change.agent_id, change.before)


def _set_mute(connection: sa.Connection, agent_id: int, until: float | None) -> None:
    update_row(connection, tables.agents, agent_id, muted_until=until)
    text = f"Agent {agent_id} is {'muted' if describe_mute(until) else 'no longer muted'}."
    log.note(connection, "agent", text, agent_id=agent_id)


def is_muted(connection: sa.Connection, agent_id: int, now: float) -> bool:
    """Whether an agent is muted, within a transaction."""
    until = connection.execute(_FIND_MUTE, {"wanted": agent_id}).scalar()
    return until is not None and until > now


def describe_mute(until: float | None, now: float | None = None) -> str:
    """Describe until when an agent is muted: `muted until 15:00`, `muted`; empty where it is not."""
    if until is None or until <= (time.time() if now is None else now):
        return ""
    return "muted" if until >= MUTED_FOR_GOOD else f"muted until {describe_reset(until, now)}"


_FIND_MUTE = sa.select(tables.agents.c.muted_until).where(
    tables.agents.c.id == sa.bindparam("wanted")
)
