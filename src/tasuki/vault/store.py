"""The vault: every handoff a folder, written once, with its later events beside it."""

import errno
import fcntl
import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec

from tasuki.data_folder import data_folder, find_fault, tell_fault
from tasuki.errors import HandoffNotFound, StoreFailed
from tasuki.model import Citation, Handoff, HandoffEvent

State = Literal["draft", "printed", "started", "delivered", "acknowledged", "uncertain", "failed"]

HANDOFF = "handoff.json"
BRIEF = "brief.md"
EVENTS = "events.jsonl"
UNREADABLE = "unreadable"
"""Folder below the vault for handoffs that were set aside."""
UNFINISHED = ".new-"
"""Prefix of a folder that is still being written."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What the system says where there is no room."""
STALE = 3600.0
"""Seconds after which an unfinished folder is taken for the remains of a killed process."""

_ID = re.compile(r"[0-9a-f]{32}")
_PREFIX = re.compile(r"[0-9a-f]{4,32}")
_STATES: dict[str, State] = {
    "drafted": "draft",
    "printed": "printed",
    "started": "started",
    "intent": "uncertain",
    "uncertain": "uncertain",
    "failed": "failed",
    "delivered": "delivered",
    "acknowledged": "acknowledged",
}
_RANK: dict[State, int] = {
    "draft": 0,
    "printed": 0,
    "started": 1,
    "uncertain": 2,
    "failed": 2,
    "delivered": 3,
    "acknowledged": 4,
}
_REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "your disk quota is used up",
    errno.EFBIG: "the file size limit is reached",
    errno.EACCES: "you have no permission there",
    errno.EPERM: "you have no permission there",
    errno.EROFS: "the file system is read-only",
    errno.ENOTDIR: "a part of the path is a file, not a folder",
}


def why(error: OSError | ValueError | RecursionError) -> str:
    """Why something could not be kept or read, in words; the path is said by who asks."""
    if not isinstance(error, OSError):
        return str(error)
    return _REASONS.get(error.errno or 0, error.strerror or str(error))


def new_id() -> str:
    """A random id of a handoff: 32 hexadecimal digits."""
    return secrets.token_hex(16)


def cited(handoff: Handoff, refs: Iterable[int]) -> list[Citation]:
    """The entries behind `refs` as they stood when the handoff was made, in the order asked for.

    A reference that the handoff does not cite is left out.
    """
    kept = {citation.ref: citation for citation in handoff.citations}
    return [kept[ref] for ref in refs if ref in kept]


