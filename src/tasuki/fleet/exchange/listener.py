"""Listens to what other hosts announce by NOTIFY, and announces this host's own news.

A notification is only a hint that something is there to read: it may be lost with a connection, so
everything is read again every few seconds, too. The channels are `tasuki_log` (the id of the host
whose log grew) and `tasuki_<host id>` (a question or an answer for that host).
"""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import psycopg
import sqlalchemy as sa
from psycopg import sql
from sqlalchemy.exc import DBAPIError

from tasuki.fleet.background import LifeSign
from tasuki.fleet.store.connections import connect_alone
from tasuki.fleet.store.database import FleetDatabase

LOG_CHANNEL = "tasuki_log"
NET_SECONDS = 5.0
"""How often everything is read although nothing was announced."""
TOGETHER_SECONDS = 0.03
"""News of this time are announced together."""
RECONNECT_SECONDS = 1.0

logger = logging.getLogger("tasuki.fleet")


def build_host_channel(host: str) -> str:
    """Return the channel on which questions and answers for a host are announced."""
    return f"tasuki_{host}"


@dataclass(eq=False)
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
