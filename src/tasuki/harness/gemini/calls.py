"""Calls of Gemini CLI's tools: what they ask for, and what their results say."""

import re
from typing import Any

import msgspec
from msgspec import Raw, Struct

from tasuki.harness import tools
from tasuki.harness.gemini.format import Call, FunctionResponse, parts_of
from tasuki.harness.jsonl import UNDECODABLE, clip, nested
from tasuki.model import FileChange, ToolCall, ToolKind, ToolStatus

KINDS: dict[str, ToolKind] = {
    "grep_search": "search", "search_file_content": "search", "invoke_agent": "agent",
    "codebase_investigator": "agent", "delegate_to_agent": "agent", "cli_help": "agent",
    "list_background_processes": "other", "read_background_output": "other",
}  # fmt: skip
_STATUS: dict[str, ToolStatus] = {
    "success": "ok", "error": "error", "cancelled": "aborted", "executing": "running",
    "scheduled": "running", "validating": "running", "awaiting_approval": "running",
}  # fmt: skip
_REFUSED = re.compile(
    r"User denied|did not allow|denied by the user|rejected by the user", re.IGNORECASE
)
_FENCE = re.compile(r"\A<untrusted_context>\n(.*)\n</untrusted_context>\s*\Z", re.DOTALL)
_OUTPUT = re.compile(r"(?:\A|\n)(?:Output|Stdout): ")
_FIELD = re.compile(
    r"\n(Exit Code|Signal|Background PIDs|Process Group PGID|(?:Error|Stderr)(?=: \(none\)))"
    r": ?([^\n]*)\Z"
)
_BACKGROUND = re.compile(r"Command moved to background \(PID: (\d+)\)")
_PROCESS = re.compile(r"^- \[PID (\d+)\] (\w+):.*?(?:\(Exit Code: (-?\d+)\))?$", re.MULTILINE)
_TERMINATION = re.compile(r"Termination Reason: (\w+)")
_ANSWERS = re.compile(r'\A\s*\{"answers"')
_USER_COMMAND = re.compile(
    r"\AI ran the following shell command:\n```sh\n(.*?)\n```\n\n"
    r"This produced the following result:\n```\n(.*)\n```\s*\Z",
    re.DOTALL,
)
"""What a command of the user becomes in the conversation."""
_USER_CODE = re.compile(r"\ACommand exited with code (-?\d{1,9})\.?(?:\n|\Z)")


class _Todo(Struct, gc=False):
    description: str = ""
    status: str = "pending"


class _Question(Struct, gc=False):
    question: str = ""


class _Arguments(Struct, gc=False):
    command: str = ""
    file_path: str = ""
    absolute_path: str = ""
    path: str = ""
    dir_path: str = ""
    directory: str = ""
    old_string: str = ""
    new_string: str = ""
    content: str = ""
    include: str | list[str] | None = None
    paths: list[str] | None = None
    pattern: str = ""
    query: str = ""
    prompt: str = ""
    objective: str = ""
    description: str = ""
    fact: str = ""
    name: str = ""
    todos: list[_Todo] | None = None
    questions: list[_Question] = []


class _Display(Struct, gc=False):
    isNewFile: bool = True


class _Response(Struct, gc=False):
    output: Any = None
    error: Any = None
    content: Any = None


class _Answers(Struct, gc=False):
    answers: dict[str, Any] = {}


class Shell(Struct, gc=False):
    """What the result of a command says besides its output."""

    output: str
    exit_code: int | None = None
    background: str = ""


_ARGUMENTS = msgspec.json.Decoder(_Arguments)
_DISPLAY = msgspec.json.Decoder(_Display)
_RESPONSE = msgspec.json.Decoder(_Response)
_ANSWERED = msgspec.json.Decoder(_Answers)


def tool_call(call: Call) -> ToolCall:
    """What a call asks for, before its result is known."""
    try:
        given = nested(_ARGUMENTS, call.args)
    except UNDECODABLE:
        given = _Arguments()
    name = call.name or "(no name)"
    kind = "agent" if call.agentId else KINDS.get(name.lower()) or tools.kind(name)
    changes = _changes(kind, given, call.resultDisplay)
    return ToolCall(
        call.id,
        name,
        kind,
        given.command if kind == "shell" else "",
        _detail(kind, given, call.args),
        _paths(kind, given),
        changes,
        tools.todos((t.description, t.status) for t in given.todos)
        if kind == "todo" and given.todos is not None
        else None,
        status="running",
        workdir=(given.dir_path or given.directory) if kind == "shell" else "",
    )


def output_of(call: Call) -> str:
    """The result of a call as text; the results of a whole turn may stand under each of its calls."""
    parts = parts_of(call.result)
    results = [p.functionResponse for p in parts if p.functionResponse is not None]
    own = [r for r in results if r.id == call.id] or results
    texts = [response_text(r) for r in own]
    if len(results) < 2:
        texts += [
            p.text if p.text is not None else "[image]" for p in parts if p.inlineData or p.text
        ]
    return "\n".join(t for t in texts if t)


