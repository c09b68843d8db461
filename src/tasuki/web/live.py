"""Live events: the log is read once for all streams.

A stream of the log is `text/event-stream`; each event has the id of its line, so a reader that was
cut off continues where it was (`Last-Event-ID`), and every stream gets the same bytes.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

import msgspec
from sqlalchemy.exc import DBAPIError

from tasuki.fleet.store import queries
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.models import FleetEvent

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
        # The other readers are about to get what this one has.
        while self._task and self.position < cursor:
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
            left = self._sent_at + KEEP_ALIVE_SECONDS - time.monotonic()
            with suppress(TimeoutError):  # Every stream was silent for long enough.
                await asyncio.wait_for(self._news.wait(), max(left, 0.0))
            pause = PAUSE_SECONDS
            if self._news.is_set():
                self._news.clear()
                self._is_notified = False
                try:
                    await self._read_news()
                except Exception as error:  # later lines must reach the streams
                    if isinstance(error, DBAPIError):
                        logger.warning("Live events wait: the database does not answer.")
                    else:
                        logger.exception("New lines of the log could not be sent")
                    self._news.set()
                    pause = 1.0
            if time.monotonic() - self._sent_at >= KEEP_ALIVE_SECONDS:
                await self._send_piece(KEEP_ALIVE_PIECE)
            await asyncio.sleep(pause)

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
                self._report(event)
            if len(lines) < PAGE_LINES:
                return

    def _report(self, event: FleetEvent) -> None:
        try:
            self.on_event(event)
        except Exception:  # the next one must be reported
            logger.exception("Open pages could not be told of line %d of the log", event.id)

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
