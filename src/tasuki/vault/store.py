"""The vault: every handoff is a folder, written once, with its later events in it."""

import errno
import fcntl
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

import msgspec

from tasuki.errors import HandoffNotFound, StoreFailed
from tasuki.files import (
    create_file,
    create_private_folder,
    describe_fault,
    explain_error,
    find_fault,
    get_data_folder,
    sync_folder,
)
from tasuki.model import Handoff, HandoffEvent
from tasuki.patterns import compile_pattern

State = Literal["draft", "printed", "started", "delivered", "acknowledged", "uncertain", "failed"]

HANDOFF = "handoff.json"
BRIEF = "brief.md"
EVENTS = "events.jsonl"
UNREADABLE = "unreadable"
"""Folder below the vault for handoffs that were set aside."""
UNFINISHED = ".new-"
"""Prefix of a folder that is still being written."""
STALE = 3600.0
"""Seconds after which an unfinished folder counts as the remains of a killed process."""

_ID = compile_pattern(r"[0-9a-f]{32}")
_PREFIX = compile_pattern(r"[0-9a-f]{4,32}")
_RANK: dict[State, int] = {
    "draft": 0, "printed": 0, "started": 1, "uncertain": 2, "failed": 2, "delivered": 3, "acknowledged": 4,
}  # fmt: skip
_STATES: dict[str, State] = {state: state for state in _RANK}
_STATES |= {"drafted": "draft", "intent": "uncertain"}
"""The state that each kind of an event leads to."""


def create_handoff_id() -> str:
    """Create a random id of a handoff: 32 hexadecimal digits."""
    return os.urandom(16).hex()


