"""Copilot's tool calls: what they ask for, what their results show, and the todo list in SQL."""

import re
import sqlite3
from collections.abc import Iterator

import msgspec
from msgspec import Raw, Struct

from tasuki.harness.reading import tools
from tasuki.harness.reading.answers import OfferedOption, OfferedQuestion, format_answers
from tasuki.harness.reading.jsonl import UNDECODABLE, decode_nested
from tasuki.model import FileChange, Todo, ToolCall, ToolKind
from tasuki.patterns import compile_pattern
from tasuki.text_safety import cut_text

KINDS: dict[str, ToolKind] = {
    "powershell": "shell", "local_shell": "shell", "read_bash": "shell", "write_bash": "shell",
    "stop_bash": "shell", "read_powershell": "shell", "write_powershell": "shell",
    "stop_powershell": "shell", "update_todo": "todo", "str_replace_editor": "edit",
    "read_agent": "agent", "write_agent": "agent",
}  # fmt: skip
_ENDED = compile_pattern(
    r"\n?<(?:shellId: (\S+) )?(?:completed|exited) with exit code (-?\d{1,9})>\s*\Z"
)
_IN_BACKGROUND = compile_pattern(
    r"<command started in (?:\w+ )?background[^<>\n]*shellId: ([^\s<>]+)>"
)
_ANSWERED = compile_pattern(r"\AUser (responded|selected|answered|entered|provided)[^:\n]*:\s*")
_BOX = compile_pattern(r"^\s*[-*]\s*\[([ xX~/-])\]\s*(.+)$", re.MULTILINE)
_BOX_STATES = {" ": "pending", "x": "done", "~": "in_progress", "/": "in_progress"}


class _CopilotEdit(Struct, gc=False):
    old_str: str | None = ""
    new_str: str | None = ""


class CopilotArguments(Struct, gc=False):
    """Arguments of any tool."""

    command: str = ""
    path: str = ""
    file_text: str | None = ""
    old_str: str | None = ""
    new_str: str | None = ""
    edits: list[_CopilotEdit] = []
    paths: str | list[str] | None = None
    pattern: str = ""
    query: str = ""
    input: str | None = ""
    patch: str | None = ""
    url: str = ""
    description: str = ""
    prompt: str = ""
    question: str = ""
    message: str = ""
    skill: str = ""
    todos: str | None = ""
    summary: str = ""
    shellId: str = ""
    agent_id: str = ""


class CopilotShellResult(Struct, gc=False):
    """What the result of a command shows besides its output."""

    output: str
    exit_code: int | None = None
    background: str = ""
    """Id of the shell in which the command goes on."""
    ended: str = ""
    """Id of the shell that ended."""


_ARGUMENTS = msgspec.json.Decoder(CopilotArguments)
_TEXT = msgspec.json.Decoder(str)


def find_kind(name: str) -> ToolKind:
    """Return what a tool of this name does."""
    return KINDS.get(name.lower()) or tools.find_kind(name)


def parse_arguments(raw: Raw) -> CopilotArguments:
    """Parse the arguments of a call.

    A text alone is a patch; arguments of wrong types count as none.
    """
    try:
        return decode_nested(_ARGUMENTS, raw)
    except UNDECODABLE:
        try:
            return CopilotArguments(query=decode_nested(_TEXT, raw))
        except UNDECODABLE:
            return CopilotArguments()


def build_tool_call(id: str, name: str, raw: Raw) -> ToolCall:
    """Build what a call asks for, before its result is known."""
    arguments = parse_arguments(raw)
    kind = find_kind(name)
    if name == "str_replace_editor":
        kind = {"view": "read", "create": "write"}.get(arguments.command, "edit")  # type: ignore[assignment]
    changes = _build_changes(kind, name, arguments)
    return ToolCall(
        id,
        name,
        kind,
        arguments.command if kind == "shell" else "",
        _find_detail(kind, arguments, raw),
        (arguments.path,) if arguments.path else _list_paths(arguments, changes),
        changes,
        _parse_check_list(arguments.todos) if kind == "todo" else None,
        status="running",
    )


def parse_shell_result(text: str) -> CopilotShellResult:
    """Parse output without the lines that Copilot adds, and what those lines show."""
    if match := _ENDED.search(text, max(len(text) - 120, 0)):
        return CopilotShellResult(text[: match.start()], int(match[2]), ended=match[1] or "")
    if match := _IN_BACKGROUND.search(text):
        return CopilotShellResult(text, background=match[1])
    return CopilotShellResult(text)


def extract_answer(question: str, text: str) -> str:
    """Return what the user answered to a question, empty if they gave no answer."""
    match = _ANSWERED.match(text)
    if match is None:
        return ""
    answer = text[match.end() :].strip()
    offered: list[OfferedOption | str] = [answer] if match[1] == "selected" else []
    return format_answers([OfferedQuestion(question, offered)], [answer])


def _build_changes(
    kind: ToolKind, name: str, arguments: CopilotArguments
) -> tuple[FileChange, ...]:
    if kind == "write" and arguments.path:
        return (FileChange(path=arguments.path, kind="create", new=arguments.file_text or ""),)
    if kind != "edit":
        return ()
    if name == "apply_patch":
        return tools.parse_patch(arguments.input or arguments.patch or arguments.query)
    edits = arguments.edits or [_CopilotEdit(arguments.old_str, arguments.new_str)]
    return tuple(
        FileChange(path=arguments.path, kind="edit", old=e.old_str or "", new=e.new_str or "")
        for e in edits
        if arguments.path
    )


def _list_paths(arguments: CopilotArguments, changes: tuple[FileChange, ...]) -> tuple[str, ...]:
    if isinstance(arguments.paths, str):
        return (arguments.paths,)
    return tuple(dict.fromkeys(arguments.paths or (c.path for c in changes)))


def _find_detail(kind: ToolKind, arguments: CopilotArguments, raw: Raw) -> str:
    if kind == "agent":
        return arguments.description or arguments.prompt or arguments.agent_id
    if kind == "skill":
        return arguments.skill
    detail = (
        arguments.pattern
        or arguments.url
        or arguments.question
        or arguments.message
        or arguments.query
    )
    if detail or kind in ("shell", "edit", "write", "read", "todo"):
        return arguments.shellId if kind == "shell" else detail
    return arguments.summary or cut_text(bytes(raw).decode("utf-8", "replace"), 300)


def _parse_check_list(text: str | None) -> tuple[Todo, ...] | None:
    """Parse todos of a Markdown check list, the form that Copilot had before 1.0."""
    boxes = _BOX.findall(text or "")
    return (
        tools.build_todos((t, _BOX_STATES.get(box.lower(), "dropped")) for box, t in boxes) or None
    )


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
