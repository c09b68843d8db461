"""The hosts of a fleet, as every host sees them: who lives, who is away, who has left.

Times are by the clock of the database, so hosts whose clocks differ agree who is away.
"""

import sys
import time
from collections.abc import Collection
from typing import Any, Literal

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from tasuki.errors import HostAway, HostNotFound, NotPossible
from tasuki.fleet.hosts import MOST_LABEL_CHARACTERS
from tasuki.fleet.store import log, queries, tables
from tasuki.fleet.store.database import FleetDatabase, update_row
from tasuki.harness import registry as harnesses
from tasuki.patterns import compile_pattern
from tasuki.text_safety import clean_text, shorten_to_line

AWAY_SECONDS = 60.0
"""A host that was not seen for this long is away."""
SHORTEST_PREFIX = 3
"""Fewest characters of an id or a label that are completed."""
HostState = Literal["here", "alive", "away", "off", "given up", "retired"]
"""here: the host that answers. off: its server was stopped by somebody."""
_ID = compile_pattern(r"h[0-9a-f]{12}")


class HostHarness(Struct, frozen=True):
    """A harness on a host: whether agents of it can be started there."""

    name: str
    program: str = ""
    """Whole path of its program; empty where it is not installed."""
    hooks: bool = False
    """The fleet's hooks are installed."""
    login: Literal["yes", "no", "unknown"] = "unknown"


def find_login(name: str) -> Literal["yes", "no", "unknown"]:
    """Tell whether traces of a login to a harness are on this host, as its program leaves them.

    Nothing is run and no key is read. A program may keep its login elsewhere, so its absence is a
    hint, never a proof.
    """
    found = harnesses.is_signed_in(harnesses.get_harness(name))
    if found:
        return "yes"
    return "unknown" if found is None or sys.platform == "darwin" else "no"  # macOS has a keychain


class HostDetails(Struct, frozen=True):
    """What a host reports of itself with each sign of life."""

    load: float = 0.0
    """Average number of waiting or running processes in the last minute."""
    processors: int = 0
    clock_offset: float = 0.0
    """Seconds by which its clock is ahead of the database's."""
    platform: str = ""
    tmux: bool = True
    harnesses: tuple[HostHarness, ...] = ()
    stopped: bool = False
    """Its server ended in order."""


class FleetHostRow(Struct, frozen=True):
    """A host of the fleet. Times are seconds since 1970; `seen_seconds` is an age."""

    id: str
    label: str
    state: HostState
    version: str
    started_at: float
    seen_seconds: float | None = None
    """Seconds since its last sign of life; None where there was none."""
    boot_id: str = ""
    epoch: int = 0
    address: str = ""
    role: str = ""
    given_up_at: float | None = None
    retired_at: float | None = None
    details: HostDetails = HostDetails()
    agents: int = 0
    """Agents there that have not ended."""

    @property
    def is_reachable(self) -> bool:
        """Whether orders reach it now."""
        return self.state in ("here", "alive")


def build_database_clock(connection: sa.Connection) -> sa.ColumnElement[float]:
    """Build the expression of the present time by the database's clock, in seconds since 1970."""
    if connection.dialect.name == "sqlite":
        return sa.literal(time.time())
    return sa.cast(sa.extract("epoch", sa.func.clock_timestamp()), sa.Double)


def list_hosts(database: FleetDatabase, *, retired: bool = False) -> list[FleetHostRow]:
    """List the hosts by label: those that belong to the fleet, and where asked the retired ones."""
    hosts, agents = tables.hosts, tables.agents
    counted = sa.select(agents.c.host, sa.func.count().label("agents")).group_by(agents.c.host)
    living = counted.where(agents.c.ended_at.is_(None)).subquery()
    with database.read() as connection:
        now = build_database_clock(connection).label("now")
        query = sa.select(hosts, sa.func.coalesce(living.c.agents, 0).label("agents"), now)
        query = query.join(living, living.c.host == hosts.c.id, isouter=True)
        rows = connection.execute(query).mappings().all()
    listed = [_parse_host(dict(row), database.host) for row in rows]
    listed = [host for host in listed if retired or host.state != "retired"]
    return sorted(listed, key=lambda host: (host.label.lower(), host.id))


def _parse_host(row: dict[str, Any], own: str) -> FleetHostRow:
    content = row["details"]
    try:
        details = msgspec.convert(content or {}, HostDetails, strict=False)
    except msgspec.ValidationError:  # a later tasuki may report it otherwise
        stopped = isinstance(content, dict) and content.get("stopped") is True
        details = HostDetails(stopped=stopped)
    seen = row["last_seen"]
    age = None if seen is None else max(0.0, row["now"] - seen)
    return FleetHostRow(
        id=row["id"], label=row["given_label"] or row["label"], version=row["version"],
        state=_find_state(row, own, age, details), started_at=row["started_at"], seen_seconds=age,
        boot_id=row["boot_id"], epoch=row["epoch"], address=row["address"], role=row["role"],
        given_up_at=row["given_up_at"], retired_at=row["retired_at"], details=details,
        agents=row["agents"],
    )  # fmt: skip


