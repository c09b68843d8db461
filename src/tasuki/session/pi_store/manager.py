"""A session that tasuki itself keeps: an append-only tree of entries in a file in pi's format."""

import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from msgspec import Struct

from tasuki.errors import StoreFailed, ThreadUnreadable, UsageError
from tasuki.files import get_data_folder
from tasuki.harness.pi_v3 import format as pi_format
from tasuki.harness.pi_v3.head import PiHead, build_folder_name, list_session_files
from tasuki.model import ThreadHead
from tasuki.patterns import compile_pattern
from tasuki.session.pi_store.messages import (
    EntryTree,
    Json,
    SessionContext,
    build_context,
    convert_time,
)
from tasuki.session.pi_store.session_file import LockedSessionFile, read_records
from tasuki.threads.catalog import redact_head

HARNESS_NAME = "tasuki"
"""The harness name in the heads of these sessions."""
_NAME = compile_pattern(r"[^/\x00]{1,200}")


class SessionArtifact(Struct, frozen=True):
    """A file that a session made: a plan, a scratch file, a list of todos."""

    name: str
    path: Path
    session: Path
    """File of the session that made it."""


class SessionState(Struct, frozen=True):
    """A saved state of a session, to go back to."""

    header: Json
    tree: EntryTree
    leaf: str | None
    file: LockedSessionFile
    written: bool


def get_default_folder(cwd: str | Path) -> Path:
    """Return the folder for the sessions of a working directory."""
    return get_data_folder() / "sessions" / build_folder_name(str(cwd))


def list_sessions(cwd: str | Path, folder: Path | None = None) -> list[ThreadHead]:
    """List the sessions of a working directory, newest first."""
    folder = folder or get_default_folder(cwd)
    files = sorted(
        list_session_files(folder.parent, folder.name), key=lambda f: f.modified, reverse=True
    )
    return [
        redact_head(
            PiHead(file, HARNESS_NAME).read() or _build_empty_head(file.path, file.modified)
        )
        for file in files
    ]


