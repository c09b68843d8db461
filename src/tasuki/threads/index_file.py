"""The file of the index of all threads: `<data>/index.db`, opened, or created anew; and the heads in it."""

import contextlib
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Self

import msgspec

from tasuki.errors import StoreFailed
from tasuki.files import describe_fault, find_fault, get_data_folder
from tasuki.harness.protocol import ThreadFile
from tasuki.model import ThreadHead
from tasuki.paths import normalize_path, resolve_links

APPLICATION = 0x7461_7375
"""Marks a database as ours: `tasu`."""
VERSION = 5
"""Version of the content; an index of another version is rebuilt. 5: titles of threads that begin with a handoff are its goal."""

_SCHEMA = f"""
CREATE TABLE thread (
  key INTEGER PRIMARY KEY, path TEXT UNIQUE, harness TEXT, id TEXT, cwd TEXT, name TEXT, said TEXT,
  modified REAL, bytes INTEGER, started TEXT, updated TEXT, entries INTEGER, problem TEXT,
  worked REAL, messages INTEGER);
CREATE TABLE head (path TEXT PRIMARY KEY, modified REAL, bytes INTEGER, head BLOB);
CREATE TABLE block (
  key INTEGER PRIMARY KEY, thread INTEGER, first INTEGER, last INTEGER, digest BLOB);
CREATE INDEX block_thread ON block (thread);
CREATE TABLE touched (thread INTEGER, path TEXT, PRIMARY KEY (thread, path)) WITHOUT ROWID;
CREATE VIRTUAL TABLE words USING fts5 (text, content='', tokenize='unicode61 remove_diacritics 2');
INSERT INTO words (words, rank) VALUES ('hashsize', 16777216);
INSERT INTO words (words, rank) VALUES ('automerge', 8);
PRAGMA user_version = {VERSION};
PRAGMA application_id = {APPLICATION};
"""  # noqa: S608


class IndexFile:
    """The index in one file, `<data>/index.db`; created when it is first opened.

    Use as a context manager.

    Raises StoreFailed where the file cannot be created or written. A file that is damaged, or
    of another version, is replaced by a new one.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or get_data_folder() / "index.db"
        self.rebuilt = ""
        """Why an existing index had to be deleted, empty if that was not necessary."""
        self._db = self._open()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._db.close()

    def _open(self) -> sqlite3.Connection:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not self.path.exists():
                os.close(os.open(self.path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        except OSError as error:
            folder = self.path.parent
            raise StoreFailed(
                describe_fault(folder, find_fault(folder) or error.strerror or "")
            ) from error
        try:
            return self._connect()
        except sqlite3.DatabaseError as error:
            if "locked" in str(error):
                raise self._handle_failure(error) from error
            self._delete_files(str(error))
        try:
            return self._connect()
        except sqlite3.DatabaseError as error:
            raise self._handle_failure(error) from error

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, timeout=10.0, isolation_level=None)
        try:
            # As `Query.build_filters` compares paths.
            db.create_function(
                "normalize", 1, lambda p: normalize_path(p).lower(), deterministic=True
            )
            db.create_function("resolve", 1, lambda p: resolve_links(p).lower())
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute("PRAGMA cache_size = -32000")
            (application,) = db.execute("PRAGMA application_id").fetchone()
            (version,) = db.execute("PRAGMA user_version").fetchone()
            (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if tables and application != APPLICATION:
                raise StoreFailed(
                    f"{self.path} is a database of another program; it was not changed. Name a "
                    "folder for tasuki's data: TASUKI_DATA=/some/folder"
                )
            if version == VERSION:
                db.execute("SELECT count(*) FROM (SELECT 1 FROM block LIMIT 1)")
                return db
            if tables:
                raise sqlite3.DatabaseError(f"it is of version {version}, not {VERSION}")
            with run_transaction(db):
                if not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                    for statement in _SCHEMA.split(";\n"):
                        db.execute(statement)
        except BaseException:
            db.close()
            raise
        return db

    def _delete_files(self, reason: str) -> None:
        self.rebuilt = reason
        try:
            for suffix in ("", "-wal", "-shm"):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(f"{self.path}{suffix}")
        except OSError as error:
            raise self._build_access_error(error) from error

    def _build_access_error(self, error: OSError) -> StoreFailed:
        return StoreFailed(
            f"The thread index {self.path} cannot be opened and replaced: {error.strerror}. It can be rebuilt: get "
            "the permission to write it and its folder, or name another folder: TASUKI_DATA=/some/folder"
        )

    def _handle_failure(self, error: sqlite3.Error) -> StoreFailed:
        if "locked" in str(error):
            return StoreFailed(f"The thread index {self.path} is in use. Try again.")
        if "malformed" in str(error) or "not a database" in str(error):
            self._delete_files(str(error))
            return StoreFailed(
                f"The thread index {self.path} was damaged ({error}) and was deleted. Try "
                "again: it will be rebuilt."
            )
        return StoreFailed(
            f"The thread index {self.path} cannot be used: {error}. It can be rebuilt: make room, "
            "or delete it, and try again."
        )


@contextlib.contextmanager
def run_transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Write what is done in the block, or nothing of it."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


_HEAD = msgspec.msgpack.Decoder(ThreadHead)


class HeadStore(IndexFile):
    """The heads in the index, without secrets. A failure to read or write it is none of theirs."""

    def __init__(self) -> None:
        super().__init__()
        self._db.execute("PRAGMA busy_timeout = 100")  # Nobody waits for what is only faster.

    def find_heads(
        self, files: Sequence[ThreadFile]
    ) -> tuple[dict[str, ThreadHead], dict[str, int]]:
        """Find the heads of the files that did not change since, and how many messages the index counted."""
        state = {str(file.path): (file.modified, file.bytes) for file in files}
        heads = {
            path: _HEAD.decode(data)
            for path, modified, size, data in self._db.execute("SELECT * FROM head")
            if state.get(path) == (modified, size)
        }
        query = "SELECT path, modified, bytes, messages FROM thread WHERE messages NOT NULL"
        counts = {
            path: messages
            for path, modified, size, messages in self._db.execute(query)
            if state.get(path) == (modified, size)
        }
        return heads, counts

    def put_heads(
        self, heads: Iterable[tuple[ThreadFile, ThreadHead]], paths: Iterable[str]
    ) -> None:
        """Add the heads of files, and forget those of other files than `paths`."""
        rows = [
            (str(file.path), file.modified, file.bytes, msgspec.msgpack.encode(head))
            for file, head in heads
        ]
        present = set(paths)
        with run_transaction(self._db):
            old = [
                row for row in self._db.execute("SELECT path FROM head") if row[0] not in present
            ]
            self._db.executemany("DELETE FROM head WHERE path = ?", old)
            self._db.executemany("INSERT OR REPLACE INTO head VALUES (?, ?, ?, ?)", rows)


FAILURES = (sqlite3.Error, msgspec.MsgspecError, ValueError)
