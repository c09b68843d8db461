"""Blocks of tools in SpecStory's Markdown. Their contents differ by the program watched."""

import html
import re
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from tasuki.harness.reading import markdown, tools
from tasuki.harness.reading.jsonl import KEEP_WHOLE, UNDECODABLE, clip
from tasuki.model import ChangeKind, FileChange, Todo, ToolCall, ToolKind, ToolStatus
from tasuki.patterns import compile_pattern
from tasuki.text_safety import cut_text

LEGACY = compile_pattern(r"Tool use: \*\*|Read file: |<details>\s*<summary>")
_OPEN = compile_pattern(
    r'<tool-use\b[^>]*?\bdata-tool-type="([^"]*)"[^>]*?\bdata-tool-name="([^"]*)"'
)
_SUMMARY = compile_pattern(r"<summary>(.*?)</summary>", re.DOTALL)
_USED = compile_pattern(r"Tool use: \*\*(.+?)\*\*(?: • )?(.*)", re.DOTALL)
_RAN = compile_pattern(r"\A(?:Run command: (.+)|`([^`]+)`\s*)\Z", re.DOTALL)
_NAMED = compile_pattern(r"\b(?:Read|Edit|Create|Write|Delete) file: (.+)")
_SEARCHED = compile_pattern(r"(?:Grep|Glob|Search|Searched|Listed|List)\b.*")
_BARE = compile_pattern(r"\A\s*(?:path )?`([^`\n]+)`", re.MULTILINE)
_LINK = compile_pattern(r"\[\]\(file://([^)#\s]+)")
_BULLET = compile_pattern(
    r"^- (command|file_path|path|old_string|new_string|content|description|prompt|cmd|pattern|query|url): `(.*)`\s*$",
    re.MULTILINE,
)
_RESULT = compile_pattern(
    r"The file (\S+) has been updated|File (?:created|written) successfully at: (\S+)"
)
_CODE = compile_pattern(r"(?:Process exited with code|Exit code:?|exit code) (-?\d+)")
_STARTED = compile_pattern(r"running in background with ID: (\w+)")
_TODO = compile_pattern(
    r"^- \[(.)\] *(?:[\U0001F300-\U0001FAFF\u2600-\u27BF]\ufe0f? +)?(.+?)\s*$", re.MULTILINE
)
_TODO_STATE = {"x": "completed", "X": "completed", "!": "cancelled", " ": "pending"}
_FAILED = compile_pattern(r"\*\*Error:\*\*|Error calling tool|Status: \*\*(?:error|failed)\*\*")
_CANCELLED = compile_pattern(r"^Cancelled\s*$|Status: \*\*cancelled\*\*", re.MULTILINE)

_TYPES: dict[str, ToolKind] = {
    "read": "read", "write": "edit", "search": "search", "shell": "shell", "task": "todo",
}  # fmt: skip
_KINDS: dict[str, ToolKind] = {
    "readfile": "read", "listdirectory": "search", "listdir": "search", "findtextinfiles": "search",
    "findfiles": "search", "codebasesearch": "search", "grepsearch": "search", "filesearch": "search",
    "replacestring": "edit", "replacestringinfile": "edit", "multireplacestring": "edit",
    "searchreplace": "edit", "editfile": "edit", "codeedit": "edit", "inserteditintofile": "edit",
    "insertedit": "edit", "applypatch": "edit", "createfile": "write", "deletefile": "edit",
    "runinterminal": "shell", "runterminalcmd": "shell", "runterminalcommand": "shell",
    "command": "shell", "execcommand": "shell", "shellcommand": "shell", "managetodolist": "todo",
    "todowrite": "todo", "fetchwebpage": "web", "runsubagent": "agent",
}  # fmt: skip
_NO_COMMANDS = frozenset({"taskoutput", "killshell", "bashoutput", "ls", "listdirectory"})


class _SpecstoryParameters(Struct):
    """Parameters in a JSON block, and the new text that Copilot records with its result."""

    command: str = ""
    file_path: str = ""
    filePath: str = ""
    path: str = ""
    old_string: str = ""
    oldString: str = ""
    new_string: str = ""
    newString: str = ""
    content: str = ""
    textEditContent: str = ""
    query: str = ""
    pattern: str = ""
    url: str = ""
    description: str = ""


