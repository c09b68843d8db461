"""A database with the rows of one session alone, which reads as the whole one does."""

from contextlib import closing
from typing import TYPE_CHECKING

from tasuki.errors import ThreadUnreadable

if TYPE_CHECKING:
    from sqlite3 import Connection

_ROWS_OF_SESSION = {
    "session": "id = ?1 OR parent_id = ?1",
    "message": "session_id = ?1",
    "part": "session_id = ?1",
    "event": (
        "aggregate_id = ?1 AND type IN"
        " ('message.removed.1', 'message.updated.1', 'message.part.updated.1') AND EXISTS"
        " (SELECT 1 FROM event WHERE aggregate_id = ?1 AND type = 'message.removed.1')"
    ),
}
"""The tables that hold a session; of the log of events what is needed where some are deleted."""
_ROWS = 500


class _DatabaseText(bytes):
    """A text of a database, whether it is UTF-8 or not."""


def extract_session(db: "Connection", id: str) -> bytes:
    """Copy the rows of a session, and those that name its sub-agents, to a database of their own.

    Returns the database file. Raises ThreadUnreadable if there is no such session.
    """
    import sqlite3

    db.text_factory = _DatabaseText
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as own:
        own.execute("BEGIN")
        for table, condition in _ROWS_OF_SESSION.items():
            info = db.execute(f"PRAGMA table_info({table})").fetchall()
            columns = [str(row[1], "utf-8") for row in info]
            if table != "event" or {"aggregate_id", "type"} <= set(columns):
                _copy_rows(db, own, table, columns, condition, id)
        own.execute("COMMIT")
        if own.execute("SELECT 1 FROM session WHERE id = ?", (id,)).fetchone() is None:
            raise ThreadUnreadable(f"The database holds no thread {id}.")
        return own.serialize()


def _copy_rows(
    db: "Connection", own: "Connection", table: str, columns: list[str], condition: str, id: str
) -> None:
    names = ", ".join('"' + column.replace('"', '""') + '"' for column in columns)
    own.execute(f"CREATE TABLE {table} ({names})")
    cursor = db.execute(f"SELECT {names} FROM {table} WHERE {condition} ORDER BY rowid", (id,))
    while rows := cursor.fetchmany(_ROWS):
        for row in rows:
            marks = ("CAST(? AS TEXT)" if isinstance(v, _DatabaseText) else "?" for v in row)
            own.execute(f"INSERT INTO {table} VALUES ({', '.join(marks)})", row)
