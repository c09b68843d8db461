"""What is taken away once it is older than `keep_days`: piece by piece, so that no hook waits for it.

Old lines of the log and alerts; what the engine keeps of workflows that ended; steps of handoffs that are
done or cancelled; prompts that were typed; agents that ended and that no handoff and no successor names;
and small files: what was said about threads, locks of panes, reserved names of documents. Handoffs, their
documents and personas stay.
"""

import fcntl
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tasuki.fleet import spool, tables
from tasuki.fleet.database import Database, give_back, is_gone
from tasuki.fleet.engine import Engine

DAY = 86400.0
FIRST_PIECE, MOST_PIECE = 50, 1000
"""Rows that one transaction takes away: few at first, then as many as go in `PIECE_SECONDS`."""
PIECE_SECONDS = 0.002
"""How long a transaction may hold the others up."""
REST = 10.0
"""The pause behind each piece, in times of what the piece took."""
LEAST_REST = 0.02
SHRINK_REST = 0.05
PAGES = 100
"""Pages of SQLite's file that are given back to the disk in one piece."""
FIRST_SECONDS = 10.0
EVERY_SECONDS = DAY
log = logging.getLogger("tasuki.fleet")
SETTLED = ("done", "cancelled")


class Pruner:
    """Takes old things away. `days` gives the days for which they are kept; 0 is for ever."""

    def __init__(
        self, database: Database, engine: Engine, data: Path, root: Path, days: Callable[[], int]
    ) -> None:
        self.database = database
        self.engine = engine
        self.data = data
        self.root = root
        self.days = days
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pruning", daemon=True)

    def start(self) -> None:
        """Prune soon, and then once a day, in a thread."""
        self._thread.start()

    def stop(self) -> None:
        """Take nothing more away."""
        self._stop.set()

    def close(self, seconds: float) -> None:
        """Stop, and wait for the piece under way."""
        self.stop()
        self._thread.join(seconds)

    def _run(self) -> None:
        pause = FIRST_SECONDS
        while not self._stop.wait(pause):
            pause = EVERY_SECONDS
            try:
                if rows := self.prune():
                    log.info("%d rows older than %d days were taken away.", rows, self.days())
            except sa.exc.DBAPIError as error:
                if not is_gone(error):
                    log.exception("What is old could not be taken away.")
            except Exception:
                log.exception("What is old could not be taken away.")

    def prune(self) -> int:
        """Take away what is too old, with pauses; how many rows. Ends early where it is told to stop."""
        stop = self._stop
        spool.tidy(self.data / "spool")
        if not (days := self.days()):
            return 0
        before = time.time() - days * DAY
        rows = sum(self._in_pieces(query, stop) for query in _old_rows(before))
        rows += self._prune_workflows(before, stop)
        for path in self._old_files(before):
            if stop.is_set():
                break
            _remove(path)
        if rows:
            self._shrink(stop)
        return rows

    def _in_pieces(self, query: Callable[[int], sa.Delete], stop: threading.Event) -> int:
        """Delete until nothing is left; the pieces are as large as goes quickly."""
        taken, piece = 0, FIRST_PIECE
        while not stop.is_set():
            with self.database.write(synced=False) as connection:
                began = time.monotonic()
                rows = connection.execute(query(piece)).rowcount
            took = time.monotonic() - began
            taken += rows
            if not rows:
                break
            fits = int(piece * min(2.0, max(0.5, PIECE_SECONDS / max(took, 1e-6))))
            piece = max(10, min(MOST_PIECE, fits))
            stop.wait(max(LEAST_REST, REST * took))
        return taken

    def _prune_workflows(self, before: float, stop: threading.Event) -> int:
        taken = 0
        while not stop.is_set() and (ended := self.engine.delete_ended(before)):
            taken += ended
            stop.wait(0.05)
        return taken

    def _shrink(self, stop: threading.Event) -> None:
        """Give free pages of SQLite's files back to the disk."""
        if not self.database.is_sqlite:
            return
        while not stop.is_set() and self._give_back():
            stop.wait(SHRINK_REST)
        while not stop.is_set() and self.engine.give_back(PAGES):
            stop.wait(SHRINK_REST)

    def _give_back(self) -> bool:
        with self.database.write(synced=False) as connection:
            return give_back(connection, PAGES)

    # -- files -------------------------------------------------------------------------

    def _old_files(self, before: float) -> Iterator[Path]:
        """Files that nobody needs any more."""
        folders = (self.data.parent / "suggested").glob("*")
        yield from (path for path in folders if _is_older(path, before))
        settled, panes = self._known()
        for path in (self.data / "locks").glob("*.lock"):
            if _is_older(path, before) and path.stem.rpartition("%")[2] not in panes:
                yield path
        for path in (self.root / "data" / "personas").glob("*/handoffs/.*.reserved"):
            with suppress(OSError):
                owner = path.read_text("utf-8", "replace")
                if _is_older(path, before) and owner in settled:
                    yield path

    def _known(self) -> tuple[set[str], set[str]]:
        """The handoffs that are settled, and the panes of agents that have not ended."""
        handoffs, agents = tables.handoffs.c, tables.agents.c
        with self.database.read() as connection:
            settled = sa.select(handoffs.id).where(handoffs.state.in_(SETTLED))
            panes = sa.select(agents.pane).where(agents.ended_at.is_(None))
            return (
                set(connection.execute(settled).scalars()),
                {pane.removeprefix("%") for pane in connection.execute(panes).scalars()},
            )


