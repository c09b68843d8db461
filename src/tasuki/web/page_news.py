"""News for open pages: what changed, never how it looks.

A page names the topics that it shows: `agents`, `agent:17`, `handoffs`, `handoff:` and an id,
`alerts`, `hosts`, `personas`, `settings`, `templates`. When one of them is in the news, its browser fetches the page again and
morphs it (`static/live.js`). So a page that is right when it is made is right while it is open, and
nothing here knows any page. One stream of news serves all pages of a browser (`static/stream.js`).
"""

import asyncio
import logging
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import Annotated, TypeVar

import msgspec
from litestar import get
from litestar.datastructures import State
from litestar.params import QueryParameter
from litestar.response import Stream
from msgspec import Struct
from sqlalchemy.exc import DBAPIError

from tasuki.fleet import alerts
from tasuki.fleet.service import Fleet
from tasuki.fleet.store import queries
from tasuki.fleet.store.models import FleetEvent
from tasuki.fleet.store.queries import GREATEST_ID
from tasuki.web.handlers import AnyRequest
from tasuki.web.live import KEEP_ALIVE_SECONDS, STREAM_HEADERS, EventStream, parse_last_id
from tasuki.web.pages.fleet import cards
from tasuki.web.security.sessions import is_signed_in
from tasuki.web.views.hosts import ShownHost, index_hosts, list_fleet_hosts

PAUSE_SECONDS = 0.1
"""The shortest time between two messages."""
SOON_SECONDS = 0.005
"""Changes that belong together are sent within this time."""
COUNT_SECONDS = 0.15
"""The counts are made so long after the topics were sent: the pages come first."""
COUNT_PAUSE_SECONDS = 0.4
"""The shortest time between two counts, which look at every agent."""
AWAY_SECONDS = 1.0
ALIVE_PIECE = b"event: alive\ndata:\n\n"
"""Sent where nothing else is: a browser takes a stream that is silent for long as broken."""
MOST_TOPICS = 500
"""Topics of one message; with more, every page counts as changed."""
MOST_AGENTS = 500
"""Agents of a host that went away whose pages are told."""
HOST_SECONDS = 2.0
"""How often the hosts are looked at while a page is open; where the fleet has one, never."""
EVERYTHING = "everything"
"""The topic of every page."""

_TOPICS = {
    "alert": {"alerts"}, "settings": {"settings"}, "template": {"templates"},
    "persona": {"personas", "agents"},
}  # fmt: skip
"""The topics that a line of the log changes by its kind alone."""

T = TypeVar("T")
logger = logging.getLogger("tasuki.web")


class PageCounts(Struct, frozen=True):
    """What the frame of every page counts."""

    needs: int
    """Agents that need the operator."""
    unseen: int
    """Alerts that the operator has not seen."""
    newest_alert: int
    """Id of the newest alert; 0 for none."""


class NewAlert(Struct, frozen=True):
    """An alert that browsers notify of, while nobody looks at a page."""

    id: int
    at: float
    title: str
    text: str
    path: str
    """The page that it is about."""


class PageNews(Struct, frozen=True):
    """A message to all open pages."""

    newest: int
    """Id of the last line of the log that it covers."""
    topics: tuple[str, ...] = ()
    counts: PageCounts | None = None
    """None in a message of topics."""
    alerts: tuple[NewAlert, ...] = ()


