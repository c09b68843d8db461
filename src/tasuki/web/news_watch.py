"""Looks, while pages are open, for news that no line of the log tells, and passes them on."""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from sqlalchemy.exc import DBAPIError

from tasuki.web.page_news import PageStreams

logger = logging.getLogger("tasuki.web")


class NewsSource(Protocol):
    """Something that changes, and is asked whether it did."""

    def find_news(self) -> set[str]:
        """Find the topics that changed since this was asked last; runs in a thread."""
        ...


class NewsWatch:
    """Asks a source every so many seconds, in a thread of its own, and tells the open pages."""

    def __init__(self, pages: PageStreams, source: NewsSource, seconds: float) -> None:
        self.pages = pages
        self.source = source
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
                news = await loop.run_in_executor(self._reader, self.source.find_news)
                if news:
                    self.pages.take_topics(news)
            except DBAPIError:  # the next look finds it
                continue
            except Exception:
                logger.exception("Looking for news: %s", type(self.source).__name__)
