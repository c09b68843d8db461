"""Session files of Gemini CLI: an event log (seen: 0.61) or one document (to 0.3x).

A log holds messages, whose ids come again when there is more to say, `$set` patches of the
session's fields, whose `messages` replace the whole list, and `$rewindTo`. A document holds
the fields and the list. Content is what the Gemini API takes: a text, a part, or a list of
both.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Raw, Struct

from tasuki.harness.reading.jsonl import BYTE_ORDER_MARK, UNDECODABLE, explain_errors
from tasuki.patterns import compile_pattern

CONTEXT = "<session_context>"
SNAPSHOT = "<state_snapshot>"
"""Begins the summary of a compaction, inside of a message."""
_REFERENCES = "\n--- Content from referenced files ---"
_HOOK = compile_pattern(r"<hook_context>.*?</hook_context>", re.DOTALL)
_OWN_WORDS = compile_pattern(
    r"\A(?:System: |User has manually exited Plan Mode\.|Plan approved\. Switching to"
    r"|Please continue\.\Z)"
)
"""Beginnings of user messages that Gemini CLI itself writes."""


class GeminiFunctionCall(Struct, gc=False):
    id: str | None = ""
    name: str = ""
    args: Raw = Raw(b"{}")


class GeminiFunctionResponse(Struct, gc=False):
    id: str | None = ""
    name: str = ""
    response: Raw = Raw(b"{}")


class GeminiPart(Struct, gc=False):
    text: str | None = None
    thought: bool | None = None
    functionCall: GeminiFunctionCall | None = None
    functionResponse: GeminiFunctionResponse | None = None
    inlineData: Raw | None = None


Content = str | list[str | GeminiPart] | GeminiPart | None


class GeminiToolCall(Struct, gc=False):
    """A call with its result, in `toolCalls`."""

    id: str = ""
    name: str = ""
    args: Raw = Raw(b"{}")
    result: Content = None
    status: str | None = ""
    agentId: str | None = ""
    resultDisplay: Raw = Raw(b"null")


class GeminiTokens(Struct, gc=False):
    total: int = 0


class GeminiSessionFields(Struct, gc=False):
    """Fields of a session: its first record, a `$set`, or a document without its list."""

    sessionId: str | None = ""
    projectHash: str | None = ""
    startTime: str | None = ""
    lastUpdated: str | None = ""
    kind: str | None = ""
    summary: str | None = ""
    directories: list[str] | None = None
    messages: "list[GeminiMessage] | None" = None


class GeminiMessage(GeminiSessionFields, gc=False):
    """One message; an id that comes again updates it. As a line of a log it may be the session's."""

    id: str = ""
    timestamp: str = ""
    type: str = ""
    content: Content = None
    displayContent: Content = None
    toolCalls: list[GeminiToolCall] | None = None
    tokens: GeminiTokens | None = None
    model: str | None = ""


class GeminiLogLine(GeminiMessage, gc=False):
    set: GeminiSessionFields | None = msgspec.field(name="$set", default=None)
    rewind: str | None = msgspec.field(name="$rewindTo", default=None)


LINE = msgspec.json.Decoder(GeminiLogLine)
MESSAGE = msgspec.json.Decoder(GeminiMessage)
FIELDS = msgspec.json.Decoder(GeminiSessionFields)


def find_context_size(tokens: GeminiTokens | None) -> int | None:
    """Return the size of the context after a message, None without a plausible one."""
    return tokens.total if tokens is not None and 0 < tokens.total < 1 << 40 else None


def list_parts(content: Content) -> list[GeminiPart]:
    """Return content as a list of parts."""
    if content is None:
        return []
    items = content if isinstance(content, list) else [content]
    return [GeminiPart(text=i) if isinstance(i, str) else i for i in items]


def list_texts(parts: list[GeminiPart]) -> list[str]:
    """Return the texts of a message, without thoughts and the context of a session's start."""
    texts = [
        p.text if p.text is not None else "[image]" if p.inlineData is not None else ""
        for p in parts
        if not p.thought
    ]
    return [t for t in texts if t and not t.startswith(CONTEXT)]