class SessionManager:
    """One session: its entries in memory, and its file from the first `flush` on.

    Until then nothing is on the disk. Afterwards every entry is added by one write before it
    counts, so that memory and file never differ. Appending raises StoreFailed where the file
    cannot be written, is written by another process or was changed by one. One thread at a
    time.
    """

    def __init__(
        self, header: Json, file: LockedSessionFile, tree: EntryTree, written: bool
    ) -> None:
        self.header = header
        self.notes: list[str] = []
        """Sentences about what was odd in the file that was opened."""
        self._file, self._tree, self._has_file = file, tree, written
        self._leaf = tree.leaf

    @classmethod
    def create(cls, cwd: str | Path, folder: Path | None = None, parent: str = "") -> Self:
        """Create a session of a working directory; `parent` is the file of the one before it."""
        cwd = os.path.abspath(cwd)
        header, path = _build_fresh(cwd, folder or get_default_folder(cwd), parent)
        return cls(header, LockedSessionFile(path), EntryTree(), written=False)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open the session in a file, also one of pi or omp. Raises ThreadUnreadable."""
        records_read = read_records(path)
        tree = EntryTree(records_read.entries)
        manager = cls(
            records_read.header, LockedSessionFile(path, records_read), tree, written=True
        )
        manager.notes = list(records_read.notes)
        return manager

    @classmethod
    def find_newest(cls, cwd: str | Path, folder: Path | None = None) -> Self | None:
        """Open the session of a working directory that was written last."""
        for head in list_sessions(cwd, folder):
            with suppress(ThreadUnreadable):
                return cls.open(Path(head.path))
        return None

    # -- state -----------------------------------------------------------------------------

    @property
    def id(self) -> str:
        return str(self.header.get("id", ""))

    @property
    def cwd(self) -> str:
        return str(self.header.get("cwd", ""))

    @property
    def parent(self) -> str:
        """File, or in sessions of omp the id, of the session that this one continues."""
        return _get_parent(self.header)

    @property
    def path(self) -> Path:
        """Its file, even before it exists."""
        return self._file.path

    @property
    def folder(self) -> Path:
        return self.path.parent

    @property
    def has_file(self) -> bool:
        """Whether its file exists."""
        return self._has_file

    @property
    def entries(self) -> list[Json]:
        """All entries in the order of the file, those of other branches too."""
        return list(self._tree.entries)

    @property
    def leaf(self) -> str | None:
        """Id of the entry that the next one is attached to."""
        return self._leaf

    def get_entry(self, id: str) -> Json | None:
        return self._tree.by_id.get(id)

    def get_branch(self, leaf: str | None = None) -> list[Json]:
        """Return the entries from the root to `leaf`, or to the current one. Raises UsageError."""
        return self._tree.get_branch(self._check_known(leaf) if leaf else self._leaf)

    def count_messages(self) -> int:
        """Count the messages of the branch."""
        return sum(entry["type"] == "message" for entry in self.get_branch())

    def build_session_context(self, leaf: str | None = None) -> SessionContext:
        """Build what the model sees at `leaf`, or at the current one."""
        return build_context(self.get_branch(leaf))

    # -- appending: each returns the id of the new entry -----------------------------------

    def append_message(self, message: Json) -> str:
        """Append a message in pi's form, with its `role`."""
        return self._append("message", message={"timestamp": convert_time(), **message})

    def append_custom_message_entry(
        self,
        custom_type: str,
        content: str | list[Json],
        display: bool,
        details: Json | None = None,
    ) -> str:
        """Append a message from outside the conversation; the model gets it as one of the user."""
        fields = {} if details is None else {"details": details}
        return self._append(
            "custom_message", customType=custom_type, content=content, display=display, **fields
        )

    def append_custom_entry(self, custom_type: str, data: Any = None) -> str:
        """Append something to remember; the model never sees it."""
        return self._append("custom", customType=custom_type, data=data)

    def append_compaction(
        self,
        summary: str,
        first_kept_entry_id: str,
        tokens_before: int,
        details: Json | None = None,
        from_hook: bool = False,
    ) -> str:
        """Append a summary that replaces everything before an entry of the branch."""
        optional: Json = {} if details is None else {"details": details}
        if from_hook:
            optional["fromHook"] = True
        first_kept = self._check_known(first_kept_entry_id)
        return self._append(
            "compaction",
            summary=summary,
            firstKeptEntryId=first_kept,
            tokensBefore=tokens_before,
            **optional,
        )

    def append_model_change(self, provider: str, model_id: str) -> str:
        return self._append("model_change", provider=provider, modelId=model_id)

    def append_thinking_level_change(self, level: str) -> str:
        return self._append("thinking_level_change", thinkingLevel=level)

    def append_label(self, target_id: str, label: str | None) -> str:
        """Append a mark on an entry; None removes it."""
        fields = {} if label is None else {"label": label}
        return self._append("label", targetId=self._check_known(target_id), **fields)

    def append_session_info(self, name: str) -> str:
        """Append a name for lists of sessions."""
        return self._append("session_info", name=name)

    def append_context_edit(self, target_id: str, replacement: str | list[Json] | None) -> str:
        """Replace an entry's content for the model; None hides it."""
        shown = None if replacement is None else {"content": replacement}
        return self._append(
            "context_edit", targetId=self._check_known(target_id), replacement=shown
        )

    # -- the tree --------------------------------------------------------------------------

    def branch(self, entry_id: str) -> None:
        """Go back to an entry: the next one is attached there.

        Raises UsageError if it is unknown.
        """
        self._leaf = self._check_known(entry_id)

    def reset_leaf(self) -> None:
        """Go back before the first entry: the next one is another root."""
        self._leaf = None

    def branch_with_summary(
        self, entry_id: str | None, summary: str, details: Json | None = None
    ) -> str:
        """Go back to an entry, with a summary of the branch that is left."""
        fields = {} if details is None else {"details": details}
        old_leaf = self._leaf or "root"
        target = None if entry_id is None else self._check_known(entry_id)
        return self._append("branch_summary", target, fromId=old_leaf, summary=summary, **fields)

    def _check_known(self, entry_id: str) -> str:
        if entry_id not in self._tree.by_id:
            raise UsageError(f"The session {self.path} has no entry {entry_id!r}.")
        return entry_id

    def _append(self, kind: str, *parent: str | None, **fields: Any) -> str:
        """Append a new leaf to the current one, or to `parent`."""
        id = secrets.token_hex(4)
        while id in self._tree.by_id:
            id = secrets.token_hex(4)
        parent_id = parent[0] if parent else self._leaf
        entry: Json = {
            "type": kind,
            "id": id,
            "parentId": parent_id,
            "timestamp": pi_format.format_now(),
        }
        entry.update(fields)
        if self._has_file:
            self._file.append(entry)
        self._tree.add_entry(entry)
        self._leaf = id
        return id

    # -- the disk --------------------------------------------------------------------------

    def flush(self) -> None:
        """Write everything safely to the disk. Raises StoreFailed.

        The first time the file is written, whole and at once, for the user alone.
        """
        if self._has_file:
            self._file.sync()
            return
        self._file.write_whole([self.header, *self._tree.entries])
        self._has_file = True

    def claim(self) -> None:
        """Make sure that this process may write the session. Raises StoreFailed."""
        if self._has_file:
            self._file.claim()

    def new_session(self, parent: str | None = None, id: str | None = None) -> None:
        """Become a fresh session: new header, no entries, no leaf, nothing on the disk.

        `parent` is the file of the session that it continues. The old file stays as it is.
        """
        self._file.close()
        self.header, path = _build_fresh(self.cwd, self.folder, parent or "", id)
        self._file, self._tree, self._has_file = LockedSessionFile(path), EntryTree(), False
        self._leaf, self.notes = None, []

    def save(self) -> SessionState:
        """Return the state of the session, for `restore`."""
        return SessionState(self.header, self._tree, self._leaf, self._file, self._has_file)

    def restore(self, state: SessionState) -> None:
        """Go back to a session that `new_session` left."""
        self._file.close()
        self.header, self._tree, self._leaf = state.header, state.tree, state.leaf
        self._file, self._has_file = state.file, state.written

    def close(self) -> None:
        """Let other processes write the session."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -- artifacts -------------------------------------------------------------------------

    @property
    def artifacts_folder(self) -> Path:
        """The folder next to the file; it exists once something is in it."""
        return self.path.with_suffix("")

    def create_artifact_path(self, name: str) -> Path:
        """Return the path for an artifact; create the folder. Raises UsageError, StoreFailed."""
        if not _NAME.fullmatch(name) or name in (".", ".."):
            raise UsageError(f"{name!r} is not a name for an artifact: use a plain file name.")
        try:
            self.artifacts_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StoreFailed(
                f"{self.artifacts_folder} could not be created: {error.strerror}."
            ) from error
        return self.artifacts_folder / name

    def list_artifacts(self) -> list[SessionArtifact]:
        """List the artifacts of this session and those before it, the newest session's first."""
        return [
            SessionArtifact(path.name, path, session)
            for session in (self.path, *self.find_lineage())
            for path in _list_files(session.with_suffix(""))
        ]

    def find_lineage(self) -> list[Path]:
        """Find the files of the sessions that this one continues, the nearest first."""
        files: list[Path] = []
        parent, near = self.parent, self.folder
        while (
            parent and (path := _resolve_parent(parent, near)) and path not in (self.path, *files)
        ):
            files.append(path)
            parent, near = _read_parent(path), path.parent
        return files


