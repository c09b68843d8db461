"""A session that tasuki itself keeps: an append-only tree of entries in a file as pi writes it."""

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from msgspec import Struct

from tasuki.data_folder import data_folder
from tasuki.errors import StoreFailed, ThreadUnreadable, UsageError
from tasuki.harness.pi_v3 import format as pi_format
from tasuki.harness.pi_v3.head import read_head, sessions_in
from tasuki.harness.pi_v3.session_folder import folder_name
from tasuki.model import ThreadHead
from tasuki.session.messages import Json, milliseconds
from tasuki.session.session_file import SessionFile, records
from tasuki.session.tree import SessionContext, Tree, context

HARNESS = "tasuki"
"""What heads of these sessions name as their harness."""
_NAME = re.compile(r"[^/\x00]{1,200}")


class Artifact(Struct, frozen=True):
    """A file that a session made: a plan, a scratch file, a list of todos."""

    name: str
    path: Path
    session: Path
    """File of the session that made it."""


class SessionState(Struct, frozen=True):
    """A session as it was, to go back to."""

    header: Json
    tree: Tree
    leaf: str | None
    file: SessionFile
    written: bool


def default_folder(cwd: str | Path) -> Path:
    """Where the sessions of a working directory are kept."""
    return data_folder() / "sessions" / folder_name(str(cwd))


def sessions(cwd: str | Path, folder: Path | None = None) -> list[ThreadHead]:
    """The sessions of a working directory, newest first."""
    folder = folder or default_folder(cwd)
    files = sorted(sessions_in(folder.parent, folder.name), key=lambda f: f.modified, reverse=True)
    return [read_head(file, HARNESS) or _untouched(file.path, file.modified) for file in files]


