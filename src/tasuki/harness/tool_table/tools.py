"""One table of tools for all harnesses: by name first, by the shape of the input next.

Programs rename their tools, editors and converters move them, and each names the same arguments
in another way: `old_string`, `oldText` and `old_str` are one field here.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from tasuki.harness.reading.answers import OfferedQuestion
from tasuki.harness.reading.jsonl import UNDECODABLE, decode_nested
from tasuki.harness.tool_table import patches
from tasuki.harness.tool_table.scripts import list_script_calls
from tasuki.model import FileChange, Todo, TodoStatus, ToolCall, ToolKind
from tasuki.patterns import compile_pattern
from tasuki.text_safety import cut_text

_NAMES: dict[ToolKind, str] = {
    "shell": "bash shell sh zsh powershell pwsh terminal command exec execcommand shellcommand localshell "
    "localshellcall runshellcommand unifiedexec runcommand executecommand runinterminal runterminalcmd "
    "runterminalcommand runbash monitor repl eval",
    "edit": "edit multiedit notebookedit editnotebook applypatch patch strreplace strreplaceeditor replace "
    "strreplacebasededittool hashlineedit editfile searchreplace replaceinfile replacestring codeedit "
    "replacestringinfile multireplacestring multireplacestringinfile inserteditintofile insertedit "
    "deletefile insert",
    "write": "write writefile create createfile writetofile",
    "read": "read readfile view viewfile viewimage readmanyfiles readnotebook notebookread",
    "search": "grep glob ls find search rg list lsp listdirectory listdir listfiles grepfiles grepsearch "
    "searchfiles searchfilecontent filesearch findfiles findtextinfiles codebasesearch",
    "todo": "todo todowrite todoread taskcreate taskupdate tasklist updateplan writetodos updatetodo managetodolist",
    "plan": "exitplanmode",
    "agent": "task agent subagent spawnagent waitagent closeagent readagent writeagent runsubagent "
    "listagents sendinput followuptask resumeagent interruptagent invokeagent delegatetoagent "
    "codebaseinvestigator clihelp agentoutput workflow",
    "background": "bashoutput taskoutput killshell killbash taskstop writestdin wait readbash writebash "
    "stopbash readpowershell writepowershell stoppowershell listbackgroundprocesses "
    "readbackgroundoutput",
    "ask": "ask askuser askuserquestion requestuserinput question planexit",
    "skill": "skill activateskill",
    "web": "webfetch websearch fetch googlewebsearch fetchwebpage codesearch",
    "other": "toolsearch sendmessage taskget",
}  # fmt: skip
_KINDS = {name: kind for kind, names in _NAMES.items() for name in names.split()}
_FIELDS = {
    alias: field
    for field, aliases in {
        "path": "filepath absolutepath notebookpath targetfile filename file",
        "old": "oldstring oldtext oldstr",
        "new": "newstring newtext newstr newsource",
        "content": "filetext contents codeedit",
        "command": "cmd commandline",
        "workdir": "cwd workingdirectory directory dirpath",
        "patch": "patchtext input",
        "agent": "subagenttype agenttype agentname",
        "background": "runinbackground isbackground",
    }.items()
    for alias in aliases.split()
}
_CONTROLS = frozenset(
    "command workdir timeout timeoutms description background shell maxoutputtokens yieldtimems login "
    "justification sandboxpermissions env environment persistent".split()
)
"""What a tool that runs a command may be given besides it."""
_RANGES = frozenset("offset limit startline endline viewrange".split())
_BRIDGES = frozenset(("acp", "workspace"))
"""MCP servers through which an editor or the program offers the usual tools."""
_NAMESPACES = compile_pattern(
    r"\A(?:(?:functions|container|tools|default_api|collaboration|multi_agent_v\d)(?:\.|__)|copilot_|proxy_)"
)
_MCP = compile_pattern(r"\A(?:mcp_|[\w-]*-mcp-)|\A\w+__\w|\A[\w-]+\.\w+\Z")
_VERSION = compile_pattern(r"_?v\d+\Z")
_LINE_OPTION = compile_pattern(r"-\w*c|/c|-Command")
_BOX = compile_pattern(r"^[^\S\n]*[-*]\s*\[([ xX~/-])\]\s*(.+)$", re.MULTILINE)
_BOX_STATES = {" ": "pending", "x": "done", "~": "in_progress", "/": "in_progress"}
_TODO_STATUS: dict[str, TodoStatus] = {
    "pending": "pending", "in_progress": "in_progress", "active": "in_progress",
    "completed": "done", "done": "done", "cancelled": "dropped", "deleted": "dropped",
    "abandoned": "dropped", "blocked": "pending",
}  # fmt: skip
_ANY = msgspec.json.Decoder()
ToolInput = Mapping[str, Any]
"""What a tool is given, with one name for each field."""


class Tool(NamedTuple):
    """What the name of a tool says: its name without case, separators and prefix, and its kind."""

    plain: str
    kind: ToolKind | None
    is_foreign: bool
    """It is a server's of MCP."""


