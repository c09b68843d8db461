"""The format of Claude Code's thread files, as far as it says something about a conversation."""

import msgspec
from msgspec import Raw, Struct

from tasuki.model import FileChange


class Part(Struct):
    type: str = ""
    text: str = ""


class Block(Struct):
    type: str = ""
    text: str = ""
    id: str = ""
    name: str = ""
    input: Raw = Raw(b"{}")
    tool_use_id: str = ""
    content: str | list[Part] | None = None
    is_error: bool | None = None


class Usage(Struct):
    input_tokens: int = 0
    cache_creation_input_tokens: int | None = 0
    cache_read_input_tokens: int | None = 0
    output_tokens: int = 0


class Message(Struct):
    id: str = ""
    model: str = ""
    content: str | list[Block] | None = None
    usage: Usage | None = None


class Origin(Struct):
    kind: str = ""


class Attachment(Struct):
    type: str = ""
    prompt: Raw = Raw(b'""')
    context: Raw = Raw(b"{}")
    planFilePath: str = ""


class Thinking(Struct):
    level: str = ""


class Line(Struct):
    type: str = ""
    subtype: str = ""
    uuid: str = ""
    parentUuid: str | None = None
    logicalParentUuid: str | None = None
    timestamp: str = ""
    sessionId: str = ""
    cwd: str = ""
    gitBranch: str = ""
    version: str = ""
    isSidechain: bool = False
    isMeta: bool | None = False
    isCompactSummary: bool = False
    isApiErrorMessage: bool = False
    promptSource: str = ""
    origin: Origin | None = None
    thinkingMetadata: Thinking | None = None
    message: Message | None = None
    attachment: Attachment | None = None
    operation: str = ""
    content: Raw = Raw(b'""')
    customTitle: str = ""
    aiTitle: str = ""
    summary: str = ""


class EditInput(Struct):
    old_string: str = ""
    new_string: str = ""


class TodoInput(Struct):
    content: str = ""
    status: str = ""


class Input(Struct):
    command: str = ""
    file_path: str = ""
    notebook_path: str = ""
    path: str = ""
    pattern: str = ""
    old_string: str = ""
    new_string: str = ""
    new_source: str = ""
    content: str = ""
    edits: list[EditInput] = []
    todos: list[TodoInput] = []
    subject: str = ""
    taskId: str = ""
    status: str = ""
    description: str = ""
    prompt: str = ""
    url: str = ""
    query: str = ""
    skill: str = ""
    plan: str = ""
    run_in_background: bool = False


LINE = msgspec.json.Decoder(Line)
INPUT = msgspec.json.Decoder(Input)
TEXT = msgspec.json.Decoder(str)


class Tree:
    """Who follows whom. Parallel calls may be written before their parents, and a line whose
    parent never turns up follows the line before it."""

    def __init__(self) -> None:
        self.parents: list[int] = []
        self._index: dict[str, int] = {}
        self._later: dict[int, str] = {}

    def add(self, uuid: str, parent: str | None) -> int:
        node = len(self.parents)
        known = self._index.get(parent) if parent else None
        if known is None and parent:
            self._later[node] = parent
        self.parents.append(node - 1 if known is None else known)
        self._index[uuid] = node
        return node

    def branch(self) -> bytearray:
        """Which nodes lead to the last one, as flags."""
        for node, parent in self._later.items():
            self.parents[node] = self._index.get(parent, self.parents[node])
        active = bytearray(len(self.parents))
        node = len(self.parents) - 1
        while node >= 0 and not active[node]:
            active[node] = 1
            node = self.parents[node]
        return active


def context_tokens(usage: Usage) -> int:
    """Tokens in the context window after one request, from its usage."""
    cached = (usage.cache_creation_input_tokens or 0) + (usage.cache_read_input_tokens or 0)
    return usage.input_tokens + cached + usage.output_tokens


def changes(name: str, path: str, given: Input) -> tuple[FileChange, ...]:
    """What a call of an editing tool does to a file."""
    if not path:
        return ()
    if name == "Write":
        return (FileChange(path=path, kind="create", new=given.content),)
    if name == "MultiEdit":
        return tuple(
            FileChange(path=path, kind="edit", old=e.old_string, new=e.new_string)
            for e in given.edits
        )
    if name == "Edit":
        return (FileChange(path=path, kind="edit", old=given.old_string, new=given.new_string),)
    if name == "NotebookEdit":
        return (FileChange(path=path, kind="edit", new=given.new_source),)
    return ()


def detail(kind: str, given: Input) -> str:
    """What a call is for, besides its command and paths."""
    return (
        given.pattern or given.url or given.query or given.skill or given.plan
        or (given.subject or given.description if kind in ("agent", "todo", "shell") else "")
    )  # fmt: skip


def plain(content: str | list[Block] | list[Part] | None) -> str:
    """The text of a content field, which is a string or a list of blocks."""
    if isinstance(content, str):
        return content
    return "\n".join(part.text for part in content or () if part.text)


def string(raw: Raw) -> str:
    """A JSON string, or the texts of a list of blocks; empty for anything else."""
    try:
        return TEXT.decode(raw)
    except msgspec.MsgspecError:
        pass
    try:
        return plain(msgspec.json.decode(raw, type=list[Part]))
    except msgspec.MsgspecError:
        return ""
