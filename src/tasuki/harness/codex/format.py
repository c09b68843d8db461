"""The records of a Codex rollout (0.53 to 0.169), as far as they are read."""

from datetime import datetime
from pathlib import Path
from typing import Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from tasuki.harness.reading.jsonl import BYTE_ORDER_MARK, TEXT, UNDECODABLE, TextPart, decode_part
from tasuki.patterns import compile_pattern

T = TypeVar("T")
NO_ERROR_INFO = Raw(b'""')

_PARENT = compile_pattern(rb'"parent_thread_id": ?"([^"]+)"')
_IMAGE_TAG = compile_pattern(r"\A</?image\b[^>]*>\Z")


class CodexPayloadLine(Struct, Generic[T]):
    payload: T


class CodexLine(Struct):
    """A line of any kind, of which only type and time are wanted."""

    type: str = ""
    timestamp: str = ""
    payload: Raw = Raw(b"{}")


class CodexContentKinds(Struct):
    """What the pieces of a message are: `user.text` was typed (0.169)."""

    content_item_kinds: list[str | None] = []


class CodexMessage(Struct):
    """A `message` item."""

    role: str = ""
    id: str | None = ""
    content: str | list[TextPart] | None = None
    internal_chat_message_metadata_passthrough: CodexContentKinds | None = None


class CodexAction(Struct):
    """What a `local_shell_call` or a `web_search_call` does."""

    command: list[str] = []
    working_directory: str | None = ""
    query: str | None = ""
    url: str | None = ""


class CodexCall(Struct):
    name: str = ""
    namespace: str | None = ""
    arguments: str = ""
    input: str = ""
    call_id: str | None = ""
    action: CodexAction | None = None


class CodexOutput(Struct):
    content: str | None = ""


class CodexResult(Struct):
    call_id: str = ""
    output: str | list[TextPart] | CodexOutput | None = None


class CodexFileChange(Struct):
    type: str = ""
    unified_diff: str = ""
    content: str = ""
    move_path: str | None = ""


class CodexItem(Struct):
    """The outcome of a call, as an event states it; `type` is CommandExecution, FileChange, …"""

    type: str = ""
    id: str = ""
    status: str = ""
    source: str = ""
    command: list[str] = []
    process_id: int | str | None = ""
    aggregated_output: str | None = ""
    exit_code: int | None = None
    changes: dict[str, CodexFileChange] = {}
    stdout: str | None = ""
    stderr: str | None = ""


class CodexItemEvent(Struct):
    """An `item_completed` event."""

    item: CodexItem = msgspec.field(default_factory=CodexItem)


class CodexAgentActivity(Struct):
    """A `sub_agent_activity` event, or the last message of a sub-agent to its parent."""

    event_id: str = ""
    agent_thread_id: str = ""
    agent_path: str = ""
    author: str = ""
    content: list[TextPart] = []


class CodexError(Struct):
    message: str = ""
    codex_error_info: Raw = Raw(b'""')


class CodexEvent(Struct):
    message: str | None = ""
    reason: str | None = ""
    error: CodexError | str | None = None
    codex_error_info: Raw = Raw(b'""')
    num_turns: int = 0
    thread_name: str | None = ""


class CodexCompaction(Struct):
    """A compaction: its summary, and what the model sees instead of the past."""

    message: str = ""
    replacement_history: list[CodexMessage] | None = None


class CodexGit(Struct):
    commit_hash: str | None = ""
    branch: str | None = ""


class CodexHistoryBase(Struct):
    """The end of a fork's parent: the fork holds only its own part."""

    thread_id: str = ""
    end_byte_offset: int | None = None


class CodexMeta(Struct):
    """The `session_meta` record that begins a rollout."""

    id: str = ""
    forked_from_id: str | None = ""
    timestamp: str = ""
    cwd: str = ""
    cli_version: str = ""
    source: Raw = Raw(b'""')
    thread_source: str | None = ""
    parent_thread_id: str | None = ""
    model_provider: str | None = ""
    git: CodexGit | None = None
    history_base: CodexHistoryBase | None = None

    def build_model_name(self, model: str) -> str:
        """Return a model with its provider, `corp/gpt-x`, or its bare name if that is OpenAI."""
        provider = self.model_provider
        return f"{provider}/{model}" if model and provider not in (None, "", "openai") else model

    @property
    def is_child(self) -> bool:
        """Whether a program began it: a sub-agent, a reviewer, the guardian of approvals."""
        by_program = self.thread_source == "subagent" or b'"subagent"' in bytes(self.source)
        return by_program or bool(self.parent_thread_id)

    def find_parent(self) -> str:
        """Return the id of the thread that this one was forked from or spawned by."""
        if self.history_base:
            return self.history_base.thread_id
        spawned = _PARENT.search(bytes(self.source))
        named = self.forked_from_id or self.parent_thread_id
        return named or (spawned[1].decode() if spawned else "")


class CodexModeSettings(Struct):
    reasoning_effort: str | None = ""


