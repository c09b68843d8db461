"""The file of a session: read whole, written whole once, then appended to line by line."""

import errno
import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from tasuki.errors import StoreFailed, ThreadUnreadable
from tasuki.files import create_private_folder, explain_error, replace_file, sync_folder
from tasuki.harness.pi_v3.format import dump_records, format_now
from tasuki.harness.reading.jsonl import ThreadLines
from tasuki.session.pi_store.messages import Json

_RECORD = msgspec.json.Decoder(dict[str, Any])


class SessionRecords(Struct, frozen=True):
    """The contents of a session file."""

    header: Json
    entries: list[Json]
    size: int
    """Bytes of the whole lines; bytes after them are the torn end of a killed process."""
    ended: bool
    """Whether the last whole line has its line end."""
    notes: tuple[str, ...]
    """Sentences about what could not be read."""


def read_records(path: Path) -> SessionRecords:
    """Read a session file of version 2 or 3. Raises ThreadUnreadable."""
    lines = ThreadLines(path)
    header: Json | None = None
    entries: list[Json] = []
    size, has_line_end = 0, True
    for offset, raw in lines:
        record: Json | None = lines.decode(_RECORD, raw)
        if record is None and not raw.endswith(b"\n"):
            continue  # a torn last line
        size, has_line_end = offset + len(raw), raw.endswith(b"\n")
        if record is None or record.get("type") == "title":
            continue
        if record.get("type") == "session":
            header = header or record
        else:
            entries.append(record)
    if header is None:
        raise ThreadUnreadable(f"{path} has no session header. List sessions: tasuki threads")
    if not all(isinstance(entry.get("id"), str) for entry in entries):
        raise ThreadUnreadable(
            f"{path} is a session of version 1, whose entries have no ids. "
            "Open it once with pi, which rewrites it: pi --session FILE"
        )
    notes = tuple(_describe_damage(lines, size))
    return SessionRecords(header, entries, size, has_line_end, notes)


def _describe_damage(lines: ThreadLines, size: int) -> Iterator[str]:
    for broken in lines.broken:
        yield f"Line {broken.line} of {lines.path} cannot be read and was skipped: {broken.reason}."
    if lines.truncated:
        torn = lines.bytes - size
        yield (
            f"The last line of {lines.path} is incomplete ({torn} bytes of it were written): a program ended "
            "while it was writing. It will be removed when something is added."
        )


def build_entry(kind: str, id: str, parent: str | None, **fields: Any) -> Json:
    """Build an entry that is written now."""
    return {"type": kind, "id": id, "parentId": parent, "timestamp": format_now(), **fields}


class LockedSessionFile:
    """A file that this process alone appends to: it is locked from the first write to `close`."""

    def __init__(self, path: Path, records_read: SessionRecords | None = None) -> None:
        self.path = path
        self._size = records_read.size if records_read else 0
        self._has_line_end = records_read.ended if records_read else True
        self._known_size = path.stat().st_size if records_read else 0
        """Size of the file when last read or written: another size means another writer."""
        self._fd: int | None = None

    def write_whole(self, all: Iterable[Json]) -> None:
        """Write the file, which does not exist yet: whole or not at all, mode 600.

        Raises StoreFailed.
        """
        content = dump_records(all).encode("utf-8", "replace")
        with self._convert_errors():
            create_private_folder(self.path.parent)
            if self.path.exists():
                raise FileExistsError(errno.EEXIST, "a file of that name already exists")
            replace_file(self.path, content)
            sync_folder(self.path.parent)
        self._size = self._known_size = len(content)
        self._lock_file()

    def append(self, record: Json) -> None:
        """Append a line in one write. Raises StoreFailed, and the file is then unchanged."""
        line = dump_records([record]).encode("utf-8", "replace")
        fd = self._lock_file()
        with self._convert_errors():
            if self._size < self._known_size:  # a torn end
                os.ftruncate(fd, self._size)
            if not self._has_line_end:
                line = b"\n" + line
            try:
                if os.write(fd, line) != len(line):
                    raise OSError(errno.ENOSPC, "only a part was written")
            except OSError:
                with suppress(OSError):
                    os.ftruncate(fd, self._size)
                self._known_size = os.fstat(fd).st_size
                raise
            self._size += len(line)
            self._known_size, self._has_line_end = self._size, True

    def claim(self) -> None:
        """Make sure that this process may append. Raises StoreFailed."""
        self._lock_file()

    def sync(self) -> None:
        """Wait until everything appended is on the disk. Raises StoreFailed."""
        if self._fd is not None:
            with self._convert_errors():
                os.fsync(self._fd)

    def close(self) -> None:
        """Let other processes write."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _lock_file(self) -> int:
        """Return the open file, locked and unchanged since the last access."""
        if self._fd is None:
            self._fd = self._open_locked()
        size = self._measure_size(self._fd)
        if size != self._known_size:
            self.close()
            raise StoreFailed(
                f"{self.path} was changed by another program since it was read. Nothing was added;"
                " open the session again: tasuki chat --resume"
            )
        return self._fd

    def _open_locked(self) -> int:
        with self._convert_errors():
            fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            raise StoreFailed(
                f"{self.path} is being written by another process. Close the session there, or "
                "start a new one: tasuki chat"
            ) from error
        return fd

    def _measure_size(self, fd: int) -> int:
        """Measure the size of the file; -1 where another file has its name."""
        own_status = os.fstat(fd)
        with suppress(OSError):
            path_status = self.path.stat()
            if (path_status.st_dev, path_status.st_ino) == (own_status.st_dev, own_status.st_ino):
                return own_status.st_size
        return -1

    @contextmanager
    def _convert_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = explain_error(error)
            raise StoreFailed(
                f"The session could not be written to {self.path}: {reason}. "
                "What was stored before is safe; fix this, then continue."
            ) from error
