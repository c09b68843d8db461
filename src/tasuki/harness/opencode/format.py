"""Messages and parts of opencode 1.18, as its database and its exports hold them."""

from msgspec import Raw, Struct, json

KNOWN_PARTS = frozenset({
    "text", "reasoning", "tool", "file", "agent", "subtask", "retry", "compaction", "step-start",
    "step-finish", "snapshot", "patch",
})  # fmt: skip


class Time(Struct, frozen=True, gc=False):
    """Milliseconds since the epoch."""

    created: int | float = 0
    completed: int | float | None = None
    start: int | float = 0
    end: int | float | None = None


class Cache(Struct, frozen=True, gc=False):
    read: int = 0
    write: int = 0


class Tokens(Struct, frozen=True, gc=False):
    """Tokens of one request."""

    input: int = 0
    output: int = 0
    reasoning: int = 0
    cache: Cache = Cache()

    @property
    def context(self) -> int:
        """Size of the context after the message; 0 of a message that got no answer."""
        used = self.input + self.output + self.reasoning + self.cache.read + self.cache.write
        return used if self.output else 0


class Error(Struct, frozen=True, gc=False):
    name: str = ""
    data: Raw = Raw(b"{}")


class ErrorData(Struct, frozen=True, gc=False):
    message: str = ""


class Message(Struct, frozen=True, gc=False):
    """What stands over the parts of a message; `summary` is true of a compaction's."""

    role: str = ""
    parentID: str = ""
    time: Time = Time()
    summary: Raw = Raw(b"null")
    finish: str | None = ""
    error: Error | None = None
    modelID: str = ""
    providerID: str = ""
    variant: str | None = ""
    tokens: Tokens = Tokens()

    @property
    def compacts(self) -> bool:
        """Whether it is the summary of a compaction that was carried out."""
        return bytes(self.summary) == b"true" and bool(self.finish) and self.error is None


class State(Struct, frozen=True, gc=False):
    """How far a tool call is: pending, running, completed or error."""

    status: str = ""
    input: Raw = Raw(b"{}")
    output: str | None = ""
    error: str | None = ""
    metadata: Raw = Raw(b"{}")
    time: Time = Time()


class Metadata(Struct, frozen=True, gc=False):
    """What the built-in tools note about their results."""

    exit: int | None = None
    sessionId: str = ""
    interrupted: bool = False
    exists: bool | None = None
    answers: list[list[str]] = []


class Part(Struct, frozen=True, gc=False):
    """Any part of a message; which fields count depends on `type`."""

    type: str = ""
    text: str | None = ""
    synthetic: bool | None = False
    ignored: bool | None = False
    tool: str = ""
    callID: str = ""
    state: State | None = None
    tail_start_id: str | None = ""
    prompt: str = ""
    command: str | None = ""
    error: Raw = Raw(b"{}")


class Revert(Struct, frozen=True, gc=False):
    """Where `/undo` went back to: this message, or this part of it, and all behind it."""

    messageID: str = ""
    partID: str | None = ""


class SessionTime(Struct, frozen=True, gc=False):
    created: int | float = 0
    updated: int | float = 0


class Info(Struct, frozen=True, gc=False):
    """The session, at the head of an export."""

    id: str = ""
    parentID: str | None = ""
    directory: str = ""
    title: str = ""
    version: str = ""
    revert: Revert | None = None
    time: SessionTime = SessionTime()


class Export(Struct, frozen=True, gc=False):
    """What `opencode export` prints."""

    info: Info
    messages: list[Raw]


class Exported(Struct, frozen=True, gc=False):
    """One message of an export."""

    info: Raw
    parts: list[Raw] = []


class Named(Struct, frozen=True, gc=False):
    """What places a message or part of an export among the others."""

    id: str = ""
    time: Raw = Raw(b"{}")


MESSAGE = json.Decoder(Message)
PART = json.Decoder(Part)
METADATA = json.Decoder(Metadata)
REVERT = json.Decoder(Revert)
EXPORT = json.Decoder(Export)
EXPORTED = json.Decoder(Exported)
NAMED = json.Decoder(Named)
TIME = json.Decoder(Time)
ERROR = json.Decoder(Error)
ERROR_DATA = json.Decoder(ErrorData)