_GIVEN = msgspec.json.Decoder(_SpecstoryParameters)


class _CodeFence(Struct):
    """A block of code inside a tool's block."""

    language: str
    text: str


class _ToolBlock(Struct):
    """A tool's block, parsed."""

    type: str
    name: str
    summary: str
    body: str
    fences: list[_CodeFence]
    bullets: dict[str, str]
    given: _SpecstoryParameters


def build_tool_call(lines: list[str], id: str) -> ToolCall:
    """Build the call of a `<tool-use …>` block."""
    match = _OPEN.match(lines[0])
    kind, name = (match[1], match[2]) if match else ("", "tool")
    rest = lines[0].partition(">")[2]
    text = "\n".join([rest, *lines[1:]])
    text = text.replace("</tool-use>", "").replace("<details>", "").replace("</details>", "")
    return _build_call(_parse_block(kind, name, text), id)


def build_legacy_call(text: str, id: str, last_path: str = "") -> ToolCall:
    """Build the call of a block without such a tag, as in files of 2025.

    `last_path` is the file of the edit before: a diff without a name is of the same file.
    """
    if text.startswith("Read file: "):
        path = text.partition(": ")[2].partition("\n")[0].strip()
        return _build_call(_parse_block("read", "read_file", f"\n`{path}`"), id, "")
    text = text.replace("<details>", "").replace("</details>", "")
    name = ""
    if used := _USED.match(text):
        name, text = used[1], used[2]
    block = _parse_block("", name, text)
    block.name = block.name or ("search" if _SEARCHED.match(block.summary) else "tool")
    return _build_call(block, id, last_path)


def _parse_block(kind: str, name: str, text: str) -> _ToolBlock:
    summary = ""
    if match := _SUMMARY.search(text):
        summary = html.unescape(match[1].strip())
        text = text[: match.start()] + text[match.end() :]
    if used := _USED.search(summary):
        name, summary = name or used[1], used[2].strip()
    fences = list(_list_fences(text))
    parameters = _SpecstoryParameters()
    for block in fences:
        if block.language == "json":
            parameters = _merge_parameters(parameters, block.text)
    bullets = {m[1]: m[2] for m in _BULLET.finditer(text)}
    return _ToolBlock(kind, name, summary, text, fences, bullets, parameters)


def _list_fences(text: str) -> Iterator[_CodeFence]:
    mark, language = "", ""
    fence_lines: list[str] = []
    for line in text.split("\n"):
        if mark and markdown.is_closing_fence(line, mark):
            yield _CodeFence(language, "\n".join(fence_lines))
            mark = ""
        elif mark:
            fence_lines.append(line)
        elif mark := markdown.find_fence(line):
            language, fence_lines = line.strip().strip("`~").partition(":")[0].strip(), []
    if mark:
        yield _CodeFence(language, "\n".join(fence_lines))


def _merge_parameters(parameters: _SpecstoryParameters, text: str) -> _SpecstoryParameters:
    try:
        parsed = _GIVEN.decode(text.encode("utf-8", "replace"))
    except UNDECODABLE:
        return parameters
    names = _SpecstoryParameters.__struct_fields__
    return _SpecstoryParameters(**{n: getattr(parameters, n) or getattr(parsed, n) for n in names})


def _build_call(block: _ToolBlock, id: str, last_path: str = "") -> ToolCall:
    kind = _find_kind(block)
    command = _find_command(block) if kind == "shell" else ""
    output = _find_output(block, kind, command)
    background_match = _STARTED.search(output) if kind == "shell" else None
    code = int(match[1]) if kind == "shell" and (match := _CODE.search(block.body)) else None
    path = _find_path(block) if kind in ("read", "edit", "write", "search") else ""
    changes = _build_changes(block, kind, path, last_path) if kind in ("edit", "write") else ()
    return ToolCall(
        id=id,
        name=block.name,
        kind=kind,
        command=command,
        detail=_find_detail(block, kind),
        paths=(path,) if path else tuple(dict.fromkeys(c.path for c in changes if c.path)),
        changes=tuple(c for c in changes if c.path),
        todos=_parse_todos(block.body) if kind == "todo" else None,
        output=clip(output, KEEP_WHOLE),
        output_size=len(output),
        status="running" if background_match else _find_status(block, kind, code),
        exit_code=code,
        background=background_match[1] if background_match else "",
    )


