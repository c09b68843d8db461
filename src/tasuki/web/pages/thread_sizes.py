"""How many entries a thread has, when each was made, and where it was compacted: read once, then kept."""

import os
import stat
import threading
import time
from bisect import bisect_right
from collections import OrderedDict
from pathlib import Path

from msgspec import Struct

from tasuki import harness as harnesses
from tasuki.errors import TasukiError
from tasuki.web.pages.lineage_words import moment

MOST_BYTES = 32 << 20
"""A longer thread is not read to count its entries."""
SECONDS = 1.0
"""What one page may spend on reading; threads that are left are read for the next one."""
KEPT = 1000


class Size(Struct, frozen=True):
    """A thread in numbers. Times are seconds since 1970, one for each entry, none before the last."""

    entries: int
    times: tuple[float, ...]
    compactions: tuple[float, ...]
    """Parts of the thread, from 0 to 1, that lie before each."""

    def part(self, at: float) -> float:
        """The part of the thread, from 0 to 1, that was there at a moment."""
        return bisect_right(self.times, at) / max(self.entries, 1)


class Sizes:
    """The sizes of threads, by path, time of change and bytes."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, int, int], Size | None] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, harness: str, path: str, until: float) -> Size | None:
        """The size of a thread; None where it cannot be read, or it is past `until` (monotonic)."""
        try:
            file = os.stat(harnesses.file_of(Path(path)))
        except (OSError, ValueError):
            return None
        if not path or not stat.S_ISREG(file.st_mode) or file.st_size > MOST_BYTES:
            return None
        key = (path, file.st_mtime_ns, file.st_size)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        if time.monotonic() > until:
            return None
        size = _read(harness, Path(path))
        with self._lock:
            self._kept[key] = size
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return size


def _read(harness: str, path: Path) -> Size | None:
    try:
        entries = harnesses.get(harness).read(path).entries
    except (OSError, TasukiError):
        return None
    times: list[float] = []
    for entry in entries:
        before = times[-1] if times else 0.0
        times.append(max(moment(entry.at) or 0.0, before))
    compactions = [i / len(entries) for i, e in enumerate(entries) if e.kind == "compaction"]
    return Size(len(entries), tuple(times), tuple(compactions))
