"""Calls of Copilot's tools: what they ask for, and what their results say."""

import re

import msgspec
from msgspec import Raw, Struct

from tasuki.harness import tools
from tasuki.harness.jsonl import UNDECODABLE, nested
from tasuki.model import FileChange, Todo, ToolCall, ToolKind

KINDS: dict[str, ToolKind] = {
    "powershell": "shell", "local_shell": "shell", "read_bash": "shell", "write_bash": "shell",
    "stop_bash": "shell", "read_powershell": "shell", "write_powershell": "shell",
    "stop_powershell": "shell", "update_todo": "todo", "str_replace_editor": "edit",
    "read_agent": "agent", "write_agent": "agent",
}  # fmt: skip
_ENDED = re.compile(
    r"\n?<(?:shellId: (\S+) )?(?:completed|exited) with exit code (-?\d{1,9})>\s*\Z"
)
_IN_BACKGROUND = re.compile(r"<command started in (?:\w+ )?background[^<>\n]*shellId: ([^\s<>]+)>")
_ANSWERED = re.compile(r"\AUser (?:responded|selected|answered|entered|provided)[^:\n]*:\s*")
_BOX = re.compile(r"^\s*[-*]\s*\[([ xX~/-])\]\s*(.+)$", re.MULTILINE)
_BOX_STATES = {" ": "pending", "x": "done", "~": "in_progress", "/": "in_progress"}


class _Edit(Struct, gc=False):
    old_str: str | None = ""
    new_str: str | None = ""


class Arguments(Struct, gc=False):
    """Arguments of any tool."""

    command: str = ""
    path: str = ""
    file_text: str | None = ""
    old_str: str | None = ""
    new_str: str | None = ""
    edits: list[_Edit] = []
    paths: str | list[str] | None = None
    pattern: str = ""
    query: str = ""
    input: str | None = ""
    patch: str | None = ""
    url: str = ""
    description: str = ""
    prompt: str = ""
    question: str = ""
    message: str = ""
    skill: str = ""
    todos: str | None = ""
    summary: str = ""
    shellId: str = ""
    agent_id: str = ""


class Shell(Struct, gc=False):
    """What the result of a command says besides its output."""

    output: str
    exit_code: int | None = None
    background: str = ""
    """Id of the shell in which the command goes on."""
    ended: str = ""
    """Id of the shell that came to its end."""


_ARGUMENTS = msgspec.json.Decoder(Arguments)
_TEXT = msgspec.json.Decoder(str)


def kind_of(name: str) -> ToolKind:
    """What a tool of this name does."""
    return KINDS.get(name.lower()) or tools.kind(name)


def arguments_of(raw: Raw) -> Arguments:
    """The arguments of a call; a text alone is a patch, arguments of wrong types are none."""
    try:
        return nested(_ARGUMENTS, raw)
    except UNDECODABLE:
        try:
            return Arguments(query=nested(_TEXT, raw))
        except UNDECODABLE:
            return Arguments()


def tool_call(id: str, name: str, raw: Raw) -> ToolCall:
    """What a call asks for, before its result is known."""
    given = arguments_of(raw)
    kind = kind_of(name)
    if name == "str_replace_editor":
        kind = {"view": "read", "create": "write"}.get(given.command, "edit")  # type: ignore[assignment]
    changes = _changes(kind, name, given)
    return ToolCall(
        id,
        name,
        kind,
        given.command if kind == "shell" else "",
        _detail(kind, given, raw),
        (given.path,) if given.path else _paths(given, changes),
        changes,
        _boxes(given.todos) if kind == "todo" else None,
        status="running",
    )


def shell_result(text: str) -> Shell:
    """Output without the lines that Copilot writes around it, and what they tell."""
    if match := _ENDED.search(text, max(len(text) - 120, 0)):
        return Shell(text[: match.start()], int(match[2]), ended=match[1] or "")
    if match := _IN_BACKGROUND.search(text):
        return Shell(text, background=match[1])
    return Shell(text)


def answer(text: str) -> str:
    """The user's own words in the result of a question, empty if they gave none."""
    match = _ANSWERED.match(text)
    return text[match.end() :].strip() if match else ""


def _changes(kind: ToolKind, name: str, given: Arguments) -> tuple[FileChange, ...]:
    if kind == "write" and given.path:
        return (FileChange(path=given.path, kind="create", new=given.file_text or ""),)
    if kind != "edit":
        return ()
    if name == "apply_patch":
        return tools.patch_changes(given.input or given.patch or given.query)
    edits = given.edits or [_Edit(given.old_str, given.new_str)]
    return tuple(
        FileChange(path=given.path, kind="edit", old=e.old_str or "", new=e.new_str or "")
        for e in edits
        if given.path
    )


def _paths(given: Arguments, changes: tuple[FileChange, ...]) -> tuple[str, ...]:
    if isinstance(given.paths, str):
        return (given.paths,)
    return tuple(dict.fromkeys(given.paths or (c.path for c in changes)))


def _detail(kind: ToolKind, given: Arguments, raw: Raw) -> str:
    if kind == "agent":
        return given.description or given.prompt or given.agent_id
    if kind == "skill":
        return given.skill
    known = given.pattern or given.url or given.question or given.message or given.query
    if known or kind in ("shell", "edit", "write", "read", "todo"):
        return given.shellId if kind == "shell" else known
    return given.summary or bytes(raw).decode("utf-8", "replace")[:300]


def _boxes(text: str | None) -> tuple[Todo, ...] | None:
    """Todos of a Markdown check list, the form that Copilot had before 1.0."""
    found = _BOX.findall(text or "")
    return tools.todos((t, _BOX_STATES.get(box.lower(), "dropped")) for box, t in found) or None
