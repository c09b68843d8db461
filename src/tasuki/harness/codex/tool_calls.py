"""Codex's tool calls with their results, polls, patches and sub-agents."""

import re
import shlex

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr as put

from tasuki.harness.codex.format import CodexCall, CodexOutput, CodexPart, extract_text
from tasuki.harness.reading import tools
from tasuki.harness.reading.jsonl import UNDECODABLE, clip, decode_nested
from tasuki.model import Entry, FileChange, ToolCall, ToolStatus
from tasuki.patterns import compile_pattern
from tasuki.text_safety import cut_text

_STATE = compile_pattern(
    r"^(?:Process exited with code|Exit code:) (-?\d+)$|^Process running with session ID (\S+)$",
    re.MULTILINE,
)
_BODY = "\nOutput:\n"
_FAILED = compile_pattern(r"\A[\w :]{0,60}\bfailed\b")
_REFUSED = compile_pattern(r"\A[\w ]{0,40}rejected by (?:the )?user")
_HEREDOC = compile_pattern(r"apply_patch\s+<<-?\s*['\"]?(\w+)['\"]?\n(.*?)\n\s*\1\b", re.DOTALL)
_AGENT_ID = compile_pattern(r'"agent_id": ?"([^"]+)"')
_AGENT_STATE = compile_pattern(
    r'"([0-9a-f]{8}-[0-9a-f-]{27})"(?:: ?|, ?"status": ?)\{"(completed|errored|shutdown)"'
)


_PLAIN_KINDS = frozenset(("shell", "edit", "todo", "read"))
_POINTING = ("write_stdin", "close_agent")


class _CodexPlanStep(Struct):
    step: str = ""
    status: str = ""


class _CodexArguments(Struct):
    cmd: str | list[str] = ""
    command: str | list[str] = ""
    workdir: str | None = ""
    session_id: int | str | None = None
    chars: str | None = ""
    plan: list[_CodexPlanStep] = []
    message: str | None = ""
    target: str | None = ""
    path: str | None = ""


class _CodexShellMetadata(Struct):
    exit_code: int | None = None


class _CodexShellResult(Struct):
    output: str
    metadata: _CodexShellMetadata


_ARGUMENTS = msgspec.json.Decoder(_CodexArguments)
_SHELL_RESULT = msgspec.json.Decoder(_CodexShellResult)


class CodexCallLog:
    """The entries of a thread; results are joined to their calls as they come in.

    Entries are frozen everywhere else: only here results are put into existing calls.
    """

    def __init__(self, keep: int) -> None:
        self.entries: list[Entry] = []
        self.background = tools.BackgroundLog()
        self.agents: list[str] = []
        """Ids of sub-agents, in the order they were spawned."""
        self._keep = keep
        self._calls: dict[str, Entry] = {}
        self._open: dict[str, ToolCall] = {}
        self._exits: dict[str, int] = {}
        self._sessions: dict[str, ToolCall] = {}
        self._polls: dict[str, str] = {}

    def add_call(self, entry: Entry, call: ToolCall) -> None:
        """Add a call; its result is still to come."""
        self._calls[call.id] = entry
        self._open[call.id] = call
        if call.name == "write_stdin":
            self._polls[call.id] = call.background
        self.entries.append(entry)

    def add_result(self, call_id: str, text: str) -> bool:
        """Add the result of a call; False if no such call was made."""
        entry = self._calls.get(call_id)
        if entry is None or (call := entry.tool) is None:
            return False
        self._open.pop(call_id, None)
        code, output, session = _parse_output(text)
        if code is None:
            code = self._exits.get(call_id)
        size = len(output)
        put(call, "output", output if size <= self._keep else clip(output, self._keep))
        put(call, "output_size", size)
        put(call, "exit_code", code)
        put(call, "status", _find_status(call, code, output))
        if call.name == "write_stdin":
            put(call, "background", "")
            self._record_poll(self._polls.get(call_id, ""), code, output)
        elif session and code is None:
            self._sessions[session] = call
            self.background.record_start(session, "command", call.command, entry.ref)
            put(call, "background", session)
            put(call, "status", "running")
        elif call.kind == "agent":
            self._record_agent_result(call, output, entry.ref)
        return True

    def record_exit(self, call_id: str, code: int) -> None:
        """Record the exit code of a command, before or after its result."""
        self._exits[call_id] = code
        if (entry := self._calls.get(call_id)) and entry.tool:
            self._record_end(entry.tool, code)

    def settle_open_calls(self, status: ToolStatus) -> None:
        """Settle the calls of a turn that ended: those without a result will never get one."""
        for call in self._open.values():
            put(call, "status", status)
        self._open.clear()

    def record_ended_agents(self, text: str) -> None:
        """Record the sub-agents whose end a result or a notification reports."""
        for id, state in _AGENT_STATE.findall(text):
            self.background.record_end(id, failed=state == "errored")

    def _record_poll(self, session: str, code: int | None, output: str) -> None:
        """Record more output, and perhaps the end, of a running command."""
        call = self._sessions.get(session)
        if call is None or output.startswith("write_stdin fail"):
            return
        text = f"{call.output}\n{output}" if call.output else output
        put(call, "output", clip(text, self._keep))
        put(call, "output_size", call.output_size + len(output))
        if code is not None:
            self._record_end(call, code)

    def _record_end(self, call: ToolCall, code: int) -> None:
        if call.status == "running" and call.background:
            self.background.record_end(call.background, failed=bool(code))
            put(call, "exit_code", code)
            put(call, "status", "error" if code else "ok")

    def _record_agent_result(self, call: ToolCall, output: str, ref: int) -> None:
        if call.name == "spawn_agent" and (match := _AGENT_ID.search(output)):
            self.agents.append(match[1])
            self.background.record_start(match[1], "agent", call.detail, ref)
            put(call, "background", match[1])
            return
        if call.name == "close_agent" and call.status == "ok":
            self.background.record_end(call.background)
        self.record_ended_agents(output)
        put(call, "background", "")


