"""What was read of a thread, kept from one command to the next.

One file a thread in the data folder, for the user alone: the thread, what was derived from it, and
the state of its reader, which reads on where the file ended then. Outputs that a reader leaves in
the thread's file are not in it, but for lines that facts quote. It counts only where the thread's
file begins with the same bytes, and what was derived where links and folders are what they were; in
any other case, and where anything is wrong with it, the thread is read anew.
"""

import io
import os
import pickle
import stat
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Struct

from tasuki.files import create_private_folder, get_data_folder, replace_file
from tasuki.harness.optional import call_optional, follow_thread, read_for_draft
from tasuki.harness.protocol import Harness
from tasuki.harness.reading.jsonl import HUGE
from tasuki.harness.reading.threads import ThreadReader
from tasuki.harness.reading.unread import UnreadToolCall
from tasuki.model import Entry, Thread, ToolCall
from tasuki.paths import are_noted_in, forget_links, still_lead

T = TypeVar("T")

MOST_FILES, MOST_BYTES = 64, 256 << 20
"""Threads whose readings are kept, and the bytes that they may take; the oldest go first."""
SHORTEST_NAME = 8
"""Characters of a part of a file's name that mean a thread."""
BLOCK = 1 << 18
_CODE = ("harness", "draft", "shell", "typed_prompts", "patterns", "")
"""Folders of the package whose code decides what is read, and what is derived from it."""
_SAFE = {
    ("array", "_array_reconstructor"), ("array", "array"), ("builtins", "bytearray"),
    ("builtins", "frozenset"), ("builtins", "range"), ("builtins", "set"),
    ("collections", "Counter"), ("collections", "deque"), ("functools", "partial"),
    ("msgspec", "Raw"), ("pathlib", "PosixPath"),
}  # fmt: skip
"""What a cache may be built of, besides types of tasuki."""


FileState = tuple[int, int, int, int, int]
"""Size, device, inode and both times of a file as the system knows them; all 0 where there is none."""


class _Header(Struct, array_like=True, frozen=True):
    """What a cache was made of, and the length and checksum of each of its parts."""

    program: str
    path: bytes
    state: FileState
    checksum: int
    """Of the bytes that the thread's file had."""
    beside: tuple[tuple[bytes, FileState], ...]
    parts: tuple[tuple[int, int], ...]


