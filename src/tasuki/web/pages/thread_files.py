"""Threads that pages read: found by harness and id, read once while they stay as they are."""

import re
import threading
from collections import OrderedDict
from pathlib import Path
from urllib.parse import quote, urlencode

from tasuki import harness as harnesses
from tasuki.errors import ThreadNotFound
from tasuki.harness.protocol import Harness
from tasuki.model import Thread
from tasuki.plain import one_line
from tasuki.threads import catalog

MOST_BYTES = 150_000_000
"""Of the files whose threads are kept in memory."""
MOST = 6
_ID = re.compile(r"[0-9a-fA-F][0-9a-fA-F-]{3,}|ses_\w{4,80}")
"""What harnesses call threads by; other words mean something else to `catalog.find`."""

Key = tuple[str, str, int, int]


class Threads:
    """Reads threads; the last ones stay in memory while their files do not change."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[Key, Thread] = OrderedDict()

    def read(self, harness: Harness, path: Path) -> Thread:
        """The thread of a file. Raises ThreadNotFound, ThreadUnreadable."""
        key = _key(harness, path)
        with self._lock:
            if (known := self._known.get(key)) is not None:
                self._known.move_to_end(key)
                return known
        thread = harness.read(path)
        with self._lock:
            self._known[key] = thread
            while len(self._known) > MOST or (len(self._known) > 1 and self._bytes() > MOST_BYTES):
                self._known.popitem(last=False)
        return thread

    def _bytes(self) -> int:
        return sum(size for _, _, _, size in self._known)


THREADS = Threads()


def find(harness: str, id: str, path: str = "") -> tuple[Harness, Path]:
    """The file of a thread by its harness and id; `path` tells which, where several have that id.

    Raises ThreadNotFound, UsageError; a file that is no thread of this harness is not found.
    """
    adapter = harnesses.get(harness)
    if path:
        return adapter, _named(adapter, path)
    known = [file.path for _, file in catalog.files(adapter.name)]
    same = [one for one in known if id in (one.stem, one.name)]
    if len(same) == 1:
        return adapter, same[0]
    if _ID.fullmatch(id):
        found, where = catalog.find(id, Path.home())
        if found.name == adapter.name:
            return adapter, where
    raise ThreadNotFound(f"No thread of {adapter.title} has the id {one_line(id, 80)}.")


def _named(adapter: Harness, path: str) -> Path:
    """A file that is a thread of this harness; a pipe or a device is never opened."""
    named, said = Path(path), one_line(path, 300)
    try:
        if named.is_absolute() and harnesses.file_of(named).is_file():
            if harnesses.of_file(named).name == adapter.name:
                return named
        elif named.is_absolute() and not named.exists():
            raise ThreadNotFound(f"{said} is not there any more.")
    except ValueError:  # a path that holds a NUL
        pass
    raise ThreadNotFound(f"{said} is no thread of {adapter.title}.")


def address(harness: str, id: str, path: str = "", **query: object) -> str:
    """Where a thread is read."""
    given = {"path": path, **query}
    asked = urlencode({name: value for name, value in given.items() if value not in ("", None, 0)})
    where = f"/threads/{quote(harness, safe='')}/{quote(id or 'thread', safe='')}"
    return f"{where}?{asked}" if asked else where


def _key(harness: Harness, path: Path) -> Key:
    try:
        found = harnesses.file_of(path).stat()
    except OSError:
        return harness.name, str(path), 0, 0
    return harness.name, str(path), found.st_mtime_ns, found.st_size
