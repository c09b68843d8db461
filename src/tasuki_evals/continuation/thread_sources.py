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
AIDER_HISTORY = ".aider.chat.history.md"
"""The only thread whose file name begins with a dot."""
_SKIPPED_FOLDERS = frozenset((".git", "node_modules", ".venv"))
"""Folders that hold no threads, but many files."""


class ThreadSource(Struct, frozen=True):
    """One thread file: its path, and its repository according to a manifest (else empty)."""

    path: Path
    repository: str = ""
    name: str = ""
    """The file's name, with as many folders before it as tell it from the others; empty: its name."""

    @property
    def display_name(self) -> str:
        """Its name in reports."""
        return self.name or self.path.name


class _ManifestRow(Struct):
    file: str = ""
    repo: str = ""


def list_sources(paths: Iterable[Path]) -> list[ThreadSource]:
    """Return all files that may be threads, each once, in the order of their names.

    A folder may hold `MANIFEST.jsonl`: one JSON object per line with `file` and `repo`. Links
    to folders are not followed, and what cannot be listed is skipped. Raises ThreadNotFound for
    a path that does not exist, UsageError for one that is neither a file nor a folder, or if
    there is nothing to measure.
    """
    paths = list(paths)
    found: dict[str, ThreadSource] = {}
    for path in paths:
        if path.is_dir():
            repositories = _read_manifest(path)
            for file in sorted(_list_inside(path)):
                repository_name = repositories.get(str(file.relative_to(path)), "")
                found.setdefault(os.path.realpath(file), ThreadSource(file, repository_name))
        elif path.is_file():
            found.setdefault(os.path.realpath(path), ThreadSource(path))
        elif path.exists():
            raise UsageError(f"{path} is neither a file nor a folder, so it cannot be measured.")
        else:
            raise ThreadNotFound(f"No file or folder {path}.")
    if not found:
        raise UsageError(f"There is no file in {', '.join(map(str, paths))}.")
    every = list(found.values())
    return [
        ThreadSource(s.path, s.repository, n)
        for s, n in zip(every, _find_unique_names(every), strict=True)
    ]


def _list_inside(folder: Path) -> Iterator[Path]:
    """Yield files in a folder and below it, without those that are no threads by their name."""
    for place, folders, files in os.walk(folder):
        folders[:] = [f for f in folders if f not in _SKIPPED_FOLDERS]
        for name in files:
            hidden = name.startswith(".") and name.removesuffix(".gz") != AIDER_HISTORY
            path = Path(place, name)
            if not (hidden or name == MANIFEST or name.startswith("README")) and _is_file(path):
                yield path


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


def _find_unique_names(found: Sequence[ThreadSource]) -> list[str]:
    """Return the unique end of each path: threads of one name must not count as one."""
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


def _read_manifest(folder: Path) -> dict[str, str]:
    try:
        lines = (folder / MANIFEST).read_bytes().splitlines()
    except OSError:
        return {}
    rows: list[_ManifestRow] = []
    for line in lines:
        try:
            rows.append(msgspec.json.decode(line, type=_ManifestRow))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            continue
    return {row.file: row.repo for row in rows}


def unpack_source(source: ThreadSource, folder: Path) -> Path:
    """Return the file itself, or the content of a gzipped one, written into a folder.

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
        raise OSError("it is not a gzip file, or it is damaged") from error
    return target


def choose_repository_name(named: str, cwd: str) -> str:
    """Return the name of a repository in reports: the manifest's, else the folder's."""
    return named or cwd.rstrip("/").rpartition("/")[2] or "?"
