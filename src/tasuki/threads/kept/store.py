"""The folder of kept copies, `<data>/threads`: one file for each thread, named by its path."""

import hashlib
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from tasuki.errors import StoreFailed, TasukiError, ThreadNotFound, UsageError
from tasuki.files import await_lock, create_private_folder, explain_error, get_data_folder
from tasuki.harness.reading.jsonl import note_unread
from tasuki.patterns import compile_pattern
from tasuki.threads.kept.copies import (
    SUFFIX,
    KeptRecord,
    OpenedPart,
    describe_damage,
    read_record,
    write_copy,
)

DAY = 86_400.0
LOCK_SECONDS = 10.0
"""How long to wait for another process that changes the folder."""
LEFT_SECONDS = DAY
"""Unfinished copies, and folders of readers that were killed, are removed after this time."""
_LEFT = (".new-", ".read-")
_NAME = compile_pattern(r"[0-9a-f]{24}\.zst")


class KeptCopy(Struct, frozen=True):
    """A copy: its file, compressed bytes, when it was written or confirmed, and its record.

    The time is in seconds since the epoch. `record` is None where it cannot be read.
    """

    file: Path
    bytes: int
    kept: float
    record: KeptRecord | None = None


class KeptStore:
    """The copies in one folder; nothing is created before the first is written."""

    def __init__(self) -> None:
        self.folder = get_data_folder() / "threads"

    def get_file(self, path: Path | str) -> Path:
        """Return where the copy of a thread is, or would be."""
        digest = hashlib.sha256(str(path).encode("utf-8", "surrogatepass")).hexdigest()
        return self.folder / f"{digest[:24]}{SUFFIX}"

    def list_copies(self) -> list[KeptCopy]:
        """List all copies without reading them, the oldest first.

        A copy from the future, by this machine's clock, counts as written now.
        """
        copies, now = [], time.time()
        try:
            with os.scandir(self.folder) as entries:
                for entry in entries:
                    if _NAME.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                        with suppress(FileNotFoundError):
                            status = entry.stat(follow_symlinks=False)
                            moment = min(status.st_mtime, now)
                            copies.append(KeptCopy(Path(entry.path), status.st_size, moment))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            note_unread(f"{self.folder} cannot be read: {explain_error(error)}.")
        return sorted(copies, key=lambda copy: (copy.kept, copy.file.name))

    def read_copies(self) -> Iterator[KeptCopy]:
        """Yield all copies with their records, the oldest first; damaged ones are noted."""
        for copy in self.list_copies():
            record: KeptRecord | None = None
            try:
                record = read_record(copy.file)
            except FileNotFoundError:
                continue
            except TasukiError as error:
                note_unread(str(error))
            except OSError as error:
                note_unread(describe_damage(copy.file, explain_error(error)))
            yield KeptCopy(copy.file, copy.bytes, copy.kept, record)

    def find_record(self, path: Path | str) -> KeptRecord | None:
        """Find what is recorded of a thread's copy; None without one that can be read."""
        try:
            record = read_record(self.get_file(path))
        except (TasukiError, OSError, ValueError):
            return None
        return record if record.path == str(path) else None

    # -- changing ----------------------------------------------------------------------

    def write(self, record: KeptRecord, parts: Sequence[OpenedPart]) -> Path:
        """Write a copy, in place of the older one. Raises OSError, ThreadUnreadable."""
        create_private_folder(self.folder)
        file = self.get_file(record.path)
        write_copy(file, record, parts)
        return file

    def confirm(self, path: Path | str) -> bool:
        """Note that a copy is still the same as its original; False where it is gone by now."""
        try:
            os.utime(self.get_file(path))
        except FileNotFoundError:
            return False
        return True

    def prune(self, *, days: int, most_bytes: int, spared: Path) -> list[Path]:
        """Remove what is older than `days`, then the oldest until all fit in `most_bytes`.

        0 means no such bound. Returns what was removed; `spared` never is. Raises StoreFailed,
        OSError.
        """
        with self._hold_lock():
            unfinished = time.time() - LEFT_SECONDS
            for entry in list(os.scandir(self.folder)):  # what killed processes left
                with suppress(FileNotFoundError):  # Another process has just finished it.
                    if not entry.name.startswith(_LEFT):
                        continue
                    if entry.stat(follow_symlinks=False).st_mtime < unfinished:
                        _remove(entry)
            copies, removed = self.list_copies(), []
            total, oldest = sum(copy.bytes for copy in copies), time.time() - days * DAY
            for copy in copies:
                too_old = days and copy.kept < oldest
                too_much = most_bytes and total > most_bytes
                if copy.file == spared or not (too_old or too_much):
                    continue
                copy.file.unlink(missing_ok=True)
                total -= copy.bytes
                removed.append(copy.file)
            return removed

    def forget(self, name: str) -> list[KeptCopy]:
        """Delete the copy of one thread, or of `all`; return what was deleted.

        `name` is the thread's path, its id or the beginning of one, or the copy's own name.
        Raises ThreadNotFound, UsageError, StoreFailed.
        """
        chosen = self.find_copies(name)
        try:
            with self._hold_lock():
                for copy in chosen:
                    copy.file.unlink(missing_ok=True)
        except OSError as error:
            raise StoreFailed(
                f"{self.folder} cannot be changed: {explain_error(error)}. "
                "Get the permission to write it, and try again."
            ) from error
        return chosen

    def find_copies(self, name: str) -> list[KeptCopy]:
        """Find the copy that a name means, as `forget` takes it. Raises as that does."""
        copies = list(self.read_copies())
        if name == "all" and copies:
            return copies
        path = os.path.abspath(name)
        checks = (
            lambda copy: copy.file.name.removesuffix(SUFFIX) == name,
            lambda copy: bool(copy.record) and copy.record.path in (name, path),
            lambda copy: bool(copy.record) and copy.record.head.id.lower() == name.lower(),
            lambda copy: bool(copy.record) and copy.record.head.id.lower().startswith(name.lower()),
        )
        for check in checks:
            chosen = [copy for copy in copies if name and check(copy)]
            if len(chosen) > 1:
                listing = "\n".join(f"  {c.record.path}" for c in chosen[:8] if c.record)
                raise UsageError(
                    f"{len(chosen)} kept threads begin with {name}; give more of the id, or a "
                    f"path:\n{listing}"
                )
            if chosen:
                return chosen
        raise ThreadNotFound(
            f"No copy of a thread {name!r} is kept. List them with: tasuki threads --kept"
        )

    @contextmanager
    def _hold_lock(self) -> Iterator[None]:
        """Hold the folder's lock. Raises StoreFailed where another process keeps it too long."""
        number = os.open(
            self.folder / ".lock", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
        try:
            if not await_lock(number, LOCK_SECONDS):
                raise StoreFailed(f"{self.folder} is in use by another tasuki. Try again.")
            yield
        finally:
            os.close(number)


def _remove(entry: "os.DirEntry[str]") -> None:
    if entry.is_dir(follow_symlinks=False):
        shutil.rmtree(entry.path, ignore_errors=True)
    else:
        os.unlink(entry.path)