class CachedThread:
    """A thread, and what was derived from it, as far as its cache holds them.

    There is no cache without `is_kept`, and of a huge file, to save memory. Raises what `Harness.read` raises.
    """

    def __init__(self, harness: Harness, path: Path, *, is_kept: bool = True) -> None:
        self.path = path
        self._harness = harness
        self._reader: ThreadReader | None = None
        """Who read something new."""
        self._beside: tuple[tuple[bytes, FileState], ...] = ()
        self._derived: dict[str, Any] = {}
        self._began, self._state = time.time_ns(), _look(path)
        program = _describe_program() if is_kept and self._state[0] <= HUGE else ""
        self._program = program and f"{harness.name} {program}"
        self._found = forget_links() if program else {}
        thread = (self._recall() or self._read_to_keep()) if program else None
        self.thread = thread or read_for_draft(harness, path)

    def derive(self, name: str, make: Callable[[Thread], T]) -> T:
        """Return what was derived from the thread under this name, else make it now.

        It is built of types of tasuki, texts and numbers, and depends on the thread alone, and on
        links and folders as `tasuki.paths` finds them.
        """
        if name not in self._derived:
            self._derived[name] = make(self.thread)
        return cast(T, self._derived[name])

    def save(self) -> None:
        """Keep what was read and derived, where the thread is new; no word where that fails."""
        reader, self._reader = self._reader, None
        is_certain = all(state[-1] < self._began for _, state in self._beside)
        if reader is None or not (reader.is_alone and is_certain and are_noted_in(self._found)):
            return
        with suppress(Exception):  # A cache that cannot be written is no reason to lose a brief.
            parts = self._dump(reader)
            sums = tuple((len(part), zlib.crc32(part)) for part in parts)
            path, checksum = os.fsencode(self.path), reader.lines.checksum
            header = msgspec.msgpack.encode(
                _Header(self._program, path, self._state, checksum, self._beside, sums)
            )
            place = self._find_place()
            create_private_folder(place.parent)
            content = (len(header).to_bytes(4, "big"), header, *parts)
            replace_file(place, b"".join(content), synced=False)
            _delete_oldest(place.parent)

    def _dump(self, reader: ThreadReader) -> tuple[bytes, bytes]:
        """Return both parts; outputs that can be read again are left out meanwhile."""
        calls = [e.tool for e in self.thread.entries if isinstance(e.tool, UnreadToolCall)]
        outputs = [(call, call.forget_output()) for call in calls if call.place < 0]
        try:
            whole = (self.thread, self._derived, self._found)
            return pickle.dumps(whole, 5), _StatePickler(reader, self.thread).data
        finally:
            for call, output in outputs:
                call.remember_output(output)

    def _find_place(self) -> Path:
        name = self._harness.name.encode() + b" " + os.fsencode(self.path)
        return get_cache_folder() / f"{zlib.crc32(name):08x}{zlib.adler32(name):08x}.thread"

    def _recall(self) -> Thread | None:
        """Return the thread from its cache; None where that does not hold what the file holds now."""
        try:
            with _open_own(self._find_place()) as file:
                header = _read_header(file)
                old, now = header.state, self._state
                is_known = header.program == self._program and header.path == os.fsencode(self.path)
                is_known = is_known and all(_look(p) == s for p, s in header.beside)
                if not is_known or now[0] < old[0]:
                    return None
                if now != old and _sum_up(self.path, old[0]) != header.checksum:
                    return None
                os.utime(file.fileno())
                self._beside = header.beside
                thread, derived, found = _Unpickler(_read_part(file, header.parts[0])).load()
                if now[0] == old[0]:
                    self._derived = derived if still_lead(found) else {}
                    return cast(Thread, thread)
                return self._read_on(thread, _read_part(file, header.parts[1]))
        except Exception:
            return None  # Whatever is wrong with the cache, the thread itself is there.

    def _read_on(self, thread: Thread, state: bytes) -> Thread | None:
        """Read what was appended to the thread's file since."""
        if (reader := self._start_reader()) is None:
            return None
        reader.resume(_Unpickler(state, (reader, *_list_shared(thread))).load())
        if reader.lines.ends_inside and _read_byte(self.path, reader.lines.bytes) != b"\n":
            return None  # What was taken for a whole line goes on.
        return self._read_with(reader)

    def _read_to_keep(self) -> Thread | None:
        """Read the whole file with a reader that can read on later; None where that is not possible."""
        is_whole = _read_byte(self.path, self._state[0] - 1) in (b"\n", b"}")
        reader = self._start_reader() if is_whole else None
        return self._read_with(reader) if reader else None

    def _start_reader(self) -> ThreadReader | None:
        reader = call_optional(self._harness, "follow_for_draft", self.path)
        reader = reader or follow_thread(self._harness, self.path)
        # Nobody knows when the code of another package has changed.
        is_own = type(reader).__module__.startswith("tasuki.")
        return reader if is_own and isinstance(reader, ThreadReader) else None

    def _read_with(self, reader: ThreadReader) -> Thread | None:
        """Read; None where something of the file is left for the next reading, or was added meanwhile."""
        thread = reader.read()
        if reader.lines.bytes != self._state[0]:
            return None
        self._reader = reader
        names = (*thread.sources[1:], *reader.lacking)
        self._beside = tuple((os.fsencode(name), _look(name)) for name in names)
        return thread


def get_cache_folder() -> Path:
    """Return the folder of what was read of threads."""
    return get_data_folder() / "cache"


def forget_readings(name: str) -> list[Path]:
    """Delete what was read of a thread, or of `all`; return the files that are gone.

    `name` is the thread's path, or a part of its file's name, such as its id. Raises OSError.
    """
    gone = []
    for place in get_cache_folder().glob("*.thread"):
        path = Path()
        with suppress(OSError, msgspec.MsgspecError), _open_own(place) as file:
            path = Path(os.fsdecode(_read_header(file).path))
        is_part = len(name) >= SHORTEST_NAME and name.lower() in path.stem.lower()
        if name == "all" or path == Path(os.path.abspath(name)) or is_part:
            place.unlink(missing_ok=True)
            gone.append(place)
    return gone


def _delete_oldest(folder: Path) -> None:
    """Delete the readings that are too many, or take too much."""
    found = sorted(folder.glob("*.thread"), key=lambda one: one.stat().st_mtime, reverse=True)
    sizes = accumulate(one.stat().st_size for one in found)
    for number, (place, size) in enumerate(zip(found, sizes, strict=True)):
        if number >= MOST_FILES or size > MOST_BYTES:
            place.unlink(missing_ok=True)


