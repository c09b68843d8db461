"""The file of one kept copy: a record and the compressed parts of a thread.

The file is Zstandard (RFC 8878). Its first frame is a skippable one with the record as JSON,
so `zstd -d` writes the parts, one after another. Record and content are one file so that they
are replaced in one step.
"""

import os
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

import msgspec
from msgspec import Struct

from tasuki.errors import KeptCopyDamaged, ThreadUnreadable
from tasuki.files import explain_error
from tasuki.harness.optional import ThreadPart
from tasuki.harness.reading.jsonl import UNDECODABLE
from tasuki.model import ThreadHead

SUFFIX = ".zst"
SKIPPABLE = 0x184D2A5A
"""Magic number of the frame that holds the record."""
MOST_RECORD_BYTES = 1 << 20
MOST_THREAD_BYTES = 4 << 30
"""Bytes of the longest thread that is kept, and of what a copy may unpack to."""
LEVEL = 1
"""Zstandard's level: 70 MB of random words in 0.3 s; level 3 takes twice as long, for no less."""
MOST_WINDOW_BYTES = 64 << 20
"""Memory that unpacking may take."""
BLOCK = 1 << 20
LINE_SEARCH_BYTES = 64 << 10


class KeptPart(Struct, frozen=True):
    """One file of a copy: its name in the folder it is unpacked to, and its length in bytes."""

    name: str
    bytes: int


class KeptRecord(Struct, frozen=True):
    """What a copy says about itself.

    `modified` (seconds since the epoch) and `bytes` are those of the original, as lists of
    threads show them; `kept` is when the copy was written.
    """

    harness: str
    path: str
    head: ThreadHead
    modified: float
    bytes: int
    kept: float
    parts: tuple[KeptPart, ...]
    version: int = 1

    @property
    def total_bytes(self) -> int:
        """The bytes that it unpacks to."""
        return sum(part.bytes for part in self.parts)


_RECORD = msgspec.json.Decoder(KeptRecord)


# -- writing ---------------------------------------------------------------------------


class OpenedPart(Struct, frozen=True):
    """A part that is about to be copied: the first `length` bytes of `file`, or `data`."""

    name: str
    length: int
    file: IO[bytes] | None = None
    data: bytes = b""


@contextmanager
def open_parts(parts: Sequence[ThreadPart]) -> Iterator[list[OpenedPart]]:
    """Open the parts of a thread and measure how much of each is copied.

    A log that is being written ends with its last whole line. Raises OSError,
    ThreadUnreadable.
    """
    with ExitStack() as stack:
        opened = [_open_part(part, stack) for part in parts]
        if sum(part.length for part in opened) > MOST_THREAD_BYTES:
            raise ThreadUnreadable(
                f"{parts[0].path or parts[0].name} is longer than {MOST_THREAD_BYTES >> 30} GiB."
            )
        yield opened


