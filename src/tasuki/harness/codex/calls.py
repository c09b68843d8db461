"""Calls of Codex's tools tied to their results, polls, patches and sub-agents."""

import re
import shlex

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr as put

from tasuki.harness import tools
from tasuki.harness.codex.format import Call, Output, Part, plain
from tasuki.harness.jsonl import UNDECODABLE, clip, nested
from tasuki.model import Entry, FileChange, ToolCall, ToolStatus

_STATE = re.compile(
    r"^(?:Process exited with code|Exit code:) (-?\d+)$|^Process running with session ID (\S+)$",
    re.MULTILINE,
)
_BODY = "\nOutput:\n"
_FAILED = re.compile(r"\A[\w :]{0,60}\bfailed\b")
_REFUSED = re.compile(r"\A[\w ]{0,40}rejected by (?:the )?user")
_HEREDOC = re.compile(r"apply_patch\s+<<-?\s*['\"]?(\w+)['\"]?\n(.*?)\n\s*\1\b", re.DOTALL)
_AGENT_ID = re.compile(r'"agent_id": ?"([^"]+)"')
_AGENT_STATE = re.compile(
    r'"([0-9a-f]{8}-[0-9a-f-]{27})"(?:: ?|, ?"status": ?)\{"(completed|errored|shutdown)"'
)


_PLAIN_KINDS = frozenset(("shell", "edit", "todo", "read"))
_POINTING = ("write_stdin", "close_agent")


class _Step(Struct):
    step: str = ""
    status: str = ""


class _Arguments(Struct):
    cmd: str | list[str] = ""
    command: str | list[str] = ""
    workdir: str | None = ""
    session_id: int | str | None = None
    chars: str | None = ""
    plan: list[_Step] = []
    message: str | None = ""
    target: str | None = ""
    path: str | None = ""


class _ShellMetadata(Struct):
    exit_code: int | None = None


class _ShellResult(Struct):
    output: str
    metadata: _ShellMetadata


_ARGUMENTS = msgspec.json.Decoder(_Arguments)
_SHELL_RESULT = msgspec.json.Decoder(_ShellResult)


