"""Copilot's tool calls: what they ask for, what their results show, and the todo list in SQL."""

import sqlite3
from collections.abc import Iterator

from tasuki.harness.reading.answers import OfferedOption, OfferedQuestion, format_answers
from tasuki.harness.tool_table import tools
from tasuki.harness.tool_table.results import WordedResult
from tasuki.model import Todo
from tasuki.patterns import compile_pattern

_ENDED = compile_pattern(
    r"\n?<(?:shellId: (\S+) )?(?:completed|exited) with exit code (-?\d{1,9})>\s*\Z"
)
_IN_BACKGROUND = compile_pattern(
    r"<command started in (?:\w+ )?background[^<>\n]*shellId: ([^\s<>]+)>"
)
_ANSWERED = compile_pattern(r"\AUser (responded|selected|answered|entered|provided)[^:\n]*:\s*")


def parse_shell_result(text: str) -> WordedResult:
    """Parse output without the lines that Copilot adds, and what those lines show."""
    if match := _ENDED.search(text, max(len(text) - 120, 0)):
        return WordedResult(int(match[2]), text[: match.start()], ended=match[1] or "")
    if match := _IN_BACKGROUND.search(text):
        return WordedResult(None, text, match[1])
    return WordedResult(None, text)


def extract_answer(question: str, text: str) -> str:
    """Return what the user answered to a question, empty if they gave no answer."""
    match = _ANSWERED.match(text)
    if match is None:
        return ""
    answer = text[match.end() :].strip()
    offered: list[OfferedOption | str] = [answer] if match[1] == "selected" else []
    return format_answers([OfferedQuestion(question, offered)], [answer])


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
