"""opencode's tool calls: what they ask for, and their results."""

import msgspec
from msgspec import Raw, Struct

from tasuki.harness.opencode.format import (
    METADATA,
    OpencodeMetadata,
    OpencodePart,
    OpencodeToolState,
)
from tasuki.harness.reading import tools
from tasuki.harness.reading.answers import OfferedQuestion, format_answers
from tasuki.harness.reading.jsonl import UNDECODABLE, clip, decode_nested
from tasuki.model import ChangeKind, FileChange, ToolCall, ToolKind, ToolStatus
from tasuki.text_safety import cut_text

_KINDS: dict[str, ToolKind] = {
    "question": "ask", "list": "search", "patch": "edit", "codesearch": "web", "todoread": "todo",
    "lsp": "search", "plan_exit": "ask",
}  # fmt: skip
_REFUSED = ("The user rejected permission", "The user dismissed this question")
_FEEDBACK = "with the following feedback: "
_STOPPED = "User aborted the command"
_STATUS: dict[str, ToolStatus] = {"completed": "ok", "error": "error"}


class _OpencodeEdit(Struct):
    oldString: str = ""
    newString: str = ""


class _OpencodeTodo(Struct):
    content: str = ""
    status: str = "pending"


class _OpencodeInput(Struct, gc=False):
    command: str = ""
    workdir: str = ""
    filePath: str = ""
    path: str = ""
    oldString: str = ""
    newString: str = ""
    content: str = ""
    edits: list[_OpencodeEdit] = []
    patchText: str = ""
    pattern: str = ""
    query: str = ""
    url: str = ""
    description: str = ""
    prompt: str = ""
    name: str = ""
    todos: list[_OpencodeTodo] = []
    questions: list[OfferedQuestion] = []


_INPUT = msgspec.json.Decoder(_OpencodeInput)


def build_tool_call(part: OpencodePart, keep: int) -> tuple[ToolCall, OpencodeMetadata]:
    """Build a call with its result, if there is one, and the tool's metadata.

    The call counts as running while it is neither completed nor failed.
    """
    state = part.state or OpencodeToolState()
    arguments, metadata = _parse_input(state.input), _parse_metadata(state.metadata)
    kind = _KINDS.get(part.tool) or tools.find_kind(part.tool)
    changes = _build_changes(kind, arguments, metadata)
    path = arguments.filePath or (arguments.path if kind in ("search", "read") else "")
    output = (state.error if state.status == "error" else state.output) or ""
    todos = None
    if kind == "todo" and arguments.todos:
        todos = tools.build_todos((t.content, t.status) for t in arguments.todos)
    call = ToolCall(
        id=part.callID,
        name=part.tool or "tool",
        kind=kind,
        command=arguments.command if kind == "shell" else "",
        detail=_find_detail(kind, arguments, state.input),
        paths=(path,) if path else tuple(dict.fromkeys(c.path for c in changes)),
        changes=changes,
        todos=todos,
        output=output if len(output) <= keep else clip(output, keep),
        output_size=len(output),
        status=_find_status(kind, state, metadata, output),
        exit_code=metadata.exit if kind == "shell" else None,
        workdir=arguments.workdir,
    )
    return call, metadata


def find_skill(state: OpencodeToolState | None) -> str:
    """Return the name of the skill that a call of the `skill` tool loads."""
    return _parse_input(state.input).name if state else ""


def find_answer(call: ToolCall, state: OpencodeToolState, metadata: OpencodeMetadata) -> str:
    """Return what the user says in a result: answers, or the words with which they refused."""
    if call.status == "refused":
        if call.kind in ("other", "agent"):  # A server of MCP could say so, too.
            return ""
        return call.output.partition(_FEEDBACK)[2].strip()
    if call.kind != "ask":
        return ""
    answers = [", ".join(choices) for choices in metadata.answers]
    return format_answers(_parse_input(state.input).questions, answers)


def _parse_input(raw: Raw) -> _OpencodeInput:
    try:
        return decode_nested(_INPUT, raw)
    except UNDECODABLE:
        return _OpencodeInput()


def _parse_metadata(raw: Raw) -> OpencodeMetadata:
    try:
        return decode_nested(METADATA, raw)
    except UNDECODABLE:
        return OpencodeMetadata()


def _find_status(
    kind: str, state: OpencodeToolState, metadata: OpencodeMetadata, output: str
) -> ToolStatus:
    status = _STATUS.get(state.status, "running")
    if status == "error" and output.startswith(_REFUSED):
        return "refused"
    if metadata.interrupted or (
        kind == "shell" and _STOPPED in output[-200:] and metadata.exit is None
    ):
        return "aborted"
    return "error" if metadata.exit and kind == "shell" and status == "ok" else status


def _build_changes(
    kind: str, arguments: _OpencodeInput, metadata: OpencodeMetadata
) -> tuple[FileChange, ...]:
    path = arguments.filePath
    if kind == "edit" and arguments.patchText:
        return tools.parse_patch(arguments.patchText)
    if kind == "write" and path:
        kind_of: ChangeKind = "edit" if metadata.exists else "create"
        return (FileChange(path=path, kind=kind_of, new=arguments.content),)
    if kind != "edit" or not path:
        return ()
    edits = arguments.edits or [_OpencodeEdit(arguments.oldString, arguments.newString)]
    return tuple(
        FileChange(
            path=path,
            kind="edit" if e.oldString or arguments.edits else "create",
            old=e.oldString,
            new=e.newString,
        )
        for e in edits
    )


def _find_detail(kind: str, arguments: _OpencodeInput, raw: Raw) -> str:
    if kind == "agent":
        return arguments.description or arguments.prompt
    if kind == "ask":
        return "\n".join(q.question for q in arguments.questions)
    detail = (
        arguments.pattern
        or arguments.query
        or arguments.url
        or (arguments.name if kind == "skill" else "")
    )
    if detail or kind in ("shell", "edit", "write", "read", "todo"):
        return detail
    return cut_text(bytes(raw).decode("utf-8", "replace"), 300)