def extract_user_text(content: str, displayed: str, last_prompt: str) -> tuple[str, bool]:
    """Return what a user message says, and whether the user said it.

    `content` is what the model received, `displayed` what the user typed where that differs,
    and `last_prompt` what they typed last: Gemini CLI repeats that with messages of its own.
    """
    if _OWN_WORDS.match(content) or (
        displayed and displayed == last_prompt and displayed not in content
    ):
        return content.strip(), False
    text = displayed or _HOOK.sub("", content).partition(_REFERENCES)[0]
    return text.strip(), True


# -- documents -------------------------------------------------------------------------


class GeminiElement(Struct, gc=False):
    """One message of a document. Without bytes it has an error, or is cut off."""

    offset: int
    data: bytes = b""
    error: Exception | None = None


class _GeminiDocument(Struct, gc=False):
    messages: list[Raw]


_DOCUMENT = msgspec.json.Decoder(_GeminiDocument)
_LIST = compile_pattern(rb'"messages"\s*:\s*\[')
_NEXT = compile_pattern(r'\n {0,4}(?=\{\s*"(?:id|type|timestamp)")')
_BLANK = compile_pattern(r"[\s,]*")
_SCANNER = json.JSONDecoder()


def merge_fields(old: GeminiSessionFields, new: GeminiSessionFields) -> GeminiSessionFields:
    """Merge later fields of a session into earlier ones: what identifies it stays."""
    return GeminiSessionFields(
        old.sessionId or new.sessionId,
        old.projectHash or new.projectHash,
        old.startTime or new.startTime,
        new.lastUpdated or old.lastUpdated,
        new.kind or old.kind,
        new.summary or old.summary,
        new.directories or old.directories,
    )


def read_document(path: Path) -> bytes:
    """Return the bytes of a document; a byte order mark becomes spaces, so offsets stay.

    Raises ThreadUnreadable if it cannot be read.
    """
    with explain_errors(path):
        data = path.read_bytes()
    return b"   " + data[len(BYTE_ORDER_MARK) :] if data.startswith(BYTE_ORDER_MARK) else data


def is_document(line: bytes) -> bool:
    """Tell whether a file that begins with this line is one document of several lines."""
    return line.strip() == b"{" or (b'"messages":' in line and not line.rstrip().endswith(b"}"))


def list_elements(data: bytes) -> Iterator[GeminiElement]:
    """Yield the messages of a document. Damage to one loses only that one; the last may be cut off."""
    match = _LIST.search(data)
    if match is None:
        return
    position = match.end()
    try:
        messages = _DOCUMENT.decode(data).messages
    except UNDECODABLE:
        yield from _read_one_by_one(data, position)
        return
    for raw in messages:
        text = bytes(raw)
        position = max(data.find(text, position), position)
        yield GeminiElement(position, text)
        position += len(text)


def _read_one_by_one(data: bytes, start: int) -> Iterator[GeminiElement]:
    text = data[start:].decode("utf-8", "surrogateescape")
    position = counted = 0
    offset = start
    while (blank := _BLANK.match(text, position)) and text[blank.end() : blank.end() + 1] not in (
        "",
        "]",
    ):
        position = blank.end()
        offset += len(text[counted:position].encode("utf-8", "surrogateescape"))
        counted = position
        try:
            _, end = _SCANNER.raw_decode(text, position)
        except (ValueError, RecursionError) as exc:
            following = _NEXT.search(text, position + 1)
            yield GeminiElement(offset, error=exc if following else None)
            if following is None:
                return
            position = following.end()
            continue
        yield GeminiElement(offset, text[position:end].encode("utf-8", "surrogateescape"))
        position = end


def extract_outer_json(data: bytes) -> bytes:
    """Return a document without its messages, as JSON; what follows them is lost if it is damaged."""
    match = _LIST.search(data)
    if match is None:
        return data
    before = data[: match.start()].rstrip().rstrip(b",")
    end = data.rfind(b"]")
    after = data[end + 1 :].strip() if end >= match.end() else b""
    try:
        msgspec.json.decode(b'{"_":0' + after)
    except UNDECODABLE:
        return before + b"}"
    return before + (after if after.startswith(b",") else b"}")
