"""Signs of life of this host, and what it learns by them: that it was retired, or given up."""

import logging
import os
import platform
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from tasuki.errors import TasukiError
from tasuki.fleet import alerts
from tasuki.fleet.agents.lifecycle import check_hooks
from tasuki.fleet.background import BackgroundWork, LifeSign
from tasuki.fleet.exchange import host_list
from tasuki.fleet.store import log, tables
from tasuki.fleet.store.database import FleetDatabase
from tasuki.harness import registry as harnesses

BEAT_SECONDS, RETRY_SECONDS = 10.0, 2.0
RECENT_SECONDS = 60.0
"""Another host that was seen within this time may be listening."""

logger = logging.getLogger("tasuki.fleet")


@dataclass(eq=False, repr=False)
class HostHeartbeat(BackgroundWork):
    """Writes every ten seconds that this host lives; `on_retired` is told once it is retired."""

    database: FleetDatabase
    data: Path
    on_retired: Callable[[str], None]
    others: int = 0
    """Other hosts of the fleet that were seen lately."""
    name, pause = "heartbeat", BEAT_SECONDS

    def __post_init__(self) -> None:
        self.sign = LifeSign("Writing signs of life")
        super().__post_init__()

    def start(self) -> None:
        """Write a sign of life now, the next ones in a thread; one is enough for SQLite's host."""
        self.beat()
        if not self.database.is_sqlite:
            self.sign.note_work()
            super().start()

    def close(self, seconds: float) -> None:
        """Stop, and write that this host's server ended in order."""
        super().close(seconds)
        try:
            self._write(msgspec.structs.replace(self._describe(), stopped=True))
        except DBAPIError:
            logger.info("The database is away: other hosts see this one as away, not as stopped.")

    def _work(self) -> None:
        self.pause = RETRY_SECONDS
        self.beat()
        self.sign.note_work()
        self.pause = BEAT_SECONDS

    def beat(self) -> None:
        """Write one sign of life, and act on what the operator decided about this host."""
        row = self._write(self._describe())
        if row and row.retired_at is not None:
            self.on_retired(
                "This host was retired from the fleet, so its server ends. To come back: tasuki host join"
            )
        elif row and row.given_up_at is not None:
            self._return_from_given_up()

    def _describe(self) -> host_list.HostDetails:
        return host_list.HostDetails(
            load=round(os.getloadavg()[0], 2), processors=os.cpu_count() or 0,
            platform=platform.system(), tmux=shutil.which("tmux") is not None,
            harnesses=tuple(list_harnesses(self.data)),
        )  # fmt: skip

    def _write(
        self, details: host_list.HostDetails
    ) -> "sa.Row[tuple[float | None, float | None]] | None":
        hosts = tables.hosts
        # events of hooks must not wait for it
        with self.database.open_transaction() as connection:
            clock = host_list.build_database_clock(connection)
            is_sqlite = self.database.is_sqlite
            before = time.time()
            moment = float(connection.execute(sa.select(clock)).scalar_one())
            offset = (before + time.time()) / 2 - moment
            self.database.clock_offset = 0.0 if is_sqlite else offset
            details = msgspec.structs.replace(details, clock_offset=round(offset, 3))
            own = hosts.c.id == self.database.host
            # Empty for a socket.
            address = sa.func.coalesce(sa.func.host(sa.func.inet_client_addr()), "")
            values: dict[str, Any] = {
                "last_seen": moment, "details": msgspec.to_builtins(details),
                "address": "" if is_sqlite else address,
            }  # fmt: skip
            query = sa.update(hosts).where(own).values(values)
            columns = (hosts.c.retired_at, hosts.c.given_up_at)
            row = connection.execute(query.returning(*columns)).first()
            recent = sa.select(sa.func.count()).where(
                hosts.c.id != self.database.host, hosts.c.last_seen > moment - RECENT_SECONDS
            )
            self.others = int(connection.execute(recent).scalar_one())
        return row

    def _return_from_given_up(self) -> None:
        """Say that this host is back although it was given up: its agents count as lost."""
        hosts = tables.hosts
        own = (hosts.c.id == self.database.host) & hosts.c.given_up_at.is_not(None)
        with self.database.write(alone=True) as connection:
            query = sa.update(hosts).where(own).values(given_up_at=None)
            row = connection.execute(query.returning(hosts.c.label, hosts.c.given_label)).first()
            if row is None:
                return
            label = row.given_label or row.label
            text = (
                f"The host {label} was given up and is back. Its agents of before count as lost, and their work "
                "may go on elsewhere. End those that still run there, or adopt them: tasuki agent adopt"
            )
            log.note(connection, "alarm", text, data={"code": "host_is_back", "host": self.database.host})  # fmt: skip
            alerts.raise_alert(
                connection, "needs_you", f"host_is_back/{self.database.host}/{time.time()}",
                f"The host {label} is back", text, host=self.database.host,
            )  # fmt: skip
        logger.warning(text)


def list_harnesses(data: Path) -> list[host_list.HostHarness]:
    """List the harnesses whose agents this host could start, and what each lacks for that."""
    listed = []
    for name in harnesses.list_names():
        adapter = harnesses.get_harness(name)
        if harnesses.get_control(adapter) is None:
            continue
        program = shutil.which(adapter.program) or ""
        hooks = False
        with suppress(TasukiError, OSError):
            if program:
                check_hooks(data, name)
                hooks = True
        listed.append(host_list.HostHarness(name, program, hooks, host_list.find_login(name)))
    return listed
