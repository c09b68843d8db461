"""Entries of a Claude Code thread, in which calls of tools find their results."""

import re
from array import array
from pathlib import Path

from msgspec.structs import force_setattr as put

from tasuki.harness import tools
from tasuki.harness.claude.format import Input, Line, ReplyLine, ResultLine
from tasuki.harness.jsonl import clip, clip_far, far_from_end, keep_limit, mark_compacted
from tasuki.model import Entry, FileChange, Todo, ToolCall, ToolKind, ToolStatus

_BACKGROUND = re.compile(r"(?:running in background with ID: |agentId: ?)([\w-]+)")
_ASYNC = ("Async agent launched", "Command running in background")
_REFUSED = ("The user doesn't want", "Request interrupted")
_SAID = re.compile(r"(?:the user said|provided the following reason[^:]*):\s*(.+)", re.DOTALL)
_ANSWERED = re.compile(
    r"(?:questions have been answered|answered your questions): ?(.+?)"
    r"(?:\. You can now continue|\Z)",
    re.DOTALL,
)
_ANSWERS = ("ask", "todo")
"""Kinds of calls whose results hold words of the user, or the path of a plan."""
_DESCRIBED = frozenset(("agent", "todo", "shell"))
_PLAN_FILE = re.compile(r"plan has been saved to: (\S+)")

AnyLine = Line | ReplyLine | ResultLine


