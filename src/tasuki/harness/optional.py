"""What an adapter may do besides its protocol, and what is done for one that does not."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol, cast

from msgspec import Struct

from tasuki.harness.protocol import Harness, HarnessFacts, RunningProgram, ThreadFile
from tasuki.model import Thread


class ThreadPart(Struct, frozen=True):
    """One file of a copy: its name in the copy's folder, and where its content comes from.

    `name` may contain `/`. The content is the first `limit` bytes of the file `path`, all of it
    where that is None, or `data`.
    """

    name: str
    path: str = ""
    data: bytes = b""
    limit: int | None = None


class ThreadFollower(Protocol):
    """Reads a thread that grows. It is used by one thread of the program at a time."""

    def read(self) -> Thread:
        """Read the thread: the first time its whole file, then what was appended.

        Entries that an earlier reading returned may change in place: a call gets its result.
        """
        ...

    def is_continued(self) -> bool:
        """Tell whether the file was only appended to since the last reading."""
        ...


def call_optional(harness: Harness, method: str, *arguments: object) -> Any:
    """Call a method that an adapter may have; None without it."""
    own = getattr(harness, method, None)
    return own(*arguments) if own else None


def get_facts(harness: Harness) -> HarnessFacts:
    """Return what is known of a harness's program; an adapter may have it as `facts`."""
    return cast(HarnessFacts, getattr(harness, "facts", HarnessFacts()))


def list_running(harness: Harness, session: str) -> Iterator[RunningProgram]:
    """Yield the running programs that say themselves that they have a session open."""
    yield from call_optional(harness, "list_running", session) or ()


def follow_thread(harness: Harness, path: Path) -> ThreadFollower | None:
    """Return who reads a growing thread again and again; None where only the whole can be read.

    An adapter may have a method `follow`, if its harness appends to the files of threads.
    """
    return cast(ThreadFollower | None, call_optional(harness, "follow", path))


def read_for_draft(harness: Harness, path: Path) -> Thread:
    """Read a thread as `Harness.read` does, for a draft, which shows little of it.

    An adapter may have a method of this name, whose calls read their outputs from the file when
    they are asked for. Such a thread is used while the file is there, and not handed on.
    """
    return cast(Thread, call_optional(harness, "read_for_draft", path) or harness.read(path))


def find_file(harness: Harness, path: Path) -> ThreadFile | None:
    """Find a thread by its path, as `Harness.list_files` shows it; None where it is gone.

    An adapter whose threads are no plain files has a method of this name. Raises OSError or
    ThreadUnreadable where that cannot be told.
    """
    if hasattr(harness, "find_file"):
        return cast(ThreadFile | None, call_optional(harness, "find_file", path))
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
    """List what has to be copied so that a copy can be read elsewhere; the thread itself first.

    `cwd` is its folder. An adapter whose thread is more than its file has a method of this name.
    The list is empty where the thread is a file of the user's, which no harness deletes. Raises
    OSError or ThreadUnreadable.
    """
    parts: tuple[ThreadPart, ...] | None = call_optional(harness, "list_parts", path, cwd)
    return (ThreadPart(path.name, str(path)),) if parts is None else parts
