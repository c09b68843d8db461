"""Live events: the log is read once for all streams, and pages that change while they are open.

A stream of the log is `text/event-stream`; each event has the id of its line, so a reader that was
cut off continues where it was (`Last-Event-ID`), and every stream gets the same bytes.

Open pages get pieces of HTML, made once for all readers when the log reports a change. A page's
stream begins with what changed since the page was made, so that nothing is missed between the two,
nor while the server was not running.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

import msgspec
from msgspec import Struct
from sqlalchemy.exc import DBAPIError

from tasuki.fleet.service import Fleet
from tasuki.fleet.store import queries
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.models import FleetEvent
from tasuki.web.views.hosts import ShownHost, compute_mark, index_hosts, list_fleet_hosts

PAUSE_SECONDS = 0.1
"""The log is read no more often than this."""
STREAMS_AT_ONCE = 4
"""Streams that are written to before another task has a turn."""
KEEP_ALIVE_SECONDS = 15.0
PAGE_LINES = 500
"""Lines of the log that are read at once."""
MOST_WAITING_BYTES = 2 << 20
"""Bytes that may wait for a slow reader; then it is cut off, and continues by its last id."""
KEEP_ALIVE_PIECE = b":\n\n"
STREAM_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

T = TypeVar("T")
logger = logging.getLogger("tasuki.web")


class EventStream:
    """The waiting pieces of one reader. None ends it."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._waiting = 0

    def put(self, piece: bytes) -> bool:
        """Add a piece; False where its reader is too slow, which ends the stream instead."""
        if self._waiting > MOST_WAITING_BYTES:
            self.end()
            return False
        self._waiting += len(piece)
        self._queue.put_nowait(piece)
        return True

    async def get(self) -> bytes | None:
        """Return the next piece; None at the end."""
        piece = await self._queue.get()
        self._waiting -= len(piece or b"")
        return piece

    def end(self) -> None:
        """End the stream; waiting pieces are not sent."""
        while not self._queue.empty():
            self._queue.get_nowait()
        self._queue.put_nowait(None)


class LogStreams:
    """Reads the new lines of the log and sends them to every stream.

    `on_event` is called with every new event, once. `notify` may be called from any thread.
    """

    def __init__(self, database: FleetDatabase, on_event: Callable[[FleetEvent], None]) -> None:
        self.database = database
        self.on_event = on_event
        self.position = queries.LogPlace(0, 0)
        """The last line that was sent to the streams."""
        self.streams: set[EventStream] = set()
        self.cut_off = 0
        """Readers that were too slow, since the start."""
        self._news = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="live")
        self._is_notified = False
        self._sent_at = time.monotonic()

    async def start(self) -> None:
        """Start after the newest line."""
        self._loop = asyncio.get_running_loop()
        self.position = await self._read(queries.find_newest_place, self.database)
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """End every stream."""
        if self._task:
            self._task.cancel()
            self._task = None
        for stream in self.streams:
            stream.end()
        self._reader.shutdown(wait=False, cancel_futures=True)

    def notify(self) -> None:
        """Note that new lines were committed; callable from any thread."""
        if self._loop is None or self._is_notified:
            return
        self._is_notified = True
        try:
            self._loop.call_soon_threadsafe(self._news.set)
        except RuntimeError:  # the loop has ended
            self._loop = None

    async def stream_pieces(self, after: int | None) -> AsyncIterator[bytes]:
        """Yield the stream of one reader: the lines after `after`, then new ones.

        None for new ones.
        """
        newest = await self._read(queries.find_newest_place, self.database)
        cursor = newest
        if after is not None:
            cursor = min(await self._read(queries.find_place, self.database, after), newest)
        while (
            self._task and self.position < cursor
        ):  # the other readers are about to get what this one has
            self._news.set()
            await asyncio.sleep(PAUSE_SECONDS / 4)
        yield f"retry: 2000\nid: {cursor.id}\n\n".encode()
        while cursor < self.position:
            lines = await self._read(queries.list_lines_after, self.database, cursor, PAGE_LINES)
            # newer ones go to all streams
            lines = [line for line in lines if line[0] <= self.position]
            if not lines:
                break
            cursor = lines[-1][0]
            yield encode_events([event for _, event in lines])
        stream = EventStream()  # no await between reading the position and this line
        self.streams.add(stream)
        try:
            while (piece := await stream.get()) is not None:
                yield piece
        finally:
            self.streams.discard(stream)

    async def _run(self) -> None:
        while True:
            await self._wait_for_news()
            pause = PAUSE_SECONDS
            if self._news.is_set():
                self._news.clear()
                self._is_notified = False
                try:
                    await self._read_news()
                except DBAPIError:
                    logger.warning("Live events wait: the database does not answer.")
                    self._news.set()
                    pause = 1.0
            if time.monotonic() - self._sent_at >= KEEP_ALIVE_SECONDS:
                await self._send_piece(KEEP_ALIVE_PIECE)
            await asyncio.sleep(pause)

    async def _wait_for_news(self) -> None:
        """Wait until there is news, or a stream was silent for long enough."""
        left = self._sent_at + KEEP_ALIVE_SECONDS - time.monotonic()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), max(left, 0.0))

    async def _read_news(self) -> None:
        while True:
            lines = await self._read(
                queries.list_lines_after, self.database, self.position, PAGE_LINES
            )
            if not lines:
                return
            self.position = lines[-1][0]
            events = [event for _, event in lines]
            if self.streams:
                await self._send_piece(encode_events(events))
            for event in events:
                self.on_event(event)
            if len(lines) < PAGE_LINES:
                return

    async def _send_piece(self, piece: bytes) -> None:
        """Send a piece to the current streams; hooks are answered between some of them."""
        self._sent_at = time.monotonic()
        for number, stream in enumerate(tuple(self.streams), 1):
            if number % STREAMS_AT_ONCE == 0:
                await asyncio.sleep(0)
            if not stream.put(piece):
                self.streams.discard(stream)
                self.cut_off += 1

    async def _read(self, function: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._reader, function, *arguments)


