"""What tool calls mean, shared by the adapters: kinds, exit codes, patches, background work."""

import re
from collections.abc import Iterable

from tasuki.model import Background, FileChange, Todo, TodoStatus, ToolKind
from tasuki.patterns import compile_pattern
from tasuki.text_safety import cut_text

KINDS: dict[str, ToolKind] = {
    "bash": "shell", "shell": "shell", "exec_command": "shell", "shell_command": "shell",
    "local_shell": "shell", "run_shell_command": "shell", "container.exec": "shell",
    "unified_exec": "shell", "write_stdin": "shell", "bashoutput": "shell",
    "edit": "edit", "multiedit": "edit", "notebookedit": "edit", "apply_patch": "edit",
    "str_replace": "edit", "replace": "edit", "hashline_edit": "edit",
    "write": "write", "write_file": "write", "create": "write",
    "read": "read", "read_file": "read", "view": "read", "read_many_files": "read",
    "view_image": "read",
    "grep": "search", "glob": "search", "ls": "search", "find": "search", "search": "search",
    "rg": "search", "list_directory": "search", "grep_files": "search", "list_dir": "search",
    "todowrite": "todo", "taskcreate": "todo", "taskupdate": "todo", "update_plan": "todo",
    "todo_write": "todo", "todo": "todo", "write_todos": "todo", "exitplanmode": "todo",
    "task": "agent", "agent": "agent", "spawn_agent": "agent", "wait_agent": "agent",
    "close_agent": "agent", "subagent": "agent",
    "askuserquestion": "ask", "ask": "ask", "ask_user": "ask", "request_user_input": "ask",
    "skill": "skill", "activate_skill": "skill",
    "webfetch": "web", "websearch": "web", "web_search": "web", "web_fetch": "web",
    "fetch": "web", "google_web_search": "web",
}  # fmt: skip

_EXIT = compile_pattern(
    r"(?:\A(?:Error: )?Exit code:? (-?\d+)"
    r"|\bProcess exited with code (-?\d+)"
    r"|\bCommand exited with code (-?\d+)"
    r"|\A\{\"output\":.*\"exit_code\":(-?\d+))",
    re.DOTALL,
)
_TODO_STATUS: dict[str, TodoStatus] = {
    "pending": "pending", "in_progress": "in_progress", "active": "in_progress",
    "completed": "done", "done": "done", "cancelled": "dropped", "deleted": "dropped",
    "abandoned": "dropped", "blocked": "pending",
}  # fmt: skip
_PATCH_FILE = compile_pattern(r"\n\*\*\* (Add|Update|Delete) File: (.+)")
_PATCH_OLD = compile_pattern(r"\n-(.*)")
_PATCH_NEW = compile_pattern(r"\n(?:\+|@@ )(.*)")
_PATCH_MOVE = compile_pattern(r"\A\n\*\*\* Move to: (.+)")


def find_kind(name: str) -> ToolKind:
    """Return what a tool of this name does; `other` for unknown ones and those of MCP servers."""
    return KINDS.get(name.lower(), "other")


def parse_exit_code(output: str) -> int | None:
    """Parse the exit code that a harness wrote around a command's output; None without one."""
    match = _EXIT.search(output[:400]) or _EXIT.search(output[-200:])
    return int(next(g for g in match.groups() if g is not None)) if match else None


def parse_todo_status(word: str) -> TodoStatus:
    """Translate a harness's word for the state of a todo; unknown words count as pending."""
    return _TODO_STATUS.get(word.lower().replace("-", "_"), "pending")


def build_todos(items: Iterable[tuple[str, str]]) -> tuple[Todo, ...]:
    """Build todos from pairs of text and the harness's word for the state."""
    return tuple(Todo(text=t, status=parse_todo_status(s)) for t, s in items if t.strip())


def parse_patch(patch: str) -> tuple[FileChange, ...]:
    """Parse the file changes of a patch in the `*** Begin Patch` form (Codex `apply_patch`)."""
    patch = "\n" + patch.replace("\r\n", "\n")
    heads = list(_PATCH_FILE.finditer(patch))
    ends = [head.start() for head in heads[1:]] + [len(patch)]
    return tuple(
        change
        for head, end in zip(heads, ends[: len(heads)], strict=True)
        for change in _parse_file_changes(head[1], head[2].strip(), patch[head.end() : end])
    )


def _parse_file_changes(action: str, path: str, body: str) -> list[FileChange]:
    if action == "Delete":
        return [FileChange(path=path, kind="delete")]
    old, new = "\n".join(_PATCH_OLD.findall(body)), "\n".join(_PATCH_NEW.findall(body))
    if moved := _PATCH_MOVE.search(body):
        renamed = FileChange(path=moved[1].strip(), kind="rename", old=old, new=new)
        return [FileChange(path=path, kind="delete"), renamed]
    return [FileChange(path=path, kind="create" if action == "Add" else "edit", old=old, new=new)]


class BackgroundLog:
    """Sub-agents and background commands as they start and end while a thread is read."""

    def __init__(self) -> None:
        self._items: dict[str, Background] = {}
        self._aliases: dict[str, str] = {}

    def add_alias(self, id: str, alias: str) -> None:
        """Record that a running item has another id from now on; its end may carry either."""
        self._aliases[alias] = id

    def record_start(self, id: str, kind: str, label: str, ref: int) -> None:
        """Record that something began to run in the background."""
        if id and id not in self._items:
            self._items[id] = Background(
                id=id,
                kind="agent" if kind == "agent" else "command",
                label=cut_text(" ".join(label.split()), 200),
                state="running",
                ref=ref,
            )

    def record_end(self, id: str, failed: bool = False) -> None:
        """Record that it ended."""
        if item := self._items.get(self._aliases.get(id, id)):
            self._items[item.id] = Background(
                id=item.id,
                kind=item.kind,
                label=item.label,
                state="failed" if failed else "done",
                ref=item.ref,
            )

    def list_items(self) -> tuple[Background, ...]:
        """Return all of them, in the order they began."""
        return tuple(self._items.values())
