"""The records of a Codex rollout (0.53 to 0.169), as far as they are read."""

import re
from typing import Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from tasuki.harness.jsonl import UNDECODABLE

T = TypeVar("T")

_PARENT = re.compile(rb'"parent_thread_id": ?"([^"]+)"')
_IMAGE_TAG = re.compile(r"\A</?image\b[^>]*>\Z")


class Of(Struct, Generic[T]):
    """A line whose payload is of one kind."""

    payload: T


class AnyLine(Struct):
    """A line of any kind, from which only type and time are wanted."""

    type: str = ""
    timestamp: str = ""
    payload: Raw = Raw(b"{}")


class Part(Struct):
    """A piece of a message or a result."""

    type: str = ""
    text: str = ""


class Kinds(Struct):
    """What the pieces of a message are: `user.text` was typed (0.169)."""

    content_item_kinds: list[str | None] = []


class Message(Struct):
    """A `message` item."""

    role: str = ""
    id: str | None = ""
    content: str | list[Part] | None = None
    internal_chat_message_metadata_passthrough: Kinds | None = None


class Action(Struct):
    """What a `local_shell_call` or a `web_search_call` does."""

    command: list[str] = []
    working_directory: str | None = ""
    query: str | None = ""
    url: str | None = ""


class Call(Struct):
    """A call of any kind."""

    name: str = ""
    namespace: str | None = ""
    arguments: str = ""
    input: str = ""
    call_id: str | None = ""
    action: Action | None = None


class Output(Struct):
    """A result as an object."""

    content: str | None = ""


class Result(Struct):
    """The result of a call."""

    call_id: str = ""
    output: str | list[Part] | Output | None = None


class Error(Struct):
    """Why a turn failed."""

    message: str = ""


class Event(Struct):
    """What the few events that are read hold."""

    message: str | None = ""
    reason: str | None = ""
    error: Error | str | None = None
    num_turns: int = 0
    thread_name: str | None = ""


class Compacted(Struct):
    """A compaction: its summary, and what the model sees instead of the past."""

    message: str = ""
    replacement_history: list[Message] | None = None


class Git(Struct):
    """The repository when the thread began."""

    commit_hash: str | None = ""
    branch: str | None = ""


class Base(Struct):
    """Where the parent of a fork ends: the fork holds only its own part."""

    thread_id: str = ""
    end_byte_offset: int | None = None


class Meta(Struct):
    """The `session_meta` record that begins a rollout."""

    id: str = ""
    forked_from_id: str | None = ""
    timestamp: str = ""
    cwd: str = ""
    cli_version: str = ""
    source: Raw = Raw(b'""')
    git: Git | None = None
    history_base: Base | None = None

    def parent(self) -> str:
        """Id of the thread this one was forked from or spawned by."""
        if self.history_base:
            return self.history_base.thread_id
        spawned = _PARENT.search(bytes(self.source))
        return self.forked_from_id or (spawned[1].decode() if spawned else "")


class Settings(Struct):
    """Settings of a collaboration mode."""

    reasoning_effort: str | None = ""


class Mode(Struct):
    """The collaboration mode of a turn."""

    settings: Settings | None = None


class Context(Struct):
    """The `turn_context` record."""

    model: str = ""
    effort: str | None = ""
    collaboration_mode: Mode | None = None


class Usage(Struct):
    """Tokens of one request, cached ones included."""

    total_tokens: int = 0


class Info(Struct):
    """Body of a `token_count` event."""

    last_token_usage: Usage | None = None
    model_context_window: int | None = None


class Count(Struct):
    """A `token_count` event."""

    info: Info | None = None


class Type(Struct):
    """The kind of a payload."""

    type: str = ""


def thinking(context: Context) -> str:
    """Reasoning effort of a turn, empty if it was left to the model's default."""
    mode = context.collaboration_mode
    settings = mode.settings if mode else None
    return context.effort or (settings.reasoning_effort if settings else "") or ""


def payload(decoder: msgspec.json.Decoder[Of[T]], line: bytes) -> T | None:
    """The payload of a line that was put by, None if there was none or it is broken."""
    try:
        return decoder.decode(line).payload
    except UNDECODABLE:
        return None


def plain(content: str | list[Part] | None) -> str:
    """The texts of a message, one a line."""
    if isinstance(content, str):
        return content
    return "\n".join(part.text for part in content or () if part.text)


def user_text(message: Message) -> tuple[str, bool | None]:
    """What a user message says, and whether the user typed it (None: the record does not tell)."""
    content = message.content
    if not isinstance(content, list):
        return (content or "").strip(), None
    passthrough = message.internal_chat_message_metadata_passthrough
    kinds = passthrough.content_item_kinds if passthrough else []
    known: bool | None = None
    if len(kinds) == len(content) and any(k and k != "unknown" for k in kinds):
        typed = [p for p, k in zip(content, kinds, strict=True) if (k or "").startswith("user.")]
        known = bool(typed)
        content = typed or content
    texts = [
        "[image]" if part.type == "input_image" else part.text
        for part in content
        if not _IMAGE_TAG.match(part.text.strip())
    ]
    return "\n".join(t for t in texts if t).strip(), known


ANY = msgspec.json.Decoder(AnyLine)
MESSAGE = msgspec.json.Decoder(Of[Message])
CALL = msgspec.json.Decoder(Of[Call])
RESULT = msgspec.json.Decoder(Of[Result])
EVENT = msgspec.json.Decoder(Of[Event])
COMPACTED = msgspec.json.Decoder(Of[Compacted])
META = msgspec.json.Decoder(Of[Meta])
CONTEXT = msgspec.json.Decoder(Of[Context])
COUNT = msgspec.json.Decoder(Of[Count])
PAYLOAD_TYPE = msgspec.json.Decoder(Type)