def _find_kind(block: _ToolBlock) -> ToolKind:
    plain = re.sub(r"[_\W]|v\d+\Z", "", block.name.removeprefix("copilot_")).lower()
    if plain in _NO_COMMANDS and block.type == "shell":
        return "search" if plain in ("ls", "listdirectory") else "other"
    kind = _KINDS.get(plain) or tools.find_kind(block.name)
    return kind if kind != "other" else _TYPES.get(block.type, "other")


def _find_status(block: _ToolBlock, kind: ToolKind, code: int | None) -> ToolStatus:
    if code or _FAILED.search(block.body):
        return "error"
    if _CANCELLED.search(block.body):
        return "aborted"
    if kind == "agent" and not (block.fences or "**Result:**" in block.body):
        return "running"
    return "ok" if code == 0 or kind != "shell" else "unknown"


def _find_command(block: _ToolBlock) -> str:
    """Find a command: in the summary, a shell's block of code, backticks, a bullet."""
    for fenced in block.fences:
        if fenced.language in ("bash", "sh", "shell", "zsh", "console", "powershell"):
            return fenced.text.strip()
    if match := _RAN.match(block.summary):
        return (match[1] or match[2]).strip()
    if bullet := block.bullets.get("command") or block.bullets.get("cmd") or block.given.command:
        return bullet
    match = re.search(r"^`([^`\n].*)`\s*$", block.body, re.MULTILINE)
    return match[1] if match else ""


def _find_output(block: _ToolBlock, kind: str, command: str) -> str:
    fenced = [f.text for f in block.fences if f.language != "json" and f.text.strip() != command]
    if kind == "shell":
        return fenced[-1] if fenced else ""
    return fenced[-1] if fenced and kind not in ("edit", "write") else block.body.strip()


def _find_path(block: _ToolBlock) -> str:
    parameters = block.given
    if path := parameters.file_path or parameters.filePath or block.bullets.get("file_path", ""):
        return path
    for text in (block.summary, block.body):
        if match := _NAMED.search(text) or _LINK.search(text):
            return match[1].strip().strip("`")
    if match := _RESULT.search(block.body):
        return match[1] or match[2]
    if match := _BARE.search(block.body):
        return match[1]
    return parameters.path or block.bullets.get("path", "")


def _build_changes(
    block: _ToolBlock, kind: str, path: str, last_path: str
) -> tuple[FileChange, ...]:
    parameters, bullets = block.given, block.bullets
    if "*** Begin Patch" in block.body:
        return tools.parse_patch(block.body[block.body.index("*** Begin Patch") :])
    path = path or last_path
    diffs = [f for f in block.fences if f.language == "diff"]
    if diffs:
        lines = (f.text.split("\n") for f in diffs)
        return tuple(markdown.parse_diff(path, some) for some in lines)
    old = parameters.old_string or parameters.oldString or bullets.get("old_string", "")
    new = parameters.new_string or parameters.newString or bullets.get("new_string", "")
    whole = (
        html.unescape(parameters.textEditContent)
        or parameters.content
        or bullets.get("content", "")
    )
    if not (old or new):
        shown = [f.text for f in block.fences if f.language not in ("json", "text")]
        new = whole or (shown[0] if shown else "")
    creates = kind == "write" or "File created successfully" in block.body
    change_kind: ChangeKind = "create" if creates and not old else "edit"
    return (FileChange(path=path, kind=change_kind, old=old, new=new),)


def _parse_todos(body: str) -> tuple[Todo, ...] | None:
    items = [(m[2], _TODO_STATE.get(m[1], "in_progress")) for m in _TODO.finditer(body)]
    return tools.build_todos(items) if items else None


def _find_detail(block: _ToolBlock, kind: str) -> str:
    parameters, bullets = block.given, block.bullets
    if kind in ("edit", "write", "read", "todo", "shell"):
        return ""
    detail = parameters.query or parameters.pattern or parameters.url or bullets.get("query") or ""
    detail = (
        detail
        or bullets.get("pattern")
        or bullets.get("url")
        or block.summary
        or parameters.description
        or bullets.get("description")
        or bullets.get("prompt")
        or ""
    )
    return cut_text(detail, 300)