def build_tool_call(call: CodexCall) -> ToolCall:
    """Build what a call asks for, before its result is known.

    A poll of a running command carries no command of its own, so that nothing is counted twice.
    """
    name = call.name
    arguments = _parse_arguments(call.arguments)
    command = _find_command(call, arguments)
    kind = "shell" if call.action else tools.find_kind(name)
    patch = call.input if name == "apply_patch" else ""
    if "apply_patch" in command:
        patch = _find_patch(command)
    changes: tuple[FileChange, ...] = ()
    if patch:
        kind, command, changes = "edit", "", tools.parse_patch(patch)
    return ToolCall(
        call.call_id or "",
        f"{call.namespace}__{name}" if call.namespace else name or "local_shell",
        kind,
        command if kind == "shell" else "",
        ""
        if kind in _PLAIN_KINDS and name != "write_stdin"
        else _find_detail(call, arguments, kind),
        _list_paths(changes, arguments) if changes or arguments.path else (),
        changes,
        tools.build_todos((s.step, s.status) for s in arguments.plan)
        if name == "update_plan"
        else None,
        "",
        0,
        "running",
        None,
        _find_target(name, arguments) if name in _POINTING else "",
        arguments.workdir or (call.action.working_directory or "" if call.action else ""),
    )


def _find_patch(command: str) -> str:
    """Find the patch that a shell command passes to `apply_patch`, empty if there is none."""
    if match := _HEREDOC.search(command):
        return match[2]
    return command if command.startswith("apply_patch ") and "*** Begin" in command else ""


def _parse_arguments(text: str) -> _CodexArguments:
    try:
        return decode_nested(_ARGUMENTS, text) if text else _CodexArguments()
    except UNDECODABLE:
        return _CodexArguments()


def _find_command(call: CodexCall, arguments: _CodexArguments) -> str:
    words = call.action.command if call.action else arguments.cmd or arguments.command
    if isinstance(words, str):
        return words
    if len(words) == 3 and words[1] in ("-lc", "-c", "-ic", "-lic"):
        return words[2]
    return shlex.join(words)


def _find_detail(call: CodexCall, arguments: _CodexArguments, kind: str) -> str:
    if call.name == "write_stdin":
        return arguments.chars or ""
    if kind == "agent":
        return arguments.message or ""
    return cut_text(call.arguments, 300) if kind not in _PLAIN_KINDS else ""


def _list_paths(changes: tuple[FileChange, ...], arguments: _CodexArguments) -> tuple[str, ...]:
    paths = dict.fromkeys(c.path for c in changes)
    if arguments.path:
        paths[arguments.path] = None
    return tuple(paths)


def _find_target(name: str, arguments: _CodexArguments) -> str:
    """Return what a poll or a close refers to, until its result is there."""
    if name == "write_stdin":
        return str(arguments.session_id or "")
    return arguments.target or "" if name == "close_agent" else ""


def extract_output(output: str | list[CodexPart] | CodexOutput | None) -> str:
    """Return the text of a result, in any of the shapes it has had."""
    if isinstance(output, CodexOutput):
        return output.content or ""
    return extract_text(output)


def _parse_output(text: str) -> tuple[int | None, str, str]:
    """Parse a result: exit code, output without the harness's header, id of a running session."""
    if text.startswith('{"output":'):
        code, output = parse_shell_result(text)
        return code, output, ""
    header_end = text.find(_BODY)
    match = (
        _STATE.search(text, max(header_end - 200, 0), header_end)
        if header_end >= 0
        else _STATE.match(text)
    )
    output = text[header_end + len(_BODY) :] if header_end >= 0 else ""
    if match:
        return int(match[1]) if match[1] else None, output, match[2] or ""
    return None, output if output and text.startswith("Wall time: ") else text, ""


def parse_shell_result(text: str) -> tuple[int | None, str]:
    """Parse exit code and output of the older form, a JSON object inside the text."""
    try:
        result = decode_nested(_SHELL_RESULT, text)
        return result.metadata.exit_code, result.output
    except UNDECODABLE:
        code, output, _ = _parse_output(text) if not text.startswith("{") else (None, text, "")
        return code, output


def _find_status(call: ToolCall, code: int | None, output: str) -> ToolStatus:
    if code is not None:
        return "error" if code else "ok"
    if output.startswith("aborted"):
        return "aborted"
    if _REFUSED.match(output):
        return "refused"
    if _FAILED.match(output):
        return "error"
    return "unknown" if call.kind == "shell" else "ok"