@lru_cache(maxsize=4096)
def find_tool(name: str) -> Tool:
    """Find a tool by its name."""
    bare = _NAMESPACES.sub("", name)
    if bare.startswith("mcp__") and (parts := bare[5:].split("__", 1))[0] in _BRIDGES:
        bare = parts[-1]
    plain = re.sub(r"[\W_]", "", _VERSION.sub("", bare)).lower()
    is_foreign = bool(_MCP.match(bare))
    return Tool(plain, None if is_foreign else _KINDS.get(plain), is_foreign)


def is_own_tool(name: str) -> bool:
    """Return whether a name is that of a program's own tool: what others return quotes nobody."""
    return find_tool(name).kind not in (None, "other", "agent")


def read_input(raw: Raw | bytes | str) -> ToolInput:
    """Read the JSON input of a call; a text that is none is a patch, or else nothing."""
    try:
        return fold_input(decode_nested(_ANY, raw))
    except UNDECODABLE:
        return fold_input(raw) if isinstance(raw, str) else {}


def fold_input(given: object) -> ToolInput:
    """Return what a tool is given, with one name for each field."""
    if isinstance(given, str):
        return {"patch": given}
    if not isinstance(given, dict):
        return {}
    fields = _FIELD_NAMES
    return {fields[key]: value for key, value in given.items() if value is not None}


class _FieldNames(dict[str, str]):
    """The one name of each field, by all names that it was met by."""

    def __missing__(self, key: str) -> str:
        plain = re.sub(r"[\W_]", "", key).lower()
        name = _FIELDS.get(plain, plain)
        if len(self) < MOST_NAMES:
            self[key] = name
        return name


MOST_NAMES = 4096
_FIELD_NAMES = _FieldNames()


def get_text(given: ToolInput, *fields: str) -> str:
    """Return the first of these fields that holds a text."""
    for field in fields:
        if (value := given.get(field)) and isinstance(value, str):
            return value
    return ""


def build_tool_call(
    id: str,
    name: str,
    given: ToolInput,
    *,
    kind: ToolKind | None = None,
    creates: bool = True,
    build: Callable[..., ToolCall] = ToolCall,
) -> ToolCall:
    """Build what a call asks for, before its result is known.

    `kind` is what only its harness knows of the tool. `creates`: a file that is written is new.
    """
    tool = find_tool(name)
    if tool.plain in _SCRIPTED and (merged := _merge_script_calls(tool, given)):
        values = [getattr(merged, field) for field in ToolCall.__struct_fields__]
        return build(id, name, *values[2:])
    kind = kind or tool.kind or find_shape(given, tool.is_foreign)
    if kind == "edit" and tool.plain.startswith("strreplace"):
        kind = _EDITOR_COMMANDS.get(get_text(given, "command"), kind)
    command = workdir = ""
    changes: tuple[FileChange, ...] = ()
    if kind == "shell":
        command = join_command(given.get("command") or given.get("code") or "")
        if "apply_patch" in command and (patch := patches.find_patch(command)):
            kind, command, changes = "edit", "", patches.parse_patch(patch)
        else:
            workdir = get_text(given, "workdir")
    elif kind == "edit" or kind == "write":
        changes = _build_changes(tool.plain, kind, given, creates)
    detail, paths = _find_detail(kind, given), _list_paths(kind, given, changes)
    todos = list_todos(given) if kind == "todo" else None
    return build(
        id, name, kind, command, detail, paths, changes, todos, "", 0, "running", None, "", workdir
    )


