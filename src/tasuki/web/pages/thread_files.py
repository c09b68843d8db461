"""Threads that pages read: found by harness and id, read once while they stay as they are."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import quote, urlencode

from tasuki import harness as harnesses
from tasuki.errors import ThreadNotFound, UsageError
from tasuki.harness.protocol import Harness, ThreadFile
from tasuki.model import Thread
from tasuki.plain import one_line
from tasuki.threads import catalog

MOST_BYTES = 150_000_000
"""Of the files whose threads are kept in memory."""
MOST = 6
SHORTEST = 8
"""Characters from which on the beginning of an id stands for it."""

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
    files = [file for _, file in catalog.files(adapter.name)]
    ways: Sequence[Callable[[ThreadFile], bool]] = (
        lambda file: id in (file.path.stem, file.path.name),
        lambda file: file.path.stem.endswith((f"-{id}", f"_{id}")),
        lambda file: _has_id(adapter, file, id),
    )
    for way in ways:
        found = [file.path for file in files if way(file)]
        if len(found) > 1:
            raise UsageError(
                f"{len(found)} threads of {adapter.title} are called {one_line(id, 80)}. Open it from the list of threads."
            )
        if found:
            return adapter, found[0]
    raise ThreadNotFound(f"No thread of {adapter.title} has the id {one_line(id, 80)}.")


def _has_id(adapter: Harness, file: ThreadFile, id: str) -> bool:
    head = catalog.read_head(adapter, file)
    return head is not None and (head.id == id or (len(id) >= SHORTEST and head.id.startswith(id)))


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


def address(harness: str, id: str, path: str = "", /, **query: object) -> str:
    """Where a thread is read."""
    given = {"path": path, **query}
    asked = urlencode({name: value for name, value in given.items() if value not in ("", None, 0)})
    where = f"/threads/{quote(harness, safe='')}/{quote(id or 'thread', safe='')}"
    return f"{where}?{asked}" if asked else where


def _key(harness: Harness, path: Path) -> Key:
    try:
        found = harnesses.file_of(path).stat()
    except (OSError, ValueError):
        return harness.name, str(path), 0, 0
    return harness.name, str(path), found.st_mtime_ns, found.st_size