class SessionManager:
    """One session: its entries in memory, and its file from the first `flush` on.

    Until then nothing is on the disk; afterwards every entry is added by one write before it
    counts, so that memory and file never differ. Appending raises StoreFailed where the file
    cannot be written, is written by another process or was changed by one. One thread at a time.
    """

    def __init__(self, header: Json, file: SessionFile, tree: Tree, written: bool) -> None:
        self.header = header
        self.notes: list[str] = []
        """Sentences about what was odd in the file that was opened."""
        self._file, self._tree, self._written = file, tree, written
        self._leaf = tree.leaf

    @classmethod
    def create(cls, cwd: str | Path, folder: Path | None = None, parent: str = "") -> Self:
        """A fresh session of a working directory; `parent` is the file of the one before it."""
        cwd = os.path.abspath(cwd)
        header, path = _fresh(cwd, folder or default_folder(cwd), parent)
        return cls(header, SessionFile(path), Tree(), written=False)

    @classmethod
    def open(cls, path: Path) -> Self:
        """The session in a file, also in one of pi or omp. Raises ThreadUnreadable."""
        read = records(path)
        tree = Tree(read.entries)
        manager = cls(read.header, SessionFile(path, read), tree, written=True)
        manager.notes = list(read.notes)
        return manager

    @classmethod
    def newest(cls, cwd: str | Path, folder: Path | None = None) -> Self | None:
        """The session of a working directory that was written to last."""
        for head in sessions(cwd, folder):
            with suppress(ThreadUnreadable):
                return cls.open(Path(head.path))
        return None

    # -- what it is ------------------------------------------------------------------------

    @property
    def id(self) -> str:
        return str(self.header.get("id", ""))

    @property
    def cwd(self) -> str:
        return str(self.header.get("cwd", ""))

    @property
    def parent(self) -> str:
        """File, or in sessions of omp the id, of the session that this one continues."""
        return _parent(self.header)

    @property
    def path(self) -> Path:
        """Its file, also before there is one."""
        return self._file.path

    @property
    def folder(self) -> Path:
        return self.path.parent

    @property
    def started(self) -> bool:
        """Whether its file exists."""
        return self._written

    @property
    def entries(self) -> list[Json]:
        """All entries in the order of the file, those of other branches too."""
        return list(self._tree.entries)

    @property
    def leaf(self) -> str | None:
        """Id of the entry that the next one hangs on."""
        return self._leaf

    def get_entry(self, id: str) -> Json | None:
        return self._tree.by_id.get(id)

    def get_branch(self, leaf: str | None = None) -> list[Json]:
        """The entries from the root to `leaf`, or to the present one. Raises UsageError."""
        return self._tree.branch(self._known(leaf) if leaf else self._leaf)

    def message_count(self) -> int:
        """How many entries of the branch are messages."""
        return sum(entry["type"] == "message" for entry in self.get_branch())

    def build_session_context(self, leaf: str | None = None) -> SessionContext:
        """What the model is shown at `leaf`, or at the present one."""
        return context(self.get_branch(leaf))

    # -- appending: each returns the id of the new entry -----------------------------------

    def append_message(self, message: Json) -> str:
        """A message in pi's form, with its `role`."""
        return self._append("message", message={"timestamp": milliseconds(), **message})

    def append_custom_message_entry(
        self,
        custom_type: str,
        content: str | list[Json],
        display: bool,
        details: Json | None = None,
    ) -> str:
        """A message from outside the conversation, which the model gets as one of the user."""
        known = {} if details is None else {"details": details}
        return self._append(
            "custom_message", customType=custom_type, content=content, display=display, **known
        )

    def append_custom_entry(self, custom_type: str, data: Any = None) -> str:
        """Something to be remembered; the model never sees it."""
        return self._append("custom", customType=custom_type, data=data)

    def append_compaction(
        self,
        summary: str,
        first_kept_entry_id: str,
        tokens_before: int,
        details: Json | None = None,
        from_hook: bool = False,
    ) -> str:
        """A summary in the place of everything before an entry of the branch."""
        known: Json = {} if details is None else {"details": details}
        if from_hook:
            known["fromHook"] = True
        kept = self._known(first_kept_entry_id)
        return self._append(
            "compaction",
            summary=summary,
            firstKeptEntryId=kept,
            tokensBefore=tokens_before,
            **known,
        )

    def append_model_change(self, provider: str, model_id: str) -> str:
        return self._append("model_change", provider=provider, modelId=model_id)

    def append_thinking_level_change(self, level: str) -> str:
        return self._append("thinking_level_change", thinkingLevel=level)

    def append_label(self, target_id: str, label: str | None) -> str:
        """A mark on an entry; None takes it away."""
        known = {} if label is None else {"label": label}
        return self._append("label", targetId=self._known(target_id), **known)

    def append_session_info(self, name: str) -> str:
        """A name for lists of sessions."""
        return self._append("session_info", name=name)

    def append_context_edit(self, target_id: str, replacement: str | list[Json] | None) -> str:
        """Show the model other content in place of an entry's, or nothing."""
        shown = None if replacement is None else {"content": replacement}
        return self._append("context_edit", targetId=self._known(target_id), replacement=shown)

    # -- the tree --------------------------------------------------------------------------

    def branch(self, entry_id: str) -> None:
        """Go back to an entry: the next one hangs there. Raises UsageError if it is unknown."""
        self._leaf = self._known(entry_id)

    def reset_leaf(self) -> None:
        """Go back before the first entry: the next one is another root."""
        self._leaf = None

    def branch_with_summary(
        self, entry_id: str | None, summary: str, details: Json | None = None
    ) -> str:
        """Go back to an entry, with a summary of what is left behind."""
        known = {} if details is None else {"details": details}
        left = self._leaf or "root"
        target = None if entry_id is None else self._known(entry_id)
        return self._append("branch_summary", target, fromId=left, summary=summary, **known)

    def _known(self, id: str) -> str:
        if id not in self._tree.by_id:
            raise UsageError(f"The session {self.path} has no entry {id!r}.")
        return id

    def _append(self, kind: str, *parent: str | None, **fields: Any) -> str:
        """A new leaf below the present one, or below `parent`."""
        id = secrets.token_hex(4)
        while id in self._tree.by_id:
            id = secrets.token_hex(4)
        above = parent[0] if parent else self._leaf
        entry: Json = {"type": kind, "id": id, "parentId": above, "timestamp": pi_format.now()}
        entry.update(fields)
        if self._written:
            self._file.append(entry)
        self._tree.add(entry)
        self._leaf = id
        return id

    # -- the disk --------------------------------------------------------------------------

    def flush(self) -> None:
        """Have everything safely on the disk. Raises StoreFailed.

        The first time the file is written, whole and at once; it is the user's alone.
        """
        if self._written:
            self._file.sync()
            return
        self._file.write_whole([self.header, *self._tree.entries])
        self._written = True

    def claim(self) -> None:
        """Make sure that this process may write the session. Raises StoreFailed."""
        if self._written:
            self._file.claim()

    def new_session(self, parent: str | None = None, id: str | None = None) -> None:
        """Become a fresh session: new header, no entries, no leaf, nothing on the disk.

        `parent` is the file of the session that it continues. The old file stays as it is.
        """
        self._file.close()
        self.header, path = _fresh(self.cwd, self.folder, parent or "", id)
        self._file, self._tree, self._written = SessionFile(path), Tree(), False
        self._leaf, self.notes = None, []

    def save(self) -> SessionState:
        """The session as it is now, for `restore`."""
        return SessionState(self.header, self._tree, self._leaf, self._file, self._written)

    def restore(self, state: SessionState) -> None:
        """Go back to a session that `new_session` left."""
        self._file.close()
        self.header, self._tree, self._leaf = state.header, state.tree, state.leaf
        self._file, self._written = state.file, state.written

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

    # -- what it made ----------------------------------------------------------------------

    @property
    def artifacts_folder(self) -> Path:
        """Folder beside the file; there once something is in it."""
        return self.path.with_suffix("")

    def artifact_path(self, name: str) -> Path:
        """Where to write an artifact; makes the folder. Raises UsageError, StoreFailed."""
        if not _NAME.fullmatch(name) or name in (".", ".."):
            raise UsageError(f"{name!r} is no name for an artifact: a plain file name is needed.")
        try:
            self.artifacts_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StoreFailed(
                f"{self.artifacts_folder} could not be made: {error.strerror}."
            ) from error
        return self.artifacts_folder / name

    def artifacts(self) -> list[Artifact]:
        """What this session and those before it made, the newest session's first."""
        return [
            Artifact(found.name, found, session)
            for session in (self.path, *self.lineage())
            for found in _files(session.with_suffix(""))
        ]

    def lineage(self) -> list[Path]:
        """Files of the sessions that this one continues, the nearest first."""
        found: list[Path] = []
        parent, near = self.parent, self.folder
        while parent and (path := _resolved(parent, near)) and path not in (self.path, *found):
            found.append(path)
            parent, near = _parent_of(path), path.parent
        return found


