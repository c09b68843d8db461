"""The index of all threads: full text in SQLite, kept current by size and time of each file.

The text itself is not kept (FTS5, contentless): a hit is a range of entries, and its lines
are read again from the thread. A contentless table of SQLite 3.40 cannot delete, so entries
are indexed in blocks that are only ever added. An outdated block loses its row in `block`,
and the index is rebuilt once more of it is dead than alive. It may be deleted at any time.
"""

import contextlib
import errno
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile

from tasuki.draft.redact.answers import find_given_secrets
from tasuki.draft.redact.redactor import Redactor
from tasuki.errors import TasukiError
from tasuki.files import await_lock
from tasuki.harness import registry as harnesses
from tasuki.harness.protocol import Harness, ThreadFile
from tasuki.harness.reading.heads import parse_time
from tasuki.model import Thread
from tasuki.patterns import compile_pattern
from tasuki.text_safety import shorten_to_line
from tasuki.threads import blocks
from tasuki.threads.blocks import IndexBlock, IndexedThread, IndexHit, IndexUpdate
from tasuki.threads.catalog import is_text
from tasuki.threads.index_file import IndexFile, run_transaction
from tasuki.threads.query import Query

MAX_PASSES = 8
"""How often to search for threads that a pass missed because long ones filled it."""
BUSY_SECONDS = 15.0
"""How long to wait for another process that builds the index."""
ENOUGH = 3
"""Threads that must match before a search stops trying weaker expressions."""
FEW = 4
"""Threads that an update read and a search may show without reading them again."""
DEAD = 5_000
"""Dead blocks that are never a reason to rebuild the index."""
COMMIT_SECONDS = 3.0
CANDIDATES = 500
"""Blocks that a search ranks: the newest that match.

Ranking every block of a word that is in half of them takes 8 µs a block.
"""

_PLAIN_ID = compile_pattern(r"[0-9A-Za-z][\w.:-]{3,}")


