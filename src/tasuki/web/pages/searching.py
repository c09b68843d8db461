"""The index of all threads behind the page of threads: brought up to date beside the requests."""

import threading
import time
from collections import OrderedDict

from msgspec import Struct

from tasuki.errors import TasukiError
from tasuki.threads import catalog, search
from tasuki.threads.index import Index
from tasuki.threads.query import Query

WAITED_SECONDS = 1.0
"""How long a search waits for new threads to be taken in."""
KEPT = 20
"""Searches whose results are kept for the pages of the threads that they found."""
FRESH_SECONDS = 2.0
"""A search so soon behind another one looks for no new threads."""


class State(Struct):
    """How far the index is. `left` is in bytes; what was read last may not be found yet."""

    left: int = 0
    problems: tuple[str, ...] = ()
    at: float = 0.0
    """When it was brought up to date last, in seconds since 1970."""


class Searching:
    """Searches; what is much to take in first is taken in by a thread, and told."""

    def __init__(self) -> None:
        self.state = State()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._found: OrderedDict[tuple[Query, int], list[search.Found]] = OrderedDict()

    @property
    def left(self) -> int:
        """Bytes that are still to be taken in; 0 once a search finds all that there is."""
        thread = self._thread
        return max(1, self.state.left) if thread and thread.is_alive() else 0

    def found(self, query: Query, limit: int, *, again: bool = False) -> list[search.Found]:
        """The threads that match best; `again`: as they were found before will do. Raises StoreFailed.

        Each search reads the threads that it finds, which may be long.
        """
        with self._lock:
            if again and (before := self._found.get((query, limit))) is not None:
                return before
        self._refresh()
        with Index() as index:
            made = search.search(index, query, limit)
        with self._lock:
            self._found[query, limit] = made
            self._found.move_to_end((query, limit))
            while len(self._found) > KEPT:
                self._found.popitem(last=False)
        return made

    def _refresh(self) -> None:
        """Bring the index up to date; what takes longer goes on beside the search."""
        with self._lock:
            is_fresh = time.time() - self.state.at < FRESH_SECONDS
            if is_fresh or (self._thread and self._thread.is_alive()):
                return
            files = catalog.files()
            with Index() as index:
                waiting = sum(file.bytes for _, file in index.stale(files))
            self.state = State(waiting, at=self.state.at)
            self._thread = threading.Thread(target=self._take_in, name="indexing", daemon=True)
            self._thread.start()
        self._thread.join(WAITED_SECONDS)

    def _take_in(self) -> None:
        state, problems = self.state, list[str]()

        def taken(size: int) -> None:
            state.left = max(0, state.left - size)

        try:
            with Index() as index:
                problems = search.refresh(index, catalog.files(), taken)
        except TasukiError as error:
            problems = [str(error)]
        except Exception as error:  # a thread that ends in silence would leave its page waiting
            problems = [
                f"Threads were not taken in, by a fault of tasuki's: {type(error).__name__}."
            ]
            raise
        finally:
            self.state = State(0, tuple(problems), time.time())


SEARCHING = Searching()