def _fresh(cwd: str, folder: Path, parent: str, id: str | None = None) -> tuple[Json, Path]:
    id, at = id or pi_format.new_id(), pi_format.now()
    return pi_format.header(id, cwd, at, parent), folder / pi_format.file_name(id, at)


def _untouched(path: Path, modified: float) -> ThreadHead:
    """The head of a session in which nobody has said anything yet."""
    header: Json = {}
    with suppress(ThreadUnreadable):
        header = records(path).header
    id, cwd = str(header.get("id", path.stem)), str(header.get("cwd", ""))
    return ThreadHead(HARNESS, id, str(path), cwd, "", "", modified, path.stat().st_size, 0)


def _files(folder: Path) -> Iterator[Path]:
    with suppress(OSError):
        yield from sorted(path for path in folder.rglob("*") if path.is_file())


def _resolved(parent: str, near: Path) -> Path | None:
    """The file of a parent that is named by its path, or, as omp does it, by its id."""
    path = Path(parent)
    if path.is_absolute():
        return path if path.is_file() else None
    if "/" in parent or not parent:
        return None
    paths = (file.path for file in sessions_in(near.parent, near.name))
    return next((p for p in paths if p.stem.endswith(f"_{parent}")), None)


def _parent_of(path: Path) -> str:
    try:
        return _parent(records(path).header)
    except ThreadUnreadable:
        return ""


def _parent(header: Json) -> str:
    return str(header.get("parentSession") or header.get("branchedFrom") or "")
