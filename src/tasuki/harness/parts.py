"""What of a thread has to be copied so that its adapter can read the copy elsewhere.

An adapter may have the methods `find_file` and `list_parts`; without them a thread is one file.
"""

import os
import stat
from pathlib import Path

from msgspec import Struct

from tasuki.harness.protocol import Harness, ThreadFile


class ThreadPart(Struct, frozen=True):
    """One file of a copy: its name in the copy's folder, and where its content comes from.

    `name` may contain `/`. The content is the first `limit` bytes of the file `path`, all of it
    where that is None, or `data`.
    """

    name: str
    path: str = ""
    data: bytes = b""
    limit: int | None = None


def find_file(harness: Harness, path: Path) -> ThreadFile | None:
    """Find a thread by its path, as `Harness.list_files` shows it; None where it is gone.

    Raises OSError or ThreadUnreadable where that cannot be told.
    """
    find = getattr(harness, "find_file", None)
    if find is not None:
        found: ThreadFile | None = find(path)
        return found
    return find_plain_file(path)


def find_plain_file(path: Path) -> ThreadFile | None:
    """Find a file that holds one thread; None where there is none. Raises OSError."""
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    is_file = stat.S_ISREG(status.st_mode)
    return ThreadFile(path, status.st_mtime, status.st_size) if is_file else None


def list_parts(harness: Harness, path: Path, cwd: str) -> tuple[ThreadPart, ...]:
    """List what has to be copied, the thread itself first; `cwd` is its folder.

    It is empty where the thread is a file of the user's, which no harness deletes. Raises
    OSError or ThreadUnreadable.
    """
    list_own = getattr(harness, "list_parts", None)
    if list_own is not None:
        parts: tuple[ThreadPart, ...] = list_own(path, cwd)
        return parts
    return (ThreadPart(path.name, str(path)),)
