"""Deletes what is older than `keep_days`, piece by piece, so that no hook waits for it.

Deleted are old lines of the log and alerts; the engine's records of workflows that ended;
steps of handoffs that are done or cancelled; prompts and queued goals that were typed; samples of context use; copies of threads of agents
that ended; agents that ended and that no handoff and no successor names; and small files: suggestions for threads, locks of
panes, reserved names of documents. Handoffs, their documents and personas stay.
"""

import fcntl
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tasuki.fleet.background import BackgroundWork
from tasuki.fleet.handoff.engine import HandoffEngine
from tasuki.fleet.hooks import spool
from tasuki.fleet.store import tables
from tasuki.fleet.store.database import FleetDatabase, give_back_pages

DAY_SECONDS = 86400.0
FIRST_PIECE, MOST_PIECE = 50, 1000
"""Rows deleted in one transaction: few at first, then as many as fit in `PIECE_SECONDS`."""
PIECE_SECONDS = 0.002
"""How long a transaction may hold others up."""
REST_FACTOR = 10.0
"""The pause after each piece, as a multiple of the time that the piece took."""
LEAST_REST_SECONDS = 0.02
SHRINK_REST_SECONDS = 0.05
PAGES_AT_ONCE = 100
"""Pages of SQLite's file that are given back to the disk at once."""
FIRST_SECONDS = 10.0
EVERY_SECONDS = DAY_SECONDS
log = logging.getLogger("tasuki.fleet")
SETTLED_STATES = ("done", "cancelled")


@dataclass(eq=False, repr=False)
class FleetPruner(BackgroundWork):
    """Deletes old things. `read_days` returns the days for which they are kept; 0 is for ever."""

    database: FleetDatabase
    engine: HandoffEngine
    data: Path
    root: Path
    read_days: Callable[[], int]
    name, pause = "pruning", FIRST_SECONDS

    def _work(self) -> None:
        self.pause = EVERY_SECONDS
        if rows := self.prune():
            log.info("%d rows older than %d days were deleted.", rows, self.read_days())

    def prune(self) -> int:
        """Delete what is too old, with pauses; return how many rows. Ends early when stopped."""
        stop = self._stop
        spool.clean_folder(self.data / "spool")
        if not (days := self.read_days()):
            return 0
        before = time.time() - days * DAY_SECONDS
        rows = sum(self._delete_in_pieces(query, stop) for query in _build_deletions(before))
        while not stop.is_set() and (ended := self.engine.delete_ended(before)):
            rows += ended
            stop.wait(0.05)
        for path in self._find_old_files(before):
            if stop.is_set():
                break
            _remove(path)
        if rows:
            self._shrink_files(stop)
        return rows

    def _delete_in_pieces(self, query: Callable[[int], sa.Delete], stop: threading.Event) -> int:
        """Delete until nothing is left, in pieces that are as large as goes quickly."""
        deleted, piece = 0, FIRST_PIECE
        while not stop.is_set():
            with self.database.write(synced=False) as connection:
                began = time.monotonic()
                rows = connection.execute(query(piece)).rowcount
            took = time.monotonic() - began
            deleted += rows
            if not rows:
                break
            fits = int(piece * min(2.0, max(0.5, PIECE_SECONDS / max(took, 1e-6))))
            piece = max(10, min(MOST_PIECE, fits))
            stop.wait(max(LEAST_REST_SECONDS, REST_FACTOR * took))
        return deleted

    def _shrink_files(self, stop: threading.Event) -> None:
        """Give free pages of SQLite's files back to the disk."""
        if not self.database.is_sqlite:
            return
        while not stop.is_set() and self._give_pages_back():
            stop.wait(SHRINK_REST_SECONDS)
        while not stop.is_set() and self.engine.give_back_pages(PAGES_AT_ONCE):
            stop.wait(SHRINK_REST_SECONDS)

    def _give_pages_back(self) -> bool:
        with self.database.write(synced=False) as connection:
            return give_back_pages(connection, PAGES_AT_ONCE)

    def _find_old_files(self, before: float) -> Iterator[Path]:
        """Find files that are no longer needed."""
        folders = (self.data.parent / "suggested").glob("*")
        yield from (path for path in folders if _is_older(path, before))
        settled, panes = self._find_settled()
        for path in (self.data / "locks").glob("*.lock"):
            if _is_older(path, before) and path.stem.rpartition("%")[2] not in panes:
                yield path
        for path in (self.root / "data" / "personas").glob("*/handoffs/.*.reserved"):
            with suppress(OSError):
                owner = path.read_text("utf-8", "replace")
                if _is_older(path, before) and owner in settled:
                    yield path

    def _find_settled(self) -> tuple[set[str], set[str]]:
        """Return the settled handoffs, and the panes of agents that have not ended."""
        handoffs, agents = tables.handoffs.c, tables.agents.c
        with self.database.read() as connection:
            settled = sa.select(handoffs.id).where(handoffs.state.in_(SETTLED_STATES))
            panes = sa.select(agents.pane).where(agents.ended_at.is_(None))
            names = {pane.removeprefix("%") for pane in connection.execute(panes).scalars()}
            return set(connection.execute(settled).scalars()), names


