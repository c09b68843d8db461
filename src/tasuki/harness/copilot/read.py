"""Reading session files of Copilot CLI 1.0."""

import re
from collections.abc import Callable
from pathlib import Path

from msgspec import Raw
from msgspec.structs import force_setattr as put
from msgspec.structs import replace

from tasuki.errors import ThreadUnreadable
from tasuki.harness import tools
from tasuki.harness.copilot.calls import answer, shell_result, tool_call
from tasuki.harness.copilot.format import (
    LINE,
    Agent,
    AssistantMessage,
    Compaction,
    Context,
    Line,
    ModelChange,
    Notification,
    Permission,
    Start,
    Told,
    ToolComplete,
    ToolStart,
    UsageRecord,
    UserMessage,
    data_of,
    workspace,
)
from tasuki.harness.copilot.todos import TodoTable, concerns_todos
from tasuki.harness.jsonl import (
    UNDECODABLE,
    Lines,
    begins_handoff,
    clip,
    keep_limit,
    mark_compacted,
)
from tasuki.model import Entry, EntryKind, Notice, Origin, Thread, ToolCall, ToolStatus

FAMILIES = frozenset({
    "hook", "model", "mcp", "mcp_app", "sampling", "elicitation", "command", "commands",
    "capabilities", "external_tool", "user_input", "human_response", "auto_mode_switch",
    "exit_plan_mode", "pending_messages", "tool_search", "factory", "permission",
    "session_limits_exhausted", "ui", "system",
})  # fmt: skip
"""First parts of event types that say nothing about the conversation."""
SKIPPED = frozenset({
    "assistant.turn_start", "assistant.turn_end", "assistant.intent", "assistant.reasoning",
    "assistant.usage", "assistant.idle", "assistant.message_start", "assistant.message_delta",
    "assistant.reasoning_delta", "assistant.streaming_delta", "assistant.tool_call_delta",
    "assistant.server_tool_progress", "session.shutdown", "session.compaction_start",
    "session.mode_changed", "session.mode_notice_delivered", "session.permissions_changed",
    "session.plan_changed", "session.todos_changed", "session.workspace_file_changed",
    "session.usage_info", "session.usage_checkpoint", "session.idle", "session.task_complete",
    "session.remote_steerable_changed", "session.background_tasks_changed",
    "session.skills_loaded", "session.tools_updated", "session.custom_agents_updated",
    "session.mcp_servers_loaded", "session.mcp_server_status_changed",
    "session.extensions_loaded", "session.binary_asset", "session.session_limits_changed",
    "session.schedule_created", "session.schedule_cancelled", "session.schedule_rearmed",
    "session.auto_mode_resolved", "session.autopilot_objective_changed",
    "session.completion_receipt", "session.custom_notification",
    "skill.context_delivered_ref", "subagent.configured", "subagent.selected",
    "subagent.deselected", "tool.execution_partial_result", "tool.execution_progress",
})  # fmt: skip
_FORKED = re.compile(r"\AForked from .*\(([0-9a-fA-F-]{8,})\) as ", re.DOTALL)


