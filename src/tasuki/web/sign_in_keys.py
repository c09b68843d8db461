"""Keys of the links that sign a browser in: each is valid for a minute, and once."""

import hashlib
import secrets
import threading
import time
from collections.abc import Callable
from typing import Literal

from msgspec import Struct

KEY_SECONDS = 60.0
"""How long a link can be used."""
MOST_KEYS = 64
"""Links that are remembered; the oldest is forgotten for a newer one."""

KeyState = Literal["unused", "used", "over"]


class SignInKey(Struct, frozen=True):
    """A key as it is given to whoever may sign in. `id` names it without being it."""

    id: str
    key: str


class _Remembered(Struct):
    key_hash: bytes
    ends_at: float
    used: bool = False


class SignInKeys:
    """Makes keys and takes each once. Only their hashes are kept, and only in memory."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[str, _Remembered] = {}

    def make_key(self) -> SignInKey:
        """Make a key that can be used once within `KEY_SECONDS`."""
        made = SignInKey(secrets.token_hex(8), secrets.token_urlsafe(24))
        with self._lock:
            while len(self._known) >= MOST_KEYS:
                del self._known[next(iter(self._known))]
            ends_at = self._clock() + KEY_SECONDS
            self._known[made.id] = _Remembered(_hash_key(made.key), ends_at)
        return made

    def use_key(self, key: str) -> bool:
        """Use a key up; False where it is none, was used, or is over."""
        wanted = _hash_key(key)
        with self._lock:
            for one in self._known.values():
                if secrets.compare_digest(one.key_hash, wanted):
                    valid = not one.used and self._clock() < one.ends_at
                    one.used = one.used or valid
                    return valid
        return False

    def state_of(self, id: str) -> KeyState:
        """What became of the key that an id names."""
        with self._lock:
            one = self._known.get(id)
            if one is None:
                return "over"
            if one.used:
                return "used"
            return "unused" if self._clock() < one.ends_at else "over"


def _hash_key(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()