def _look(path: str | bytes | Path) -> FileState:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return (0,) * 5
    times = found.st_mtime_ns, found.st_ctime_ns
    return found.st_size, found.st_dev, found.st_ino, *times


def _describe_program() -> str:
    """Describe the code that reads: the installed file that names its version, in a checkout its newest file.

    Empty where the program is being replaced.
    """
    package = Path(__file__).parents[2]
    try:
        version = os.stat(package / "__init__.py")
        newest = version.st_mtime_ns
        if package.parent.name != "site-packages":
            files = (one for name in _CODE for one in _list_code(f"{package}/{name}"))
            newest = max(newest, *(one.stat().st_mtime_ns for one in files))
    except OSError:
        return ""
    return f"{version.st_ino} {version.st_size} {newest} {sys.version}"


def _list_code(folder: str) -> Iterator[os.DirEntry[str]]:
    for entry in os.scandir(folder):
        if entry.name.endswith(".py"):
            yield entry
        elif folder[-1:] != "/" and "." not in entry.name and entry.is_dir():
            yield from _list_code(entry.path)


def _open_own(path: Path) -> io.FileIO:
    """Open a file that only this user can read and write. Raises OSError."""
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    found = os.fstat(number)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        os.close(number)
        raise PermissionError(f"{path} is not for this user alone")
    return io.FileIO(number)


def _read_header(file: io.FileIO) -> _Header:
    length = int.from_bytes(file.read(4), "big")
    return msgspec.msgpack.decode(file.read(min(length, 1 << 20)), type=_Header)


def _read_part(file: io.FileIO, part: tuple[int, int]) -> bytes:
    """Read the next part of a cache. Raises ValueError where it is damaged."""
    size, checksum = part
    data = file.read(size)
    if len(data) != size or zlib.crc32(data) != checksum:
        raise ValueError("it is damaged")
    return data


def _sum_up(path: Path, size: int) -> int:
    """Compute the checksum of the beginning of a file."""
    checksum, block = 0, memoryview(bytearray(BLOCK))
    with open(path, "rb", buffering=0) as file:
        while size > 0 and (count := file.readinto(block[: min(size, BLOCK)])):
            checksum = zlib.crc32(block[:count], checksum)
            size -= count
    return checksum


def _read_byte(path: Path, at: int) -> bytes:
    """Read one byte of a file; empty where there is none."""
    with suppress(OSError, ValueError), open(path, "rb", buffering=0) as file:
        file.seek(at)
        return file.read(1)
    return b""


def _list_shared(thread: Thread) -> list[object]:
    """List what a thread and the state of its reader have in common, in a fixed order."""
    return [*thread.entries, *(entry.tool for entry in thread.entries if entry.tool)]


class _StatePickler(pickle.Pickler):
    """Writes the state of a reader; what its thread holds too is only named."""

    def __init__(self, reader: ThreadReader, thread: Thread) -> None:
        self._file = io.BytesIO()
        super().__init__(self._file, 5)
        shared = (reader, *_list_shared(thread))
        self._numbers = {id(one): number for number, one in enumerate(shared)}
        self._shared_types = (Entry, ToolCall, UnreadToolCall, type(reader))
        self.dump(reader.get_state())
        self.data = self._file.getvalue()

    def persistent_id(self, value: object) -> int | None:
        return self._numbers.get(id(value)) if value.__class__ in self._shared_types else None


class _Unpickler(pickle.Unpickler):
    """Reads values of known types, and nothing that could run anything."""

    def __init__(self, data: bytes, shared: Sequence[object] = ()) -> None:
        super().__init__(io.BytesIO(data))
        self._shared = shared

    def persistent_load(self, number: int) -> object:
        return self._shared[number]

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("builtins", "getattr"):
            return _get_method
        if (module, name) in _SAFE:
            return super().find_class(module, name)
        if module.startswith("tasuki."):
            found = super().find_class(module, name)
            if isinstance(found, type) and found.__module__ == module:
                return found
        raise pickle.UnpicklingError(f"{module}.{name} is not a part of a cache")


def _get_method(owner: object, name: str) -> object:
    """Return a method of the reader, which is all that a cache may name."""
    if not isinstance(owner, ThreadReader):
        raise pickle.UnpicklingError("not a reader's method")
    return getattr(owner, name)