def _open_part(part: ThreadPart, stack: ExitStack) -> OpenedPart:
    if not part.path:
        return OpenedPart(part.name, len(part.data), data=part.data)
    # A pipe is opened without waiting for its writer, and then refused.
    number = os.open(part.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    file = stack.enter_context(os.fdopen(number, "rb", buffering=0))
    status = os.fstat(number)
    if not stat.S_ISREG(status.st_mode):
        raise ThreadUnreadable(f"{part.path} is no file.")
    size = status.st_size if part.limit is None else min(part.limit, status.st_size)
    if part.name.endswith(".jsonl") and part.limit is None:
        size = _find_last_line_end(number, size)
    return OpenedPart(part.name, size, file=file)


def _find_last_line_end(number: int, size: int) -> int:
    """Return how many of the first `size` bytes are whole lines; all of them where none is."""
    end = size
    while end > 0:
        start = max(0, end - LINE_SEARCH_BYTES)
        newline = os.pread(number, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return size


def write_copy(target: Path, record: KeptRecord, parts: Sequence[OpenedPart]) -> None:
    """Write a copy whole or not at all; an older one is replaced.

    Raises OSError, and ThreadUnreadable where the original shrank meanwhile.
    """
    import zstandard

    encoded = msgspec.json.encode(record)
    if len(encoded) > MOST_RECORD_BYTES:
        raise ThreadUnreadable(f"What {record.path} says about itself is too long.")
    number, name = tempfile.mkstemp(prefix=".new-", dir=target.parent)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(SKIPPABLE.to_bytes(4, "little") + len(encoded).to_bytes(4, "little"))
            file.write(encoded)
            compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True)
            with compressor.stream_writer(file, closefd=False) as packed:
                for part in parts:
                    for block in _read_blocks(part, record.path):
                        packed.write(block)
            file.flush()
            os.fsync(number)
        os.replace(name, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


def _read_blocks(part: OpenedPart, path: str) -> Iterator[bytes]:
    if part.file is None:
        yield part.data
        return
    part.file.seek(0)
    left = part.length
    while left:
        block = part.file.read(min(BLOCK, left))
        if not block:
            raise ThreadUnreadable(f"{path} became shorter while it was copied. Try again.")
        left -= len(block)
        yield block


# -- reading ---------------------------------------------------------------------------


def read_record(copy: Path) -> KeptRecord:
    """Read what a copy says about itself. Raises KeptCopyDamaged, OSError."""
    with _open_copy(copy) as file:
        return _read_record(copy, file)


@contextmanager
def _open_copy(copy: Path) -> Iterator[IO[bytes]]:
    """Open a copy, which is a file of ours and no link."""
    number = os.open(copy, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(number, "rb") as file:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise KeptCopyDamaged(describe_damage(copy, "it is no file"))
        yield file


def _read_record(copy: Path, file: IO[bytes]) -> KeptRecord:
    start = file.read(8)
    length = int.from_bytes(start[4:], "little")
    if start[:4] != SKIPPABLE.to_bytes(4, "little") or not 0 < length <= MOST_RECORD_BYTES:
        raise KeptCopyDamaged(describe_damage(copy, "its beginning is missing"))
    try:
        record = _RECORD.decode(file.read(length))
    except UNDECODABLE as error:
        raise KeptCopyDamaged(describe_damage(copy, "its record cannot be read")) from error
    if not record.parts or record.total_bytes > MOST_THREAD_BYTES:
        raise KeptCopyDamaged(describe_damage(copy, "its record states impossible sizes"))
    return record


def describe_damage(copy: Path, reason: str) -> str:
    """Describe in a sentence why a copy cannot be read, and how to delete it."""
    return (
        f"The kept copy {copy} is damaged: {reason}. Delete it: "
        f"tasuki threads --forget {copy.name.removesuffix(SUFFIX)}"
    )


@contextmanager
def unpack_copy(copy: Path) -> Iterator[tuple[KeptRecord, Path]]:
    """Unpack a copy to a folder that only the user can read, and that is removed afterwards.

    Yields the record and the folder. No more bytes are written than the record states. Raises
    KeptCopyDamaged, and ThreadUnreadable where there is no room.
    """
    try:
        opened_folder = tempfile.TemporaryDirectory(prefix=".read-", dir=copy.parent)
    except OSError:
        opened_folder = tempfile.TemporaryDirectory(prefix="tasuki-read-")
    with opened_folder as folder, _open_copy(copy) as file:
        record = _read_record(copy, file)
        try:
            _unpack_parts(copy, file, record, Path(folder))
        except OSError as error:
            raise ThreadUnreadable(
                f"The kept copy {copy} cannot be unpacked in {folder}: {explain_error(error)}."
            ) from error
        yield record, Path(folder)


def _unpack_parts(copy: Path, file: IO[bytes], record: KeptRecord, folder: Path) -> None:
    import zstandard

    decompressor = zstandard.ZstdDecompressor(max_window_size=MOST_WINDOW_BYTES)
    try:
        with decompressor.stream_reader(file, closefd=False) as packed:
            for part in record.parts:
                _unpack_part(copy, packed, part, folder)
            if packed.read(1):
                raise KeptCopyDamaged(describe_damage(copy, "it holds more than it says"))
    except zstandard.ZstdError as error:
        raise KeptCopyDamaged(describe_damage(copy, str(error))) from error


def _unpack_part(copy: Path, packed: IO[bytes], part: KeptPart, folder: Path) -> None:
    target = Path(os.path.normpath(folder / part.name))
    if folder not in target.parents or part.bytes < 0:
        raise KeptCopyDamaged(describe_damage(copy, f"it names the file {part.name!r}"))
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    number = os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    with os.fdopen(number, "wb") as written:
        left = part.bytes
        while left:
            block = packed.read(min(BLOCK, left))
            if not block:
                raise KeptCopyDamaged(describe_damage(copy, "its end is missing"))
            written.write(block)
            left -= len(block)