class Reader:
    """One pass over one session file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = Lines(path)
        self.keep = keep_limit(path)
        self.start: Start | None = None
        self.place = Context()
        self.entries: list[Entry] = []
        self.events: dict[str, int] = {}
        """How many entries there were before each event, by its id."""
        self.left: set[int] = set()
        """Entries that a rewind took out, by index."""
        self.calls: dict[str, Entry] = {}
        self.open: dict[str, Entry] = {}
        """Calls that have no result yet."""
        self.refused: dict[str, str] = {}
        """What the user said when they refused a call."""
        self.agents: set[str] = set()
        """Calls whose sub-agents have events of their own."""
        self.notices: list[Notice] = []
        self.background = tools.BackgroundLog()
        self.todos = TodoTable()
        self.skills: list[str] = []
        self.tool_names: dict[str, None] = {}
        self.name = self.model = self.thinking = self.updated = self.parent = ""
        self.context_tokens: int | None = None
        self.context_window: int | None = None
        self.line = Line()
        self.offset = 0
        self.handlers: dict[str, Callable[[Line], None]] = {
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
            "session.warning": lambda line: self._on_told(line, "note"),
            "session.truncation": lambda line: self._on_told(line, "note"),
            "session.handoff": lambda line: self._on_told(line, "context"),
            "session.error": lambda line: self._on_told(line, "error"),
            "subagent.started": self._on_agent_started,
            "subagent.completed": self._on_agent_ended,
            "subagent.failed": self._on_agent_ended,
        }

    def read(self) -> Thread:
        decode, lines = self.lines.decode, self.lines
        for offset, raw in lines:
            if (line := decode(LINE, raw)) is not None:
                self.offset = offset
                self._take(line)
        return self._thread()

    def _take(self, line: Line) -> None:
        self.line = line
        kind = line.type
        self.updated = line.timestamp or self.updated
        if line.id:
            self.events[line.id] = len(self.entries)
        if (handler := self.handlers.get(kind)) is None:
            if kind not in SKIPPED and kind.partition(".")[0] not in FAMILIES:
                self.lines.unknown[kind or "(no type)"] += 1
            return
        if line.agentId and not kind.startswith("subagent."):
            return  # A sub-agent's own words stand in the same file.
        try:
            handler(line)
        except UNDECODABLE as exc:
            self.lines.note_broken(exc)

    def _entry(
        self,
        kind: EntryKind,
        text: str = "",
        origin: Origin = "typed",
        tool: ToolCall | None = None,
    ) -> Entry:
        line = self.line
        entry = Entry(
            len(self.entries) + 1, kind, text, line.timestamp, line.id, origin, tool, False, 0, 0,
            self.offset,
        )  # fmt: skip
        self.entries.append(entry)
        return entry

    def _notice(self, kind: str, text: str) -> None:
        self.notices.append(Notice(after=len(self.entries), kind=kind, text=text[:300]))  # type: ignore[arg-type]

    # -- the session -------------------------------------------------------------------

    def _on_start(self, line: Line) -> None:
        if self.start is None:
            self.start = start = data_of(line, Start)
            self.model = start.selectedModel or ""
            self.thinking = start.reasoningEffort or ""
            self.place = start.context

    def _on_resume(self, line: Line) -> None:
        self._settle("unknown")
        resumed = data_of(line, Start)
        self.model = resumed.selectedModel or self.model
        self._moved(resumed.context)

    def _on_context_changed(self, line: Line) -> None:
        self._moved(data_of(line, Context))

    def _moved(self, place: Context) -> None:
        known = self.place
        branch, commit = place.branch or known.branch, place.headCommit or known.headCommit
        self.place = Context(known.cwd or place.cwd, branch, commit)

    def _on_model_change(self, line: Line) -> None:
        change = data_of(line, ModelChange)
        self.model = change.newModel or self.model
        self.thinking = change.reasoningEffort or self.thinking

    def _on_usage(self, line: Line) -> None:
        usage = data_of(line, UsageRecord).usage
        if usage.inputTokens > 0:
            self.context_tokens = usage.inputTokens + usage.outputTokens
            self.context_window = usage.maxPromptTokens or self.context_window

    def _on_title(self, line: Line) -> None:
        self.name = data_of(line, Told).title or self.name

    def _on_told(self, line: Line, kind: str) -> None:
        told = data_of(line, Told)
        self._notice(kind, told.message or told.summary or line.type)

    def _on_info(self, line: Line) -> None:
        told = data_of(line, Told)
        if match := _FORKED.match(told.message or ""):
            self.parent = match[1]

    def _on_skill(self, line: Line) -> None:
        if name := data_of(line, Told).name:
            self.skills.append(name)

    # -- what was said -----------------------------------------------------------------

    def _on_user(self, line: Line) -> None:
        self._settle("unknown")
        message = data_of(line, UserMessage)
        text = message.content.strip()
        if not text:
            return  # Autopilot goes on by itself with an empty message.
        origin: Origin = "typed"
        if begins_handoff(text):
            origin = "handoff"
        elif message.source and message.source != "user":
            origin = "harness"
        elif message.delivery in ("queued", "steering"):
            origin = "queued"
        self._entry("user", text, origin)

    def _on_assistant(self, line: Line) -> None:
        self._settle("unknown")
        message = data_of(line, AssistantMessage)
        self.model = message.model or self.model
        if message.content and message.content.strip():
            self._entry("assistant", message.content)
        for request in message.toolRequests or ():
            if request.toolCallId not in self.calls:
                self._call(request.toolCallId, request.name, request.arguments)

    def _on_compaction(self, line: Line) -> None:
        done = data_of(line, Compaction)
        if done.success:
            self._entry("compaction", (done.summaryContent or "").strip(), "harness")
        else:
            self._notice("error", done.error or "The compaction failed.")

    def _on_cleared(self, line: Line) -> None:
        self._entry("compaction", data_of(line, Told).initialMessage or "", "harness")

    def _on_abort(self, line: Line) -> None:
        self._settle("aborted")
        self._notice("interrupted", "")

    def _on_rewind(self, line: Line) -> None:
        first = self.events.get(data_of(line, Told).upToEventId or "", len(self.entries))
        self.left.update(range(first, len(self.entries)))

    # -- tools -------------------------------------------------------------------------

    def _call(self, id: str, name: str, arguments: Raw) -> None:
        call = tool_call(id, name, arguments)
        self.tool_names[call.name] = None
        entry = self._entry("tool", tool=call)
        self.calls[id] = self.open[id] = entry
        if name == "task":
            self.background.started(id, "agent", call.detail, entry.ref)

    def _on_tool_start(self, line: Line) -> None:
        start = data_of(line, ToolStart)
        if start.toolCallId not in self.calls:
            self._call(start.toolCallId, start.toolName, start.arguments)

    def _on_user_command(self, line: Line) -> None:
        start = data_of(line, ToolStart)
        call = replace(tool_call(start.toolCallId, "bash", start.arguments), name="!")
        entry = self._entry("tool", origin="command", tool=call)
        self.calls[call.id] = self.open[call.id] = entry

    def _on_permission(self, line: Line) -> None:
        decided = data_of(line, Permission)
        if decided.toolCallId and decided.result.kind.startswith("denied"):
            self.refused[decided.toolCallId] = decided.result.feedback or ""

    def _on_tool_complete(self, line: Line) -> None:
        done = data_of(line, ToolComplete)
        entry = self.calls.get(done.toolCallId)
        if entry is None or entry.tool is None:
            self.lines.unknown["tool.execution_complete without a call"] += 1
            return
        self.open.pop(done.toolCallId, None)
        call = entry.tool
        told = done.error if done.error and not done.success else None
        output = (told.message if told else done.result.content if done.result else "") or ""
        status: ToolStatus = "ok" if done.success else "error"
        if told and (told.code in ("denied", "rejected") or done.toolCallId in self.refused):
            status = "refused"
        if call.kind == "shell":
            output, status = self._shell(entry, call, done, output, status)
        size = len(output)
        put(call, "output", output if size <= self.keep else clip(output, self.keep))
        put(call, "output_size", size)
        put(call, "status", status)
        self._effects(call, done.success, output)
        if status == "refused" and (words := self.refused.pop(done.toolCallId, "").strip()):
            self._entry("user", words, "answer")

    def _shell(
        self, entry: Entry, call: ToolCall, done: ToolComplete, text: str, status: ToolStatus
    ) -> tuple[str, ToolStatus]:
        told = shell_result(text)
        code = done.shellExecution.exitCode if done.shellExecution else None
        code = told.exit_code if code is None else code
        put(call, "exit_code", code)
        if told.ended:
            self.background.ended(told.ended, failed=bool(code))
        if told.background and call.command:
            put(call, "background", told.background)
            self.background.started(told.background, "command", call.command, entry.ref)
            return told.output, "running"
        return told.output, "error" if status == "ok" and code else status

    def _effects(self, call: ToolCall, success: bool, output: str) -> None:
        if call.kind == "agent" and call.id not in self.agents:
            self.background.ended(call.id, failed=not success)
        elif call.name in ("stop_bash", "stop_powershell") and success:
            self.background.ended(call.detail)
        elif call.name == "sql" and success and concerns_todos(call.detail):
            self.todos.run(call.detail)
            put(call, "kind", "todo")
            put(call, "todos", self.todos.todos())
        elif call.kind == "ask" and success and (words := answer(output)):
            self._entry("user", words, "answer")

    def _settle(self, status: ToolStatus) -> None:
        """The conversation went on: calls that got no result will never get one."""
        for entry in self.open.values():
            if call := entry.tool:
                put(call, "status", "refused" if call.id in self.refused else status)
                if call.id not in self.agents:
                    self.background.ended(call.id, failed=True)
        self.open.clear()

    def _on_agent_started(self, line: Line) -> None:
        agent = data_of(line, Agent)
        self.agents.add(agent.toolCallId)
        label = agent.agentDescription or agent.agentDisplayName or ""
        ref = entry.ref if (entry := self.calls.get(agent.toolCallId)) else len(self.entries)
        self.background.started(agent.toolCallId, "agent", label, ref)

    def _on_agent_ended(self, line: Line) -> None:
        agent = data_of(line, Agent)
        failed = line.type == "subagent.failed" or agent.cancelled
        self.background.ended(agent.toolCallId, failed=failed)

    def _on_notification(self, line: Line) -> None:
        kind = data_of(line, Notification).kind
        if kind.type in ("shell_completed", "shell_detached_completed") and kind.shellId:
            self.background.ended(kind.shellId, failed=bool(kind.exitCode))

    # -- the whole ---------------------------------------------------------------------

    def _thread(self) -> Thread:
        start = self.start
        if start is None or not start.sessionId:
            raise ThreadUnreadable(_why_unreadable(self.path, self.lines))
        noted = workspace(self.path.parent)
        words = next((" ".join(e.text.split()) for e in self.entries if e.kind == "user"), "")
        count = len(self.entries)
        live = [e for i, e in enumerate(self.entries) if i not in self.left]
        return Thread(
            harness="copilot",
            id=start.sessionId,
            path=str(self.path),
            cwd=noted.get("cwd") or self.place.cwd,
            git_branch=noted.get("branch") or self.place.branch or "",
            git_head=self.place.headCommit or "",
            model=self.model,
            thinking=self.thinking,
            version=start.copilotVersion,
            tools=tuple(self.tool_names),
            name=named(noted, words) or self.name,
            parent=self.parent,
            started=start.startTime,
            updated=self.updated,
            context_tokens=self.context_tokens,
            context_window=self.context_window,
            entries=tuple(mark_compacted(live)),
            notices=tuple(self.notices),
            background=self.background.items(),
            skills=tuple(self.skills),
            aborted=bool(self.notices)
            and self.notices[-1].kind == "interrupted"
            and self.notices[-1].after == count,
            abandoned=count - len(live),
            sources=(str(self.path),),
            report=self.lines.report(),
        )


def named(noted: dict[str, str], words: str) -> str:
    """The name of a session; one that is only the beginning of its first prompt is none."""
    name = " ".join(noted.get("name", "").split())
    own = noted.get("user_named") == "true" or name[:100] != words[: len(name)][:100]
    return name if own else ""


def _why_unreadable(path: Path, lines: Lines) -> str:
    if lines.truncated or lines.broken:
        return f"{path} holds no start of a Copilot session: it is cut off or damaged."
    return f"{path} holds no Copilot session."
