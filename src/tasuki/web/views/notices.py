"""What a page says once after a change: kept on the server while the browser goes to the page.

A form that was sent is answered by a redirect, so that the page can be loaded again without sending
it again; the address of the page then has the key of what it says.
"""

import secrets
import threading
import time
from collections import OrderedDict
from typing import Any, TypeVar

UNSEEN_SECONDS = 600.0
SEEN_SECONDS = 60.0
"""How long a page that was shown says it again: it is made anew whenever something changes."""
TEXT_SECONDS = 3600.0
"""The same for a text that was refused and must stay typed in."""
MOST_NOTICES = 256

N = TypeVar("N")


class PageNotices:
    """Notices by their keys, which cannot be guessed; from any thread."""

    def __init__(self) -> None:
        self._notices: OrderedDict[str, tuple[float, float, Any]] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, notice: object, seconds: float = 0.0) -> str:
        """Keep a notice, for `seconds` from when it is first shown; return its key."""
        key = secrets.token_urlsafe(12)
        with self._lock:
            self._notices[key] = (
                time.monotonic() + UNSEEN_SECONDS, seconds or SEEN_SECONDS, notice,
            )  # fmt: skip
            while len(self._notices) > MOST_NOTICES:
                self._notices.popitem(last=False)
        return key

    def give_back(self, key: str, notice: object, seconds: float) -> None:
        """Keep a notice that was taken under its own key again, for so many seconds."""
        with self._lock:
            self._notices[key] = (time.monotonic() + seconds, 0.0, notice)

    def find(self, key: str, kind: type[N]) -> N | None:
        """Find a notice of a kind; None for no such key, or where its time is over."""
        now = time.monotonic()
        with self._lock:
            until, seconds, notice = self._notices.get(key, (0.0, 0.0, None))
            if now > until or not isinstance(notice, kind):
                return None
            if seconds:
                self._notices[key] = (now + seconds, 0.0, notice)
            return notice

    def take(self, key: str, kind: type[N]) -> N | None:
        """Find a notice as `find` does, and forget it: it can be taken once."""
        with self._lock:
            until, _, notice = self._notices.get(key, (0.0, 0.0, None))
            if time.monotonic() > until or not isinstance(notice, kind):
                return None
            del self._notices[key]
            return notice
