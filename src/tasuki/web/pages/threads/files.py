"""Threads that pages read: found by harness and id, read once while they do not change."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import quote, urlencode

from tasuki.errors import ThreadNotFound, UsageError
from tasuki.harness import registry as harnesses
from tasuki.harness.protocol import Harness, ThreadFile
from tasuki.model import Thread
from tasuki.text_safety import shorten_to_line
from tasuki.threads import catalog

MOST_BYTES = 150_000_000
"""Most bytes of the files whose threads are kept in memory."""
MOST_KEPT = 6
SHORTEST_ID = 8
"""Fewest characters from the beginning of an id that identify a thread."""

CacheKey = tuple[str, str, int, int]


class ThreadCache:
    """Reads threads; the last ones stay in memory while their files do not change."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads: OrderedDict[CacheKey, Thread] = OrderedDict()

    def read_thread(self, harness: Harness, path: Path) -> Thread:
        """Read the thread of a file. Raises ThreadNotFound, ThreadUnreadable."""
        key = _build_key(harness, path)
        with self._lock:
            if (cached := self._threads.get(key)) is not None:
                self._threads.move_to_end(key)
                return cached
        thread = harness.read(path)
        with self._lock:
            self._threads[key] = thread
            while len(self._threads) > MOST_KEPT or (
                len(self._threads) > 1 and sum(size for _, _, _, size in self._threads) > MOST_BYTES
            ):
                self._threads.popitem(last=False)
        return thread


THREAD_CACHE = ThreadCache()


def find_thread_file(harness: str, id: str, path: str = "") -> tuple[Harness, Path]:
    """Find the file of a thread by its harness and id.

    `path` decides where several have that id. Raises ThreadNotFound, UsageError; a file that is
    no thread of this harness is not found.
    """
    adapter = harnesses.get_harness(harness)
    if path:
        return adapter, _check_path(adapter, path)
    files = [file for _, file in catalog.find_thread_files(adapter.name)]
    checks: Sequence[Callable[[ThreadFile], bool]] = (
        lambda file: id in (file.path.stem, file.path.name),
        lambda file: file.path.stem.endswith((f"-{id}", f"_{id}")),
        lambda file: _has_id(adapter, file, id),
    )
    for check in checks:
        paths = [file.path for file in files if check(file)]
        if len(paths) > 1:
            raise UsageError(
                f"{len(paths)} threads of {adapter.title} are called {shorten_to_line(id, 80)}. Open it from the list of threads."
            )
        if paths:
            return adapter, paths[0]
    raise ThreadNotFound(f"No thread of {adapter.title} has the id {shorten_to_line(id, 80)}.")


def _has_id(adapter: Harness, file: ThreadFile, id: str) -> bool:
    head = catalog.read_head(adapter, file)
    return head is not None and (
        head.id == id or (len(id) >= SHORTEST_ID and head.id.startswith(id))
    )


def _check_path(adapter: Harness, path: str) -> Path:
    """Check that a file is a thread of this harness; a pipe or a device is never opened."""
    file, shown_path = Path(path), shorten_to_line(path, 300)
    try:
        if file.is_absolute() and harnesses.get_containing_file(file).is_file():
            if harnesses.detect_harness(file).name == adapter.name:
                return file
        elif file.is_absolute() and not file.exists():
            raise ThreadNotFound(f"{shown_path} is not there any more.")
    except ValueError:  # a path with a NUL
        pass
    raise ThreadNotFound(f"{shown_path} is no thread of {adapter.title}.")


def build_thread_address(harness: str, id: str, path: str = "", /, **query: object) -> str:
    """Build the address of a thread's page."""
    parameters = {"path": path, **query}
    query_text = urlencode(
        {name: value for name, value in parameters.items() if value not in ("", None, 0)}
    )
    path_text = f"/threads/{quote(harness, safe='')}/{quote(id or 'thread', safe='')}"
    return f"{path_text}?{query_text}" if query_text else path_text


def _build_key(harness: Harness, path: Path) -> CacheKey:
    try:
        status = harnesses.get_containing_file(path).stat()
    except (OSError, ValueError):
        return harness.name, str(path), 0, 0
    return harness.name, str(path), status.st_mtime_ns, status.st_size