class CallLog:
    """The entries of a thread, in which calls find their results as these come in.

    Entries are frozen for everyone else: only here results are put into calls that were made.
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

    def called(self, entry: Entry, call: ToolCall) -> None:
        """A call was made; its result is yet to come."""
        self._calls[call.id] = entry
        self._open[call.id] = call
        if call.name == "write_stdin":
            self._polls[call.id] = call.background
        self.entries.append(entry)

    def returned(self, call_id: str, text: str) -> bool:
        """The result of a call came in; False if nobody made that call."""
        entry = self._calls.get(call_id)
        if entry is None or (call := entry.tool) is None:
            return False
        self._open.pop(call_id, None)
        code, output, session = _parsed_output(text)
        if code is None:
            code = self._exits.get(call_id)
        size = len(output)
        put(call, "output", output if size <= self._keep else clip(output, self._keep))
        put(call, "output_size", size)
        put(call, "exit_code", code)
        put(call, "status", _status(code, output))
        if call.name == "write_stdin":
            put(call, "background", "")
            self._polled(self._polls.get(call_id, ""), code, output)
        elif session and code is None:
            self._sessions[session] = call
            self.background.started(session, "command", call.command, entry.ref)
            put(call, "background", session)
            put(call, "status", "running")
        elif call.kind == "agent":
            self._agent_result(call, output, entry.ref)
        return True

    def exited(self, call_id: str, code: int) -> None:
        """The program noted the exit code of a command, before or after its result."""
        self._exits[call_id] = code
        if (entry := self._calls.get(call_id)) and entry.tool:
            self._ended(entry.tool, code)

    def settle(self, status: ToolStatus) -> None:
        """A turn ended: calls that got no result will never get one."""
        for call in self._open.values():
            put(call, "status", status)
        self._open.clear()

    def agents_ended(self, text: str) -> None:
        """Sub-agents whose end a result or a notification tells."""
        for id, state in _AGENT_STATE.findall(text):
            self.background.ended(id, failed=state == "errored")

    def _polled(self, session: str, code: int | None, output: str) -> None:
        """More of the output, and perhaps the end, of a command under way."""
        call = self._sessions.get(session)
        if call is None or output.startswith("write_stdin fail"):
            return
        text = f"{call.output}\n{output}" if call.output else output
        put(call, "output", clip(text, self._keep))
        put(call, "output_size", call.output_size + len(output))
        if code is not None:
            self._ended(call, code)

    def _ended(self, call: ToolCall, code: int) -> None:
        if call.status == "running" and call.background:
            self.background.ended(call.background, failed=bool(code))
            put(call, "exit_code", code)
            put(call, "status", "error" if code else "ok")

    def _agent_result(self, call: ToolCall, output: str, ref: int) -> None:
        if call.name == "spawn_agent" and (match := _AGENT_ID.search(output)):
            self.agents.append(match[1])
            self.background.started(match[1], "agent", call.detail, ref)
            put(call, "background", match[1])
            return
        if call.name == "close_agent" and call.status == "ok":
            self.background.ended(call.background)
        self.agents_ended(output)
        put(call, "background", "")


def tool_call(given: Call) -> ToolCall:
    """What a call asks for, before its result is known.

    A poll of a running command carries no command of its own, so that nothing is counted twice.
    """
    name = given.name
    arguments = _arguments(given.arguments)
    command = _command(given, arguments)
    kind = "shell" if given.action else tools.kind(name)
    patch = given.input if name == "apply_patch" else ""
    if "apply_patch" in command:
        patch = _patch_in(command)
    changes: tuple[FileChange, ...] = ()
    if patch:
        kind, command, changes = "edit", "", tools.patch_changes(patch)
    return ToolCall(
        given.call_id or "",
        f"{given.namespace}__{name}" if given.namespace else name or "local_shell",
        kind,
        command if kind == "shell" else "",
        "" if kind in _PLAIN_KINDS and name != "write_stdin" else _detail(given, arguments, kind),
        _paths(changes, arguments) if changes or arguments.path else (),
        changes,
        tools.todos((s.step, s.status) for s in arguments.plan) if name == "update_plan" else None,
        "",
        0,
        "running",
        None,
        _background(name, arguments) if name in _POINTING else "",
        arguments.workdir or (given.action.working_directory or "" if given.action else ""),
    )


def _patch_in(command: str) -> str:
    """The patch that a shell command hands to `apply_patch`, empty if it does not."""
    if match := _HEREDOC.search(command):
        return match[2]
    return command if command.startswith("apply_patch ") and "*** Begin" in command else ""


def _arguments(text: str) -> _Arguments:
    try:
        return nested(_ARGUMENTS, text) if text else _Arguments()
    except UNDECODABLE:
        return _Arguments()


def _command(given: Call, arguments: _Arguments) -> str:
    words = given.action.command if given.action else arguments.cmd or arguments.command
    if isinstance(words, str):
        return words
    if len(words) == 3 and words[1] in ("-lc", "-c", "-ic", "-lic"):
        return words[2]
    return shlex.join(words)


def _detail(given: Call, arguments: _Arguments, kind: str) -> str:
    if given.name == "write_stdin":
        return arguments.chars or ""
    if kind == "agent":
        return arguments.message or ""
    return given.arguments[:300] if kind not in _PLAIN_KINDS else ""


def _paths(changes: tuple[FileChange, ...], arguments: _Arguments) -> tuple[str, ...]:
    paths = dict.fromkeys(c.path for c in changes)
    if arguments.path:
        paths[arguments.path] = None
    return tuple(paths)


def _background(name: str, arguments: _Arguments) -> str:
    """Until its result is there, what a poll or a close points at."""
    if name == "write_stdin":
        return str(arguments.session_id or "")
    return arguments.target or "" if name == "close_agent" else ""


def output_text(output: str | list[Part] | Output | None) -> str:
    """The text of a result, in any of the shapes it has had."""
    if isinstance(output, Output):
        return output.content or ""
    return plain(output)


def _parsed_output(text: str) -> tuple[int | None, str, str]:
    """Exit code, output without the harness's own header, id of the session still running."""
    if text.startswith('{"output":'):
        code, output = shell_result(text)
        return code, output, ""
    at = text.find(_BODY)
    match = _STATE.search(text, max(at - 200, 0), at) if at >= 0 else _STATE.match(text)
    output = text[at + len(_BODY) :] if at >= 0 else ""
    if match:
        return int(match[1]) if match[1] else None, output, match[2] or ""
    return None, output if output and text.startswith("Wall time: ") else text, ""


def shell_result(text: str) -> tuple[int | None, str]:
    """Exit code and output of the older form, a JSON object inside the text."""
    try:
        result = nested(_SHELL_RESULT, text)
        return result.metadata.exit_code, result.output
    except UNDECODABLE:
        code, output, _ = _parsed_output(text) if not text.startswith("{") else (None, text, "")
        return code, output


def _status(code: int | None, output: str) -> ToolStatus:
    if code is not None:
        return "error" if code else "ok"
    if output.startswith("aborted"):
        return "aborted"
    if _REFUSED.match(output):
        return "refused"
    return "error" if _FAILED.match(output) else "ok"
