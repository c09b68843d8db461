"""Calls of opencode's tools: what they ask for, and what came of them."""

import msgspec
from msgspec import Raw, Struct

from tasuki.harness import tools
from tasuki.harness.jsonl import UNDECODABLE, clip, nested
from tasuki.harness.opencode.format import METADATA, Metadata, Part, State
from tasuki.model import ChangeKind, FileChange, Todo, ToolCall, ToolKind, ToolStatus

_KINDS: dict[str, ToolKind] = {
    "question": "ask", "list": "search", "patch": "edit", "codesearch": "web", "todoread": "todo",
    "lsp": "search", "plan_exit": "ask",
}  # fmt: skip
_REFUSED = ("The user rejected permission", "The user dismissed this question")
_FEEDBACK = "with the following feedback: "
_STOPPED = "User aborted the command"
_STATUS: dict[str, ToolStatus] = {"completed": "ok", "error": "error"}


class _Edit(Struct):
    oldString: str = ""
    newString: str = ""


class _Todo(Struct):
    content: str = ""
    status: str = "pending"


class _Question(Struct):
    question: str = ""


class _Input(Struct, gc=False):
    command: str = ""
    workdir: str = ""
    filePath: str = ""
    path: str = ""
    oldString: str = ""
    newString: str = ""
    content: str = ""
    edits: list[_Edit] = []
    patchText: str = ""
    pattern: str = ""
    query: str = ""
    url: str = ""
    description: str = ""
    prompt: str = ""
    name: str = ""
    todos: list[_Todo] = []
    questions: list[_Question] = []


_INPUT = msgspec.json.Decoder(_Input)


def tool_call(part: Part, keep: int) -> tuple[ToolCall, Metadata]:
    """A call with its result as far as there is one, and what the tool noted about it.

    The call counts as running while it is neither completed nor failed.
    """
    state = part.state or State()
    given, noted = _given(state.input), _noted(state.metadata)
    kind = _KINDS.get(part.tool) or tools.kind(part.tool)
    changes = _changes(kind, given, noted)
    path = given.filePath or (given.path if kind in ("search", "read") else "")
    output = (state.error if state.status == "error" else state.output) or ""
    call = ToolCall(
        id=part.callID,
        name=part.tool or "tool",
        kind=kind,
        command=given.command if kind == "shell" else "",
        detail=_detail(kind, given, state.input),
        paths=(path,) if path else tuple(dict.fromkeys(c.path for c in changes)),
        changes=changes,
        todos=_todos(given) if kind == "todo" and given.todos else None,
        output=output if len(output) <= keep else clip(output, keep),
        output_size=len(output),
        status=_status(kind, state, noted, output),
        exit_code=noted.exit if kind == "shell" else None,
        workdir=given.workdir,
    )
    return call, noted


def skill_of(state: State | None) -> str:
    """The name of the skill that a call of the `skill` tool loads."""
    return _given(state.input).name if state else ""


def answer_in(call: ToolCall, noted: Metadata) -> str:
    """The user's own words inside a result: an answer, or what they said when they refused."""
    if call.status == "refused":
        return call.output.partition(_FEEDBACK)[2].strip()
    if call.kind != "ask":
        return ""
    return "\n".join(said for chosen in noted.answers if (said := ", ".join(chosen).strip()))


def _given(raw: Raw) -> _Input:
    try:
        return nested(_INPUT, raw)
    except UNDECODABLE:
        return _Input()


def _noted(raw: Raw) -> Metadata:
    try:
        return nested(METADATA, raw)
    except UNDECODABLE:
        return Metadata()


def _status(kind: str, state: State, noted: Metadata, output: str) -> ToolStatus:
    status = _STATUS.get(state.status, "running")
    if status == "error" and output.startswith(_REFUSED):
        return "refused"
    if noted.interrupted or (kind == "shell" and _STOPPED in output[-200:] and noted.exit is None):
        return "aborted"
    return "error" if noted.exit and kind == "shell" and status == "ok" else status


def _changes(kind: str, given: _Input, noted: Metadata) -> tuple[FileChange, ...]:
    path = given.filePath
    if kind == "edit" and given.patchText:
        return tools.patch_changes(given.patchText)
    if kind == "write" and path:
        kind_of: ChangeKind = "edit" if noted.exists else "create"
        return (FileChange(path=path, kind=kind_of, new=given.content),)
    if kind != "edit" or not path:
        return ()
    edits = given.edits or [_Edit(given.oldString, given.newString)]
    return tuple(
        FileChange(
            path=path,
            kind="edit" if e.oldString or given.edits else "create",
            old=e.oldString,
            new=e.newString,
        )
        for e in edits
    )


def _todos(given: _Input) -> tuple[Todo, ...]:
    return tools.todos((t.content, t.status) for t in given.todos)


def _detail(kind: str, given: _Input, raw: Raw) -> str:
    if kind == "agent":
        return given.description or given.prompt
    if kind == "ask":
        return "\n".join(q.question for q in given.questions)
    known = given.pattern or given.query or given.url or (given.name if kind == "skill" else "")
    if known or kind in ("shell", "edit", "write", "read", "todo"):
        return known
    return bytes(raw).decode("utf-8", "replace")[:300]
