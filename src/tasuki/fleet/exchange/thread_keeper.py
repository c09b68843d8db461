"""Stores the threads of agents in the database at the end of each turn, in a thread of its own."""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sqlalchemy.exc import DBAPIError

from tasuki.errors import TasukiError
from tasuki.fleet.background import BackgroundWork
from tasuki.fleet.exchange.thread_copies import store_thread
from tasuki.fleet.store import queries
from tasuki.fleet.store.database import FleetDatabase

QUIET_SECONDS = 1.0
"""Agents write an answer a moment after the hook of its turn's end."""
AWAY_SECONDS = 5.0

logger = logging.getLogger("tasuki.fleet")


@dataclass(eq=False)
class ThreadKeeper(BackgroundWork):
    """Stores what is new of a thread soon after its agent's turn ended, where `is_wanted` says so."""

    database: FleetDatabase
    is_wanted: Callable[[], bool]
    name, pause = "threads", QUIET_SECONDS / 2

    def __post_init__(self) -> None:
        self._due: dict[int, float] = {}
        self._lock = threading.Lock()
        self._failed: set[int] = set()
        super().__post_init__()

    def start(self) -> None:
        """Start storing; SQLite has one host, and needs no copies."""
        if not self.database.is_sqlite:
            super().start()

    def queue(self, agents: Iterable[int]) -> None:
        """Queue agents whose turn ended; callable from any thread."""
        if self.database.is_sqlite or not self.is_wanted():
            return
        due = time.monotonic() + QUIET_SECONDS
        with self._lock:
            for id in agents:
                self._due[id] = due

    def _work(self) -> None:
        now = time.monotonic()
        with self._lock:
            due = [id for id, moment in self._due.items() if moment <= now]
            for id in due:
                del self._due[id]
        for id in due:
            self._store(id)

    def _store(self, agent_id: int) -> None:
        try:
            agent = queries.load_agent(self.database, agent_id)
            if agent.thread:
                store_thread(self.database, agent)
            self._failed.discard(agent_id)
        except DBAPIError:  # the database is away: again later
            with self._lock:
                self._due.setdefault(agent_id, time.monotonic() + AWAY_SECONDS)
        except (TasukiError, OSError) as error:
            if agent_id not in self._failed:  # once: the log does not repeat it
                logger.warning("The thread of agent %s is not stored: %s", agent_id, error)
            self._failed.add(agent_id)
        except Exception:
            logger.exception("The thread of agent %s", agent_id)
