"""Session files of Gemini CLI: an event log (seen: 0.61) or, before it, one document (to 0.3x).

A log holds messages, whose ids come again when there is more to say, `$set` patches of the
session's fields, whose `messages` replace the whole list, and `$rewindTo`. A document holds the
fields and the list. Content is what the Gemini API takes: a text, a part, or a list of both.
"""

import json
import re
from collections.abc import Iterator

import msgspec
from msgspec import Raw, Struct

CONTEXT = "<session_context>"
SNAPSHOT = "<state_snapshot>"
_REFERENCES = "\n--- Content from referenced files ---"
_HOOK = re.compile(r"<hook_context>.*?</hook_context>", re.DOTALL)
_OWN_WORDS = re.compile(
    r"\A(?:System: |User has manually exited Plan Mode\.|Plan approved\. Switching to"
    r"|Please continue\.\Z)"
)
"""Beginnings of user messages that Gemini CLI itself writes."""


class FunctionCall(Struct, gc=False):
    """A call as the model made it."""

    id: str | None = ""
    name: str = ""
    args: Raw = Raw(b"{}")


class FunctionResponse(Struct, gc=False):
    """A result as the model got it."""

    id: str | None = ""
    name: str = ""
    response: Raw = Raw(b"{}")


class Part(Struct, gc=False):
    """A piece of a message."""

    text: str | None = None
    thought: bool | None = None
    functionCall: FunctionCall | None = None
    functionResponse: FunctionResponse | None = None
    inlineData: Raw | None = None


Content = str | list[str | Part] | Part | None


class Call(Struct, gc=False):
    """A call with its result, in `toolCalls`."""

    id: str = ""
    name: str = ""
    args: Raw = Raw(b"{}")
    result: Content = None
    status: str | None = ""
    agentId: str | None = ""
    resultDisplay: Raw = Raw(b"null")
    timestamp: str | None = ""


class Tokens(Struct, gc=False):
    """Tokens of one request."""

    input: int = 0
    output: int = 0
    total: int = 0


class Message(Struct, gc=False):
    """One message; an id that comes again says what has become of it."""

    id: str = ""
    timestamp: str = ""
    type: str = ""
    content: Content = None
    displayContent: Content = None
    toolCalls: list[Call] | None = None
    tokens: Tokens | None = None
    model: str | None = ""


class Fields(Struct, gc=False):
    """Fields of a session: its first record, a `$set`, or a document without its list."""

    sessionId: str | None = ""
    projectHash: str | None = ""
    startTime: str | None = ""
    lastUpdated: str | None = ""
    kind: str | None = ""
    summary: str | None = ""
    directories: list[str] | None = None
    messages: list[Message] | None = None


class Line(Message, gc=False):
    """Any line of a log."""

    set: Fields | None = msgspec.field(name="$set", default=None)
    rewind: str | None = msgspec.field(name="$rewindTo", default=None)
    sessionId: str | None = ""
    projectHash: str | None = ""
    startTime: str | None = ""
    lastUpdated: str | None = ""
    kind: str | None = ""
    summary: str | None = ""
    directories: list[str] | None = None
    messages: list[Message] | None = None


LINE = msgspec.json.Decoder(Line)
MESSAGE = msgspec.json.Decoder(Message)
FIELDS = msgspec.json.Decoder(Fields)


def context_size(tokens: Tokens | None) -> int | None:
    """Size of the context after a message, None if it says none that can be."""
    return tokens.total if tokens is not None and 0 < tokens.total < 1 << 40 else None


def fields_of(line: Line) -> Fields:
    """The fields of a session in its first line."""
    return Fields(
        line.sessionId, line.projectHash, line.startTime, line.lastUpdated, line.kind,
        line.summary, line.directories, line.messages,
    )  # fmt: skip


def parts_of(content: Content) -> list[Part]:
    """Content as a list of parts."""
    if content is None:
        return []
    items = content if isinstance(content, list) else [content]
    return [Part(text=i) if isinstance(i, str) else i for i in items]


def texts_of(parts: list[Part]) -> list[str]:
    """The texts of a message, without thoughts and the context at a session's start."""
    texts = [
        p.text if p.text is not None else "[image]" if p.inlineData is not None else ""
        for p in parts
        if not p.thought
    ]
    return [t for t in texts if t and not t.startswith(CONTEXT)]


def typed(content: str, shown: str, before: str) -> tuple[str, bool]:
    """What a user message says, and whether the user said it.

    `content` is what the model got, `shown` what the user typed where that differs, and `before`
    what they typed last: Gemini CLI repeats that with messages of its own.
    """
    if _OWN_WORDS.match(content) or (shown and shown == before and shown not in content):
        return content.strip(), False
    text = shown or _HOOK.sub("", content).partition(_REFERENCES)[0]
    return text.strip(), True


# -- documents -------------------------------------------------------------------------


class Element(Struct, gc=False):
    """One message of a document: where it begins, and its bytes or why there are none.

    Without bytes and without a reason it is cut off.
    """

    offset: int
    data: bytes = b""
    error: Exception | None = None


class _Document(Struct, gc=False):
    messages: list[Raw]


_DOCUMENT = msgspec.json.Decoder(_Document)
_LIST = re.compile(rb'"messages"\s*:\s*\[')
_NEXT = re.compile(r'\n {0,4}(?=\{\s*"(?:id|type|timestamp)")')
_BLANK = re.compile(r"[\s,]*")
_SCANNER = json.JSONDecoder()


def is_document(line: bytes) -> bool:
    """Whether a file that begins with this line is one document of several lines."""
    return line.strip() == b"{" or (b'"messages":' in line and not line.rstrip().endswith(b"}"))


def elements(data: bytes) -> Iterator[Element]:
    """The messages of a document. Damage to one loses that one alone; the last may be cut off."""
    match = _LIST.search(data)
    if match is None:
        return iter(())
    try:
        found = _DOCUMENT.decode(data).messages
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _one_by_one(data, match.end())
    return _placed(data, found, match.end())


def _placed(data: bytes, found: list[Raw], at: int) -> Iterator[Element]:
    for raw in found:
        text = bytes(raw)
        at = max(data.find(text, at), at)
        yield Element(at, text)
        at += len(text)


def _one_by_one(data: bytes, start: int) -> Iterator[Element]:
    text = data[start:].decode("utf-8", "surrogateescape")
    at = counted = 0
    offset = start
    while (at := _after_blank(text, at)) < len(text) and text[at] != "]":
        offset += _size(text[counted:at])
        counted = at
        try:
            _, end = _SCANNER.raw_decode(text, at)
        except (ValueError, RecursionError) as exc:
            following = _NEXT.search(text, at + 1)
            yield Element(offset, error=exc if following else None)
            if following is None:
                return
            at = following.end()
            continue
        yield Element(offset, text[at:end].encode("utf-8", "surrogateescape"))
        at = end


def _after_blank(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))


def fields_around(data: bytes) -> bytes:
    """A document without its messages, as JSON; what stands behind them is lost if it is damaged."""
    match = _LIST.search(data)
    if match is None:
        return data
    before = data[: match.start()].rstrip().rstrip(b",")
    end = data.rfind(b"]")
    after = data[end + 1 :].strip() if end >= match.end() else b""
    return before + (after if after.startswith(b",") and _is_end(after) else b"}")


def _is_end(after: bytes) -> bool:
    try:
        msgspec.json.decode(b'{"_":0' + after)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True
