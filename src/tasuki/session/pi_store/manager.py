"""A session that tasuki itself keeps: an append-only tree of entries in a file in pi's format."""

import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from msgspec import Struct

from tasuki.errors import ThreadUnreadable
from tasuki.files import get_data_folder
from tasuki.harness.pi_v3 import format as pi_format
from tasuki.harness.pi_v3.head import PiHead, build_folder_name, list_session_files
from tasuki.model import ThreadHead
from tasuki.session.pi_store.messages import EntryTree, Json, build_context, convert_time
from tasuki.session.pi_store.session_file import LockedSessionFile, build_entry, read_records
from tasuki.threads.catalog import redact_head

HARNESS_NAME = "tasuki"
"""The harness name in the heads of these sessions."""


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


class SessionManager(Struct, eq=False):
    """One session: its entries in memory, and its file from the first `flush` on.

    Until then nothing is on the disk. Afterwards every entry is added by one write before it
    counts, so that memory and file never differ. Appending raises StoreFailed where the file
    cannot be written, is written by another process or was changed by one. One thread at a
    time.
    """

    header: Json
    _file: LockedSessionFile
    tree: EntryTree
    has_file: bool = False
    notes: list[str] = []
    """Sentences about what was odd in the file that was opened."""

    @classmethod
    def create(cls, cwd: str | Path, folder: Path | None = None, parent: str = "") -> Self:
        """Create a session of a working directory; `parent` is the file of the one before it."""
        cwd = os.path.abspath(cwd)
        id, created = pi_format.create_id(), pi_format.format_now()
        path = (folder or get_default_folder(cwd)) / pi_format.build_file_name(id, created)
        header = pi_format.build_header(id, cwd, created, parent)
        return cls(header, LockedSessionFile(path), EntryTree())

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open the session in a file, also one of pi or omp. Raises ThreadUnreadable."""
        records = read_records(path)
        file, tree = LockedSessionFile(path, records), EntryTree(records.entries)
        return cls(records.header, file, tree, has_file=True, notes=list(records.notes))

    # -- state -----------------------------------------------------------------------------

    @property
    def id(self) -> str:
        return str(self.header.get("id", ""))

    @property
    def cwd(self) -> str:
        return str(self.header.get("cwd", ""))

    @property
    def path(self) -> Path:
        """Its file, even before it exists."""
        return self._file.path

    @property
    def folder(self) -> Path:
        return self.path.parent

    def count_messages(self) -> int:
        """Count the messages of the branch."""
        return sum(entry["type"] == "message" for entry in self.tree.get_branch())

    def find_custom_data(self, custom_type: str) -> Any:
        """Find what was remembered last under a type; None where nothing was."""
        newest_first = reversed(self.tree.get_branch())
        entry = next((e for e in newest_first if e.get("customType") == custom_type), {})
        return entry.get("data")

    def build_session_context(self) -> list[Json]:
        """Build the messages that the model sees."""
        return build_context(self.tree.get_branch())

    # -- appending: each returns the id of the new entry -----------------------------------

    def append_message(self, message: Json) -> str:
        """Append a message in pi's form, with its `role`."""
        return self.append_entry("message", message={"timestamp": convert_time(), **message})

    def append_custom_message(
        self, custom_type: str, content: str, details: Json | None = None
    ) -> str:
        """Append a message from outside the conversation; the model gets it as one of the user."""
        fields = {} if details is None else {"details": details}
        return self.append_entry(
            "custom_message", customType=custom_type, content=content, display=True, **fields
        )

    def append_custom_entry(self, custom_type: str, data: Any) -> str:
        """Append something to remember; the model never sees it."""
        return self.append_entry("custom", customType=custom_type, data=data)

    def append_entry(self, kind: str, **fields: Any) -> str:
        """Append an entry of a kind to the leaf."""
        id = secrets.token_hex(4)
        while id in self.tree.by_id:
            id = secrets.token_hex(4)
        entry = build_entry(kind, id, self.tree.leaf, **fields)
        if self.has_file:
            self._file.append(entry)
        self.tree.add_entry(entry)
        return id

    # -- the disk --------------------------------------------------------------------------

    def flush(self) -> None:
        """Write everything safely to the disk. Raises StoreFailed.

        The first time the file is written, whole and at once, for the user alone.
        """
        if self.has_file:
            self._file.sync()
            return
        self._file.write_whole([self.header, *self.tree.entries])
        self.has_file = True

    def claim(self) -> None:
        """Make sure that this process may write the session. Raises StoreFailed."""
        if self.has_file:
            self._file.claim()

    def close(self) -> None:
        """Let other processes write the session."""
        self._file.close()

    # -- artifacts -------------------------------------------------------------------------

    def list_artifacts(self) -> list[Path]:
        """List the files that this session and those before it made, the newest session's first.

        They are in the folder next to a session's file, which has its name.
        """
        paths: list[Path] = []
        for session in (self.path, *self.find_lineage()):
            with suppress(OSError):
                paths += sorted(p for p in session.with_suffix("").rglob("*") if p.is_file())
        return paths

    def find_lineage(self) -> list[Path]:
        """Find the files of the sessions that this one continues, the nearest first."""
        files: list[Path] = []
        header = self.header
        with suppress(ThreadUnreadable):
            while parent := header.get("parentSession") or header.get("branchedFrom"):
                path = Path(str(parent))
                if not path.is_file() or path in (self.path, *files):
                    break
                files.append(path)
                header = read_records(path).header
        return files


def _build_empty_head(path: Path, modified: float) -> ThreadHead:
    """Build the head of a session without any message."""
    header: Json = {}
    with suppress(ThreadUnreadable):
        header = read_records(path).header
    id, cwd = str(header.get("id", path.stem)), str(header.get("cwd", ""))
    return ThreadHead(HARNESS_NAME, id, str(path), cwd, "", "", modified, path.stat().st_size, 0)
