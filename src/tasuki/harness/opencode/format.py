"""Messages and parts of opencode 1.18, in its database and its exports."""

from msgspec import Raw, Struct, json

KNOWN_PARTS = frozenset({
    "text", "reasoning", "tool", "file", "agent", "subtask", "retry", "compaction", "step-start",
    "step-finish", "snapshot", "patch",
})  # fmt: skip


class OpencodeTime(Struct, frozen=True, gc=False):
    """Milliseconds since the epoch."""

    created: int | float = 0
    updated: int | float = 0
    completed: int | float | None = None
    end: int | float | None = None


class OpencodeCache(Struct, frozen=True, gc=False):
    read: int = 0
    write: int = 0


class OpencodeTokens(Struct, frozen=True, gc=False):
    input: int = 0
    output: int = 0
    reasoning: int = 0
    cache: OpencodeCache = OpencodeCache()

    @property
    def context(self) -> int:
        """Size of the context after the message; 0 for a message without an answer."""
        used = self.input + self.output + self.reasoning + self.cache.read + self.cache.write
        return used if self.output else 0


class OpencodeError(Struct, frozen=True, gc=False):
    name: str = ""
    data: Raw = Raw(b"{}")


class OpencodeErrorData(Struct, frozen=True, gc=False):
    message: str = ""
    responseBody: str | None = ""


class OpencodeMessage(Struct, frozen=True, gc=False):
    """A message without its parts; `summary` is true for a compaction's."""

    role: str = ""
    parentID: str = ""
    time: OpencodeTime = OpencodeTime()
    summary: Raw = Raw(b"null")
    finish: str | None = ""
    error: OpencodeError | None = None
    modelID: str = ""
    providerID: str = ""
    variant: str | None = ""
    tokens: OpencodeTokens = OpencodeTokens()

    @property
    def is_compaction(self) -> bool:
        """Whether it is the summary of a compaction that was carried out."""
        return bytes(self.summary) == b"true" and bool(self.finish) and self.error is None


class OpencodeToolState(Struct, frozen=True, gc=False):
    """How far a tool call is: pending, running, completed or error."""

    status: str = ""
    input: Raw = Raw(b"{}")
    output: str | None = ""
    error: str | None = ""
    metadata: Raw = Raw(b"{}")
    time: OpencodeTime = OpencodeTime()


class OpencodeMetadata(Struct, frozen=True, gc=False):
    exit: int | None = None
    sessionId: str = ""
    interrupted: bool = False
    exists: bool | None = None
    answers: list[list[str]] = []


class OpencodePart(Struct, frozen=True, gc=False):
    """Any part of a message; which fields count depends on `type`."""

    type: str = ""
    text: str | None = ""
    synthetic: bool | None = False
    ignored: bool | None = False
    tool: str = ""
    callID: str = ""
    state: OpencodeToolState | None = None
    tail_start_id: str | None = ""
    prompt: str = ""
    command: str | None = ""


class OpencodeRevert(Struct, frozen=True, gc=False):
    """Where `/undo` went back to: this message, or this part of it, and all after it."""

    messageID: str = ""
    partID: str | None = ""


class OpencodeSessionInfo(Struct, frozen=True, gc=False):
    """A session without its messages, as the head of an export has it."""

    id: str = ""
    parentID: str | None = ""
    directory: str = ""
    title: str = ""
    version: str = ""
    revert: OpencodeRevert | None = None
    location: Raw = Raw(b"")
    """Only opencode 2 writes it."""
    time: OpencodeTime = OpencodeTime()


class OpencodeExport(Struct, frozen=True, gc=False):
    """What `opencode export` prints."""

    info: OpencodeSessionInfo
    messages: list[Raw]


class OpencodeExportedMessage(Struct, frozen=True, gc=False):
    info: Raw
    parts: list[Raw] = []


class OpencodeIdentity(Struct, frozen=True, gc=False):
    """What orders a message or part of an export among the others, and the message of a part."""

    id: str = ""
    messageID: str = ""
    time: Raw = Raw(b"{}")


MESSAGE = json.Decoder(OpencodeMessage)
PART = json.Decoder(OpencodePart)
METADATA = json.Decoder(OpencodeMetadata)
REVERT = json.Decoder(OpencodeRevert)
EXPORT = json.Decoder(OpencodeExport)
EXPORTED = json.Decoder(OpencodeExportedMessage)
NAMED = json.Decoder(OpencodeIdentity)
TIME = json.Decoder(OpencodeTime)
ERROR_DATA = json.Decoder(OpencodeErrorData)


_BASE = "\nBase directory for this skill: "
_UNNAMED = ("New session - ", "Child session - ")


def choose_name(title: str) -> str:
    """Return the title of a session, empty while it has only the default one."""
    return "" if title.startswith(_UNNAMED) else title


def restore_skill_call(text: str) -> tuple[str, str]:
    """Return what the user typed, in whose place opencode records the skill's text, and that skill."""
    base_at = text.find(_BASE)
    if base_at < 0:
        return text, ""
    folder, _, rest = text[base_at + len(_BASE) :].partition("\n")
    if not rest.startswith("Relative paths in this skill"):
        return text, ""
    name = folder.rstrip("/").rpartition("/")[2]
    return f"/{name} {rest.partition(chr(10))[2].strip()}".strip(), name
