"""Threads that their program packed with Zstandard (`.zst`): unpacked to be read."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfileobj
from typing import IO

from tasuki.errors import ThreadUnreadable

SUFFIX = ".zst"
MAGIC = b"\x28\xb5\x2f\xfd"
MOST_WINDOW_BYTES = 64 << 20
"""Memory that unpacking may take."""


def unpack_to(path: Path, target: IO[bytes]) -> None:
    """Write what a packed file holds. Raises ThreadUnreadable where it is damaged, OSError."""
    import zstandard

    decompressor = zstandard.ZstdDecompressor(max_window_size=MOST_WINDOW_BYTES)
    try:
        with path.open("rb") as file, decompressor.stream_reader(file) as source:
            copyfileobj(source, target, 1 << 20)
    except zstandard.ZstdError as error:
        raise ThreadUnreadable(f"{path} cannot be unpacked: {error}.") from error


@contextmanager
def unpack(path: Path) -> Iterator[Path]:
    """Yield an unpacked file, which is private and removed afterwards, or a plain file itself. Raises ThreadUnreadable."""
    if path.suffix != SUFFIX:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="tasuki-read-") as folder:
        plain = Path(folder, path.stem)
        try:
            with plain.open("wb") as target:
                unpack_to(path, target)
        except OSError as error:
            raise ThreadUnreadable(f"{path} cannot be unpacked: {error.strerror}.") from error
        yield plain
