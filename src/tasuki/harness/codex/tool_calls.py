"""Codex's tool calls with their results: polls, sub-agents, and the calls inside of scripts.

In code mode (0.144 on) a call of `exec` is a script, and each call in it is an entry here. How
these ended is in the events between the script and its output, in their order; without such
events, in what the script printed.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import force_setattr as put

from tasuki.harness.codex.format import CodexCall, CodexItem, CodexOutput, CodexPart, extract_text
from tasuki.harness.reading import tools
from tasuki.harness.reading.calls import CallLog
from tasuki.harness.reading.jsonl import UNDECODABLE, decode_nested
from tasuki.harness.reading.patches import parse_hunks
from tasuki.harness.reading.results import parse_exit_code, parse_result
from tasuki.harness.reading.scripts import list_script_calls
from tasuki.model import Entry, FileChange, ToolCall, ToolStatus
from tasuki.patterns import compile_pattern

_AGENT_ID = compile_pattern(r'"(?:agent_id|task_name)": ?"([^"]+)"')
_AGENT_STATE = compile_pattern(
    r'"([0-9a-f]{8}-[0-9a-f-]{27}|/root/[^"]+)"(?:: ?|, ?"(?:agent_)?status": ?)\{"(completed|errored|shutdown)"'
)
_SCRIPT = compile_pattern(
    r"\AScript (completed|failed|running)(?: with cell ID (\S+))?\n.*?\nOutput:\n", re.DOTALL
)
_AIMED = frozenset(("wait", "followuptask", "closeagent"))
_CHANGE_KINDS = {"add": "create", "delete": "delete", "update": "edit"}


class CodexCallLog(CallLog):
    """The entries of a thread; results are joined to their calls as they come in."""

    all_worded = True

    def __init__(self, keep: int, build_entry: Callable[[ToolCall], Entry]) -> None:
        super().__init__(keep)
        self.entries: list[Entry] = []
        self.agents: list[str] = []
        """Ids of sub-agents, in the order they were spawned."""
        self._build_entry = build_entry
        self._exits: dict[str, int] = {}
        self._targets: dict[str, str] = {}
        self._imported: list[ToolCall] = []
        self.scripts: dict[str, list[ToolCall]] = {}
        """The calls of each script, by the call that runs it or its cell that goes on."""

    def add_call(self, record: CodexCall) -> None:
        """Add a call, or those of a script; the results are still to come."""
        id = record.call_id or ""
        if record.name == "exec" and record.input:
            calls = list_script_calls(record.input)
            self.scripts[id] = [
                self._add(f"{id}/{n}" if n else id, name, tools.fold_input(given))
                for n, (name, given) in enumerate(calls)
            ] or [self._add(id, "exec", {"script": record.input}, "other")]
            return
        name = record.name or "local_shell"
        name = f"{record.namespace}__{name}" if record.namespace else name
        given = tools.read_input(record.arguments or record.input)
        if action := record.action:
            given = {"command": action.command, "workdir": action.working_directory or ""}
        self._add(id, name, given)

    def _add(self, id: str, name: str, given: tools.ToolInput, kind: Any = None) -> ToolCall:
        call = tools.build_tool_call(id, name, given, kind=kind)
        entry = self._build_entry(call)
        self.entries.append(entry)
        self.add(entry, given)
        if (plain := tools.find_tool(name).plain) in _AIMED:
            cell = f"cell {given.get('cellid')}" if plain == "wait" else ""
            self._targets[id] = cell or tools.get_text(given, "target")
        return call

    # -- results -----------------------------------------------------------------------

    def add_result(self, call_id: str, output: str | list[CodexPart] | CodexOutput | None) -> bool:
        """Add the result of a call; False if no such call was made."""
        text = extract_output(output)
        parts = [p.text for p in output if p.text] if isinstance(output, list) else [text]
        if call_id in self.scripts:
            self._finish_script(call_id, self.scripts.pop(call_id), parts)
            return True
        entry = self.calls.get(call_id)
        if entry is None or (call := entry.tool) is None:
            return False
        target = self._targets.get(call_id, "")
        if target in self.scripts:
            self._finish_script(target, self.scripts.pop(target), parts)
        self.finish(call, text, "unknown", self._exits.get(call_id))
        if call.kind == "agent":
            self._read_agent_result(call, text)
        return True

    def record_exit(self, call_id: str, code: int) -> None:
        """Record the exit code of a command, before or after its result."""
        self._exits[call_id] = code
        if (entry := self.calls.get(call_id)) and entry.tool:
            self.background.record_end(entry.tool.background, code=code)

    # -- imported threads --------------------------------------------------------------

    def add_imported(self, name: str, given: tools.ToolInput) -> None:
        """Add a call of another program; results follow in the order of the calls."""
        self._imported.append(self._add(f"import-{len(self.entries) + 1}", name, given))

    def finish_imported(self, output: str, *, is_error: bool) -> None:
        """Put a result into the first of those calls that has none."""
        if self._imported:
            call = self._imported.pop(0)
            shown = parse_exit_code(output)
            code = shown if is_error else 0
            refused = is_error and output.startswith("The user doesn't want")
            status: ToolStatus = "refused" if refused else "error" if is_error else "ok"
            code = code if call.kind == "shell" else None
            self.finish(call, output, status, code, is_known=True)

    # -- scripts -----------------------------------------------------------------------

    def _finish_script(self, id: str, calls: list[ToolCall], parts: Sequence[str]) -> None:
        """Put what a script printed into its calls, as far as it shows whose each part is."""
        head = _SCRIPT.match(parts[0]) if parts else None
        state, cell = (head[1], head[2]) if head else ("completed", "")
        parts = [rest for rest in (parts[0][head.end() :], *parts[1:]) if rest] if head else parts
        if state == "running":
            self.scripts[f"cell {cell}"] = calls
            return
        left = [call for call in calls if call.id in self.open]
        shown = ["\n".join(parts)] if len(left) == 1 else _split_parts(parts, len(left))
        if len(shown) != len(left):
            if left and parts:
                text = "\n".join(parse_result(part).output for part in parts)
                whole = self._add(f"{id}/output", "exec", {}, "other")
                self.finish(whole, text, "error" if state == "failed" else "ok")
            shown = [""] * len(left)
        for call, text in zip(left, shown, strict=True):
            self.finish(call, text, "unknown")
            if state == "failed" and len(left) == 1:
                put(call, "status", "error")
                put(call, "todos", None)

    def record_item(self, item: CodexItem) -> None:
        """Record what an event says of a call: of one by its id, or of the next of a script."""
        if item.type == "CommandExecution":
            self._record_command(item)
        elif item.changes:
            self._record_changes(item)

    def _record_command(self, item: CodexItem) -> None:
        if item.id in self.calls:
            if item.exit_code is not None:
                self.record_exit(item.id, item.exit_code)
            return
        command = tools.join_command(item.command)
        running = self.background.find_item(str(item.process_id or ""))
        call = self._find_open("shell", lambda c: c.command == command)
        call = call or self._find_open("shell", lambda c: not c.command)
        if call is None and (running is not None or not self.scripts):
            return
        if call is None or not call.command:
            call = call or self._add(item.id, "exec_command", {"command": command})
            put(call, "command", command)
        if item.exit_code is not None or item.status in ("failed", "declined"):
            status: ToolStatus = "ok" if item.exit_code == 0 else "error"
            output = item.aggregated_output or ""
            self.finish(call, output, status, item.exit_code, is_known=True)

    def _record_changes(self, item: CodexItem) -> None:
        changes = tuple(_list_changes(item))
        paths = tuple(c.path for c in changes)
        if item.id in self.calls:
            return
        call = self._find_open("edit", lambda c: all(_is_same(p, paths) for p in c.paths))
        if call is None and not self.scripts:
            return
        call = call or self._add(item.id, "apply_patch", {})
        if not call.changes:
            put(call, "changes", changes)
            put(call, "paths", paths)
        text = item.stderr or item.stdout or ""
        status: ToolStatus = "ok" if item.status in ("completed", "") else "error"
        self.finish(call, text, status, is_known=True)

    def _find_open(self, kind: str, fits: Callable[[ToolCall], bool]) -> ToolCall | None:
        """Find the first call of a script that waits for its outcome."""
        waiting = (call for calls in self.scripts.values() for call in calls)
        return next((c for c in waiting if c.kind == kind and c.id in self.open and fits(c)), None)

    # -- sub-agents --------------------------------------------------------------------

    def record_agent(self, call_id: str, agent: str, path: str) -> None:
        """Record the thread of a sub-agent that a call spawned (multi-agent v2)."""
        if call_id in self.calls and agent not in self.agents:
            self.agents.append(agent)
            self.background.add_alias(path, agent)

    def record_ended_agents(self, text: str) -> None:
        """Record the sub-agents whose end a result or a notification reports."""
        for id, state in _AGENT_STATE.findall(text):
            self.background.record_end(id, failed=state == "errored")

    def _read_agent_result(self, call: ToolCall, output: str) -> None:
        plain = tools.find_tool(call.name).plain
        if plain == "spawnagent":
            match = _AGENT_ID.search(output)
            if match and not match[1].startswith("/"):
                self.agents.append(match[1])
            self.background.rename(call.id, match[1] if match else "")
            put(call, "background", match[1] if match else "")
            return
        target = self._targets.get(call.id, "")
        if plain == "followuptask":
            target = target if target.startswith("/") else f"/root/{target}"
            self.background.rename(target, target)
        elif plain == "closeagent" and call.status == "ok":
            self.background.record_end(target)
        self.record_ended_agents(output)


def _list_changes(item: CodexItem) -> list[FileChange]:
    found = []
    for path, change in item.changes.items():
        kind = _CHANGE_KINDS.get(change.type, "edit")
        hunks = parse_hunks(path, change.unified_diff)
        new = change.content if kind == "create" else hunks.new
        found.append(FileChange(path, kind, hunks.old, new))  # type: ignore[arg-type]
        if change.move_path:
            found[-1] = FileChange(path, "delete")
            found.append(FileChange(change.move_path, "rename", hunks.old, hunks.new))
    return found


def _is_same(path: str, others: Sequence[str]) -> bool:
    return any(other == path or other.endswith(f"/{path}") for other in others)


def _split_parts(parts: Sequence[str], count: int) -> Sequence[str]:
    """Return one text for each of several calls, where what a script printed shows which is whose."""
    if len(parts) == 1 and parts[0].startswith("["):
        try:
            return [bytes(raw).decode() for raw in decode_nested(_LISTED, parts[0])]
        except UNDECODABLE:
            return parts
    ends = [_EXITED.match(part) for part in parts[1::2]]
    codes = [f"Process exited with code {end[1]}" for end in ends if end]
    if len(parts) == 2 * count == 2 * len(codes):
        return [f"{code}\nOutput:\n{out}" for code, out in zip(codes, parts[::2], strict=True)]
    return parts


_EXITED = compile_pattern(r"\A\W*exit(?:[ _]?code)?\W{1,3}(-?\d{1,9})\W*\Z")
_LISTED = msgspec.json.Decoder(list[Raw])


def extract_output(output: str | list[CodexPart] | CodexOutput | None) -> str:
    """Return the text of a result, in any of the shapes it has had."""
    if isinstance(output, CodexOutput):
        return output.content or ""
    return extract_text(output)