def _find_state(
    row: dict[str, Any], own: str, age: float | None, details: HostDetails
) -> HostState:
    if row["retired_at"] is not None:
        return "retired"
    if row["id"] == own:
        return "here"
    if row["given_up_at"] is not None:
        return "given up"
    if details.stopped:
        return "off"
    return "alive" if age is not None and age < AWAY_SECONDS else "away"


def find_host(database: FleetDatabase, name: str) -> FleetHostRow:
    """Find a host by id, label, or an unambiguous beginning of either. Raises HostNotFound."""
    wanted, hosts = name.strip().lower(), list_hosts(database, retired=True)
    shown = shorten_to_line(name, 80)
    is_long = len(wanted) >= SHORTEST_PREFIX
    for matches in (
        [host for host in hosts if host.id == wanted],
        [host for host in hosts if host.label.lower() == wanted],
        [x for x in hosts if is_long and (x.id.startswith(wanted) or x.label.lower().startswith(wanted))],
    ):  # fmt: skip
        living = [host for host in matches if host.state != "retired"] or matches
        if len(living) == 1:
            return living[0]
        if living:
            names = ", ".join(f"{host.label} ({host.id})" for host in living)
            raise HostNotFound(f"{shown!r} names several hosts: {names}. Use an id.")
    names = ", ".join(host.label for host in hosts if host.state != "retired")
    raise HostNotFound(f"No host {shown!r} in this fleet. There are: {names}.")


def load_host(database: FleetDatabase, host_id: str) -> FleetHostRow:
    """Load a host by its whole id. Raises HostNotFound."""
    for host in list_hosts(database, retired=True):
        if host.id == host_id:
            return host
    raise HostNotFound(f"No host {host_id} in this fleet. List them: tasuki host list")


def check_reachable(host: FleetHostRow) -> FleetHostRow:
    """Raise HostAway where no order reaches a host now."""
    if host.is_reachable:
        return host
    raise HostAway(f"Nothing was done. {describe_absence(host)}")


def describe_gone(source: queries.QuerySource, host_id: str) -> str:
    """Describe in a sentence that a host was given up or retired; empty where it was not."""
    hosts = tables.hosts.c
    query = sa.select(hosts.label, hosts.given_label, hosts.given_up_at, hosts.retired_at)
    row = queries.fetch(source, query.where(hosts.id == host_id)).first()
    if row is None or (row.given_up_at is None and row.retired_at is None):
        return ""
    what = "given up" if row.retired_at is None else "retired"
    return f"The host {row.given_label or row.label} was {what}."


def describe_absence(host: FleetHostRow) -> str:
    """Describe in a sentence why a host does not answer."""
    if host.state == "retired":
        return f"The host {host.label} was retired."
    if host.state == "given up":
        return (
            f"The host {host.label} was given up. The work of its agents can go on elsewhere: tasuki agent handoff ID "
            "--to-host HOST"
        )
    if host.state == "off":
        return f"The server of the host {host.label} was stopped. Start it there: tasuki serve"
    if host.seen_seconds is None:
        return f"The host {host.label} has never been seen."
    seen = format_seconds(host.seen_seconds)
    return f"The host {host.label} is away: it was last seen {seen} ago."


def format_seconds(seconds: float) -> str:
    """Format an age in the largest unit that it fills."""
    for unit, length in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def label_host(database: FleetDatabase, host_id: str, label: str) -> FleetHostRow:
    """Give a host a name for people, which it keeps; empty for its machine's own.

    Raises HostNotFound; NotPossible for one that another host has, or that looks like an id.
    """
    name = shorten_to_line(clean_text(label), MOST_LABEL_CHARACTERS).strip()
    if _ID.fullmatch(name.lower()):
        raise NotPossible(f"{name!r} looks like the id of a host. Choose another name.")
    for other in list_hosts(database):
        if name and other.id != host_id and other.label.lower() == name.lower():
            raise NotPossible(
                f"Host {other.id} is called {other.label} already. Choose another name."
            )
    old = load_host(database, host_id)
    with database.write(alone=True) as connection:
        update_row(connection, tables.hosts, host_id, given_label=name)
        text = f"The host {old.label} is now called {name or 'as its machine'}."
        log.note(connection, "host", text, data={"host": host_id})
    return load_host(database, host_id)


def read_labels(database: FleetDatabase, ids: Collection[str] = ()) -> dict[str, str]:
    """Read the names of hosts for people, by id; of all where none are given."""
    hosts = tables.hosts.c
    query = sa.select(hosts.id, hosts.label, hosts.given_label)
    if ids:
        query = query.where(hosts.id.in_(sorted(ids)))
    return {row.id: row.given_label or row.label for row in database.fetch(query)}
