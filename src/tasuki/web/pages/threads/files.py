"""Threads that pages read, and their sizes: found by harness and id, read once while unchanged."""

import hashlib
import os
import stat
import threading
import time
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path
from urllib.parse import quote, urlencode

from msgspec import Struct

from tasuki.errors import TasukiError, ThreadNotFound, UsageError
from tasuki.harness import registry as harnesses
from tasuki.harness.optional import ThreadFollower, follow_thread
from tasuki.harness.protocol import Harness, ThreadFile
from tasuki.model import Thread
from tasuki.text_safety import shorten_to_line
from tasuki.threads import catalog
from tasuki.web.views.templates import parse_moment

MOST_BYTES = 150_000_000
"""Most bytes of the files whose threads are kept in memory."""
MOST_KEPT = 6
SHORTEST_ID = 8
"""Fewest characters from the beginning of an id that identify a thread."""

FileStamp = tuple[int, int]
"""When a file was changed, in nanoseconds, and its bytes."""


class _ReadFile:
    """The thread of one file, and who reads what is appended to it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.stamp: FileStamp = (0, 0)
        self.thread: Thread | None = None
        self.follower: ThreadFollower | None = None


class ThreadCache:
    """Reads threads; the last ones stay in memory, and of those that grow only the end is read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads: OrderedDict[tuple[str, str], _ReadFile] = OrderedDict()

    def read_thread(self, harness: Harness, path: Path) -> Thread:
        """Read the thread of a file. Raises ThreadNotFound, ThreadUnreadable."""
        key = (f"{type(harness).__name__} {harness.name}", str(path))
        with self._lock:
            file = self._threads.setdefault(key, _ReadFile())
            self._threads.move_to_end(key)
        with file.lock:
            stamp, follower = get_stamp(path), file.follower
            if file.thread is not None and stamp == file.stamp:
                return file.thread
            file.follower = None  # a reading that fails leaves none
            try:
                if follower is None or not follower.is_continued():
                    follower = follow_thread(harness, path) if stamp[1] <= MOST_BYTES else None
                thread = file.thread = follower.read() if follower else harness.read(path)
            except BaseException:
                with self._lock:
                    self._threads.pop(key, None)
                raise
            file.stamp, file.follower = stamp, follower
        with self._lock:
            while len(self._threads) > MOST_KEPT or (
                len(self._threads) > 1
                and sum(one.stamp[1] for one in self._threads.values()) > MOST_BYTES
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
        checked_path = _check_path(adapter, path)
        return catalog.get_reader(harness, checked_path), checked_path
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
            return catalog.get_reader(harness, paths[0]), paths[0]
    raise ThreadNotFound(f"No thread of {adapter.title} has the id {shorten_to_line(id, 80)}.")


def _has_id(adapter: Harness, file: ThreadFile, id: str) -> bool:
    head = catalog.read_head(catalog.get_reader(adapter.name, file.path), file)
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
        elif catalog.get_reader(adapter.name, file) is not adapter:
            return file
        elif file.is_absolute() and not file.exists():
            raise ThreadNotFound(f"{shown_path} no longer exists.")
    except ValueError:  # a path with a NUL
        pass
    raise ThreadNotFound(f"{shown_path} is not a thread of {adapter.title}.")


def build_thread_address(harness: str, id: str, path: str = "", /, **query: object) -> str:
    """Build the address of a thread's page."""
    parameters = {"path": path, **query}
    query_text = urlencode(
        {name: value for name, value in parameters.items() if value not in ("", None, 0)}
    )
    path_text = f"/threads/{quote(harness, safe='')}/{quote(id or 'thread', safe='')}"
    return f"{path_text}?{query_text}" if query_text else path_text


def get_stamp(path: Path) -> FileStamp:
    """Return what changes with the file of a thread; zeros where it cannot be seen."""
    try:
        status = harnesses.get_containing_file(path).stat()
    except (OSError, ValueError):
        return 0, 0
    return status.st_mtime_ns, status.st_size


MOST_COUNTED_BYTES = 32 << 20
"""A longer thread is not read to count its entries."""
READ_SECONDS = 1.0
"""Time that one page may spend on reading; the other threads are read for the next page."""
MOST_SIZES = 1000


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
    """The sizes of threads, by path; a file that is read again grows, and is followed."""

    def __init__(self) -> None:
        self._sizes: OrderedDict[str, tuple[FileStamp, ThreadSize | None]] = OrderedDict()
        self._lock = threading.Lock()

    def get_size(self, harness: str, path: str, until: float) -> ThreadSize | None:
        """Return the size of a thread.

        None where it cannot be read, or it is past `until` (monotonic).
        """
        try:
            file = os.stat(harnesses.get_containing_file(Path(path)))
        except (OSError, ValueError):
            return None
        if not path or not stat.S_ISREG(file.st_mode) or file.st_size > MOST_COUNTED_BYTES:
            return None
        stamp = (file.st_mtime_ns, file.st_size)
        with self._lock:
            known = self._sizes.pop(path, None)
            if known:  # the newest is last
                self._sizes[path] = known
        if known and known[0] == stamp:
            return known[1]
        if time.monotonic() > until:
            return None
        size = _read_size(harness, Path(path), has_grown=known is not None)
        with self._lock:
            self._sizes[path] = stamp, size
            while len(self._sizes) > MOST_SIZES:
                self._sizes.popitem(last=False)
        return size


def _read_size(harness: str, path: Path, *, has_grown: bool) -> ThreadSize | None:
    try:
        adapter = harnesses.get_harness(harness)
        thread = THREAD_CACHE.read_thread(adapter, path) if has_grown else adapter.read(path)
        entries = thread.entries
    except (OSError, TasukiError):
        return None
    times = accumulate((max(parse_moment(entry.at) or 0.0, 0.0) for entry in entries), max)
    compactions = [i / len(entries) for i, e in enumerate(entries) if e.kind == "compaction"]
    return ThreadSize(len(entries), tuple(times), tuple(compactions))


LOOK_SECONDS = 1.0
WATCHED_SECONDS = 3600.0
"""For so long a thread is looked at after it was shown, or grew, last."""
MOST_WATCHED = 200


class ThreadNews:
    """Looks at the files of the threads that open pages show: between two hooks no line of the log says
    which ones grew.

    A page that shows a thread registers it when it is made, and again whenever it is made anew.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watched: dict[str, tuple[Path, FileStamp, float]] = {}
        """By topic: the file, what it was when a page showed it, and until when it is looked at."""

    def watch(self, path: Path) -> str:
        """Watch the file of a thread that is about to be read; return its topic."""
        digest = hashlib.blake2b(str(path).encode("utf-8", "replace"), digest_size=6).hexdigest()
        topic = f"thread:{digest}"
        with self._lock:
            self._watched.pop(topic, None)  # the newest is last
            self._watched[topic] = (path, get_stamp(path), time.monotonic() + WATCHED_SECONDS)
            while len(self._watched) > MOST_WATCHED:
                del self._watched[next(iter(self._watched))]
        return topic

    def find_news(self) -> set[str]:
        """Find the topics of the threads whose files changed; each change is found once."""
        now = time.monotonic()
        with self._lock:
            for topic in [t for t, (_, _, until) in self._watched.items() if until < now]:
                del self._watched[topic]
            watched = dict(self._watched)
        news = set()
        for topic, (path, stamp, _) in watched.items():
            found = get_stamp(path)
            if found != stamp:
                news.add(topic)
                with self._lock:
                    if topic in self._watched:
                        self._watched[topic] = (path, found, now + WATCHED_SECONDS)
        return news
