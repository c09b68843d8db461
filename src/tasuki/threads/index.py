"""The index of all threads: full text in SQLite, kept in step by size and time of each file.

The text itself is not kept (FTS5, contentless): a hit is a range of entries, and its lines are read
again from the thread. A contentless table of SQLite 3.40 cannot delete, so entries are indexed in
blocks that are only ever added; a block that is no longer true loses its row in `block`, and the
index is built anew once more of it is dead than alive. It may be deleted at any time.
"""

import contextlib
import fcntl
import os
import re
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from msgspec import Struct

from tasuki import harness as harnesses
from tasuki.data_folder import data_folder, find_fault, tell_fault
from tasuki.draft.redact import redact
from tasuki.errors import StoreFailed, TasukiError
from tasuki.harness.protocol import Harness, ThreadFile
from tasuki.model import Thread
from tasuki.threads.blocks import Block, blocks, first_words, touched
from tasuki.threads.catalog import read_whole
from tasuki.threads.query import Query

APPLICATION = 0x7461_7375
"""Says that a database is ours: `tasu`."""
VERSION = 2
"""Of the tables; an index of another version is built anew."""
MAX_PASSES = 8
"""So often the threads that one pass did not reach, for long ones filled it, are looked for."""
BUSY_SECONDS = 15.0
"""How long to wait for another process that is building the index."""
ENOUGH = 3
"""Threads that must match before a search stops asking for less."""
DEAD = 5_000
"""Dead blocks that are never worth building the index anew."""
COMMIT_SECONDS = 3.0
CANDIDATES = 500
"""Blocks that a search ranks: the newest that match. Ranking every block of a word that stands in
half of them takes 8 µs a block."""

_SCHEMA = f"""
CREATE TABLE thread (
  key INTEGER PRIMARY KEY, path TEXT UNIQUE, harness TEXT, id TEXT, cwd TEXT, name TEXT, said TEXT,
  modified REAL, bytes INTEGER, started TEXT, updated TEXT, entries INTEGER, problem TEXT);
CREATE TABLE block (
  key INTEGER PRIMARY KEY, thread INTEGER, first INTEGER, last INTEGER, digest BLOB);
CREATE INDEX block_thread ON block (thread);
CREATE TABLE touched (thread INTEGER, path TEXT, PRIMARY KEY (thread, path)) WITHOUT ROWID;
CREATE VIRTUAL TABLE words USING fts5 (text, content='', tokenize='unicode61 remove_diacritics 2');
INSERT INTO words (words, rank) VALUES ('hashsize', 16777216);
INSERT INTO words (words, rank) VALUES ('automerge', 8);
PRAGMA user_version = {VERSION};
PRAGMA application_id = {APPLICATION};
"""


_PLAIN_ID = re.compile(r"[0-9A-Za-z][\w.:-]{3,}")


class Indexed(Struct, frozen=True, gc=False):
    """What the index knows of a thread. `modified` is in seconds since the epoch."""

    harness: str
    id: str
    path: str
    cwd: str
    name: str
    first_words: str
    modified: float
    bytes: int
    updated: str
    entries: int


class Hit(Struct, frozen=True):
    """A thread that matches: its score, higher is better, and the ranges of entries that do."""

    thread: Indexed
    score: float
    ranges: tuple[tuple[int, int], ...]


class Updated(Struct):
    """What an update did. `problems` are sentences about threads that cannot be read."""

    threads: int = 0
    gone: int = 0
    busy: bool = False
    """Another process is building the index: what it has so far was left as it is."""
    problems: list[str] = []


def default_path() -> Path:
    """Where the index lies: `<data>/index.db`."""
    return data_folder() / "index.db"