def _build_fresh(cwd: str, folder: Path, parent: str, id: str | None = None) -> tuple[Json, Path]:
    id, created = id or pi_format.create_id(), pi_format.format_now()
    return pi_format.build_header(id, cwd, created, parent), folder / pi_format.build_file_name(
        id, created
    )


def _build_empty_head(path: Path, modified: float) -> ThreadHead:
    """Build the head of a session without any message."""
    header: Json = {}
    with suppress(ThreadUnreadable):
        header = read_records(path).header
    id, cwd = str(header.get("id", path.stem)), str(header.get("cwd", ""))
    return ThreadHead(HARNESS_NAME, id, str(path), cwd, "", "", modified, path.stat().st_size, 0)


def _list_files(folder: Path) -> Iterator[Path]:
    with suppress(OSError):
        yield from sorted(path for path in folder.rglob("*") if path.is_file())


def _resolve_parent(parent: str, folder: Path) -> Path | None:
    """Find the file of a parent that is named by its path, or, as omp does it, by its id."""
    path = Path(parent)
    if path.is_absolute():
        return path if path.is_file() else None
    if "/" in parent or not parent:
        return None
    paths = (file.path for file in list_session_files(folder.parent, folder.name))
    return next((p for p in paths if p.stem.endswith(f"_{parent}")), None)


def _read_parent(path: Path) -> str:
    try:
        return _get_parent(read_records(path).header)
    except ThreadUnreadable:
        return ""


def _get_parent(header: Json) -> str:
    return str(header.get("parentSession") or header.get("branchedFrom") or "")
