"""Blocks of tools in SpecStory's Markdown. Their contents differ by the program watched."""

import html
import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from tasuki.harness.reading import markdown
from tasuki.harness.reading.jsonl import KEEP_WHOLE, clip
from tasuki.harness.tool_table import tools
from tasuki.harness.tool_table.patches import parse_patch
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
    given: dict[str, Any]
    """Its parameters, from blocks of JSON and bullets."""


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
    given: dict[str, Any] = dict(tools.fold_input({m[1]: m[2] for m in _BULLET.finditer(text)}))
    for block in reversed(fences):
        if block.language == "json":
            given |= {k: v for k, v in tools.read_input(block.text).items() if k != "patch" and v}
    return _ToolBlock(kind, name, summary, text, fences, given)


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


def _build_call(block: _ToolBlock, id: str, last_path: str = "") -> ToolCall:
    kind = _find_kind(block)
    command = _find_command(block) if kind == "shell" else ""
    output = _find_output(block, kind, command)
    background_match = _STARTED.search(output) if kind == "shell" else None
    code = int(match[1]) if kind == "shell" and (match := _CODE.search(block.body)) else None
    path = _find_path(block) if kind in ("read", "edit", "write", "search") else ""
    changes = _build_changes(block, kind, path, last_path) if kind in ("edit", "write") else ()
    return ToolCall(
        id=id, name=block.name, kind=kind, command=command, detail=_find_detail(block, kind),
        paths=(path,) if path else tuple(dict.fromkeys(c.path for c in changes if c.path)),
        changes=tuple(c for c in changes if c.path),
        todos=_parse_todos(block.body) if kind == "todo" else None, output=clip(output, KEEP_WHOLE),
        output_size=len(output),
        status="running" if background_match else _find_status(block, kind, code), exit_code=code,
        background=background_match[1] if background_match else "",
    )  # fmt: skip


def _find_kind(block: _ToolBlock) -> ToolKind:
    tool = tools.find_tool(block.name)
    if tool.kind == "background" and block.type != "shell":
        return "other"
    return tool.kind or _TYPES.get(block.type, "mcp" if tool.is_foreign else "other")


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
    if command := tools.join_command(block.given.get("command", "")):
        return command
    match = re.search(r"^`([^`\n].*)`\s*$", block.body, re.MULTILINE)
    return match[1] if match else ""


def _find_output(block: _ToolBlock, kind: str, command: str) -> str:
    fenced = [f.text for f in block.fences if f.language != "json" and f.text.strip() != command]
    if kind == "shell":
        return fenced[-1] if fenced else ""
    return fenced[-1] if fenced and kind not in ("edit", "write") else block.body.strip()


def _find_path(block: _ToolBlock) -> str:
    if path := tools.get_text(block.given, "path"):
        return path
    for text in (block.summary, block.body):
        if match := _NAMED.search(text) or _LINK.search(text):
            return match[1].strip().strip("`")
    match = _RESULT.search(block.body) or _BARE.search(block.body)
    return next(filter(None, match.groups()), "") if match else ""


def _build_changes(
    block: _ToolBlock, kind: str, path: str, last_path: str
) -> tuple[FileChange, ...]:
    given = block.given
    if "*** Begin Patch" in block.body:
        return parse_patch(block.body[block.body.index("*** Begin Patch") :])
    path = path or last_path
    diffs = [f for f in block.fences if f.language == "diff"]
    if diffs:
        lines = (f.text.split("\n") for f in diffs)
        return tuple(markdown.parse_diff(path, some) for some in lines)
    old, new = tools.get_text(given, "old"), tools.get_text(given, "new")
    edited = html.unescape(tools.get_text(given, "texteditcontent"))
    whole = edited or tools.get_text(given, "content")
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
    if kind in ("edit", "write", "read", "todo", "shell"):
        return ""
    detail = tools.get_text(block.given, "query", "pattern", "url") or block.summary
    return cut_text(detail or tools.get_text(block.given, "description", "prompt"), 300)