class Index:
    """The index in one file; made when it is first opened. Use as a context manager.

    Raises StoreFailed where the file cannot be made or written. A file that is damaged, or of
    another version, is replaced by a new one.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or default_path()
        self.rebuilt = ""
        """Why the index that was there had to be thrown away, empty if it had not."""
        self._db = self._opened()

    def __enter__(self) -> "Index":
        return self

    def __exit__(self, *error: object) -> None:
        self._db.close()

    # -- opening -----------------------------------------------------------------------

    def _opened(self) -> sqlite3.Connection:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not self.path.exists():
                os.close(os.open(self.path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        except OSError as error:
            folder = self.path.parent
            raise StoreFailed(
                tell_fault(folder, find_fault(folder) or error.strerror or "")
            ) from error
        try:
            return self._connected()
        except sqlite3.DatabaseError as error:
            if "locked" in str(error):
                raise self._failed(error) from error
            self._throw_away(str(error))
        try:
            return self._connected()
        except sqlite3.DatabaseError as error:
            raise self._failed(error) from error

    def _connected(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, timeout=10.0, isolation_level=None)
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute("PRAGMA cache_size = -32000")
            (ours,) = db.execute("PRAGMA application_id").fetchone()
            (version,) = db.execute("PRAGMA user_version").fetchone()
            (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if tables and ours != APPLICATION:
                raise StoreFailed(
                    f"{self.path} is a database of another program; it was not touched. Name a "
                    "folder for tasuki's data: TASUKI_DATA=/some/folder"
                )
            if version == VERSION:
                db.execute("SELECT count(*) FROM (SELECT 1 FROM block LIMIT 1)")
                return db
            if tables:
                raise sqlite3.DatabaseError(f"it is of version {version}, not {VERSION}")
            with _transaction(db):
                if not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                    for statement in _SCHEMA.split(";\n"):
                        db.execute(statement)
        except BaseException:
            db.close()
            raise
        return db

    def _throw_away(self, reason: str) -> None:
        self.rebuilt = reason
        try:
            for suffix in ("", "-wal", "-shm"):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(f"{self.path}{suffix}")
        except OSError as error:
            raise self._closed(error) from error

    def _closed(self, error: OSError) -> StoreFailed:
        return StoreFailed(
            f"The thread index {self.path} cannot be opened and replaced: {error.strerror}. It holds nothing of its "
            "own: give yourself the right to write it and its folder, or name another folder: TASUKI_DATA=/some/folder"
        )

    def _failed(self, error: sqlite3.Error) -> StoreFailed:
        if "locked" in str(error):
            return StoreFailed(f"The thread index {self.path} is in use. Try again.")
        if "malformed" in str(error) or "not a database" in str(error):
            self._throw_away(str(error))
            return StoreFailed(
                f"The thread index {self.path} was damaged ({error}) and was thrown away; it holds "
                "nothing of its own. Try again: it is built anew."
            )
        return StoreFailed(
            f"The thread index {self.path} cannot be used: {error}. It holds nothing of its own: "
            "make room, or delete it, and try again."
        )

    # -- updating ----------------------------------------------------------------------

    def stale(
        self, files: Iterable[tuple[Harness, ThreadFile]]
    ) -> list[tuple[Harness, ThreadFile]]:
        """Those of some thread files that are new, or have changed since they were indexed."""
        known = {
            path: (modified, size)
            for path, modified, size in self._db.execute("SELECT path, modified, bytes FROM thread")
        }
        return [(h, f) for h, f in files if known.get(str(f.path)) != (f.modified, f.bytes)]

    def update(
        self,
        files: Sequence[tuple[Harness, ThreadFile]],
        report: Callable[[int], None] = lambda size: None,
    ) -> Updated:
        """Bring the index in step with the threads on disk, which `files` are all of.

        `report` is called with the bytes of each thread file that is done. Threads are taken one
        by one: what was done stays if the process is killed.
        """
        files, odd = _named(files)
        done = Updated(problems=odd)
        try:
            with self._alone() as alone:
                if alone:
                    self._update(files, done, report)
                done.busy = not alone
        except sqlite3.Error as error:
            raise self._failed(error) from error
        return done

    @contextlib.contextmanager
    def _alone(self) -> Iterator[bool]:
        """Whether this process alone may write to the index."""
        try:
            file = os.open(f"{self.path}.lock", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._closed(error) from error
        with os.fdopen(file, "w") as lock:
            deadline = time.monotonic() + BUSY_SECONDS
            while not _locked(lock.fileno()):
                if time.monotonic() > deadline:
                    yield False
                    return
                time.sleep(0.05)
            yield True

    def _update(
        self,
        files: Sequence[tuple[Harness, ThreadFile]],
        done: Updated,
        report: Callable[[int], None],
    ) -> None:
        done.gone = self._forget({str(file.path) for _, file in files})
        if self._mostly_dead():
            with _transaction(self._db):
                for table in ("thread", "block", "touched"):
                    self._db.execute(f"DELETE FROM {table}")
                self._db.execute("INSERT INTO words (words) VALUES ('delete-all')")
        waiting = sorted(self.stale(files), key=lambda pair: pair[1].modified)
        committed = time.monotonic()
        self._db.execute("BEGIN IMMEDIATE")
        try:
            for file, harness, thread in _read_ahead(waiting):
                self._put(file, harness, thread, done)
                done.threads += 1
                report(file.bytes)
                if time.monotonic() - committed > COMMIT_SECONDS:
                    self._db.execute("COMMIT")
                    self._db.execute("BEGIN IMMEDIATE")
                    committed = time.monotonic()
            self._db.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
            raise

    def _forget(self, present: set[str]) -> int:
        """Take out threads whose file is gone."""
        known = self._db.execute("SELECT path, key FROM thread").fetchall()
        gone = [(key,) for path, key in known if path not in present]
        with _transaction(self._db):
            for table, column in (("block", "thread"), ("touched", "thread"), ("thread", "key")):
                self._db.executemany(f"DELETE FROM {table} WHERE {column} = ?", gone)
        return len(gone)

    def _mostly_dead(self) -> bool:
        (alive,) = self._db.execute("SELECT count(*) FROM block").fetchone()
        (made,) = self._db.execute("SELECT coalesce(max(id), 0) FROM words_docsize").fetchone()
        return bool(made > 2 * alive + DEAD)

    def _put(
        self, file: ThreadFile, harness: str, thread: Thread | TasukiError, done: Updated
    ) -> None:
        path = str(file.path)
        self._db.execute("INSERT OR IGNORE INTO thread (path) VALUES (?)", (path,))
        (key,) = self._db.execute("SELECT key FROM thread WHERE path = ?", (path,)).fetchone()
        if isinstance(thread, TasukiError):
            done.problems.append(str(thread))
            known: tuple[Any, ...] = (harness, "", "", "", "", "", "", 0, str(thread))
            parts: Iterable[Block] = ()
            files: set[str] = set()
        else:
            known = (
                harness, thread.id, thread.cwd, redact(thread.name)[0], first_words(thread), thread.started,
                thread.updated, len(thread.entries), "",
            )  # fmt: skip
            parts, files = blocks(thread.entries), touched(thread)
        self._db.execute(
            "UPDATE thread SET harness=?, id=?, cwd=?, name=?, said=?, started=?, updated=?,"
            " entries=?, problem=?, modified=?, bytes=? WHERE key=?",
            (*known, file.modified, file.bytes, key),
        )
        self._put_blocks(key, parts)
        self._db.execute("DELETE FROM touched WHERE thread = ?", (key,))
        self._db.executemany("INSERT INTO touched VALUES (?, ?)", [(key, p) for p in files])

    def _put_blocks(self, key: int, parts: Iterable[Block]) -> None:
        """Add the blocks that are new; the ones that are as they were stay."""
        old = deque(
            self._db.execute(
                "SELECT key, digest FROM block WHERE thread = ? ORDER BY key", (key,)
            ).fetchall()
        )
        for block in parts:
            if old and old[0][1] == block.digest:
                old.popleft()
                continue
            self._db.executemany("DELETE FROM block WHERE key = ?", [(k,) for k, _ in old])
            old.clear()
            row = self._db.execute("INSERT INTO words (text) VALUES (?)", (block.text,)).lastrowid
            self._db.execute(
                "INSERT INTO block VALUES (?, ?, ?, ?, ?)",
                (row, key, block.first, block.last, block.digest),
            )
        self._db.executemany("DELETE FROM block WHERE key = ?", [(k,) for k, _ in old])

    # -- searching ---------------------------------------------------------------------

    def search(self, query: Query, limit: int = 10) -> list[Hit]:
        """The threads that match best; without words, the newest that the filters leave."""
        try:
            where, values = _filters(query)
            if not query.words:
                if unwanted := query.unwanted():
                    where += (
                        " AND t.key NOT IN (SELECT b.thread FROM words JOIN block b"
                        " ON b.key = words.rowid WHERE words MATCH ?)"
                    )
                    values = (*values, unwanted)
                rows = self._db.execute(
                    f"{_SELECT} WHERE t.id != '' {where} ORDER BY t.modified DESC LIMIT ?",
                    (*values, limit),
                )
                return [Hit(Indexed(*row), 0.0, ()) for row in rows]
            found: dict[str, Hit] = {}
            among = self._among(where, values)
            if among == "[]":
                return []
            for expression in query.expressions():
                for hit in self._ranked(expression, among, limit):
                    found.setdefault(hit.thread.path, hit)
                if len(found) >= min(limit, ENOUGH):
                    break
            return list(found.values())[:limit]
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def _among(self, where: str, values: tuple[Any, ...]) -> str:
        """Keys of the threads that the filters leave, as a JSON list; empty without filters."""
        if not where:
            return ""
        keys = self._db.execute(f"SELECT t.key FROM thread t WHERE true {where}", values)
        return f"[{','.join(str(key) for (key,) in keys)}]"

    def _ranked(self, expression: str, among: str, limit: int) -> list[Hit]:
        by_thread: dict[int, list[tuple[float, int, int]]] = {}
        for _ in range(MAX_PASSES):
            rows = self._blocks(expression, among, list(by_thread))
            for key, first, last, score in sorted(rows, key=lambda row: -row[3]):
                by_thread.setdefault(key, []).append((score, first, last))
            if len(rows) < CANDIDATES or len(by_thread) >= limit:
                break
        now = time.time()
        hits = []
        for key, ranges in by_thread.items():
            row = self._db.execute(f"{_SELECT} WHERE t.key = ?", (key,)).fetchone()
            if row is None:  # forgotten by another process meanwhile
                continue
            thread = Indexed(*row)
            age = max(now - thread.modified, 0.0) / 86_400
            weight = 1.0 + 0.3 / (1.0 + age / 30) + 0.1 * min(len(ranges), 5)
            hits.append(Hit(thread, ranges[0][0] * weight, tuple((a, b) for _, a, b in ranges)))
        return sorted(hits, key=lambda hit: -hit.score)

    def label(self, thread: Indexed) -> str:
        """What `tasuki read` opens it by: the beginning of its id that no other thread shares, of
        8 characters or more, else its path."""
        id = thread.id
        if not _PLAIN_ID.fullmatch(id) or id in harnesses.names():
            return thread.path
        for length in (8, 13, 18, 23):
            (count,) = self._db.execute(
                "SELECT count(*) FROM thread WHERE substr(id, 1, ?) = ?",
                (length, id[:length]),
            ).fetchone()
            if count <= 1 and not id[:length].endswith(("-", "_")):
                return id[:length]
        (count,) = self._db.execute("SELECT count(*) FROM thread WHERE id = ?", (id,)).fetchone()
        return id if count <= 1 else thread.path

    def _blocks(
        self, expression: str, among: str, but: list[int]
    ) -> list[tuple[int, int, int, float]]:
        """The newest blocks that match, of other threads than `but`."""
        chosen = "AND b.thread IN (SELECT value FROM json_each(?))" if among else ""
        others = "AND b.thread NOT IN (SELECT value FROM json_each(?))" if but else ""
        values = [expression, *([among] if among else []), *([str(but)] if but else [])]
        return self._db.execute(
            "SELECT b.thread, b.first, b.last, -bm25(words) FROM words"
            f" CROSS JOIN block b ON b.key = words.rowid WHERE words MATCH ? {chosen} {others}"
            f" ORDER BY words.rowid DESC LIMIT {CANDIDATES}",
            values,
        ).fetchall()

    def size(self) -> tuple[int, int, int]:
        """Threads, blocks, and bytes of the threads that are indexed."""
        threads, read = self._db.execute(
            "SELECT count(*), coalesce(sum(bytes), 0) FROM thread"
        ).fetchone()
        (blocks,) = self._db.execute("SELECT count(*) FROM block").fetchone()
        return threads, blocks, read


_SELECT = (
    "SELECT t.harness, t.id, t.path, t.cwd, t.name, t.said, t.modified, t.bytes, t.updated,"
    " t.entries FROM thread t"
)


def _filters(query: Query) -> tuple[str, tuple[Any, ...]]:
    parts: list[str] = []
    values: list[Any] = []
    if query.harness:
        parts.append("t.harness = ?")
        values.append(query.harness)
    if query.after:
        parts.append("t.modified >= ?")
        values.append(query.after)
    if query.before:
        parts.append("t.modified < ?")
        values.append(query.before)
    if query.repo:
        name = query.repo.rstrip("/")
        parts.append("('/' || t.cwd || '/') GLOB ?")
        values.append(f"*/{_glob(name.lstrip('/'))}/*")
    for path in query.files:
        wanted = path.replace("[", "[[]") if "*" in path else _glob(path)
        tail = f"*/{wanted.removeprefix('./').lstrip('/')}"
        parts.append(
            "EXISTS (SELECT 1 FROM touched WHERE thread = t.key"
            " AND (('/' || path) GLOB ? OR (t.cwd || '/' || path) GLOB ?))"
        )
        values += [tail, wanted if wanted.startswith("/") else tail]
    return "".join(f" AND {part}" for part in parts), tuple(values)


def _glob(text: str) -> str:
    return re.sub(r"([*?\[])", r"[\1]", text)


@contextlib.contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def _locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _named(
    files: Sequence[tuple[Harness, ThreadFile]],
) -> tuple[list[tuple[Harness, ThreadFile]], list[str]]:
    """The files whose names are text, and sentences about the others."""
    good, odd = [], []
    for harness, file in files:
        path = str(file.path)
        if path == path.encode("utf-8", "replace").decode():
            good.append((harness, file))
        else:
            shown = path.encode("utf-8", "backslashreplace").decode()
            odd.append(f"The name of {shown} is not UTF-8; it cannot be searched.")
    return good, odd


def _read_ahead(
    files: Sequence[tuple[Harness, ThreadFile]],
) -> Iterator[tuple[ThreadFile, str, Thread | TasukiError]]:
    """The threads of some files; the next is read while the caller works on one."""
    with ThreadPoolExecutor(1) as pool:
        waiting: deque[tuple[ThreadFile, str, Future[Thread | TasukiError]]] = deque()
        try:
            for harness, file in files:
                waiting.append((file, harness.name, pool.submit(_read, harness, file)))
                if len(waiting) > 1:
                    known, name, future = waiting.popleft()
                    yield known, name, future.result()
            while waiting:
                known, name, future = waiting.popleft()
                yield known, name, future.result()
        finally:
            for _, _, future in waiting:
                future.cancel()


def _read(harness: Harness, file: ThreadFile) -> Thread | TasukiError:
    try:
        return read_whole(harness, file.path)
    except TasukiError as error:
        return error
