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

from tasuki.harness.codex import format as codex
from tasuki.harness.codex.imports import split_imported
from tasuki.harness.reading.jsonl import TextPart, decode_part, extract_text
from tasuki.harness.reading.markdown import parse_diff
from tasuki.harness.tool_table import tools
from tasuki.harness.tool_table.calls import CallLog
from tasuki.harness.tool_table.results import parse_exit_code, parse_result
from tasuki.harness.tool_table.scripts import list_script_calls
from tasuki.model import Entry, FileChange, ToolCall, ToolStatus
from tasuki.patterns import compile_pattern

_AGENT_ID = compile_pattern(r'"(?:agent_id|task_name)": ?"([^"]+)"')
_AGENT_STATE = compile_pattern(
    r'"([0-9a-f]{8}-[0-9a-f-]{27}|/root/[^"]+)"(?:: ?|, ?"(?:agent_)?status": ?)\{"(completed|errored|shutdown)"'
)
_EXEC_END = compile_pattern(rb'"call_id": ?"([^"]+)"')
_EXIT_CODE = compile_pattern(rb'"exit_code": ?(-?\d+)')
_CALL_ITEM = compile_pattern(rb'"item": ?\{"type": ?"(?:CommandExecution|FileChange)"')
_SCRIPT = compile_pattern(
    r"\AScript (completed|failed|running|terminated)(?: with cell ID (\S+))?\n.*?\nOutput:\n",
    re.DOTALL,
)
_AIMED = frozenset(("wait", "followuptask", "closeagent"))
_CHANGE_KINDS = {"add": "create", "delete": "delete", "update": "edit"}


