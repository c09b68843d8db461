"""Answers that many readers want at the same moment are made once.

All open pages of a fleet fetch the same page when an agent changes.
"""

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class SharedAnswers(Generic[T]):
    """Makes answers in threads, by key.

    Whoever asks while an answer is being made gets that one if nothing has changed since it was
    begun, else the following one, made for all that wait: no answer is older than its question.
    """

    def __init__(self, get_generation: Callable[[], int]) -> None:
        self.get_generation = get_generation
        """Returns a number that grows with each change."""
        self._running: dict[Hashable, asyncio.Task[T]] = {}
        self._generations: dict[Hashable, int] = {}
        self._following: dict[Hashable, asyncio.Task[T]] = {}

    async def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Get an answer to what is known now; raises what `make` raises."""
        if key not in self._running:
            return await asyncio.shield(self._start(key, make))
        if self._generations[key] == self.get_generation():
            return await asyncio.shield(self._running[key])
        if key not in self._following:
            following = self._follow(key, make, self._running[key])
            self._following[key] = asyncio.create_task(following)
        return await asyncio.shield(self._following[key])

    async def _follow(self, key: Hashable, make: Callable[[], T], running: asyncio.Task[T]) -> T:
        await asyncio.wait([running])
        del self._following[key]
        return await asyncio.shield(self._start(key, make))

    def _start(self, key: Hashable, make: Callable[[], T]) -> asyncio.Task[T]:
        self._generations[key] = self.get_generation()
        task = asyncio.create_task(asyncio.to_thread(make))
        self._running[key] = task
        task.add_done_callback(lambda done: self._forget(key, done))
        return task

    def _forget(self, key: Hashable, task: asyncio.Task[T]) -> None:
        if self._running.get(key) is task:
            del self._running[key], self._generations[key]