def _build_deletions(before: float) -> Iterator[Callable[[int], sa.Delete]]:
    """Yield the deletions in an order that never leaves a reference to a deleted row."""
    events, alerts, steps = tables.events, tables.alerts, tables.steps
    handoffs, intents, agents = tables.handoffs, tables.intents, tables.agents
    samples, goals = tables.context_samples, tables.queued_goals
    blocks, copies, parcels = tables.thread_blocks, tables.thread_copies, tables.parcels
    settled = sa.select(handoffs.c.id).where(
        handoffs.c.state.in_(SETTLED_STATES), handoffs.c.finished_at < before
    )
    gone_agents = sa.select(agents.c.id).where(agents.c.ended_at < before)
    is_typed = intents.c.agent_id.in_(gone_agents) & (
        intents.c.handoff_id.is_(None) | intents.c.handoff_id.in_(settled)
    )
    other = agents.alias()
    needed = sa.or_(
        sa.exists().where(
            (handoffs.c.agent_id == agents.c.id) | (handoffs.c.successor_id == agents.c.id)
        ),
        sa.exists().where(
            (other.c.previous_agent_id == agents.c.id) | (other.c.forked_from == agents.c.id)
        ),
        *(
            sa.exists().where(table.c.agent_id == agents.c.id)
            for table in (events, alerts, intents, samples, goals)
        ),
    )
    yield partial(_build_oldest_deletion, events, events.c.received_at, before)
    yield partial(_build_deletion, alerts, alerts.c.at < before)
    yield partial(_build_deletion, steps, steps.c.handoff_id.in_(settled))
    yield partial(_build_deletion, intents, is_typed)
    yield partial(_build_oldest_deletion, samples, samples.c.at, before)
    is_done = (goals.c.state == "typed") & (goals.c.typed_at < before)
    yield partial(_build_deletion, goals, is_done)
    yield partial(_build_deletion, blocks, blocks.c.agent_id.in_(gone_agents))
    yield partial(_build_deletion, copies, copies.c.agent_id.in_(gone_agents))
    yield partial(_build_deletion, parcels, parcels.c.handoff_id.in_(settled))
    yield partial(_build_deletion, agents, (agents.c.ended_at < before) & ~needed)


def _build_oldest_deletion(
    table: sa.Table, time_column: sa.Column[Any], before: float, most: int
) -> sa.Delete:
    """Build a deletion among the rows that were written first; the rest is not searched."""
    id = table.c.id
    oldest = sa.select(id, time_column.label("at")).order_by(id).limit(most).subquery()
    old = sa.select(oldest.c.id).where(oldest.c.at < before)
    return sa.delete(table).where(id.in_(old))


def _build_deletion(table: sa.Table, condition: sa.ColumnElement[bool], most: int) -> sa.Delete:
    """Build a deletion of a few rows, or of all that share the first column of their keys."""
    key = next(iter(table.primary_key))
    few = sa.select(key).where(condition).limit(most)
    return sa.delete(table).where(key.in_(few))


def _is_older(path: Path, before: float) -> bool:
    with suppress(OSError):
        return path.stat(follow_symlinks=False).st_mtime < before
    return False


def _remove(path: Path) -> None:
    """Remove a file, or a folder of files; a lock only while it is free."""
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            for file in path.iterdir():
                file.unlink()
            path.rmdir()
            return
        if path.suffix == ".lock":
            number = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
            finally:
                os.close(number)
            return
        path.unlink()
