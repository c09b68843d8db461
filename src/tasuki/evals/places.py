"""Which threads are measured: files and folders, also gzipped, and the repository of each."""

import gzip
import os
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from tasuki.errors import ThreadNotFound, UsageError

MANIFEST = "MANIFEST.jsonl"
HISTORY = ".aider.chat.history.md"
"""The one thread whose name begins with a dot."""
_PASSED = frozenset((".git", "node_modules", ".venv"))
"""Folders in which nobody keeps threads, and of which there are many."""


class Source(Struct, frozen=True):
    """One thread file: where it lies, and of which repository it is said to be (else empty)."""

    path: Path
    repository: str = ""
    name: str = ""
    """The file's name, with as many folders before it as tell it from the others; empty: its name."""

    @property
    def called(self) -> str:
        """What it is called in reports."""
        return self.name or self.path.name


class _Row(Struct):
    file: str = ""
    repo: str = ""


def sources(paths: Iterable[Path]) -> list[Source]:
    """All files that may be threads, each once, in the order of their names.

    A folder may hold `MANIFEST.jsonl`: one JSON object a line with `file` and `repo`. Links to
    folders are not followed, and what cannot be listed is passed over. Raises ThreadNotFound for a
    path that does not exist, UsageError for one that is neither a file nor a folder, or if there is
    nothing to measure.
    """
    paths = list(paths)
    found: dict[str, Source] = {}
    for path in paths:
        if path.is_dir():
            repositories = _manifest(path)
            for file in sorted(_inside(path)):
                said = repositories.get(str(file.relative_to(path)), "")
                found.setdefault(os.path.realpath(file), Source(file, said))
        elif path.is_file():
            found.setdefault(os.path.realpath(path), Source(path))
        elif path.exists():
            raise UsageError(f"{path} is neither a file nor a folder, so it cannot be cut.")
        else:
            raise ThreadNotFound(f"No file or folder {path}.")
    if not found:
        raise UsageError(f"There is no file in {', '.join(map(str, paths))}.")
    every = list(found.values())
    return [Source(s.path, s.repository, n) for s, n in zip(every, _names(every), strict=True)]


def _inside(folder: Path) -> Iterator[Path]:
    """Files in a folder and those below it, without the ones that are no threads by their name."""
    for place, folders, files in os.walk(folder):
        folders[:] = [f for f in folders if f not in _PASSED]
        for name in files:
            hidden = name.startswith(".") and name.removesuffix(".gz") != HISTORY
            path = Path(place, name)
            if not (hidden or name == MANIFEST or name.startswith("README")) and _is_file(path):
                yield path


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


def _names(found: Sequence[Source]) -> list[str]:
    """The end of each path that no other one has: threads of one name must not count as one."""
    every = [s.path.absolute().parts for s in found]
    length = [1] * len(every)
    names: list[str] = []
    for _ in range(max(map(len, every))):
        names = ["/".join(parts[-n:]) for parts, n in zip(every, length, strict=True)]
        times = Counter(names)
        if max(times.values()) == 1:
            break
        length = [n + (times[name] > 1) for name, n in zip(names, length, strict=True)]
    return [name.encode("utf-8", "backslashreplace").decode() for name in names]


def _manifest(folder: Path) -> dict[str, str]:
    try:
        lines = (folder / MANIFEST).read_bytes().splitlines()
    except OSError:
        return {}
    rows: list[_Row] = []
    for line in lines:
        try:
            rows.append(msgspec.json.decode(line, type=_Row))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            continue
    return {row.file: row.repo for row in rows}


def unpacked(source: Source, folder: Path) -> Path:
    """The file itself, or what a gzipped one holds, written into a folder.

    Raises OSError if it cannot be read or is broken.
    """
    if source.path.suffix != ".gz":
        return source.path
    target = folder / source.path.stem
    try:
        with gzip.open(source.path) as packed, target.open("wb") as plain:
            while block := packed.read(1 << 20):
                plain.write(block)
    except EOFError as error:
        raise OSError("the gzip file is cut off") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise OSError("it is no gzip file, or a broken one") from error
    return target


def repository(named: str, cwd: str) -> str:
    """What a repository is called in reports: as the manifest says, else the folder's name."""
    return named or cwd.rstrip("/").rpartition("/")[2] or "?"
