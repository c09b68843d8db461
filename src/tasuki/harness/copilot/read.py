"""Read session files of Copilot CLI 1.0: its events, and the todo list that it keeps in SQL."""

import re
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec.structs import force_setattr as put

from tasuki.harness.copilot import format as record
from tasuki.harness.reading.answers import OfferedOption, OfferedQuestion, format_answers
from tasuki.harness.reading.jsonl import (
    UNDECODABLE,
    ThreadLines,
    choose_keep_limit,
    decode_nested,
)
from tasuki.harness.reading.speakers import Evidence
from tasuki.harness.reading.threads import NoticeKind, ThreadReader
from tasuki.harness.tool_table.calls import CallLog
from tasuki.harness.tool_table.results import WordedResult
from tasuki.harness.tool_table.tools import build_todos, build_tool_call, read_input
from tasuki.model import Thread, Todo, ToolStatus
from tasuki.patterns import compile_pattern

FAMILIES = frozenset(
    "hook model mcp mcp_app sampling elicitation command commands capabilities external_tool "
    "user_input human_response auto_mode_switch exit_plan_mode pending_messages tool_search factory "
    "permission session_limits_exhausted ui system".split()
)
"""First parts of event types that do not concern the conversation."""
SKIPPED = frozenset(
    "assistant.turn_start assistant.turn_end assistant.intent assistant.reasoning assistant.usage "
    "assistant.idle assistant.message_start assistant.message_delta assistant.reasoning_delta "
    "assistant.streaming_delta assistant.tool_call_delta assistant.server_tool_progress "
    "session.shutdown session.compaction_start session.mode_changed session.mode_notice_delivered "
    "session.permissions_changed session.plan_changed session.todos_changed "
    "session.workspace_file_changed session.usage_info session.usage_checkpoint session.idle "
    "session.task_complete session.remote_steerable_changed session.background_tasks_changed "
    "session.skills_loaded session.tools_updated session.custom_agents_updated "
    "session.mcp_servers_loaded session.mcp_server_status_changed session.extensions_loaded "
    "session.binary_asset session.session_limits_changed session.schedule_created "
    "session.schedule_cancelled session.schedule_rearmed session.auto_mode_resolved "
    "session.autopilot_objective_changed session.completion_receipt session.custom_notification "
    "skill.context_delivered_ref subagent.configured subagent.selected subagent.deselected "
    "tool.execution_partial_result tool.execution_progress".split()
)
STATEMENTS: dict[str, NoticeKind] = {
    "session.warning": "note", "session.truncation": "note", "session.handoff": "context",
    "session.error": "error",
}  # fmt: skip
KEPT_WORDS = 20_000
"""Characters of the user's messages that Copilot repeats beside a summary; it omits some of more
than about 24,000."""
_RETRIED = compile_pattern(r"\AFailed to get response .*? Last error: (?:\d{3} )?", re.DOTALL)
_FORKED = compile_pattern(r"\AForked from .*\(([0-9a-fA-F-]{8,})\) as ", re.DOTALL)
_ENDED = compile_pattern(
    r"\n?<(?:shellId: (\S+) )?(?:completed|exited) with exit code (-?\d{1,9})>\s*\Z"
)
_IN_BACKGROUND = compile_pattern(
    r"<command started in (?:\w+ )?background[^<>\n]*shellId: ([^\s<>]+)>"
)
_ANSWERED = compile_pattern(r"\AUser (responded|selected|answered|entered|provided)[^:\n]*:\s*")