class PageStreams:
    """Tells the open pages of all browsers what changed."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.streams: set[EventStream] = set()
        self.known_hosts: Mapping[str, ShownHost] | None = None
        """The hosts as open pages show them, by id; None while no page is open."""
        self.newest = 0
        self._hosts_lock = threading.Lock()
        self._topics: set[str] = set()
        self._alert_ids: set[int] = set()
        self._task: asyncio.Task[None] | None = None
        self._count_task: asyncio.Task[None] | None = None
        self._maker = ThreadPoolExecutor(1, thread_name_prefix="pages")
        self._sent_at = 0.0
        self._counted_at = 0.0
        self._is_uncounted = False

    def take_event(self, event: FleetEvent) -> None:
        """Take a new line of the log; called in the loop."""
        self.newest = event.id
        kinds = self.fleet.notifier.kinds.split()
        if self.streams and event.kind == "alert" and event.data.get("kind") in kinds:
            self._alert_ids.add(event.data["alert"])
        self.take_topics(list_topics(event))

    def take_topics(self, topics: set[str]) -> None:
        """Take changes, also those of which the log has no line; called in the loop."""
        self.fleet.changes.count_change()
        if not self.streams or not topics:
            return
        self._topics |= topics
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._send_news())

    def close_streams(self) -> None:
        """End every stream; browsers open theirs again."""
        for stream in tuple(self.streams):
            stream.end()

    def close(self) -> None:
        """End every stream, and make no more."""
        self.close_streams()
        self._maker.shutdown(wait=False, cancel_futures=True)

    async def stream_pieces(self, newest: int, after: int | None = None) -> AsyncGenerator[bytes]:
        """Yield the stream of one browser; `after` is the last line of the log that it knows.

        It begins with a message without topics: pages older than its `newest` are out of date.
        """
        stream = EventStream()
        self.streams.add(stream)
        try:
            self.newest = max(self.newest, newest)
            yield b"retry: 1000\n\n"
            counts, missed = await self._run_in_thread(self._begin, after)
            yield encode_news(PageNews(self.newest, (), counts, missed))
            while True:
                try:
                    piece = await asyncio.wait_for(stream.get(), KEEP_ALIVE_SECONDS)
                except TimeoutError:
                    piece = ALIVE_PIECE
                if piece is None:
                    return
                yield piece
        finally:
            with self._hosts_lock:
                self.streams.discard(stream)
                if not self.streams:
                    self.known_hosts = None

    def find_host_news(self) -> set[str]:
        """Find what changed about the hosts since the last look; called in any thread.

        No line of the log says which hosts went away or came back. Signs of life are no news. The
        first look is that of the first page that is opened; one that ends after the last page was
        closed finds nothing.
        """
        before = self.known_hosts
        now = index_hosts(list_fleet_hosts(self.fleet.database))
        if not self._keep_hosts(before, now) or before is None:
            return set()
        if set(before) != set(now):
            return {EVERYTHING}
        topics = set()
        for id, host in now.items():
            if before[id].news_key != host.news_key:
                topics |= {"hosts", "agents"}
            if (before[id].label, before[id].shown) != (host.label, host.shown):
                living = queries.list_agents(
                    self.fleet.database, ended=False, host=id, limit=MOST_AGENTS
                )
                topics |= {f"agent:{agent.id}" for agent in living}
        return topics

    def _keep_hosts(
        self, before: Mapping[str, ShownHost] | None, now: Mapping[str, ShownHost]
    ) -> bool:
        """Keep the hosts as they are now, in place of those before.

        Returns False, and keeps nothing, where no page is open any more, or others were kept since.
        """
        with self._hosts_lock:
            is_kept = bool(self.streams) and self.known_hosts is before
            if is_kept:
                self.known_hosts = now
        return is_kept

    def _begin(self, after: int | None) -> tuple[PageCounts, tuple[NewAlert, ...]]:
        if self.known_hosts is None:
            self._keep_hosts(None, index_hosts(list_fleet_hosts(self.fleet.database)))
        database, kinds = self.fleet.database, self.fleet.notifier.kinds.split()
        ids = set() if after is None else alerts.find_alerts_since(database, after, kinds)
        return count_for_pages(self.fleet), list_new_alerts(self.fleet, ids)

    async def _send_news(self) -> None:
        """Send which topics changed, until nothing changes any more; the pages are counted later."""
        while self._topics and self.streams:
            since = time.monotonic() - self._sent_at
            await asyncio.sleep(max(SOON_SECONDS, PAUSE_SECONDS - since))
            self._sent_at = time.monotonic()
            topics, self._topics = self._topics, set()
            shown = sorted(topics) if len(topics) <= MOST_TOPICS else [EVERYTHING]
            self._send(PageNews(self.newest, tuple(shown)))
            self._is_uncounted = True
            if self._count_task is None or self._count_task.done():
                self._count_task = asyncio.create_task(self._count_news())

    async def _count_news(self) -> None:
        """Send the counts after the topics: counting must not delay the pages."""
        while self._is_uncounted and self.streams:
            since = time.monotonic() - self._counted_at
            await asyncio.sleep(max(COUNT_SECONDS, COUNT_PAUSE_SECONDS - since))
            self._is_uncounted, self._counted_at = False, time.monotonic()
            try:
                await self._send_counts()
            except DBAPIError:
                logger.warning("Open pages wait: the database does not answer.")
                await asyncio.sleep(AWAY_SECONDS)
                self.take_topics({EVERYTHING})
            except Exception:  # later changes must reach the pages
                logger.exception("Open pages could not be told what there is")

    async def _send_counts(self) -> None:
        ids = self._alert_ids.copy()
        counts = await self._run_in_thread(count_for_pages, self.fleet)
        new_alerts = await self._run_in_thread(list_new_alerts, self.fleet, ids)
        self._alert_ids -= ids
        # also where they are as they were sent last: a page that was made meanwhile had others
        self._send(PageNews(self.newest, (), counts, new_alerts))

    def _send(self, news: PageNews) -> None:
        piece = encode_news(news)
        for stream in tuple(self.streams):
            if not stream.put(piece):
                self.streams.discard(stream)

    async def _run_in_thread(self, function: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._maker, function, *arguments)


class NewsWatch:
    """Asks, while pages are open, what changed that no line of the log tells, and tells the pages.

    `find_news` returns the topics that changed since it was called last; it runs in a thread.
    """

    def __init__(
        self, pages: PageStreams, find_news: Callable[[], set[str]], seconds: float
    ) -> None:
        self.pages = pages
        self.find_news = find_news
        self.seconds = seconds
        self._task: asyncio.Task[None] | None = None
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="news")

    def start(self) -> None:
        """Start in the running loop."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def close(self) -> None:
        """Stop."""
        if self._task:
            self._task.cancel()
        self._reader.shutdown(wait=False, cancel_futures=True)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self.seconds)
            if not self.pages.streams:
                continue
            try:
                if news := await loop.run_in_executor(self._reader, self.find_news):
                    self.pages.take_topics(news)
            except DBAPIError:  # the next look finds it
                continue
            except Exception:
                logger.exception("Looking for news: %s", self.find_news.__qualname__)


