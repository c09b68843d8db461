"""Tells open pages which threads of this host grew: between two hooks no line of the log says that.

A page that shows a thread registers it when it is made, and again whenever it is made anew.
"""

import hashlib
import threading
import time
from pathlib import Path

from tasuki.web.pages.threads.files import FileStamp, get_stamp

LOOK_SECONDS = 1.0
WATCHED_SECONDS = 3600.0
"""For so long a thread is looked at after it was shown, or grew, last."""
MOST_WATCHED = 200


class ThreadNews:
    """Looks at the files of the threads that open pages show."""

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