class ThreadIndex(IndexFile):
    """The full text of all threads; also see `IndexFile`."""

    just_read: Mapping[str, Thread] = {}
    """Threads that the last update read, by their paths, where they were few."""

    # -- updating ----------------------------------------------------------------------

    def find_stale(
        self, files: Iterable[tuple[Harness, ThreadFile]]
    ) -> list[tuple[Harness, ThreadFile]]:
        """Find the thread files that are new, or have changed since they were indexed."""
        indexed = {
            path: (modified, size)
            for path, modified, size in self._db.execute("SELECT path, modified, bytes FROM thread")
        }
        return [(h, f) for h, f in files if indexed.get(str(f.path)) != (f.modified, f.bytes)]

    def update_threads(
        self,
        files: Sequence[tuple[Harness, ThreadFile]],
        report: Callable[[int], None] = lambda size: None,
    ) -> IndexUpdate:
        """Update the index to the threads on disk; `files` are all of them.

        `report` is called with the bytes of each thread file that is done. Threads are indexed one
        by one: finished work is kept if the process is killed.
        """
        result = IndexUpdate()
        for _, file in files:
            if not is_text(file.path):
                displayed = str(file.path).encode("utf-8", "backslashreplace").decode()
                result.problems.append(
                    f"The name of {displayed} is not UTF-8; it cannot be searched."
                )
        files = [pair for pair in files if is_text(pair[1].path)]
        try:
            with self._hold_lock() as alone:
                if alone:
                    self._update(files, result, report)
                result.busy = not alone
        except sqlite3.Error as error:
            raise self._handle_failure(error) from error
        return result

    @contextlib.contextmanager
    def _hold_lock(self) -> Iterator[bool]:
        """Yield whether this process alone may write to the index."""
        try:
            file = os.open(f"{self.path}.lock", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._build_access_error(error) from error
        try:
            try:
                is_alone = await_lock(file, BUSY_SECONDS)
            except OSError as error:
                # Without locks each program writes: the database guards itself.
                if error.errno != errno.ENOLCK:
                    raise
                is_alone = True
            yield is_alone
        finally:
            os.close(file)

    def _update(
        self,
        files: Sequence[tuple[Harness, ThreadFile]],
        result: IndexUpdate,
        report: Callable[[int], None],
    ) -> None:
        result.gone = self._forget_missing({str(file.path) for _, file in files})
        (alive,) = self._db.execute("SELECT count(*) FROM block").fetchone()
        (total,) = self._db.execute("SELECT coalesce(max(id), 0) FROM words_docsize").fetchone()
        if total > 2 * alive + DEAD:
            with run_transaction(self._db):
                for table in ("thread", "block", "touched"):
                    self._db.execute(f"DELETE FROM {table}")
                self._db.execute("INSERT INTO words (words) VALUES ('delete-all')")
        waiting = sorted(self.find_stale(files), key=lambda pair: pair[1].modified)
        self.just_read = just_read = dict[str, Thread]()
        committed = time.monotonic()
        self._db.execute("BEGIN IMMEDIATE")
        try:
            for file, harness, thread in blocks.read_ahead_threads(waiting):
                self._put_thread(file, harness, thread, result)
                if isinstance(thread, Thread) and len(waiting) <= FEW:
                    just_read[str(file.path)] = thread
                result.threads += 1
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

    def _forget_missing(self, present: set[str]) -> int:
        rows = self._db.execute("SELECT path, key FROM thread").fetchall()
        missing = [(key,) for path, key in rows if path not in present]
        with run_transaction(self._db):
            for table, column in (("block", "thread"), ("touched", "thread"), ("thread", "key")):
                self._db.executemany(f"DELETE FROM {table} WHERE {column} = ?", missing)
        return len(missing)

    def _put_thread(
        self, file: ThreadFile, harness: str, thread: Thread | TasukiError, result: IndexUpdate
    ) -> None:
        path, redactor = str(file.path), Redactor()
        self._db.execute("INSERT OR IGNORE INTO thread (path) VALUES (?)", (path,))
        (key,) = self._db.execute("SELECT key FROM thread WHERE path = ?", (path,)).fetchone()
        if isinstance(thread, TasukiError):
            result.problems.append(str(thread))
            texts: tuple[str, ...] = ("", "", "", "", "", "")
            problem, count, files = str(thread), 0, set[str]()
            worked, messages = file.modified, None
            self._put_blocks(key, [], "", redactor)
        else:
            said = blocks.extract_first_words(thread)
            redactor.learn_values(find_given_secrets(thread.entries))
            texts = (thread.id, thread.cwd, thread.name, said, thread.started, thread.updated)
            problem, count, files = "", len(thread.entries), blocks.list_touched_paths(thread)
            worked = parse_time(thread.updated) or file.modified
            messages = sum(e.kind in ("user", "assistant") for e in thread.entries)
            self._put_blocks(key, list(blocks.split_blocks(thread.readable)), said, redactor)
        shown = [*map(redactor.redact, texts), count, redactor.redact(problem)]
        shown[3] = shorten_to_line(str(shown[3]), blocks.FIRST_WORDS)
        self._db.execute(
            "UPDATE thread SET harness=?, id=?, cwd=?, name=?, said=?, started=?, updated=?,"
            " entries=?, problem=?, modified=?, bytes=?, worked=?, messages=? WHERE key=?",
            (harness, *shown, file.modified, file.bytes, worked, messages, key),
        )
        self._db.execute("DELETE FROM touched WHERE thread = ?", (key,))
        touched = {(key, redactor.redact(path).lower()) for path in files}
        self._db.executemany("INSERT INTO touched VALUES (?, ?)", touched)

    def _put_blocks(
        self, key: int, present: list[IndexBlock], said: str, redactor: Redactor
    ) -> None:
        """Add the blocks that are new, without secrets; unchanged ones are kept."""
        old = self._db.execute(
            "SELECT key, digest FROM block WHERE thread = ? ORDER BY key", (key,)
        ).fetchall()
        pairs = zip(old, present, strict=False)
        same = len(list(takewhile(lambda pair: pair[0][1] == pair[1].digest, pairs)))
        self._db.executemany("DELETE FROM block WHERE key = ?", [(k,) for k, _ in old[same:]])
        new = present[same:]
        blocks.learn_blocks(
            present[:same], "\n".join([said, *(block.text for block in new)]), redactor
        )
        for block, text in zip(new, blocks.clean_blocks(new, redactor), strict=True):
            row = self._db.execute("INSERT INTO words (text) VALUES (?)", (text,)).lastrowid
            self._db.execute(
                "INSERT INTO block VALUES (?, ?, ?, ?, ?)",
                (row, key, block.first, block.last, block.digest),
            )

    # -- searching ---------------------------------------------------------------------

    def search_index(self, query: Query, limit: int = 10) -> list[IndexHit]:
        """Find the threads that match best; without words, the newest that pass the filters."""
        try:
            where, values = query.build_filters()
            if not query.words:
                if unwanted := query.build_exclusion():
                    where += (
                        " AND t.key NOT IN (SELECT b.thread FROM words JOIN block b"
                        " ON b.key = words.rowid WHERE words MATCH ?)"
                    )
                    values = (*values, unwanted)
                rows = self._db.execute(
                    f"{_SELECT} WHERE t.id != '' {where} ORDER BY t.worked DESC LIMIT ?",
                    (*values, limit),
                )
                return [IndexHit(IndexedThread(*row), 0.0, ()) for row in rows]
            hits: dict[str, IndexHit] = {}
            candidate_keys = ""  # of threads that pass the filters; empty without filters
            if where:
                keys = self._db.execute(f"SELECT t.key FROM thread t WHERE true {where}", values)
                candidate_keys = f"[{','.join(str(key) for (key,) in keys)}]"
            if candidate_keys == "[]":
                return []
            for expression in query.build_expressions():
                for hit in self._rank_threads(expression, candidate_keys, limit):
                    hits.setdefault(hit.thread.path, hit)
                if len(hits) >= min(limit, ENOUGH):
                    break
            return list(hits.values())[:limit]
        except sqlite3.Error as error:
            raise self._handle_failure(error) from error

    def _rank_threads(self, expression: str, candidate_keys: str, limit: int) -> list[IndexHit]:
        by_thread: dict[int, list[tuple[float, int, int]]] = {}
        for _ in range(MAX_PASSES):
            rows = self._find_blocks(expression, candidate_keys, list(by_thread))
            for key, first, last, score in sorted(rows, key=lambda row: -row[3]):
                by_thread.setdefault(key, []).append((score, first, last))
            if len(rows) < CANDIDATES or len(by_thread) >= limit:
                break
        now = time.time()
        hits = []
        for key, ranges in by_thread.items():
            row = self._db.execute(f"{_SELECT} WHERE t.key = ?", (key,)).fetchone()
            if row is None:  # It was removed by another process in the meantime.
                continue
            thread = IndexedThread(*row)
            age = max(now - thread.modified, 0.0) / 86_400
            weight = 1.0 + 0.3 / (1.0 + age / 30) + 0.1 * min(len(ranges), 5)
            hits.append(
                IndexHit(thread, ranges[0][0] * weight, tuple((a, b) for _, a, b in ranges))
            )
        return sorted(hits, key=lambda hit: -hit.score)

    def build_label(self, thread: IndexedThread) -> str:
        """Build the name by which `tasuki read` opens a thread.

        It is the beginning of its id that no other thread shares, of 8 characters or more, else its
        path.
        """
        id = thread.id
        if not _PLAIN_ID.fullmatch(id) or id in harnesses.list_names():
            return thread.path
        for length in (8, 13, 18, 23):
            (count,) = self._db.execute(
                "SELECT count(*) FROM thread WHERE substr(id, 1, ?) = ?", (length, id[:length])
            ).fetchone()
            if count <= 1 and not id[:length].endswith(("-", "_")):
                return id[:length]
        (count,) = self._db.execute("SELECT count(*) FROM thread WHERE id = ?", (id,)).fetchone()
        return id if count <= 1 else thread.path

    def _find_blocks(
        self, expression: str, candidate_keys: str, excluded: list[int]
    ) -> list[tuple[int, int, int, float]]:
        """Find the newest blocks that match, of other threads than `excluded`."""
        chosen = "AND b.thread IN (SELECT value FROM json_each(?))" if candidate_keys else ""
        others = "AND b.thread NOT IN (SELECT value FROM json_each(?))" if excluded else ""
        values = [
            expression,
            *([candidate_keys] if candidate_keys else []),
            *([str(excluded)] if excluded else []),
        ]
        return self._db.execute(
            "SELECT b.thread, b.first, b.last, -bm25(words) FROM words"
            f" CROSS JOIN block b ON b.key = words.rowid WHERE words MATCH ? {chosen} {others}"
            f" ORDER BY words.rowid DESC LIMIT {CANDIDATES}",
            values,
        ).fetchall()


_SELECT = (
    "SELECT t.harness, t.id, t.path, t.cwd, t.name, t.said, t.worked, t.bytes, t.updated,"
    " t.entries FROM thread t"
)