def count_for_pages(fleet: Fleet) -> PageCounts:
    """Count what the frame of every page shows."""
    unseen, newest = alerts.find_unseen_and_newest(fleet.database)
    needs = sum(card.group == "needs" for card in cards.build_cards(fleet))
    return PageCounts(needs, unseen, newest)


def list_new_alerts(fleet: Fleet, ids: set[int]) -> tuple[NewAlert, ...]:
    """List the alerts of some ids that browsers notify of: not those of muted agents."""
    return tuple(
        NewAlert(alert.id, alert.at, alert.title, alert.text, alert.path)
        for alert in alerts.load_alerts(fleet.database, ids)
        if not alert.muted
    )


def list_topics(event: FleetEvent) -> set[str]:
    """List the topics that a line of the log changes."""
    topics = set()
    if event.agent_id is not None:
        topics |= {"agents", f"agent:{event.agent_id}"}
    if event.handoff_id:
        topics |= {"handoffs", f"handoff:{event.handoff_id}"}
    return topics | _TOPICS.get(event.kind, set())


def encode_news(news: PageNews) -> bytes:
    """Encode a message as an event of a stream."""
    return b"id: %d\ndata: %b\n\n" % (news.newest, msgspec.json.encode(news))


@get("/live", media_type="text/event-stream")
async def stream_news(
    request: AnyRequest,
    state: State,
    after: Annotated[int | None, QueryParameter(ge=0, le=GREATEST_ID)] = None,
) -> Stream:
    """Stream what changes, until its browser is signed out; alerts also since the line `after`."""
    pages: PageStreams = state.live_pages
    last_id = parse_last_id(request.headers.get("last-event-id", ""))
    known = after if last_id is None else min(last_id, GREATEST_ID)
    pieces = _stream_while_signed_in(request, pages.stream_pieces(state.live.position.id, known))
    return Stream(pieces, media_type="text/event-stream", headers=STREAM_HEADERS)


async def _stream_while_signed_in(
    request: AnyRequest, pieces: AsyncGenerator[bytes]
) -> AsyncIterator[bytes]:
    """Yield the pieces until its browser is signed out."""
    async with aclosing(pieces):
        async for part in pieces:
            if not is_signed_in(request):
                return
            yield part
