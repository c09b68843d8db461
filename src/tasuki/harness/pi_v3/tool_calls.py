"""Tool calls of pi and omp: what they ask for, and what their results show."""

import re

import msgspec
from msgspec import Raw, Struct

from tasuki.harness.pi_v3.format import PiBlock
from tasuki.harness.reading import tools
from tasuki.harness.reading.jsonl import UNDECODABLE, decode_nested
from tasuki.model import FileChange, Todo, ToolCall
from tasuki.patterns import compile_pattern
from tasuki.text_safety import cut_text

_ANCHOR = compile_pattern(r"^\s*(?:\[([^\]#\n]+)#\w*\]|@([^\s@]+))\s*$", re.MULTILINE)
_NEW_TEXT = compile_pattern(r"^\s*\+(.*)$", re.MULTILINE)
_WALL_TIME = compile_pattern(r"\nWall time: [\d.]+ seconds\s*\Z")
_EXITED = compile_pattern(r"(?:\A|\n)Command exited with code (-?\d+)\s*\Z")


class _PiEdit(Struct):
    oldText: str = ""
    newText: str = ""
    old_text: str = ""
    new_text: str = ""


class _PiArguments(Struct, gc=False):
    command: str = ""
    path: str = ""
    file_path: str = ""
    oldText: str = ""
    newText: str = ""
    edits: list[_PiEdit] = []
    content: str = ""
    input: str = ""
    pattern: str = ""
    query: str = ""
    url: str = ""
    cwd: str = ""
    description: str = ""
    assignment: str = ""
    task: str = ""
    prompt: str = ""


class _PiTask(Struct):
    content: str = ""
    text: str = ""
    status: str = "pending"


class _PiPhase(Struct):
    tasks: list[_PiTask] = []


class _PiTodos(Struct):
    phases: list[_PiPhase] = []
    todos: list[_PiTask] = []


_ARGUMENTS = msgspec.json.Decoder(_PiArguments)
_TODOS = msgspec.json.Decoder(_PiTodos)


def build_tool_call(block: PiBlock) -> ToolCall:
    """Build what a call asks for, before its result is known."""
    try:
        arguments = decode_nested(_ARGUMENTS, block.arguments)
    except UNDECODABLE:
        arguments = _PiArguments()
    name = block.name
    kind = tools.find_kind(name)
    changes = _build_changes(kind, arguments) if kind == "edit" or kind == "write" else ()
    path = arguments.path or arguments.file_path
    return ToolCall(
        block.id,
        name,
        kind,
        arguments.command if kind == "shell" else "",
        _find_detail(kind, arguments, block),
        (path,) if path else tuple(dict.fromkeys(c.path for c in changes)),
        changes,
        parse_todos(block.arguments) if kind == "todo" else None,
        "",
        0,
        "running",
        None,
        "",
        arguments.cwd,
    )


def parse_shell_result(text: str, failed: bool) -> tuple[str, int | None]:
    """Parse output without the harness's own last lines, and the exit code in those lines."""
    code = None if failed else 0
    if match := _EXITED.search(text, max(len(text) - 60, 0)):
        text, code = text[: match.start()].rstrip("\n"), int(match[1])
    if match := _WALL_TIME.search(text, max(len(text) - 60, 0)):
        text = text[: match.start()].rstrip("\n")
    return text, code


def parse_todos(raw: Raw) -> tuple[Todo, ...] | None:
    """Parse todos of an omp `todo` result (`details.phases`) or of a call that lists them all."""
    try:
        parsed = decode_nested(_TODOS, raw)
    except UNDECODABLE:
        return None
    tasks = [t for p in parsed.phases for t in p.tasks] + parsed.todos
    return tools.build_todos((t.content or t.text, t.status) for t in tasks) if tasks else None


def _build_changes(kind: str, arguments: _PiArguments) -> tuple[FileChange, ...]:
    path = arguments.path or arguments.file_path
    if kind == "write" and path:
        return (FileChange(path=path, kind="create", new=arguments.content),)
    if kind != "edit":
        return ()
    if arguments.input and (anchored := _parse_hashline_edit(arguments.input)):
        return anchored
    edits = list(arguments.edits)
    if arguments.oldText or arguments.newText:
        edits.insert(0, _PiEdit(oldText=arguments.oldText, newText=arguments.newText))
    return tuple(
        FileChange(path=path, kind="edit", old=e.oldText or e.old_text, new=e.newText or e.new_text)
        for e in edits
        if path
    )


def _parse_hashline_edit(patch: str) -> tuple[FileChange, ...]:
    """Parse the changes of an omp hashline edit.

    It has one section a file, headed `[PATH#HASH]` or `@PATH`. The removed text is named there
    by anchors alone, so only the new text is known.
    """
    if "*** Begin Patch" in patch:
        return tools.parse_patch(patch)
    heads = list(_ANCHOR.finditer(patch))
    ends = [h.start() for h in heads[1:]] + [len(patch)] if heads else []
    return tuple(
        FileChange(
            path=(head[1] or head[2]).strip(),
            kind="edit",
            new="\n".join(_NEW_TEXT.findall(patch[head.end() : end])),
        )
        for head, end in zip(heads, ends, strict=True)
    )


def _find_detail(kind: str, arguments: _PiArguments, block: PiBlock) -> str:
    detail = arguments.pattern or arguments.query or arguments.url
    if kind == "agent":
        return arguments.description or arguments.assignment or arguments.task or arguments.prompt
    if detail or kind in ("shell", "edit", "write", "read", "todo"):
        return detail
    return cut_text(bytes(block.arguments).decode("utf-8", "replace"), 300)