_SCRIPTED = frozenset(("exec", "repl", "eval"))
"""Tools that run JavaScript, which calls other tools."""


def list_nested_calls(tool: Tool, given: ToolInput) -> list[tuple[str, ToolInput]]:
    """List name and input of the calls inside of one that runs a script."""
    script = get_text(given, "patch", "code") if tool.plain in _SCRIPTED else ""
    return [(name, fold_input(inner)) for name, inner in list_script_calls(script)]


def _merge_script_calls(tool: Tool, given: ToolInput) -> ToolCall | None:
    """Return the calls of a script as one; None where there are none."""
    made = [build_tool_call("", name, inner) for name, inner in list_nested_calls(tool, given)]
    if not made:
        return None
    kinds = [call.kind for call in made]
    folders = {call.workdir for call in made}
    return replace(
        made[0],
        kind="shell" if "shell" in kinds else kinds[0],
        command="\n".join(call.command for call in made if call.command),
        paths=tuple(dict.fromkeys(path for call in made for path in call.paths)),
        changes=tuple(change for call in made for change in call.changes),
        todos=made[-1].todos,
        workdir=folders.pop() if len(folders) == 1 else "",
    )


_EDITOR_COMMANDS: dict[str, ToolKind] = {"view": "read", "create": "write"}


def find_shape(given: ToolInput, is_foreign: bool) -> ToolKind:
    """Find what a tool of an unknown name does by what it is given.

    Of a server's tool the shape must leave no doubt: all it is given belongs to it.
    """
    has, extra = given.keys() >= {"path"}, given.keys() - _CONTROLS
    if isinstance(given.get("command"), str | list) and not (is_foreign and extra):
        return "shell"
    if not is_foreign and isinstance(given.get("script"), str) and extra == {"script"}:
        return "shell"
    if has and ("edits" in given or given.keys() >= {"old", "new"}):
        return "edit"
    if "*** Begin Patch" in get_text(given, "patch")[:200]:
        return "edit"
    if has and isinstance(given.get("content"), str) and not (is_foreign and len(given) > 2):
        return "write"
    if is_foreign:
        return "mcp"
    if isinstance(given.get("todos", given.get("plan")), list):
        return "todo"
    if isinstance(given.get("questions"), list):
        return "ask"
    if "prompt" in given and ("description" in given or "agent" in given):
        return "agent"
    if has and given.keys() & _RANGES:
        return "read"
    if "pattern" in given:
        return "search"
    return "web" if "url" in given else "other"


def join_command(words: object) -> str:
    """Return the command line of what a shell is given: a text, or a program with its arguments."""
    if isinstance(words, str):
        return words
    parts = [str(word) for word in words] if isinstance(words, Sequence) else []
    if len(parts) > 2 and _LINE_OPTION.fullmatch(parts[-2]):
        return parts[-1]
    return shlex.join(parts)


def _build_changes(
    plain: str, kind: ToolKind, given: ToolInput, creates: bool
) -> tuple[FileChange, ...]:
    """Return what a call of an editing tool does to files."""
    path, patch = get_text(given, "path"), get_text(given, "patch", "text")
    if kind == "edit" and patch:
        found = patches.parse_patch(patch) or patches.parse_anchored_edits(patch)
        if found:
            return found
    if not path:
        return ()
    if kind == "write":
        return (FileChange(path, "create" if creates else "edit", "", get_text(given, "content")),)
    if plain == "deletefile":
        return (FileChange(path, "delete"),)
    listed = given.get("edits")
    several = [fold_input(one) for one in listed if isinstance(one, dict)] if listed else []
    if not several:
        return (_build_edit(path, given, is_fresh=given.get("old") == ""),)
    edits = [given, *several] if "new" in given else several
    return tuple(_build_edit(path, edit) for edit in edits)


