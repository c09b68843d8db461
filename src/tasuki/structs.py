"""Prepares structs for use in several threads."""

from contextlib import suppress
from weakref import WeakSet

import msgspec
from msgspec import Struct

PREPARED: WeakSet[type[Struct]] = WeakSet()
"""Structs that every thread may use."""


def prepare_structs() -> int:
    """Let msgspec examine each struct that is loaded, once, in this thread; return how many.

    It does so when a struct is first converted to, and two threads that begin with the same one at
    the same moment crash the process (msgspec 0.22). Call this before threads convert anything.
    """
    waiting, found = list(Struct.__subclasses__()), set[type[Struct]]()
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