class Vault:
    """The handoffs stored under one folder; created when the first is saved.

    Every method that takes an id also takes a prefix of it that no other handoff shares, of
    at least 4 digits. What is stored is never rewritten; events are only appended.
    """

    def __init__(self, root: Path | None = None) -> None:
        self.root = root if root is not None else get_data_folder() / "handoffs"
        self.problems: list[str] = []
        """Sentences about folders that the last `list_handoffs()` could not read."""
        self.unreadable: list[str] = []
        """Their ids."""

    def save(self, handoff: Handoff, brief: str) -> Path:
        """Store a handoff and its brief; return its folder.

        The folder appears whole or not at all. Raises StoreFailed where it cannot be written or
        the id is already stored.
        """
        if not _ID.fullmatch(handoff.id):
            raise StoreFailed(
                f"{handoff.id!r} is not a handoff id: 32 hexadecimal digits are needed."
            )
        encoded = _encode(handoff)
        target = self.root / handoff.id
        with self._report_failure(f"The handoff could not be stored in {self.root}"):
            create_private_folder(self.root)
            for path in self.root.glob(f"{UNFINISHED}*"):  # the remains of killed processes
                with suppress(FileNotFoundError):
                    if time.time() - path.stat().st_mtime > STALE:
                        _remove_folder(path, ignore_errors=True)
            folder = self._create_unfinished()
            try:
                create_file(folder / HANDOFF, encoded)
                create_file(folder / BRIEF, brief.encode("utf-8", "replace"))
                sync_folder(folder)
                folder.rename(target)
            except BaseException:
                _remove_folder(folder, ignore_errors=True)
                raise
            sync_folder(self.root)
        return target

    def get(self, prefix: str) -> Handoff:
        """Return the handoff whose id begins with `prefix`. Raises HandoffNotFound."""
        folder = self._find_folder(prefix)
        try:
            return _decode(folder)
        except (OSError, ValueError, RecursionError) as error:
            raise HandoffNotFound(
                f"The handoff in {folder} cannot be read: {explain_error(error)}. "
                f"Its brief may still be readable: {folder / BRIEF}"
            ) from error

    def load_brief(self, prefix: str) -> str:
        """Load the brief of a handoff exactly. Raises HandoffNotFound."""
        path = self._find_folder(prefix) / BRIEF
        try:
            return path.read_bytes().decode()
        except (OSError, ValueError, RecursionError) as error:
            raise HandoffNotFound(
                f"The brief {path} cannot be read: {explain_error(error)}."
            ) from error

    def list_handoffs(self) -> list[Handoff]:
        """List every readable handoff, newest first; `problems` describes the others."""
        self.problems, self.unreadable = [], []
        handoffs = []
        for name in self._list_ids():
            try:
                handoffs.append(_decode(self.root / name))
            except (OSError, ValueError, RecursionError) as error:
                self.unreadable.append(name)
                self.problems.append(
                    f"The handoff in {self.root / name} cannot be read: {explain_error(error)}. "
                    "Set it aside: tasuki handoffs prune --unreadable"
                )
        return sorted(handoffs, key=lambda handoff: (handoff.created, handoff.id), reverse=True)

    def list_newest_ids(self, limit: int) -> list[str]:
        """List the ids of the handoffs that changed last, newest first; none of them is read."""
        changed = {id: (self.root / id).stat().st_mtime for id in self._list_ids()}
        return sorted(changed, key=lambda id: -changed[id])[:limit]

    def append_event(self, prefix: str, event: HandoffEvent) -> None:
        """Add an event to a handoff, as one line. Raises HandoffNotFound or StoreFailed."""
        path = self._find_folder(prefix) / EVENTS
        line = msgspec.json.encode(event) + b"\n"
        with self._report_failure(f"The event could not be added to {path}"):
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
                _append_line(file, line)
            finally:
                os.close(file)

    def remove(self, id: str) -> None:
        """Delete a handoff, given by its whole id. Raises HandoffNotFound or StoreFailed.

        It is deleted whole or not at all: the remains after a kill are removed later.
        """
        if not _ID.fullmatch(id) or not (self.root / id).is_dir():
            raise HandoffNotFound(f"No handoff {id} is stored in {self.root}.")
        with self._report_failure(f"The handoff {id[:8]} could not be deleted from {self.root}"):
            doomed = self._create_unfinished()
            (self.root / id).rename(doomed / id)
            _remove_folder(doomed)

    def set_aside(self, id: str) -> Path:
        """Move an unreadable handoff out of the lists; return its new place. Raises StoreFailed.

        Nothing of it is lost: a newer tasuki may have written it, or a brief may still be whole.
        """
        with self._report_failure(f"The handoff {id[:8]} could not be set aside in {self.root}"):
            aside = self.root / UNREADABLE
            aside.mkdir(mode=0o700, exist_ok=True)
            target = aside / id
            while target.exists():
                target = aside / f"{id}-{os.urandom(2).hex()}"
            (self.root / id).rename(target)
            sync_folder(self.root)
        return target

    def load_events(self, prefix: str) -> list[HandoffEvent]:
        """Load what happened to a handoff, in order.

        A line that was cut off while it was written is left out.
        """
        try:
            lines = (self._find_folder(prefix) / EVENTS).read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        except OSError as error:
            raise HandoffNotFound(
                f"The events of {prefix} cannot be read: {explain_error(error)}."
            ) from error
        events = []
        for line in lines:
            with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                events.append(_EVENT.decode(line))
        return events

    def load_state(self, prefix: str) -> State:
        """Derive the state of a handoff from its events; uncertain where they are unreadable."""
        self._find_folder(prefix)
        try:
            return derive_state(self.load_events(prefix))
        except HandoffNotFound:
            return "uncertain"

    def _find_folder(self, prefix: str) -> Path:
        if not _PREFIX.fullmatch(wanted := prefix.strip().lower()):
            raise HandoffNotFound(
                f"{prefix!r} is not a handoff id. Give at least its first 4 digits (0-9, a-f)."
            )
        if _ID.fullmatch(wanted) and (self.root / wanted).is_dir():
            return self.root / wanted
        matching = sorted(name for name in self._list_ids() if name.startswith(wanted))
        if not matching:
            raise HandoffNotFound(f"No handoff {wanted} is stored in {self.root}.")
        if len(matching) > 1:
            listed = ", ".join(name[: len(wanted) + 4] for name in matching[:10])
            more = ", …" if len(matching) > 10 else ""
            raise HandoffNotFound(
                f"{len(matching)} handoffs begin with {wanted}: {listed}{more}. Give more digits."
            )
        return self.root / matching[0]

    def _list_ids(self) -> list[str]:
        try:
            return [name for name in os.listdir(self.root) if _ID.fullmatch(name)]
        except OSError as error:
            if self.root.parent == get_data_folder() and (reason := find_fault(self.root.parent)):
                raise StoreFailed(describe_fault(self.root.parent, reason)) from error
            if isinstance(error, FileNotFoundError | NotADirectoryError):
                return []
            raise StoreFailed(
                f"The handoffs in {self.root} cannot be listed: {explain_error(error)}."
            ) from error

    def _create_unfinished(self) -> Path:
        """Create a folder that counts as unfinished until it is renamed."""
        folder = self.root / f"{UNFINISHED}{os.urandom(8).hex()}"
        folder.mkdir(mode=0o700)
        return folder

    @contextmanager
    def _report_failure(self, failure: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if fault := find_fault(self.root.parent):
                raise StoreFailed(
                    f"{failure}. {describe_fault(self.root.parent, fault)}"
                ) from error
            if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
                reason = "it already exists, and what is stored is never rewritten"
            else:
                reason = explain_error(error)
            advice = "TASUKI_DATA can name another folder."
            raise StoreFailed(f"{failure}: {reason}. {advice}") from error


def derive_state(events: Sequence[HandoffEvent]) -> State:
    """Derive the state: the furthest point that the last start is known to have reached.

    `started` resets it. `intent`, written before a paste, counts as uncertain until
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
            f"The handoff contains a character that no file can contain: {error}. Remove it from the goal."
        ) from error


def _decode(folder: Path) -> Handoff:
    handoff = msgspec.json.decode((folder / HANDOFF).read_bytes(), type=Handoff)
    if handoff.id != folder.name:
        raise ValueError(f"it says that its id is {handoff.id[:40]!r}")
    return handoff


_EVENT = msgspec.json.Decoder(HandoffEvent)


def _remove_folder(folder: Path, *, ignore_errors: bool = False) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=ignore_errors)


def _append_line(file: int, line: bytes) -> None:
    """Write once at the end of a locked file; after a short write the file is as before.

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
