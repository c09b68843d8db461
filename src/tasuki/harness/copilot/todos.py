"""The todo list of a Copilot session, which its agent keeps in a table and changes by SQL.

The session's own database is not read: it holds the last state alone, and another process
writes to it. The statements are run on a table in memory instead, where nothing else is
allowed.
"""

import sqlite3
from collections.abc import Iterator

from tasuki.harness.reading import tools
from tasuki.model import Todo

MAX_QUERY = 100_000
MAX_STATEMENTS = 300
MAX_STEPS = 200
"""Thousands of virtual machine instructions that one statement may take."""
MAX_PAGES = 512
"""Pages of 4 KiB that the table may fill."""
MAX_TODOS = 500
MAX_TEXT = 1000
_TABLES = ("todos", "todo_deps")
_SCHEMA = """
CREATE TABLE todos (
    id TEXT PRIMARY KEY, title TEXT, description TEXT, status TEXT DEFAULT 'pending',
    created_at TEXT, updated_at TEXT
);
CREATE TABLE todo_deps (todo_id TEXT, depends_on TEXT);
"""
_FUNCTIONS = frozenset({
    "datetime", "date", "time", "strftime", "current_timestamp", "coalesce", "ifnull", "lower",
    "upper", "trim", "like", "count", "max", "min", "replace",
})  # fmt: skip
_CHANGES = (sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE)


def is_todo_change(query: str) -> bool:
    """Tell whether a statement changes the todo list."""
    words = query.lower()
    return "todos" in words and any(w in words for w in ("insert", "update", "delete", "replace"))


class CopilotTodoTable:
    """The table `todos` after the statements so far."""

    def __init__(self) -> None:
        self._connection = sqlite3.connect(":memory:", isolation_level=None)
        self._connection.executescript(f"PRAGMA max_page_count = {MAX_PAGES}; {_SCHEMA}")
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1_000_000)
        self._connection.set_authorizer(_check_action)
        self._steps = 0
        self._connection.set_progress_handler(self._count_step, 1000)

    def run_statements(self, query: str) -> None:
        """Run the statements of one call; what is not about todos is skipped."""
        for statement in _split_statements(query[:MAX_QUERY]):
            self._steps = 0
            try:
                self._connection.execute(statement).fetchall()
            except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError):
                continue

    def list_todos(self) -> tuple[Todo, ...]:
        """Return all items, in the order they were added."""
        self._steps = 0
        wanted = "SELECT title, status FROM todos ORDER BY rowid LIMIT ?"
        try:
            rows = self._connection.execute(wanted, (MAX_TODOS,)).fetchall()
        except sqlite3.Error:
            return ()
        return tools.build_todos(
            (str(text or "")[:MAX_TEXT], str(state or "")) for text, state in rows
        )

    def _count_step(self) -> int:
        self._steps += 1
        return int(self._steps > MAX_STEPS)


def _check_action(action: int, first: str | None, second: str | None, *_: object) -> int:
    if action == sqlite3.SQLITE_SELECT:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_READ or action in _CHANGES:
        return sqlite3.SQLITE_OK if first in _TABLES else sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_FUNCTION:
        return sqlite3.SQLITE_OK if (second or "").lower() in _FUNCTIONS else sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_DENY


def _split_statements(query: str) -> Iterator[str]:
    statement = ""
    query = query.replace("\0", " ").encode("utf-8", "replace").decode()
    for part in query.split(";", MAX_STATEMENTS):
        statement += part + ";"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip("; \n"):
        yield statement