class Vault:
    """The handoffs kept under one folder; made when the first is saved.

    Every method that takes an id also takes a prefix of it that no other handoff shares, of
    at least 4 digits. What is stored is never rewritten; events are only appended.
    """

    def __init__(self, root: Path | None = None) -> None:
        self.root = root if root is not None else data_folder() / "handoffs"
        self.problems: list[str] = []
        """Sentences about folders that the last `all()` could not read."""
        self.unreadable: list[str] = []
        """Their ids."""

    def save(self, handoff: Handoff, brief: str) -> Path:
        """Keep a handoff and its brief; returns its folder.

        The folder appears whole or not at all. Raises StoreFailed where it cannot be written or
        the id is stored already.
        """
        if not _ID.fullmatch(handoff.id):
            raise StoreFailed(f"{handoff.id!r} is no handoff id: 32 hexadecimal digits are needed.")
        encoded = _encode(handoff)
        target = self.root / handoff.id
        with self._failing(f"The handoff could not be stored in {self.root}"):
            private_folder(self.root)
            self._sweep()
            folder = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=self.root))
            try:
                _write(folder / HANDOFF, encoded)
                _write(folder / BRIEF, brief.encode("utf-8", "replace"))
                sync_folder(folder)
                folder.rename(target)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
            sync_folder(self.root)
        return target

    def get(self, prefix: str) -> Handoff:
        """The handoff whose id begins with `prefix`. Raises HandoffNotFound."""
        folder = self._find(prefix)
        try:
            return _decode(folder)
        except (OSError, ValueError, RecursionError) as error:
            raise HandoffNotFound(
                f"The handoff in {folder} cannot be read: {why(error)}. "
                f"Its brief may still be readable: {folder / BRIEF}"
            ) from error

    def brief(self, prefix: str) -> str:
        """The brief of a handoff, to the letter. Raises HandoffNotFound."""
        path = self._find(prefix) / BRIEF
        try:
            return path.read_bytes().decode()
        except (OSError, ValueError, RecursionError) as error:
            raise HandoffNotFound(f"The brief {path} cannot be read: {why(error)}.") from error

    def all(self) -> list[Handoff]:
        """Every readable handoff, newest first; `problems` tells of the others."""
        self.problems, self.unreadable = [], []
        found = []
        for name in self._ids():
            try:
                found.append(_decode(self.root / name))
            except (OSError, ValueError, RecursionError) as error:
                self.unreadable.append(name)
                self.problems.append(
                    f"The handoff in {self.root / name} cannot be read: {why(error)}. "
                    "Set it aside: tasuki handoffs prune --unreadable"
                )
        return sorted(found, key=lambda handoff: (handoff.created, handoff.id), reverse=True)

    def append(self, prefix: str, event: HandoffEvent) -> None:
        """Add an event to a handoff, as one line. Raises HandoffNotFound or StoreFailed."""
        path = self._find(prefix) / EVENTS
        line = msgspec.json.encode(event) + b"\n"
        with self._failing(f"The event could not be added to {path}"):
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
                _append(file, line)
            finally:
                os.close(file)

    def remove(self, id: str) -> None:
        """Delete a handoff, given by its whole id. Raises HandoffNotFound or StoreFailed.

        It is gone as a whole or not at all: what a kill leaves over is swept up later.
        """
        if not _ID.fullmatch(id) or not (self.root / id).is_dir():
            raise HandoffNotFound(f"No handoff {id} is stored in {self.root}.")
        with self._failing(f"The handoff {id[:8]} could not be deleted from {self.root}"):
            going = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=self.root))
            (self.root / id).rename(going / id)
            shutil.rmtree(going)

    def set_aside(self, id: str) -> Path:
        """Move a handoff that cannot be read out of the lists; returns where it lies now. Raises StoreFailed.

        Nothing of it is lost: a newer tasuki may have written it, or a brief may still be whole.
        """
        with self._failing(f"The handoff {id[:8]} could not be set aside in {self.root}"):
            aside = self.root / UNREADABLE
            aside.mkdir(mode=0o700, exist_ok=True)
            target = aside / id
            while target.exists():
                target = aside / f"{id}-{secrets.token_hex(2)}"
            (self.root / id).rename(target)
            sync_folder(self.root)
        return target

    def events(self, prefix: str) -> list[HandoffEvent]:
        """What happened to a handoff, in order; a line that was cut off in writing is left out."""
        try:
            lines = (self._find(prefix) / EVENTS).read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        except OSError as error:
            raise HandoffNotFound(
                f"The events of {prefix} cannot be read: {why(error)}."
            ) from error
        return list(_readable(lines))

    def state(self, prefix: str) -> State:
        """Where a handoff stands, from its events; uncertain where they cannot be read."""
        self._find(prefix)
        try:
            return state_of(self.events(prefix))
        except HandoffNotFound:
            return "uncertain"

    def _find(self, prefix: str) -> Path:
        if not _PREFIX.fullmatch(wanted := prefix.strip().lower()):
            raise HandoffNotFound(
                f"{prefix!r} is no handoff id. Give at least its first 4 digits (0-9, a-f)."
            )
        if _ID.fullmatch(wanted) and (self.root / wanted).is_dir():
            return self.root / wanted
        matching = sorted(name for name in self._ids() if name.startswith(wanted))
        if not matching:
            raise HandoffNotFound(f"No handoff {wanted} is stored in {self.root}.")
        if len(matching) > 1:
            listed = ", ".join(name[: len(wanted) + 4] for name in matching[:10])
            more = ", …" if len(matching) > 10 else ""
            raise HandoffNotFound(
                f"{len(matching)} handoffs begin with {wanted}: {listed}{more}. Give more digits."
            )
        return self.root / matching[0]

    def _ids(self) -> list[str]:
        try:
            return [name for name in os.listdir(self.root) if _ID.fullmatch(name)]
        except OSError as error:
            if self.root.parent == data_folder() and (reason := find_fault(self.root.parent)):
                raise StoreFailed(tell_fault(self.root.parent, reason)) from error
            if isinstance(error, FileNotFoundError | NotADirectoryError):
                return []
            raise StoreFailed(
                f"The handoffs in {self.root} cannot be listed: {why(error)}."
            ) from error

    def _sweep(self) -> None:
        """Remove what killed processes left behind."""
        for path in self.root.glob(f"{UNFINISHED}*"):
            try:
                old = time.time() - path.stat().st_mtime > STALE
            except FileNotFoundError:
                continue
            if old:
                shutil.rmtree(path, ignore_errors=True)

    @contextmanager
    def _failing(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if fault := find_fault(self.root.parent):
                raise StoreFailed(f"{what}. {tell_fault(self.root.parent, fault)}") from error
            if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
                reason = "it is there already, and what is stored is never rewritten"
            else:
                reason = why(error)
            advice = "TASUKI_DATA can name another folder."
            raise StoreFailed(f"{what}: {reason}. {advice}") from error


def state_of(events: Sequence[HandoffEvent]) -> State:
    """Where a handoff stands: the furthest point that its last start is known to have reached.

    `started` begins anew. `intent`, written before a paste, counts as uncertain until
    something is known; a failure reported after the arrival was proven changes nothing.
    """
    state: State = "draft"
    for event in events:
        reached = _STATES.get(event.kind)
        if reached == "started" or (reached and _RANK[reached] >= _RANK[state]):
            state = reached
    return state


def _encode(handoff: Handoff) -> bytes:
    try:
        return msgspec.json.format(msgspec.json.encode(handoff))
    except UnicodeEncodeError as error:
        raise StoreFailed(
            f"The handoff holds a character that no file can: {error}. Take it out of the goal."
        ) from error


def _decode(folder: Path) -> Handoff:
    handoff = msgspec.json.decode((folder / HANDOFF).read_bytes(), type=Handoff)
    if handoff.id != folder.name:
        raise ValueError(f"it says that its id is {handoff.id[:40]!r}")
    return handoff


def _readable(lines: Iterable[bytes]) -> Iterator[HandoffEvent]:
    decoder = msgspec.json.Decoder(HandoffEvent)
    for line in lines:
        try:
            yield decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue


def private_folder(path: Path) -> None:
    """Make a folder and the missing ones above it, for the user alone."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)
    if not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "not a folder", str(path))


def _write(path: Path, content: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(file, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


def _append(file: int, line: bytes) -> None:
    """One write at the end of a locked file; after a short write the file is as it was.

    A line that a killed process left without its end is closed first.
    """
    size = os.fstat(file).st_size
    if size and os.pread(file, 1, size - 1) != b"\n":
        line = b"\n" + line
    try:
        if os.write(file, line) != len(line):
            raise OSError(errno.ENOSPC, "only a part was written")
        os.fsync(file)
    except OSError:
        os.ftruncate(file, size)
        raise


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