def _build_edit(path: str, edit: ToolInput, *, is_fresh: bool = False) -> FileChange:
    """Build one replacement; of a text that was empty it makes a file."""
    new = get_text(edit, "new", "content")
    return FileChange(path, "create" if is_fresh else "edit", get_text(edit, "old"), new)


def _list_paths(
    kind: ToolKind, given: ToolInput, changes: tuple[FileChange, ...]
) -> tuple[str, ...]:
    """Return the files that a call names."""
    path = get_text(given, "path") or (get_text(given, "workdir") if kind == "search" else "")
    if path and (not changes or (len(changes) == 1 and changes[0].path == path)):
        return (path,)
    if changes:
        paths = dict.fromkeys(c.path for c in changes)
        return tuple(paths) if not path or path in paths else (*paths, path)
    several = given.get("paths") or (given.get("include") if kind == "read" else None)
    if not several or isinstance(several, str):
        return (several,) if several else ()
    return tuple(p for p in several if isinstance(p, str) and p)


_DETAILS: dict[ToolKind, tuple[str, ...]] = {
    "agent": ("description", "assignment", "task", "message", "prompt", "objective", "query", "agentid"),
    "background": ("chars", "sessionid", "shellid", "bashid", "taskid", "cellid"),
    "plan": ("plan",),
    "skill": ("skill", "name"),
    "shell": ("description",),
    "todo": ("subject",),
    "read": (), "edit": (), "write": (),
}  # fmt: skip
_ANY_DETAIL = ("pattern", "url", "query", "question", "message", "prompt", "fact", "summary")


def _find_detail(kind: ToolKind, given: ToolInput) -> str:
    """Return what a call is for, besides its command and paths."""
    if kind == "ask" and (asked := list_questions(given)):
        return "\n".join(question.question for question in asked)
    if (fields := _DETAILS.get(kind)) is not None:
        return get_text(given, *fields) if fields else ""
    detail = get_text(given, *_ANY_DETAIL)
    if detail or kind == "search" or not given:
        return detail
    return cut_text(msgspec.json.encode(given).decode("utf-8", "replace"), 300)


def list_questions(given: ToolInput) -> list[OfferedQuestion]:
    """List the questions that a call asks the user."""
    asked = given.get("questions") or [given]
    try:
        return [q for q in msgspec.convert(asked, list[OfferedQuestion]) if q.question]
    except UNDECODABLE:
        return []


# -- todo lists ------------------------------------------------------------------------


def parse_todo_status(word: str) -> TodoStatus:
    """Translate a harness's word for the state of a todo; unknown words count as pending."""
    return _TODO_STATUS.get(word.lower().replace("-", "_"), "pending")


def build_todos(items: Iterable[tuple[str, str]]) -> tuple[Todo, ...]:
    """Build todos from pairs of text and the harness's word for the state."""
    return tuple(Todo(text=t, status=parse_todo_status(s)) for t, s in items if t.strip())


def list_todos(given: ToolInput) -> tuple[Todo, ...] | None:
    """List the todos of a call or a result that states all of them; None where it does not."""
    listed = given.get("todos", given.get("plan"))
    if isinstance(listed, str):
        boxes = (
            (text, _BOX_STATES.get(box.lower(), "dropped")) for box, text in _BOX.findall(listed)
        )
        return build_todos(boxes) or None
    phases = given.get("phases")
    for phase in phases if isinstance(phases, list) else ():
        listed = [*(listed or ()), *(phase.get("tasks") or () if isinstance(phase, dict) else ())]
    if not isinstance(listed, list):
        return None
    items = [fold_input(item) for item in listed]
    fields = ("content", "text", "step", "title", "description", "subject", "task")
    return build_todos((get_text(i, *fields), get_text(i, "status") or "pending") for i in items)
