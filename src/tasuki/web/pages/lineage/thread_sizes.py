"""The number of entries of a thread, their times, and its compactions: read once, then kept."""

import os
import stat
import threading
import time
from bisect import bisect_right
from collections import OrderedDict
from pathlib import Path

from msgspec import Struct

from tasuki.errors import TasukiError
from tasuki.harness import registry as harnesses
from tasuki.web.pages.lineage.words import parse_moment

MOST_BYTES = 32 << 20
"""A longer thread is not read to count its entries."""
READ_SECONDS = 1.0
"""Time that one page may spend on reading; the other threads are read for the next page."""
MOST_KEPT = 1000


class ThreadSize(Struct, frozen=True):
    """A thread in numbers. Times are seconds since 1970, one for each entry, in rising order."""

    entries: int
    times: tuple[float, ...]
    compactions: tuple[float, ...]
    """Parts of the thread, from 0 to 1, that are before each compaction."""

    def compute_part(self, moment: float) -> float:
        """Compute the part of the thread, from 0 to 1, that was there at a moment."""
        return bisect_right(self.times, moment) / max(self.entries, 1)


class ThreadSizeCache:
    """The sizes of threads, by path, time of change and bytes."""

    def __init__(self) -> None:
        self._sizes: OrderedDict[tuple[str, int, int], ThreadSize | None] = OrderedDict()
        self._lock = threading.Lock()

    def get_size(self, harness: str, path: str, until: float) -> ThreadSize | None:
        """Return the size of a thread.

        None where it cannot be read, or it is past `until` (monotonic).
        """
        try:
            file = os.stat(harnesses.get_containing_file(Path(path)))
        except (OSError, ValueError):
            return None
        if not path or not stat.S_ISREG(file.st_mode) or file.st_size > MOST_BYTES:
            return None
        key = (path, file.st_mtime_ns, file.st_size)
        with self._lock:
            if key in self._sizes:
                self._sizes.move_to_end(key)
                return self._sizes[key]
        if time.monotonic() > until:
            return None
        size = _read_size(harness, Path(path))
        with self._lock:
            self._sizes[key] = size
            while len(self._sizes) > MOST_KEPT:
                self._sizes.popitem(last=False)
        return size


def _read_size(harness: str, path: Path) -> ThreadSize | None:
    try:
        entries = harnesses.get_harness(harness).read(path).entries
    except (OSError, TasukiError):
        return None
    times: list[float] = []
    for entry in entries:
        before = times[-1] if times else 0.0
        times.append(max(parse_moment(entry.at) or 0.0, before))
    compactions = [i / len(entries) for i, e in enumerate(entries) if e.kind == "compaction"]
    return ThreadSize(len(entries), tuple(times), tuple(compactions))
