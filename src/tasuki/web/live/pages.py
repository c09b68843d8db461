"""Pages that change while they are open: pieces of HTML, made once for all readers.

The log reports the changes (`live.py`). A stream begins with what changed since its page
was made, so that nothing is missed between the two, nor while a server was away.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from msgspec import Struct
from sqlalchemy.exc import DBAPIError

from tasuki.fleet.service import Fleet
from tasuki.fleet.store import queries
from tasuki.fleet.store.models import FleetEvent
from tasuki.web.live.log import KEEP_ALIVE_PIECE, KEEP_ALIVE_SECONDS, EventStream

PAUSE_SECONDS = 0.25
"""The shortest time between two changes of a page."""
SOON_SECONDS = 0.02
"""Changes that belong together are sent within this time."""
AWAY_SECONDS = 1.0
MOST_MISSED = 2000
"""Most lines of the log that a page may have missed; with more it is loaded again."""

MOST_REMEMBERED = 5000
"""Pieces whose last content is remembered, so that one update changes one place."""

T = TypeVar("T")
logger = logging.getLogger("tasuki.web")


class PageNews(Struct):
    """What the log reported: agents and handoffs by their ids, and alerts."""

    agents: set[int]
    handoffs: set[str]
    alerts: set[int]
    newest: int = 0
    """Id of the newest line that was taken in."""

    def join(self, other: "PageNews") -> None:
        """Add the news of another one."""
        self.agents |= other.agents
        self.handoffs |= other.handoffs
        self.alerts |= other.alerts
        self.newest = max(self.newest, other.newest)

    def __bool__(self) -> bool:
        return bool(self.agents or self.handoffs or self.alerts)

    def add(self, event: FleetEvent) -> None:
        """Add a line of the log."""
        self.newest = max(self.newest, event.id)
        if event.agent_id is not None:
            self.agents.add(event.agent_id)
        if event.handoff_id:
            self.handoffs.add(event.handoff_id)
        if event.kind == "alert" and isinstance(id := event.data.get("alert"), int):
            self.alerts.add(id)


class PagePiece(Struct, frozen=True):
    """A part of pages. `pages` are the topics whose pages show it; empty for every page."""

    event: str
    html: str
    pages: frozenset[str] = frozenset()


MakePieces = Callable[[Fleet, PageNews, frozenset[str]], list[PagePiece]]
"""Makes the pieces of some news, for the topics that are open."""


class LivePages:
    """Sends pieces to the open pages. Topics: `fleet`, `handoffs`, the id of a handoff or agent."""

    def __init__(self, fleet: Fleet, make_pieces: MakePieces) -> None:
        self.fleet = fleet
        self.make_pieces = make_pieces
        self.streams: dict[EventStream, str] = {}
        self._news = _create_news()
        self._task: asyncio.Task[None] | None = None
        self._maker = ThreadPoolExecutor(1, thread_name_prefix="pages")
        self._sent_hashes: dict[str, int] = {}
        self._sent_at = 0.0

    def take_event(self, event: FleetEvent) -> None:
        """Take a new line of the log; called in the loop."""
        if not self.streams:
            return
        self._news.add(event)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._send_updates())

    def close(self) -> None:
        """End every stream."""
        for stream in tuple(self.streams):
            stream.end()
        self._maker.shutdown(wait=False, cancel_futures=True)

    async def stream_pieces(self, topic: str, after: int) -> AsyncGenerator[bytes]:
        """Yield the stream of one page, which has the log up to `after`."""
        stream = EventStream()
        self.streams[stream] = topic
        try:
            yield b"retry: 1000\n\n"
            missed = await self._run_in_thread(self._collect_since, after)
            yield (
                b"event: reload\ndata:\n\n"
                if missed is None
                else await self._build_update(missed, topic)
            )
            while True:
                try:
                    piece = await asyncio.wait_for(stream.get(), KEEP_ALIVE_SECONDS)
                except TimeoutError:
                    piece = KEEP_ALIVE_PIECE
                if piece is None:
                    return
                yield piece
        finally:
            self.streams.pop(stream, None)

    def _collect_since(self, after: int) -> PageNews | None:
        """Collect what changed since a line of the log; None where that is too much."""
        rows = queries.list_events_after(self.fleet.database, after, MOST_MISSED)
        news = _create_news()
        for row in rows:
            news.add(row)
        return news if len(rows) < MOST_MISSED else None

    async def _build_update(self, news: PageNews, topic: str) -> bytes:
        if not news:
            return KEEP_ALIVE_PIECE
        pieces = await self._run_in_thread(self.make_pieces, self.fleet, news, frozenset([topic]))
        return encode_pieces(pieces, topic, news.newest) or KEEP_ALIVE_PIECE

    async def _send_updates(self) -> None:
        """Send changes to all pages that show them, until nothing changes any more."""
        while True:
            since = time.monotonic() - self._sent_at
            await asyncio.sleep(max(SOON_SECONDS, PAUSE_SECONDS - since))
            self._sent_at = time.monotonic()
            news, self._news = self._news, _create_news()
            if not news or not self.streams:
                return
            topics = frozenset(self.streams.values())
            try:
                pieces = await self._run_in_thread(self.make_pieces, self.fleet, news, topics)
            except DBAPIError:
                logger.warning("Open pages wait: the database does not answer.")
                self._news.join(news)
                await asyncio.sleep(AWAY_SECONDS)
                continue
            except Exception:  # an error in one page: later changes must reach the others
                logger.exception("What changed could not be shown to the open pages")
                continue
            pieces = [piece for piece in pieces if self._is_new(piece)]
            for topic in topics:
                body = encode_pieces(pieces, topic, news.newest)
                for stream in [
                    s for s, stream_topic in self.streams.items() if stream_topic == topic
                ]:
                    if body and not stream.put(body):
                        self.streams.pop(stream, None)
                await asyncio.sleep(0)

    def _is_new(self, piece: PagePiece) -> bool:
        """Whether a piece differs from the one that was last sent in its place."""
        if len(self._sent_hashes) > MOST_REMEMBERED:
            self._sent_hashes.clear()
        before, now = self._sent_hashes.get(piece.event), hash(piece.html)
        self._sent_hashes[piece.event] = now
        return now != before

    async def _run_in_thread(self, function: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._maker, function, *arguments)


def encode_pieces(pieces: Iterable[PagePiece], topic: str, newest: int) -> bytes:
    """Encode the pieces of one topic as events of a stream; lines end with a newline alone.

    `newest` is the line of the log after which a reader that was cut off continues.
    """
    events = []
    for piece in pieces:
        if piece.pages and topic not in piece.pages:
            continue
        lines = "".join(f"data: {line}\n" for line in piece.html.strip().split("\n"))
        events.append(f"id: {newest}\nevent: {piece.event}\n{lines}\n")
    return "".join(events).replace("\r", "").encode("utf-8", "replace")


def _create_news() -> PageNews:
    return PageNews(set(), set(), set())