class CodexMode(Struct):
    settings: CodexModeSettings | None = None


class CodexContext(Struct):
    """The `turn_context` record."""

    model: str = ""
    effort: str | None = ""
    collaboration_mode: CodexMode | None = None


class CodexUsage(Struct):
    """Tokens of one request, cached ones included."""

    total_tokens: int = 0


class CodexTokenInfo(Struct):
    """Body of a `token_count` event."""

    last_token_usage: CodexUsage | None = None
    model_context_window: int | None = None


class CodexTokenCount(Struct):
    """A `token_count` event."""

    info: CodexTokenInfo | None = None


class CodexPayloadType(Struct):
    type: str = ""


def find_thinking(context: CodexContext) -> str:
    """Return the reasoning effort of a turn, empty if it was left to the model's default."""
    mode = context.collaboration_mode
    settings = mode.settings if mode else None
    return context.effort or (settings.reasoning_effort if settings else "") or ""


class CodexRateWindow(Struct):
    """How much of an account's limit is used, and when it resets; older versions name the seconds until then."""

    used_percent: float = 0.0
    resets_at: float | None = None
    resets_in_seconds: float | None = None


class CodexRates(Struct):
    primary: CodexRateWindow | None = None
    secondary: CodexRateWindow | None = None


class CodexRateCount(Struct):
    """The part of a `token_count` event that tells the limits."""

    rate_limits: CodexRates | None = None


class CodexRateLine(Struct):
    timestamp: str = ""
    payload: CodexRateCount = msgspec.field(default_factory=CodexRateCount)


def find_error_code(info: Raw) -> str:
    """Find the name of an error; it is empty where the error has more than a name."""
    return decode_part(TEXT, info, "")


def find_reset(line: bytes) -> float | None:
    """Find when the used-up windows of a `token_count` line reset, in seconds since 1970; None for none."""
    try:
        parsed = _RATES.decode(line)
        counted = datetime.fromisoformat(parsed.timestamp).timestamp()
    except (*UNDECODABLE, ValueError, OverflowError):
        return None
    rates = parsed.payload.rate_limits or CodexRates()
    used = (w for w in (rates.primary, rates.secondary) if w and w.used_percent >= 100)
    resets = (
        w.resets_at or (counted + w.resets_in_seconds if w.resets_in_seconds else None)
        for w in used
    )
    return max((moment for moment in resets if moment), default=None)


def decode_payload(decoder: msgspec.json.Decoder[CodexPayloadLine[T]], line: bytes) -> T | None:
    """Decode the payload of a stored line; None if there was none or it is broken."""
    try:
        return decoder.decode(line).payload
    except UNDECODABLE:
        return None


def extract_user_text(message: CodexMessage) -> tuple[str, bool | None]:
    """Return what a user message says, and whether the user typed it; None where that is not recorded."""
    content = message.content
    if not isinstance(content, list):
        return (content or "").strip(), None
    passthrough = message.internal_chat_message_metadata_passthrough
    kinds = passthrough.content_item_kinds if passthrough else []
    is_typed: bool | None = None
    if len(kinds) == len(content) and any(k and k != "unknown" for k in kinds):
        typed = [p for p, k in zip(content, kinds, strict=True) if (k or "").startswith("user.")]
        is_typed = bool(typed)
        content = typed or content
    texts = [
        "[image]" if part.type == "input_image" else part.text
        for part in content
        if not _IMAGE_TAG.match(part.text.strip())
    ]
    return "\n".join(t for t in texts if t).strip(), is_typed


ANY = msgspec.json.Decoder(CodexLine)
MESSAGE = msgspec.json.Decoder(CodexPayloadLine[CodexMessage])
CALL = msgspec.json.Decoder(CodexPayloadLine[CodexCall])
RESULT = msgspec.json.Decoder(CodexPayloadLine[CodexResult])
ITEM = msgspec.json.Decoder(CodexPayloadLine[CodexItemEvent])
PATCH = msgspec.json.Decoder(CodexPayloadLine[CodexItem])
AGENT = msgspec.json.Decoder(CodexPayloadLine[CodexAgentActivity])
EVENT = msgspec.json.Decoder(CodexPayloadLine[CodexEvent])
COMPACTED = msgspec.json.Decoder(CodexPayloadLine[CodexCompaction])
META = msgspec.json.Decoder(CodexPayloadLine[CodexMeta])
CONTEXT = msgspec.json.Decoder(CodexPayloadLine[CodexContext])
COUNT = msgspec.json.Decoder(CodexPayloadLine[CodexTokenCount])
_RATES = msgspec.json.Decoder(CodexRateLine)
PAYLOAD_TYPE = msgspec.json.Decoder(CodexPayloadType)


def read_history_base(path: Path) -> CodexHistoryBase | None:
    """Read from a file's first line which part of which parent its history begins with, if any."""
    try:
        with path.open("rb") as file:
            line = file.readline().removeprefix(BYTE_ORDER_MARK)
        return META.decode(line).payload.history_base
    except (OSError, *UNDECODABLE):
        return None
