"""The file of a session: read whole, written whole once, then only appended to, a line at a time."""

import errno
import fcntl
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from tasuki.errors import StoreFailed, ThreadUnreadable
from tasuki.harness.jsonl import Lines
from tasuki.harness.pi_v3.format import dump
from tasuki.session.messages import Json
from tasuki.vault.store import private_folder, sync_folder, why

_RECORD = msgspec.json.Decoder(dict[str, Any])


class Records(Struct, frozen=True):
    """What a session file holds."""

    header: Json
    entries: list[Json]
    size: int
    """Bytes of the whole lines; what lies behind them is the torn end of a killed process."""
    ended: bool
    """Whether the last whole line has its line end."""
    notes: tuple[str, ...]
    """Sentences about what could not be read."""


def records(path: Path) -> Records:
    """Read a session file of version 2 or 3. Raises ThreadUnreadable."""
    lines = Lines(path)
    header: Json | None = None
    entries: list[Json] = []
    size, ended = 0, True
    for offset, raw in lines:
        record: Json | None = lines.decode(_RECORD, raw)
        if record is None and not raw.endswith(b"\n"):
            continue  # a torn last line
        size, ended = offset + len(raw), raw.endswith(b"\n")
        if record is None or record.get("type") == "title":
            continue
        if record.get("type") == "session":
            header = header or record
        else:
            entries.append(record)
    return Records(_known(header, entries, path), entries, size, ended, tuple(_notes(lines, size)))


def _known(header: Json | None, entries: list[Json], path: Path) -> Json:
    if header is None:
        raise ThreadUnreadable(f"{path} holds no header of a session. Sessions: tasuki threads")
    if not all(isinstance(entry.get("id"), str) for entry in entries):
        raise ThreadUnreadable(
            f"{path} is a session of version 1, whose entries have no ids. "
            "Open it once with pi, which rewrites it: pi --session FILE"
        )
    return header


def _notes(lines: Lines, size: int) -> Iterator[str]:
    for broken in lines.broken:
        yield f"Line {broken.line} of {lines.path} cannot be read and was skipped: {broken.reason}."
    if lines.truncated:
        torn = lines.bytes - size
        yield (
            f"The last line of {lines.path} is torn ({torn} bytes of it were written): a program was"
            " ended while it wrote. It will be cut off when something is added."
        )


class SessionFile:
    """A file that this process alone appends to: it is locked from the first write to `close`."""

    def __init__(self, path: Path, read: Records | None = None) -> None:
        self.path = path
        self._size = read.size if read else 0
        self._ended = read.ended if read else True
        self._known = path.stat().st_size if read else 0
        """Size of the file when it was last read or written: another one tells of another writer."""
        self._fd: int | None = None

    def write_whole(self, all: Iterable[Json]) -> None:
        """Write the file, which is not there yet: it appears whole or not at all, mode 600.

        Raises StoreFailed.
        """
        content = dump(all).encode("utf-8", "replace")
        with self._failing():
            private_folder(self.path.parent)
            fd, name = tempfile.mkstemp(dir=self.path.parent, prefix=".new-")
            try:
                with os.fdopen(fd, "wb") as stream:
                    stream.write(content)
                    stream.flush()
                    os.fsync(fd)
                if self.path.exists():
                    raise FileExistsError(errno.EEXIST, "a file of that name is there already")
                os.rename(name, self.path)
            except BaseException:
                os.unlink(name)
                raise
            sync_folder(self.path.parent)
        self._size = self._known = len(content)
        self._locked()

    def append(self, record: Json) -> None:
        """Add a line by one write. Raises StoreFailed, and the file is as it was."""
        line = dump([record]).encode("utf-8", "replace")
        fd = self._locked()
        with self._failing():
            if self._size < self._known:  # a torn end
                os.ftruncate(fd, self._size)
            if not self._ended:
                line = b"\n" + line
            try:
                _write(fd, line)
            except OSError:
                with suppress(OSError):
                    os.ftruncate(fd, self._size)
                self._known = os.fstat(fd).st_size
                raise
            self._size += len(line)
            self._known, self._ended = self._size, True

    def claim(self) -> None:
        """Make sure that this process may append. Raises StoreFailed."""
        self._locked()

    def sync(self) -> None:
        """Wait until all that was added is on the disk. Raises StoreFailed."""
        if self._fd is not None:
            with self._failing():
                os.fsync(self._fd)

    def close(self) -> None:
        """Let other processes write."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _locked(self) -> int:
        """The open file, ours alone and as we know it."""
        if self._fd is None:
            self._fd = self._opened()
        there = self._status(self._fd)
        if there != self._known:
            self.close()
            raise StoreFailed(
                f"{self.path} was changed by another program since it was read. Nothing was added;"
                " open the session again: tasuki chat --resume"
            )
        return self._fd

    def _opened(self) -> int:
        with self._failing():
            fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            raise StoreFailed(
                f"{self.path} is being written by another process. Close the session there, or"
                " begin a new one: tasuki chat"
            ) from error
        return fd

    def _status(self, fd: int) -> int:
        """The size of the file; -1 where another one lies under its name."""
        ours = os.fstat(fd)
        with suppress(OSError):
            named = self.path.stat()
            if (named.st_dev, named.st_ino) == (ours.st_dev, ours.st_ino):
                return ours.st_size
        return -1

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = why(error)
            raise StoreFailed(
                f"The session could not be written to {self.path}: {reason}. "
                "What was kept before is safe; mend this, then go on."
            ) from error


def _write(fd: int, content: bytes) -> None:
    if os.write(fd, content) != len(content):
        raise OSError(errno.ENOSPC, "only a part was written")