class CallLog:
    """The entries, each with the node of the tree that it hangs on and its message.

    Entries are frozen for everyone else: only here results are put into calls that were made.
    """

    def __init__(self, path: Path) -> None:
        self.entries: list[Entry] = []
        self.nodes = array("q")
        self.messages: list[str] = []
        """Id of the message that an entry is a part of, empty if of none."""
        self.background = tools.BackgroundLog()
        self.kinds: dict[str, ToolKind] = {}
        """Every tool that was called, in order, and what it does."""
        self.skills: list[str] = []
        self.artifacts: dict[str, None] = {}
        self._keep = keep_limit(path)
        self._far = far_from_end(path)
        self._calls: dict[str, Entry] = {}
        self._early: dict[str, tuple[str, bool | None, AnyLine]] = {}
        self._tasks: dict[str, Todo] = {}
        self._paths: dict[str, tuple[str]] = {}
        """Paths of calls: the same file is named again and again."""

    def add(self, entry: Entry, node: int, message: str = "") -> None:
        """One more entry."""
        self.entries.append(entry)
        self.nodes.append(node)
        self.messages.append(message)

    def said(self, line: AnyLine, text: str, offset: int, node: int, message: str) -> None:
        """The assistant said something."""
        entries = self.entries
        at, uuid = line.timestamp, line.uuid
        entries.append(
            Entry(len(entries) + 1, "assistant", text, at, uuid, "typed", None, False, 0, 0, offset)
        )
        self.nodes.append(node)
        self.messages.append(message)

    def called(
        self, id: str, name: str, given: Input, line: AnyLine, offset: int, node: int, message: str
    ) -> None:
        """A call was made; its result is yet to come, or came before it."""
        kind = self.kinds.get(name)
        if kind is None:
            kind = self.kinds[name] = tools.kind(name)
        path = given.file_path or given.notebook_path
        changes: tuple[FileChange, ...] = ()
        if kind == "edit" or kind == "write":
            changes = self._changes(name, path, given, offset)
        named = path or given.path
        call = ToolCall(
            id,
            name,
            kind,
            given.command if kind == "shell" else "",
            _detail(kind, given),
            self._paths.setdefault(named, (named,)) if named else (),
            changes,
            self._todos(name, given) if kind == "todo" else None,
            "",
            0,
            "running",
            None,
            id if given.run_in_background else "",
        )
        entries = self.entries
        ref = len(entries) + 1
        self._calls[id] = entry = Entry(
            ref, "tool", "", line.timestamp, line.uuid, "typed", call, False, 0, 0, offset
        )
        entries.append(entry)
        self.nodes.append(node)
        self.messages.append(message)
        if kind == "skill" and given.skill:
            self.skills.append(given.skill)
        elif kind == "agent":
            self.background.started(id, "agent", given.description or given.prompt, ref)
        if self._early and id in self._early:
            self.returned(id, *self._early.pop(id), offset)

    def returned(
        self, id: str, output: str, error: bool | None, line: AnyLine, offset: int
    ) -> None:
        """The result of a call came in, perhaps before the call."""
        entry = self._calls.get(id)
        if entry is None:
            self._early[id] = (output, error, line)
            return
        self.finish(entry, output, error)
        call = entry.tool
        if call and (call.kind in _ANSWERS or call.status == "refused"):
            self._answer(entry, call, output, line, offset)

    def finish(self, entry: Entry, output: str, error: bool | None) -> None:
        """Put a result into the entry of its call."""
        call = entry.tool
        if call is None:
            return
        status: ToolStatus = "ok"
        code = 0 if call.kind == "shell" else None
        if error or call.kind == "agent" or output.startswith(_ASYNC):
            status, code = self._outcome(entry, call, output, error)
        size = len(output)
        if entry.offset < self._far and not error:
            output = clip_far(output)
        elif size > self._keep:
            output = clip(output, self._keep)
        put(call, "output", output)
        put(call, "output_size", size)
        put(call, "status", status)
        if call.kind == "shell":
            put(call, "exit_code", code)

    def _outcome(
        self, entry: Entry, call: ToolCall, output: str, error: bool | None
    ) -> tuple[ToolStatus, int | None]:
        """Status and exit code of a call that failed, or that started or is a sub-agent."""
        status, code = _failure(call, output) if error else ("ok", None)
        if output.startswith(_ASYNC) and (started := _BACKGROUND.search(output)):
            if call.kind == "agent":
                self.background.add_alias(call.id, started[1])
            else:
                self.background.started(started[1], call.kind, call.command, entry.ref)
            put(call, "background", started[1])
            if call.kind != "agent":
                return "running", code
        elif call.kind == "agent":
            self.background.ended(call.id, failed=bool(error))
        return status, 0 if status == "ok" and call.kind == "shell" else code

    def on_branch(self, active: bytearray) -> tuple[Entry, ...]:
        """Entries whose node is active, or a part of whose message is.

        Those before the last compaction are marked as such.
        """
        entries = self.entries
        if 0 in active:
            messages = {
                m for n, m in zip(self.nodes, self.messages, strict=True) if m and active[n]
            }
            placed = zip(entries, self.nodes, self.messages, strict=True)
            entries = [e for e, n, m in placed if active[n] or m in messages]
        mark_compacted(entries)
        return tuple(entries)

    def _answer(
        self, entry: Entry, call: ToolCall, output: str, line: AnyLine, offset: int
    ) -> None:
        """The user's own words inside a result."""
        pattern = _SAID if call.status == "refused" else _ANSWERED if call.kind == "ask" else None
        if pattern and (match := pattern.search(output)):
            words = match[1].partition("\n\nNote: The user's next message")[0].strip()
            said = Entry(
                len(self.entries) + 1,
                "user",
                words,
                line.timestamp,
                line.uuid,
                "answer",
                offset=offset,
            )
            index = entry.ref - 1
            self.add(said, self.nodes[index], self.messages[index])
        if call.name == "ExitPlanMode" and (plan := _PLAN_FILE.search(output)):
            self.artifacts[plan[1]] = None

    def _changes(self, name: str, path: str, given: Input, offset: int) -> tuple[FileChange, ...]:
        changes = _changes(name, path, given)
        if offset >= self._far:
            return changes
        return tuple(FileChange(c.path, c.kind, clip_far(c.old), clip_far(c.new)) for c in changes)

    def _todos(self, name: str, given: Input) -> tuple[Todo, ...] | None:
        if name == "TodoWrite":
            return tools.todos((t.content, t.status) for t in given.todos)
        if name == "TaskCreate" and given.subject:
            self._tasks[str(len(self._tasks) + 1)] = Todo(text=given.subject, status="pending")
        elif name == "TaskUpdate" and (task := self._tasks.get(given.taskId)) and given.status:
            self._tasks[given.taskId] = Todo(
                text=given.subject or task.text, status=tools.todo_status(given.status)
            )
        elif name != "TaskUpdate":
            return None
        return tuple(self._tasks.values())


def _failure(call: ToolCall, output: str) -> tuple[ToolStatus, int | None]:
    """What kind of failure a result is, and the exit code if it tells one."""
    code = tools.exit_code(output) if call.kind == "shell" else None
    if output.startswith(_REFUSED):
        return "refused", code
    return "aborted" if "Cancelled: parallel" in output[:80] else "error", code


def _changes(name: str, path: str, given: Input) -> tuple[FileChange, ...]:
    """What a call of an editing tool does to a file."""
    if not path:
        return ()
    if name == "Edit":
        return (FileChange(path, "edit", given.old_string, given.new_string),)
    if name == "Write":
        return (FileChange(path, "create", "", given.content),)
    if name == "MultiEdit":
        return tuple(FileChange(path, "edit", e.old_string, e.new_string) for e in given.edits)
    if name == "NotebookEdit":
        return (FileChange(path, "edit", "", given.new_source),)
    return ()


def _detail(kind: str, given: Input) -> str:
    """What a call is for, besides its command and paths."""
    return (
        given.pattern or given.url or given.query or given.skill or given.plan
        or (given.subject or given.description if kind in _DESCRIBED else "")
    )  # fmt: skip
