"""The heads of all threads: read from their files, those that did not change from the index."""

import sqlite3
from collections.abc import Iterable, Sequence

import msgspec

from tasuki.harness.protocol import ThreadFile
from tasuki.model import ThreadHead
from tasuki.threads.index_file import IndexFile, run_transaction

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
