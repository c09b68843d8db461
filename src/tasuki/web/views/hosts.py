"""Hosts as pages show them; empty lists where the fleet has one host, whose pages name none."""

import time
from collections.abc import Iterable, Mapping

from msgspec import Struct

from tasuki.fleet.exchange import host_list
from tasuki.fleet.exchange.host_list import FleetHostRow
from tasuki.fleet.store.database import FleetDatabase
from tasuki.web.views.display import StateBadge

MOST_CLOCK_OFFSET = 5.0
"""Seconds by which a clock may be off before pages say so."""
HOST_SHAPES = {
    "here": StateBadge("busy", "Alive", "rest"),
    "alive": StateBadge("busy", "Alive", "rest"),
    "away": StateBadge("todo", "Away", "rest"),
    "off": StateBadge("end", "Off", "rest"),
    "given up": StateBadge("drop", "Given up", "rest"),
    "retired": StateBadge("drop", "Retired", "rest"),
}


class ShownHost(Struct, frozen=True):
    """A host as pages show it. `since` is when it was seen last, where it is not reachable."""

    row: FleetHostRow
    shown: StateBadge
    since: float | None
    load: str
    """`0.4 on 8 cores`: processes that run or wait; empty where it is unknown."""
    clock: str
    """`300 s fast`; empty where its clock is right."""
    seen_at: float | None = None
    """When it was seen last."""

    @property
    def id(self) -> str:
        """Its id."""
        return self.row.id

    @property
    def label(self) -> str:
        """Its name for people."""
        return self.row.label

    @property
    def is_reachable(self) -> bool:
        """Whether orders reach it now."""
        return self.row.is_reachable

    @property
    def is_asleep(self) -> bool:
        """Whether its agents are kept, and go on when it is back."""
        return self.row.state in ("away", "off")

    @property
    def news_key(self) -> tuple[object, ...]:
        """What pages show of it, without what changes by itself."""
        return (self.label, self.shown.word, self.load, self.clock, self.row.agents, self.row.version)  # fmt: skip


def list_fleet_hosts(database: FleetDatabase, *, alone: bool = False) -> list[ShownHost]:
    """List the hosts of the fleet by label, this one first.

    Empty where there is only one, unless `alone` asks for it then, too.
    """
    if database.is_sqlite and not alone:
        return []
    listed = host_list.list_hosts(database)
    if len(listed) < 2 and not alone:
        return []
    shown = [show_host(row) for row in listed]
    return sorted(shown, key=lambda host: host.row.state != "here")


def show_host(row: FleetHostRow) -> ShownHost:
    """Show one host."""
    details, offset = row.details, row.details.clock_offset
    cores = f"{details.processors} core{'s' if details.processors != 1 else ''}"
    load = f"{details.load:.1f} on {cores}" if details.processors else ""
    is_off = abs(offset) > MOST_CLOCK_OFFSET
    clock = f"{abs(offset):.0f} s {'fast' if offset > 0 else 'slow'}" if is_off else ""
    seen = None if row.seen_seconds is None else time.time() - row.seen_seconds
    since = None if row.is_reachable else row.given_up_at or seen
    return ShownHost(
        row, HOST_SHAPES[row.state], since, load if row.is_reachable else "", clock, seen
    )


def index_hosts(hosts: Iterable[ShownHost]) -> Mapping[str, ShownHost]:
    """Index hosts by their ids."""
    return {host.id: host for host in hosts}


def find_absence(database: FleetDatabase, host_id: str) -> str:
    """Find why a host cannot be reached now, as a sentence; empty where it can."""
    for host in list_fleet_hosts(database):
        if host.id == host_id:
            return "" if host.is_reachable else host_list.describe_absence(host.row)
    return ""