class CopilotReader(ThreadReader):
    """One pass over one session file."""

    harness = "copilot"

    def __init__(self, path: Path) -> None:
        super().__init__(ThreadLines(path), CallLog(choose_keep_limit(path)))
        self.start: record.CopilotData | None = None
        self.place = record.CopilotContext()
        self.events: dict[str, int] = {}
        """The number of entries before each event, by the event's id."""
        self.refused: dict[str, str] = {}
        """What the user said when they refused a call."""
        self.todos = CopilotTodoTable()
        self.type = ""
        self.handlers: dict[str, Callable[[record.CopilotData], None]] = {
            "user.message": self._on_user,
            "assistant.message": self._on_assistant,
            "tool.execution_start": self._on_tool_start,
            "tool.execution_complete": self._on_tool_complete,
            "tool.user_requested": self._on_user_command,
            "permission.completed": self._on_permission,
            "abort": self._on_abort,
            "skill.invoked": self._on_skill,
            "system.notification": self._on_notification,
            "session.start": self._on_start,
            "session.resume": self._on_resume,
            "session.context_changed": self._on_context_changed,
            "session.model_change": self._on_model_change,
            "session.usage_record": self._on_usage,
            "session.compaction_complete": self._on_compaction,
            "session.context_cleared": self._on_cleared,
            "session.snapshot_rewind": self._on_rewind,
            "session.title_changed": self._on_title,
            "session.info": self._on_info,
            **dict.fromkeys(STATEMENTS, self._on_statement),
            "subagent.started": self._on_agent_started,
            "subagent.completed": self._on_agent_ended,
            "subagent.failed": self._on_agent_ended,
        }

    def read(self) -> Thread:
        decode, lines = self.lines.decode, self.lines
        for offset, raw in lines:
            if (line := decode(record.LINE, raw)) is not None:
                self.offset = offset
                self._take_event(line)
        return self._build_thread()

    def _take_event(self, line: record.CopilotEvent) -> None:
        self.type = kind = line.type
        self.id, self.at = line.id, line.timestamp
        self.updated = line.timestamp or self.updated
        if line.id and line.id in self.events:
            return  # It was written twice.
        if line.id:
            self.events[line.id] = len(self.entries)
        if (handler := self.handlers.get(kind)) is None:
            if kind not in SKIPPED and kind.partition(".")[0] not in FAMILIES:
                self.lines.count_unknown(kind, has_words=kind.endswith("message"))
            return
        if line.agentId and not kind.startswith("subagent."):
            return  # A sub-agent's own words are in the same file.
        try:
            handler(decode_nested(record.DATA, line.data))
        except UNDECODABLE as exc:
            self.lines.note_broken(exc)

    # -- the session -------------------------------------------------------------------

    def _on_start(self, data: record.CopilotData) -> None:
        if self.start is None:
            self.start, self.place = data, data.place
            self.model = data.selectedModel or ""
            self.thinking = data.reasoningEffort or ""

    def _on_resume(self, data: record.CopilotData) -> None:
        self._settle_open_calls("unknown")
        self.model = data.selectedModel or self.model
        self._update_place(data.place)

    def _on_context_changed(self, data: record.CopilotData) -> None:
        self._update_place(record.CopilotContext(data.cwd, data.branch, data.headCommit))

    def _update_place(self, place: record.CopilotContext) -> None:
        old = self.place
        branch, commit = place.branch or old.branch, place.headCommit or old.headCommit
        self.place = record.CopilotContext(old.cwd or place.cwd, branch, commit)

    def _on_model_change(self, data: record.CopilotData) -> None:
        self.model = data.newModel or self.model
        self.thinking = data.reasoningEffort or self.thinking

    def _on_usage(self, data: record.CopilotData) -> None:
        usage = data.usage
        if usage and usage.inputTokens > 0:
            self.context_tokens = usage.inputTokens + usage.outputTokens
            self.context_window = usage.maxPromptTokens or self.context_window

    def _on_title(self, data: record.CopilotData) -> None:
        self.name = data.title or self.name

    def _on_statement(self, data: record.CopilotData) -> None:
        text, kind = data.message or data.summary or self.type, STATEMENTS[self.type]
        self.add_notice(kind, text)
        if kind == "error":
            cause, code = _RETRIED.sub("", text), data.errorType or ""
            self.failure.note_error(cause, self.at, len(self.entries), code=code)

    def _on_info(self, data: record.CopilotData) -> None:
        if match := _FORKED.match(data.message or ""):
            self.parent = match[1]

    def _on_skill(self, data: record.CopilotData) -> None:
        if name := data.name:
            self.log.skills.append(name)

    # -- what was said -----------------------------------------------------------------

    def _on_user(self, data: record.CopilotData) -> None:
        self._settle_open_calls("unknown")
        text = (data.content or "").strip()
        if not text:
            return  # Autopilot continues automatically with an empty message.
        evidence: Evidence = "program" if data.is_by_program else ""
        queued = data.delivery in ("queued", "steering")
        origin, text = self.lines.gate.judge(text, evidence, queued=queued)
        self.add_entry("user", text, origin)

    def _on_assistant(self, data: record.CopilotData) -> None:
        self._settle_open_calls("unknown")
        self.model = data.model or self.model
        if data.content and data.content.strip():
            self.add_entry("assistant", data.content)
        for request in data.toolRequests or ():
            if request.toolCallId not in self.log.calls:
                self.add_call(request.toolCallId, request.name, read_input(request.arguments))

    def _on_compaction(self, data: record.CopilotData) -> None:
        if data.success:
            self.add_entry("compaction", (data.summaryContent or "").strip(), "harness")
        else:
            error = data.error if isinstance(data.error, str) else ""
            self.add_notice("error", error or "The compaction failed.")

    def _on_cleared(self, data: record.CopilotData) -> None:
        self.add_entry("compaction", data.initialMessage or "", "harness")

    def _on_abort(self, data: record.CopilotData) -> None:
        self._settle_open_calls("aborted")
        self.add_notice("interrupted", "")

    def _on_rewind(self, data: record.CopilotData) -> None:
        first = self.events.get(data.upToEventId or "", len(self.entries))
        self.left.update(range(first, len(self.entries)))

    # -- tools -------------------------------------------------------------------------

    def _on_tool_start(self, data: record.CopilotData) -> None:
        if data.call_id not in self.log.calls:
            self.add_call(data.call_id, data.toolName, read_input(data.arguments))

    def _on_user_command(self, data: record.CopilotData) -> None:
        call = build_tool_call(data.call_id, "!", read_input(data.arguments), kind="shell")
        entry = self.add_entry("tool", origin="command", tool=call)
        self.log.calls[call.id], self.log.open[call.id] = entry, call

    def _on_permission(self, data: record.CopilotData) -> None:
        result = data.result or record.CopilotResult()
        if data.call_id and result.kind.startswith("denied"):
            self.refused[data.call_id] = result.feedback or ""

    def _on_tool_complete(self, data: record.CopilotData) -> None:
        entry = self.log.calls.get(data.call_id)
        if entry is None or entry.tool is None:
            self.lines.count_unknown("tool.execution_complete without a call")
            return
        call = entry.tool
        error = None if data.success or isinstance(data.error, str) else data.error
        shown = error.message if error else data.result.content if data.result else ""
        output = shown or ""
        status: ToolStatus = "ok" if data.success else "error"
        if error and (error.code in ("denied", "rejected") or data.call_id in self.refused):
            status = "refused"
        code = None
        if call.kind in ("shell", "background"):
            code, output, session, ended = parse_shell_result(output)
            if data.shellExecution and data.shellExecution.exitCode is not None:
                code = data.shellExecution.exitCode
            self.log.background.record_end(ended, code=code)
            if session and call.command:
                status = self.log.start_job(call, session)
            elif call.kind == "shell" and status == "ok" and code != 0:
                status = "error" if code else "unknown"
        self.log.finish(call, output, status, code)
        if call.name == "sql" and data.success and is_todo_change(call.detail):
            self.todos.run_statements(call.detail)
            put(call, "kind", "todo")
            put(call, "todos", self.todos.list_todos())
        asked = call.id in self.log.questions and data.success
        if asked and (words := extract_answer(call.detail, output)):
            self.add_entry("user", words, "answer")
        if status == "refused" and (words := self.refused.pop(data.call_id, "").strip()):
            self.add_entry("user", words, "answer")

    def _settle_open_calls(self, status: ToolStatus) -> None:
        """Settle open calls when the conversation goes on: they will never get a result."""
        refused = [call for id, call in self.log.open.items() if id in self.refused]
        self.log.settle(status)
        for call in refused:
            put(call, "status", "refused")

    def _on_agent_started(self, data: record.CopilotData) -> None:
        self.log.reported.add(data.call_id)
        label = data.agentDescription or data.agentDisplayName or ""
        ref = entry.ref if (entry := self.log.calls.get(data.call_id)) else len(self.entries)
        self.log.background.record_start(data.call_id, "agent", label, ref)

    def _on_agent_ended(self, data: record.CopilotData) -> None:
        failed = self.type == "subagent.failed" or data.cancelled
        self.log.background.record_end(data.call_id, failed=failed)

    def _on_notification(self, data: record.CopilotData) -> None:
        ended = data.kind
        if not isinstance(ended, record.CopilotExecution):
            return
        if ended.type in ("shell_completed", "shell_detached_completed") and ended.shellId:
            self.log.background.record_end(ended.shellId, code=ended.exitCode)

    # -- the whole ---------------------------------------------------------------------

    def _build_thread(self) -> Thread:
        start = self.start
        if start is None or not start.sessionId:
            raise self.lines.build_error("start of a Copilot session", "Copilot session")
        fields = record.read_workspace(self.path.parent)
        words = next((" ".join(e.text.split()) for e in self.entries if e.kind == "user"), "")
        return self.build_thread(
            start.sessionId,
            keeps_words=KEPT_WORDS,
            cwd=fields.get("cwd") or self.place.cwd,
            git_branch=fields.get("branch") or self.place.branch or "",
            git_head=self.place.headCommit or "",
            version=start.copilotVersion,
            name=record.choose_name(fields, words) or self.name,
            started=start.startTime,
        )


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


# -- the todo list ---------------------------------------------------------------------

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
        return build_todos((str(text or "")[:MAX_TEXT], str(state or "")) for text, state in rows)

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
