"""Live events: the log is read once for everybody, and every stream gets the same bytes.

A stream is `text/event-stream`; each event has the id of its line in the log, so that a reader who
was cut off goes on where it was (`Last-Event-ID`).
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

from tasuki.fleet import reading
from tasuki.fleet.database import Database
from tasuki.fleet.rows import FleetEvent

PAUSE_SECONDS = 0.1
"""The log is read no more often than this."""
AT_ONCE = 4
"""Streams that are written to before somebody else has a turn."""
KEEP_ALIVE_SECONDS = 15.0
PAGE = 500
"""Lines of the log that are read at once."""
MOST_WAITING = 2 << 20
"""Bytes that may wait for a slow reader; then it is cut off, and goes on by its last id."""
KEEP_ALIVE = b":\n\n"

T = TypeVar("T")
logger = logging.getLogger("tasuki.web")


class Stream:
    """What waits for one reader. None ends it."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._waiting = 0

    def put(self, piece: bytes) -> bool:
        """Give it a piece; False where its reader is too slow, which ends it instead."""
        if self._waiting > MOST_WAITING:
            self.end()
            return False
        self._waiting += len(piece)
        self._queue.put_nowait(piece)
        return True

    async def get(self) -> bytes | None:
        """The next piece; None at the end."""
        piece = await self._queue.get()
        self._waiting -= len(piece or b"")
        return piece

    def end(self) -> None:
        """Nothing of what waits is sent any more."""
        while not self._queue.empty():
            self._queue.get_nowait()
        self._queue.put_nowait(None)


class Live:
    """Reads the log behind its newest line and gives it to every stream.

    `told` is called with every new event, once. `changed` may be called from any thread.
    """

    def __init__(self, database: Database, told: Callable[[FleetEvent], None]) -> None:
        self.database = database
        self.told = told
        self.position = 0
        """Id of the last line that was given to the streams."""
        self.streams: set[Stream] = set()
        self.cut_off = 0
        """Readers that were too slow, since the start."""
        self._news = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="live")
        self._told_of_news = False
        self._gave_at = time.monotonic()

    async def start(self) -> None:
        """Begin behind the newest line."""
        self._loop = asyncio.get_running_loop()
        self.position = await self._read(reading.newest_event, self.database)
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """End every stream."""
        if self._task:
            self._task.cancel()
            self._task = None
        for stream in self.streams:
            stream.end()
        self._reader.shutdown(wait=False, cancel_futures=True)

    def changed(self) -> None:
        """New lines were committed; callable from any thread."""
        if self._loop is None or self._told_of_news:
            return
        self._told_of_news = True
        try:
            self._loop.call_soon_threadsafe(self._news.set)
        except RuntimeError:  # the loop has ended
            self._loop = None

    async def pieces(self, after: int | None) -> AsyncIterator[bytes]:
        """The stream of one reader: what is behind `after`, then what comes; None for what comes."""
        newest = await self._read(reading.newest_event, self.database)
        cursor = newest if after is None or after > newest else after
        while (
            self._task and self.position < cursor
        ):  # what this reader knows is about to be given to the others
            self._news.set()
            await asyncio.sleep(PAUSE_SECONDS / 4)
        yield f"retry: 2000\nid: {cursor}\n\n".encode()
        while cursor < self.position:
            rows = await self._read(reading.events_after, self.database, cursor, PAGE)
            rows = [row for row in rows if row.id <= self.position]  # newer ones come to all
            if not rows:
                break
            cursor = rows[-1].id
            yield encoded(rows)
        stream = Stream()  # nothing is awaited between the look at the position and this
        self.streams.add(stream)
        try:
            while (piece := await stream.get()) is not None:
                yield piece
        finally:
            self.streams.discard(stream)

    async def _run(self) -> None:
        while True:
            await self._wait()
            pause = PAUSE_SECONDS
            if self._news.is_set():
                self._news.clear()
                self._told_of_news = False
                try:
                    await self._catch_up()
                except DBAPIError:
                    logger.warning("Live events wait: the database does not answer.")
                    self._news.set()
                    pause = 1.0
            if time.monotonic() - self._gave_at >= KEEP_ALIVE_SECONDS:
                await self._give(KEEP_ALIVE)
            await asyncio.sleep(pause)

    async def _wait(self) -> None:
        """Until there is news, or a stream was silent for long enough."""
        left = self._gave_at + KEEP_ALIVE_SECONDS - time.monotonic()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), max(left, 0.0))

    async def _catch_up(self) -> None:
        while True:
            rows = await self._read(reading.events_after, self.database, self.position, PAGE)
            if not rows:
                return
            self.position = rows[-1].id
            if self.streams:
                await self._give(encoded(rows))
            for row in rows:
                self.told(row)
            if len(rows) < PAGE:
                return

    async def _give(self, piece: bytes) -> None:
        """Give a piece to the streams that are there now; hooks are answered between some and some."""
        self._gave_at = time.monotonic()
        for number, stream in enumerate(tuple(self.streams), 1):
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)
            if not stream.put(piece):
                self.streams.discard(stream)
                self.cut_off += 1

    async def _read(self, function: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._reader, function, *arguments)


def encoded(rows: Sequence[FleetEvent]) -> bytes:
    """Lines of the log as events of a stream."""
    encode = msgspec.json.encode
    return b"".join(b"id: %d\ndata: %b\n\n" % (row.id, encode(row)) for row in rows)
