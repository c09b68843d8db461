"""What Python itself has to be told: structs for several threads, pauses of its search for cycles.

A thread of an agent, or a module, is one large graph without cycles: each search looks at all of it
and finds nothing. In a server each also holds up every answer meanwhile.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    from msgspec import Struct

PREPARED: "WeakSet[type[Struct]]" = WeakSet()
"""Structs that every thread may use."""
_lock = Lock()
_pauses = 0


def prepare_structs() -> int:
    """Let msgspec examine each struct that is loaded, once, in this thread; return how many.

    It does so when a struct is first converted to, and two threads that begin with the same one at
    the same moment crash the process (msgspec 0.22). Call this before threads convert anything.
    """
    import msgspec

    waiting, found = list(msgspec.Struct.__subclasses__()), set[type[msgspec.Struct]]()
    while waiting:
        struct = waiting.pop()
        if struct not in found:
            found.add(struct)
            waiting += struct.__subclasses__()
    for struct in found.difference(PREPARED):
        with suppress(TypeError, NameError):  # nothing is ever converted to those
            msgspec.json.Decoder(struct)
    PREPARED.update(found)
    return len(found)


@contextmanager
def pause_collector() -> Iterator[None]:
    """Search for no cycles in this block, nor in other threads meanwhile; blocks may overlap."""
    global _pauses
    with _lock:
        is_paused = _pauses > 0 or gc.isenabled()  # Else it is off for good, by a short command.
        if is_paused:
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
