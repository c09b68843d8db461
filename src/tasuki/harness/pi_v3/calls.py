"""Calls of the tools of pi and omp: what they ask for, and what their results say."""

import re

import msgspec
from msgspec import Raw, Struct

from tasuki.harness import tools
from tasuki.harness.jsonl import UNDECODABLE, nested
from tasuki.harness.pi_v3.format import Block
from tasuki.model import FileChange, Todo, ToolCall

_ANCHOR = re.compile(r"^\s*(?:\[([^\]#\n]+)#\w*\]|@([^\s@]+))\s*$", re.MULTILINE)
_NEW_TEXT = re.compile(r"^\s*\+(.*)$", re.MULTILINE)
_WALL_TIME = re.compile(r"\nWall time: [\d.]+ seconds\s*\Z")
_EXITED = re.compile(r"(?:\A|\n)Command exited with code (-?\d+)\s*\Z")


class _Edit(Struct):
    oldText: str = ""
    newText: str = ""
    old_text: str = ""
    new_text: str = ""


class _Arguments(Struct, gc=False):
    command: str = ""
    path: str = ""
    file_path: str = ""
    oldText: str = ""
    newText: str = ""
    edits: list[_Edit] = []
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


class _Task(Struct):
    content: str = ""
    text: str = ""
    status: str = "pending"


class _Phase(Struct):
    tasks: list[_Task] = []


class _Todos(Struct):
    phases: list[_Phase] = []
    todos: list[_Task] = []


_ARGUMENTS = msgspec.json.Decoder(_Arguments)
_TODOS = msgspec.json.Decoder(_Todos)


def tool_call(block: Block) -> ToolCall:
    """What a call asks for, before its result is known."""
    try:
        given = nested(_ARGUMENTS, block.arguments)
    except UNDECODABLE:
        given = _Arguments()
    name = block.name
    kind = tools.kind(name)
    changes = _changes(kind, given) if kind == "edit" or kind == "write" else ()
    path = given.path or given.file_path
    return ToolCall(
        block.id,
        name,
        kind,
        given.command if kind == "shell" else "",
        _detail(kind, given, block),
        (path,) if path else tuple(dict.fromkeys(c.path for c in changes)),
        changes,
        todos_of(block.arguments) if kind == "todo" else None,
        "",
        0,
        "running",
        None,
        "",
        given.cwd,
    )


def shell_result(text: str, failed: bool) -> tuple[str, int | None]:
    """Output without the harness's own last lines, and the exit code that they tell."""
    code = None if failed else 0
    if match := _EXITED.search(text, max(len(text) - 60, 0)):
        text, code = text[: match.start()].rstrip("\n"), int(match[1])
    if match := _WALL_TIME.search(text, max(len(text) - 60, 0)):
        text = text[: match.start()].rstrip("\n")
    return text, code


def todos_of(raw: Raw) -> tuple[Todo, ...] | None:
    """Todos of an omp `todo` result (`details.phases`) or of a call that lists them all."""
    try:
        parsed = nested(_TODOS, raw)
    except UNDECODABLE:
        return None
    tasks = [t for p in parsed.phases for t in p.tasks] + parsed.todos
    return tools.todos((t.content or t.text, t.status) for t in tasks) if tasks else None


def _changes(kind: str, given: _Arguments) -> tuple[FileChange, ...]:
    path = given.path or given.file_path
    if kind == "write" and path:
        return (FileChange(path=path, kind="create", new=given.content),)
    if kind != "edit":
        return ()
    if given.input and (found := _anchored(given.input)):
        return found
    edits = list(given.edits)
    if given.oldText or given.newText:
        edits.insert(0, _Edit(oldText=given.oldText, newText=given.newText))
    return tuple(
        FileChange(path=path, kind="edit", old=e.oldText or e.old_text, new=e.newText or e.new_text)
        for e in edits
        if path
    )


def _anchored(patch: str) -> tuple[FileChange, ...]:
    """Changes of an omp hashline edit: one section a file, headed `[PATH#HASH]` or `@PATH`.

    The text taken out is named there by anchors alone, so only the new text is known.
    """
    if "*** Begin Patch" in patch:
        return tools.patch_changes(patch)
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


def _detail(kind: str, given: _Arguments, block: Block) -> str:
    known = given.pattern or given.query or given.url
    if kind == "agent":
        return given.description or given.assignment or given.task or given.prompt
    if known or kind in ("shell", "edit", "write", "read", "todo"):
        return known
    return bytes(block.arguments).decode("utf-8", "replace")[:300]