def parse_last_id(header: str) -> int | None:
    """Parse the `Last-Event-ID` of a reader that was cut off; None for none."""
    return int(header) if header.isascii() and header.isdigit() and len(header) < 20 else None


def encode_events(rows: Sequence[FleetEvent]) -> bytes:
    """Encode lines of the log as events of a stream."""
    encode = msgspec.json.encode
    return b"".join(b"id: %d\ndata: %b\n\n" % (row.id, encode(row)) for row in rows)


PAGE_PAUSE_SECONDS = 0.25
"""The shortest time between two changes of a page."""
SOON_SECONDS = 0.02
"""Changes that belong together are sent within this time."""
AWAY_SECONDS = 1.0
MOST_MISSED = 2000
"""Most lines of the log that a page may have missed; with more it is loaded again."""

MOST_REMEMBERED = 5000
"""Pieces whose last content is remembered, so that one update changes one place."""


class ChangedIds(Struct):
    """What the log reported: agents and handoffs by their ids, and alerts."""

    agents: set[int]
    handoffs: set[str]
    alerts: set[int]
    newest: int = 0
    """Id of the last line that was taken in; 0 for none."""
    hosts: set[str] = msgspec.field(default_factory=set)
    """Hosts that went away, came back, or report something else."""
    reload: str = ""
    """Which hosts there are, where that changed: pages that list them are loaded again."""

    def join(self, older: "ChangedIds") -> None:
        """Add the news of an older one."""
        self.agents |= older.agents
        self.handoffs |= older.handoffs
        self.alerts |= older.alerts
        self.hosts |= older.hosts
        self.reload = self.reload or older.reload
        self.newest = self.newest or older.newest

    def __bool__(self) -> bool:
        return bool(self.agents or self.handoffs or self.alerts or self.hosts or self.reload)

    def add(self, event: FleetEvent) -> None:
        """Add a line of the log."""
        self.newest = event.id
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


MakePieces = Callable[[Fleet, ChangedIds, frozenset[str]], list[PagePiece]]
"""Makes the pieces of some news, for the topics that are open."""


class PageStreams:
    """Sends pieces to the open pages. Topics: `fleet`, `handoffs`, the id of a handoff or agent."""

    def __init__(self, fleet: Fleet, make_pieces: MakePieces) -> None:
        self.fleet = fleet
        self.make_pieces = make_pieces
        self.streams: dict[EventStream, str] = {}
        self.known_hosts: Mapping[str, ShownHost] | None = None
        """The hosts as open pages show them, by id; None while no page is open."""
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
        self._send_soon()

    def take_changes(self, news: ChangedIds) -> None:
        """Take changes of which the log has no line; called in the loop."""
        if not self.streams or not news:
            return
        news.join(self._news)
        self._news = news
        self._send_soon()

    def _send_soon(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._send_updates())

    def close(self) -> None:
        """End every stream."""
        for stream in tuple(self.streams):
            stream.end()
        self._maker.shutdown(wait=False, cancel_futures=True)

    async def stream_pieces(
        self, topic: str, after: int, hosts_mark: str = ""
    ) -> AsyncGenerator[bytes]:
        """Yield the stream of one page, which has the log up to `after`.

        `hosts_mark` is of the hosts as the page shows them; empty where it shows none.
        """
        stream = EventStream()
        self.streams[stream] = topic
        try:
            yield b"retry: 1000\n\n"
            missed = await self._run_in_thread(self._collect_since, after, hosts_mark)
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

    def _collect_since(self, after: int, hosts_mark: str) -> ChangedIds | None:
        """Collect what changed since a line of the log; None where the page must be loaded again."""
        hosts = list_fleet_hosts(self.fleet.database)
        if self.known_hosts is None:
            self.known_hosts = index_hosts(hosts)
        if hosts_mark and hosts_mark != compute_mark(hosts):
            return None
        rows = queries.list_events_after(self.fleet.database, after, MOST_MISSED)
        news = _create_news()
        for row in rows:
            news.add(row)
        return news if len(rows) < MOST_MISSED else None

    async def _build_update(self, news: ChangedIds, topic: str) -> bytes:
        if not news:
            return KEEP_ALIVE_PIECE
        pieces = await self._run_in_thread(self.make_pieces, self.fleet, news, frozenset([topic]))
        return encode_pieces(pieces, topic, news.newest) or KEEP_ALIVE_PIECE

    async def _send_updates(self) -> None:
        """Send changes to all pages that show them, until nothing changes any more."""
        while True:
            since = time.monotonic() - self._sent_at
            await asyncio.sleep(max(SOON_SECONDS, PAGE_PAUSE_SECONDS - since))
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
                logger.exception("Changes could not be sent to the open pages")
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

    `newest` is the line of the log after which a reader that was cut off continues; 0 where that is
    as before.
    """
    events = []
    for piece in pieces:
        if piece.pages and topic not in piece.pages:
            continue
        lines = "".join(f"data: {line}\n" for line in piece.html.strip().split("\n"))
        id = f"id: {newest}\n" if newest else ""
        events.append(f"{id}event: {piece.event}\n{lines}\n")
    return "".join(events).replace("\r", "").encode("utf-8", "replace")


def _create_news() -> ChangedIds:
    return ChangedIds(set(), set(), set())