def _old_rows(before: float) -> Iterator[Callable[[int], sa.Delete]]:
    """What is deleted, in an order in which nothing is left that names what is gone."""
    events, alerts, steps = tables.events, tables.alerts, tables.steps
    handoffs, intents, agents = tables.handoffs, tables.intents, tables.agents
    settled = sa.select(handoffs.c.id).where(
        handoffs.c.state.in_(SETTLED), handoffs.c.finished_at < before
    )
    gone = sa.select(agents.c.id).where(agents.c.ended_at < before)
    is_typed = intents.c.agent_id.in_(gone) & (
        intents.c.handoff_id.is_(None) | intents.c.handoff_id.in_(settled)
    )
    other = agents.alias()
    needed = sa.or_(
        sa.exists().where(
            (handoffs.c.agent_id == agents.c.id) | (handoffs.c.successor_id == agents.c.id)
        ),
        sa.exists().where(other.c.previous_agent_id == agents.c.id),
        *(sa.exists().where(of.c.agent_id == agents.c.id) for of in (events, alerts, intents)),
    )
    yield lambda most: _delete_oldest(events, before, most)
    yield lambda most: _delete(alerts, alerts.c.id, alerts.c.at < before, most)
    yield lambda most: _delete(steps, steps.c.handoff_id, steps.c.handoff_id.in_(settled), most)
    yield lambda most: _delete(intents, intents.c.id, is_typed, most)
    yield lambda most: _delete(agents, agents.c.id, (agents.c.ended_at < before) & ~needed, most)


def _delete_oldest(events: sa.Table, before: float, most: int) -> sa.Delete:
    """Of the oldest lines of the log alone: the rest is not looked through."""
    columns = events.c
    oldest = sa.select(columns.id, columns.received_at).order_by(columns.id).limit(most).subquery()
    old = sa.select(oldest.c.id).where(oldest.c.received_at < before)
    return sa.delete(events).where(columns.id.in_(old))


def _delete(
    table: sa.Table, key: sa.Column[Any], which: sa.ColumnElement[bool], most: int
) -> sa.Delete:
    few = sa.select(key).where(which).limit(most)
    return sa.delete(table).where(key.in_(few))


def _is_older(path: Path, before: float) -> bool:
    with suppress(OSError):
        return path.stat(follow_symlinks=False).st_mtime < before
    return False


def _remove(path: Path) -> None:
    """Remove a file, or a folder of files; a lock only while nobody holds it."""
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
