"""Pages that change under the reader's eyes: pieces of HTML, made once for everybody who sees them.

What changed is told by the log (`live.py`). A stream begins with what changed since its page was
made, so that nothing is missed between the two, nor while a server was away.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from msgspec import Struct
from sqlalchemy.exc import DBAPIError

from tasuki.fleet import reading
from tasuki.fleet.rows import FleetEvent
from tasuki.fleet.service import Fleet
from tasuki.web.live import KEEP_ALIVE, KEEP_ALIVE_SECONDS, Stream

PAUSE_SECONDS = 0.25
"""A page is changed no more often than this."""
SOON_SECONDS = 0.02
"""What belongs together is told within this time."""
AWAY_SECONDS = 1.0
CAUGHT_UP = 2000
"""Lines of the log that a page may be behind; one that is further is made anew."""

MOST_GIVEN = 5000
"""Pieces whose last content is remembered, so that one update touches one place."""

T = TypeVar("T")
logger = logging.getLogger("tasuki.web")


class News(Struct):
    """What the log told of: agents and handoffs by their ids, and alerts."""

    agents: set[int]
    handoffs: set[str]
    alerts: set[int]
    newest: int = 0
    """Id of the newest line that was taken in."""

    def join(self, other: "News") -> None:
        """Take what another one holds in."""
        self.agents |= other.agents
        self.handoffs |= other.handoffs
        self.alerts |= other.alerts
        self.newest = max(self.newest, other.newest)

    def __bool__(self) -> bool:
        return bool(self.agents or self.handoffs or self.alerts)

    def add(self, event: FleetEvent) -> None:
        """Take a line of the log in."""
        self.newest = max(self.newest, event.id)
        if event.agent_id is not None:
            self.agents.add(event.agent_id)
        if event.handoff_id:
            self.handoffs.add(event.handoff_id)
        if event.kind == "alert" and isinstance(id := event.data.get("alert"), int):
            self.alerts.add(id)


class Piece(Struct, frozen=True):
    """A part of pages. `pages` are the topics whose pages show it; empty for every page."""

    event: str
    html: str
    pages: frozenset[str] = frozenset()


Make = Callable[[Fleet, News, frozenset[str]], list[Piece]]
"""Makes the pieces of some news, for the topics that are looked at."""


class LivePages:
    """Gives pieces to the pages that are open. Topics: `fleet`, `handoffs`, the id of a handoff or agent."""

    def __init__(self, fleet: Fleet, make: Make) -> None:
        self.fleet = fleet
        self.make = make
        self.streams: dict[Stream, str] = {}
        self._news = _none()
        self._task: asyncio.Task[None] | None = None
        self._maker = ThreadPoolExecutor(1, thread_name_prefix="pages")
        self._given: dict[str, int] = {}
        self._gave_at = 0.0

    def told(self, event: FleetEvent) -> None:
        """A new line of the log; called in the loop."""
        if not self.streams:
            return
        self._news.add(event)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._give())

    def close(self) -> None:
        """End every stream."""
        for stream in tuple(self.streams):
            stream.end()
        self._maker.shutdown(wait=False, cancel_futures=True)

    async def pieces(self, topic: str, after: int) -> AsyncGenerator[bytes]:
        """The stream of one page, which knows what the log tells up to `after`."""
        stream = Stream()
        self.streams[stream] = topic
        try:
            yield b"retry: 1000\n\n"
            missed = await self._in_thread(self._since, after)
            yield b"event: reload\ndata:\n\n" if missed is None else await self._made(missed, topic)
            while True:
                try:
                    piece = await asyncio.wait_for(stream.get(), KEEP_ALIVE_SECONDS)
                except TimeoutError:
                    piece = KEEP_ALIVE
                if piece is None:
                    return
                yield piece
        finally:
            self.streams.pop(stream, None)

    def _since(self, after: int) -> News | None:
        """What changed since the log had come to a line; None where that is too much."""
        rows = reading.events_after(self.fleet.database, after, CAUGHT_UP)
        news = _none()
        for row in rows:
            news.add(row)
        return news if len(rows) < CAUGHT_UP else None

    async def _made(self, news: News, topic: str) -> bytes:
        if not news:
            return KEEP_ALIVE
        pieces = await self._in_thread(self.make, self.fleet, news, frozenset([topic]))
        return encoded(pieces, topic, news.newest) or KEEP_ALIVE

    async def _give(self) -> None:
        """Give what changed to everybody whose page shows it, until nothing changes any more."""
        while True:
            since = time.monotonic() - self._gave_at
            await asyncio.sleep(max(SOON_SECONDS, PAUSE_SECONDS - since))
            self._gave_at = time.monotonic()
            news, self._news = self._news, _none()
            if not news or not self.streams:
                return
            topics = frozenset(self.streams.values())
            try:
                made = await self._in_thread(self.make, self.fleet, news, topics)
            except DBAPIError:
                logger.warning("Open pages wait: the database does not answer.")
                self._news.join(news)
                await asyncio.sleep(AWAY_SECONDS)
                continue
            except Exception:  # of one page; what comes next must reach the others
                logger.exception("What changed could not be shown to the open pages")
                continue
            made = [piece for piece in made if self._is_new(piece)]
            for topic in topics:
                body = encoded(made, topic, news.newest)
                for stream in [s for s, of in self.streams.items() if of == topic]:
                    if body and not stream.put(body):
                        self.streams.pop(stream, None)
                await asyncio.sleep(0)

    def _is_new(self, piece: Piece) -> bool:
        """Whether a piece differs from the one that was given last in its place."""
        if len(self._given) > MOST_GIVEN:
            self._given.clear()
        before, now = self._given.get(piece.event), hash(piece.html)
        self._given[piece.event] = now
        return now != before

    async def _in_thread(self, function: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._maker, function, *arguments)


def encoded(pieces: Iterable[Piece], topic: str, newest: int) -> bytes:
    """The pieces of one topic as events of a stream; their text has no other line end than a newline.

    `newest` is the line of the log behind which a reader goes on that was cut off.
    """
    made = []
    for piece in pieces:
        if piece.pages and topic not in piece.pages:
            continue
        lines = "".join(f"data: {line}\n" for line in piece.html.strip().split("\n"))
        made.append(f"id: {newest}\nevent: {piece.event}\n{lines}\n")
    return "".join(made).replace("\r", "").encode("utf-8", "replace")


def _none() -> News:
    return News(set(), set(), set())
