"""Pauses of Python's search for cycles.

A thread, or a module, is one large graph without cycles: each search looks at all of it and finds
nothing. In a server each also holds up every answer meanwhile.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_lock = Lock()
_pauses = 0


@contextmanager
def pause_collector() -> Iterator[None]:
    """Search for no cycles in this block, nor in other threads meanwhile; blocks may overlap."""
    global _pauses
    with _lock:
        if not _pauses and not gc.isenabled():
            is_paused = False  # For good, by a command that ends soon.
        else:
            is_paused = True
            _pauses += 1
            gc.disable()
    try:
        yield
    finally:
        if is_paused:
            with _lock:
                _pauses -= 1
                if not _pauses:
                    gc.enable()
