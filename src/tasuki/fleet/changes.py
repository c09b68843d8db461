"""Who waits for news of an agent, and who is told that the log grew."""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager


class Changes:
    """Wakes those who wait: the steps of a handoff by agent, the live events by the log."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[int, set[threading.Event]] = defaultdict(set)
        self._callbacks: list[Callable[[], None]] = []
        self.closing = threading.Event()

    @contextmanager
    def of(self, agents: Iterable[int]) -> Iterator[threading.Event]:
        """An event that is set whenever something happened to one of the agents."""
        mine, ids = threading.Event(), tuple(agents)
        with self._lock:
            for id in ids:
                self._waiting[id].add(mine)
        try:
            yield mine
        finally:
            with self._lock:
                for id in ids:
                    self._waiting[id].discard(mine)
                    if not self._waiting[id]:
                        del self._waiting[id]

    def happened(self, agents: Iterable[int] = ()) -> None:
        """Something about these agents, and in the log, was committed."""
        with self._lock:
            for id in agents:
                for waiting in self._waiting.get(id, ()):
                    waiting.set()
        for callback in self._callbacks:
            callback()

    def on_log(self, callback: Callable[[], None]) -> None:
        """Call this, from any thread, after new rows of the log were committed."""
        self._callbacks.append(callback)

    def close(self) -> None:
        """Wake everybody for the last time."""
        self.closing.set()
        with self._lock:
            for waiting in self._waiting.values():
                for one in waiting:
                    one.set()