class CodexCallLog(CallLog):
    """The entries of a thread; results are joined to their calls as they come in."""

    all_worded = True

    def __init__(self, keep: int, add_entry: Callable[..., Entry]) -> None:
        super().__init__(keep)
        self.agents: list[str] = []
        """Ids of sub-agents, in the order they were spawned."""
        self._add_entry = add_entry
        self._exits: dict[str, int] = {}
        self._targets: dict[str, str] = {}
        self._imported: list[ToolCall] = []
        self.scripts: dict[str, list[ToolCall]] = {}
        """The calls of each script, by the call that runs it or its cell that goes on."""

    def add_call(self, record: codex.CodexCall) -> None:
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
        is_json = bool(record.arguments)
        given = tools.read_input(record.arguments) if is_json else tools.fold_input(record.input)
        if action := record.action:
            given = {"command": action.command, "workdir": action.working_directory or ""}
        self._add(id, name, given)

    def _add(self, id: str, name: str, given: tools.ToolInput, kind: Any = None) -> ToolCall:
        call = tools.build_tool_call(id, name, given, kind=kind)
        self.add(self._add_entry("tool", tool=call, id=id), given)
        if (plain := tools.find_tool(name).plain) in _AIMED:
            cell = f"cell {given.get('cellid')}" if plain == "wait" else ""
            self._targets[id] = cell or tools.get_text(given, "target")
        return call

    # -- results -----------------------------------------------------------------------

    def add_result(
        self, call_id: str, output: str | list[TextPart] | codex.CodexOutput | None
    ) -> bool:
        """Add the result of a call, in any of its shapes; False if no such call was made."""
        text = (
            output.content or "" if isinstance(output, codex.CodexOutput) else extract_text(output)
        )
        listed = output if isinstance(output, list) else [TextPart(text=text)]
        parts = [part.text for part in listed if part.type != "input_image"]
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

    def read_imported(self, text: str) -> None:
        """Read a message of another program's assistant; results come in the order of the calls."""
        for piece in split_imported(text):
            if piece.is_result and self._imported:
                call = self._imported.pop(0)
                refused = piece.is_error and piece.text.startswith("The user doesn't want")
                status: ToolStatus = "refused" if refused else "error" if piece.is_error else "ok"
                code = parse_exit_code(piece.text) if piece.is_error else 0
                code = code if call.kind == "shell" else None
                self.finish(call, piece.text, status, code, is_known=True)
            elif piece.name:
                id = f"import-{len(self.entries) + 1}"
                self._imported.append(self._add(id, piece.name, piece.read_input()))
            elif not piece.is_result:
                self._add_entry("assistant", piece.text)

    # -- scripts -----------------------------------------------------------------------

    def _finish_script(self, id: str, calls: list[ToolCall], parts: Sequence[str]) -> None:
        """Put what a script printed into its calls, as far as it shows whose each part is."""
        head = _SCRIPT.match(parts[0]) if parts else None
        state, cell = (head[1], head[2]) if head else ("completed", "")
        if head:
            rest = parts[0][head.end() :]
            parts = [rest, *parts[1:]] if rest else parts[1:]
        if state == "running":
            self.scripts[f"cell {cell}"] = calls
            return
        left = [call for call in calls if call.id in self.open]
        shown = _split_parts(parts, [call.kind in ("shell", "background") for call in left])
        if shown is None and any(parts):
            text = "\n".join(parse_result(part).output for part in parts)
            whole = self._add(f"{id}/output", "exec", {}, "other")
            self.finish(whole, text, "error" if state == "failed" else "ok")
        status: ToolStatus = "aborted" if state == "terminated" else "unknown"
        for call, text in zip(left, shown or [""] * len(left), strict=True):
            self.finish(call, text, status)
            if state == "failed" and len(left) == 1:
                put(call, "status", "error")
                put(call, "todos", None)

    def read_exec_end(self, line: bytes) -> None:
        """Read the exit code alone: the rest of the line repeats the result."""
        code_start = line.rfind(b'"exit_code":')
        id = _EXEC_END.search(line, 0, 600)
        code = _EXIT_CODE.match(line, code_start) if code_start > 0 else None
        if id and code:
            self.record_exit(id[1].decode(), int(code[1]))

    def read_item(self, line: bytes) -> None:
        """Read an event about the outcome of a call."""
        if _CALL_ITEM.search(line, 0, 600) and (event := codex.decode_payload(codex.ITEM, line)):
            self.record_item(event.item)

    def read_patch_end(self, line: bytes) -> None:
        """Read what a patch changed, as 0.144 says it of a script's."""
        if self.scripts and (item := codex.decode_payload(codex.PATCH, line)):
            self.record_item(item)

    def record_item(self, item: codex.CodexItem) -> None:
        """Record what an event says of a call: of one by its id, or of the next of a script."""
        if item.type == "CommandExecution":
            self._record_command(item)
        elif item.changes and item.id not in self.calls:
            self._record_changes(item)

    def _record_command(self, item: codex.CodexItem) -> None:
        if item.id in self.calls:
            if item.exit_code is not None:
                self.record_exit(item.id, item.exit_code)
            return
        command = tools.join_command(item.command)
        if self.background.find_item(process := str(item.process_id or "")):
            self.background.record_end(process, failed=item.status == "failed", code=item.exit_code)
            return
        call = self._find_open("shell", lambda c: c.command == command)
        call = call or self._find_open("shell", lambda c: not c.command)
        if call is None and (not self.scripts or item.source.startswith("user")):
            return
        if call is None or not call.command:
            call = call or self._add(item.id, "exec_command", {"command": command})
            put(call, "command", command)
        if item.exit_code is not None or item.status in ("failed", "declined"):
            status: ToolStatus = "ok" if item.exit_code == 0 else "error"
            self.finish(call, item.aggregated_output or "", status, item.exit_code, is_known=True)

    def _record_changes(self, item: codex.CodexItem) -> None:
        changes = tuple(_list_changes(item))
        paths = tuple(c.path for c in changes)
        call = self._find_open("edit", lambda c: all(_is_among(p, paths) for p in c.paths))
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

    def settle(self, status: ToolStatus) -> None:
        """Settle open calls at the end of a turn; only cells go on beyond it."""
        super().settle(status)
        self.scripts = {id: calls for id, calls in self.scripts.items() if id.startswith("cell ")}

    # -- sub-agents --------------------------------------------------------------------

    def record_agent(self, event: codex.CodexAgentActivity) -> None:
        """Record the thread of a sub-agent that a call spawned (multi-agent v2)."""
        id = event.agent_thread_id
        if event.event_id in self.calls and id not in self.agents:
            self.agents.append(id)
            self.background.add_alias(event.agent_path, id)

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


