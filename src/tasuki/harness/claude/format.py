"""The format of Claude Code's thread files, as far as it says something about a conversation.

`LINE` decodes any line. `REPLY` and `RESULTS` decode the two kinds that are most of a thread, with
only the fields that these need, in the order they are written: they refuse what is unusual.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import Raw, Struct

from tasuki.harness.jsonl import UNDECODABLE, nested


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
    leafUuid: str | None = ""


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


class ReplyBlock(Struct, gc=False):
    type: str = ""
    text: str = ""
    id: str = ""
    name: str = ""
    input: Input | None = None


class Reply(Struct, gc=False):
    model: str = ""
    id: str = ""
    content: list[ReplyBlock] = []
    usage: Usage | None = None


class ReplyLine(Struct, gc=False):
    """An assistant line."""

    parentUuid: str
    message: Reply
    type: Literal["assistant"]
    uuid: str
    timestamp: str
    version: str = ""
    gitBranch: str = ""
    isSidechain: bool = False
    isApiErrorMessage: bool = False


class ResultBlock(Struct, gc=False):
    tool_use_id: str
    type: Literal["tool_result"]
    content: str | list[Part] | None = None
    is_error: bool | None = None


class Results(Struct, gc=False):
    content: list[ResultBlock]


class ResultLine(Struct, gc=False):
    """A user line that holds results of tools and nothing else."""

    parentUuid: str
    type: Literal["user"]
    message: Results
    uuid: str
    timestamp: str
    version: str = ""
    gitBranch: str = ""
    isSidechain: bool = False


LINE = msgspec.json.Decoder(Line)
REPLY = msgspec.json.Decoder(ReplyLine)
RESULTS = msgspec.json.Decoder(ResultLine)
INPUT = msgspec.json.Decoder(Input)
TEXT = msgspec.json.Decoder(str)
_PARTS = msgspec.json.Decoder(list[Part])


def context_tokens(usage: Usage) -> int:
    """Tokens in the context window after one request, from its usage."""
    cached = (usage.cache_creation_input_tokens or 0) + (usage.cache_read_input_tokens or 0)
    return usage.input_tokens + cached + usage.output_tokens


_PASTED = '<pasted_content id="'


def unpasted(text: str) -> str:
    """A prompt as the user typed it: without the marks around what was pasted into it.

    `\\n\\n<pasted_content id="1145">\\n…\\n</pasted_content id="1145">\\n`. Seen: 2.1.330.
    """
    parts, at = [], 0
    while (start := text.find(_PASTED, at)) >= 0:
        begin = text.find('">\n', start, start + 80)
        closing = f'\n</pasted_content id="{text[start + len(_PASTED) : begin]}">'
        end = text.find(closing, begin + 2) if begin >= 0 else -1
        if end < 0:
            break  # not one of them: what follows stays as it is
        parts += [text[at:start].removesuffix("\n\n"), text[begin + 3 : end]]
        at = end + len(closing)
        at += text[at : at + 1] == "\n"
    return "".join((*parts, text[at:]))


def plain(content: str | Sequence[Block | Part | ReplyBlock] | None) -> str:
    """The text of a content field, which is a string or a list of blocks."""
    if isinstance(content, str):
        return content
    return "\n".join(part.text for part in content or () if part.text)


def string(raw: Raw) -> str:
    """A JSON string, or the texts of a list of blocks; empty for anything else."""
    try:
        return nested(TEXT, raw)
    except UNDECODABLE:
        pass
    try:
        return plain(nested(_PARTS, raw))
    except UNDECODABLE:
        return ""