def response_text(response: FunctionResponse) -> str:
    """What a result told the model."""
    try:
        told = nested(_RESPONSE, response.response)
    except UNDECODABLE:
        return bytes(response.response).decode("utf-8", "replace")
    for value in (told.error, told.output, told.content):
        if value is not None and value != "":
            return value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return ""


def failed(call: Call) -> bool:
    """Whether a result told the model of an error."""
    responses = [p.functionResponse for p in parts_of(call.result) if p.functionResponse]
    try:
        return any(nested(_RESPONSE, r.response).error is not None for r in responses)
    except UNDECODABLE:
        return False


def status_of(call: Call, output: str) -> ToolStatus:
    """How a call went; Gemini CLI calls a command that failed a success."""
    status = _STATUS.get(call.status or "", "unknown")
    if status == "aborted" and _REFUSED.search(output[:400]):
        return "refused"
    return status


def shell_result(text: str) -> Shell:
    """Output without the lines that Gemini CLI writes around it, and what they tell."""
    if match := _FENCE.match(text):
        text = match[1]
    if match := _BACKGROUND.search(text[:200]):
        return Shell(text, background=match[1])
    start = _OUTPUT.search(text[:4000])
    if start is None:
        return Shell(text)
    fields: dict[str, str] = {}
    body = text
    while match := _FIELD.search(body, max(body.rfind("\n"), 0)):
        fields[match[1]] = match[2].strip()
        body = body[: match.start()]
    code = _number(fields.get("Exit Code", "0"))
    if fields.get("Signal", "(none)") not in ("(none)", "0", ""):
        code = None
    output = body[start.end() :]
    return Shell("" if output == "(empty)" else output, code)


def user_command(id: str, text: str, keep: int) -> ToolCall | None:
    """A command that the user ran, from the message that tells the model of it; else None."""
    match = _USER_COMMAND.match(text)
    if match is None:
        return None
    output, code = match[2], 0
    if told := _USER_CODE.match(output):
        output, code = output[told.end() :], int(told[1])
    return ToolCall(
        id=id,
        name="!",
        kind="shell",
        command=match[1],
        output=clip(output, keep),
        output_size=len(output),
        exit_code=code,
        status="error" if code else "ok",
    )


def answer_in(output: str) -> str:
    """The user's own words in the result of a question."""
    if not _ANSWERS.match(output):
        return ""
    try:
        answers = nested(_ANSWERED, output).answers.values()
    except UNDECODABLE:
        return ""
    return "\n".join(a if isinstance(a, str) else msgspec.json.encode(a).decode() for a in answers)


def processes_in(output: str) -> list[tuple[str, bool]]:
    """Background processes that a list of them shows to be over, and whether they failed."""
    return [
        (pid, code not in ("", "0"))
        for pid, state, code in _PROCESS.findall(output)
        if state != "RUNNING"
    ]


def agent_failed(output: str) -> bool:
    """Whether a sub-agent came back without having done what it was asked."""
    match = _TERMINATION.search(output[:2000])
    return match is not None and match[1] != "GOAL"


def _changes(kind: ToolKind, given: _Arguments, shown: Raw) -> tuple[FileChange, ...]:
    path = given.file_path or given.absolute_path or given.path
    if not path:
        return ()
    if kind == "edit":
        change = FileChange(path=path, kind="edit", old=given.old_string, new=given.new_string)
        return (change,)
    if kind != "write":
        return ()
    try:
        new = nested(_DISPLAY, shown).isNewFile
    except UNDECODABLE:
        new = True
    return (FileChange(path=path, kind="create" if new else "edit", new=given.content),)


def _paths(kind: ToolKind, given: _Arguments) -> tuple[str, ...]:
    path = given.file_path or given.absolute_path or given.path
    if path:
        return (path,)
    if kind == "read" and isinstance(given.include, list):
        return tuple(given.include)
    if given.paths:
        return tuple(given.paths)
    return (given.dir_path,) if given.dir_path and kind == "search" else ()


def _detail(kind: ToolKind, given: _Arguments, args: Raw) -> str:
    if kind == "agent":
        return given.prompt or given.objective or given.query or given.description
    if kind == "ask":
        return "\n".join(q.question for q in given.questions)
    known = given.pattern or given.query or given.prompt or given.fact
    if kind == "skill":
        return given.name
    if known or kind in ("shell", "edit", "write", "read", "todo", "search"):
        return known
    return _compact(args)[:300]


def _compact(raw: Raw) -> str:
    try:
        raw = Raw(msgspec.json.format(bytes(raw), indent=-1))
    except UNDECODABLE:
        pass
    return bytes(raw).decode("utf-8", "replace")


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"-?\d{1,9}", text) else None