def _list_changes(item: codex.CodexItem) -> list[FileChange]:
    found = []
    for path, change in item.changes.items():
        kind = _CHANGE_KINDS.get(change.type, "edit")
        hunks = parse_diff(path, change.unified_diff.split("\n"))
        new = change.content if kind == "create" else hunks.new
        found.append(FileChange(path, kind, hunks.old, new))  # type: ignore[arg-type]
        if change.move_path:
            found[-1] = FileChange(path, "delete")
            found.append(FileChange(change.move_path, "rename", hunks.old, hunks.new))
    return found


def _is_among(path: str, others: Sequence[str]) -> bool:
    return any(other == path or other.endswith(f"/{path}") for other in others)


def _split_parts(parts: Sequence[str], are_commands: Sequence[bool]) -> list[str] | None:
    """Return what was printed of each of several calls; None if it does not show whose each part is.

    A part for each call, or for each command; a JSON list or object of them; or several for each,
    of which all but one are the same but for numbers: a heading, an exit code.
    """
    if not (count := len(are_commands)):
        return []
    if len(parts) == 1 < count and parts[0].startswith(("[", "{")):
        named = decode_part(_NAMED, parts[0], None) or {}
        values = [*named.values(), *(decode_part(_LISTED, parts[0], None) or ())]
        if "output" not in named:  # It is no result of one command.
            parts = [_unwrap(v) for v in values if not bytes(v)[:3].isdigit()] or parts
    if not parts:
        return [""] * count
    if len(parts) == sum(are_commands) < count:
        rest = iter(parts)
        return [next(rest) if is_command else "" for is_command in are_commands]
    if count == 1:
        columns = [["\n".join(parts[:-1])], parts[-1:]]
    elif len(parts) % count == 0:
        columns = [list(parts[n :: len(parts) // count]) for n in range(len(parts) // count)]
    else:
        return None
    ends = next((c for c in columns if all(map(_EXITED.match, c))), None)
    if count == 1 and not ends:
        return ["\n".join(parts)]
    outputs = [c for c in columns if c is not ends and (count == 1 or not _is_mark(c))]
    if len(outputs) != 1:
        return None
    codes = [str(_EXITED.sub(r"\1", end)) for end in ends or [""] * count]
    return [
        f"Process exited with code {code}\nOutput:\n{out}" if code else out
        for code, out in zip(codes, outputs[0], strict=True)
    ]


def _is_mark(column: Sequence[str]) -> bool:
    """Return whether a script printed these between outputs: one word or two, and a number."""
    same = {_NUMBER.sub("", part) for part in column if _MARK.match(part)}
    return all(map(_MARK.match, column)) and len(same) == 1 and bool(same.pop().strip())


def _unwrap(raw: Raw) -> str:
    return msgspec.json.decode(raw, type=str) if bytes(raw)[:1] == b'"' else bytes(raw).decode()


_NUMBER = compile_pattern(r"-?\d+|undefined|null")
_MARK = compile_pattern(r"\A\W{0,9}(?:[A-Za-z_]{1,20}\W{0,4}){0,2}-?\d{0,9}\W{0,9}\Z")
_EXITED = compile_pattern(r"(?i)\A\W*exit(?:[ _]?code)?\W{1,3}(-?\d{1,9}|)(?:undefined|null)?\W*\Z")
_LISTED, _NAMED = msgspec.json.Decoder(list[Raw]), msgspec.json.Decoder(dict[str, Raw])
