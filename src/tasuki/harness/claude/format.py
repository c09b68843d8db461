"""The format of Claude Code's thread files, as far as it concerns the conversation.

`LINE` decodes any line. `REPLY` and `RESULTS` decode the two kinds that are most of a
thread, with only the fields that these need, in the order they are written: they refuse
what is unusual.
"""

import re
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Raw, Struct

from tasuki.harness.reading.jsonl import TextPart, decode_part, extract_text
from tasuki.harness.reading.speakers import Evidence
from tasuki.patterns import compile_pattern

SKIPPED = frozenset(
    "progress file-history-snapshot file-history-delta last-prompt mode permission-mode "
    "tools-used cost-state agent-name atis-latch bridge-session pr-link tag "
    "api-request api-request-blob api-request-shape speculation-accept continued-in agent-setting agent-color "
    "content-replacement attribution-snapshot task-summary worktree-state relocated".split()
)
"""Line types that say nothing about the conversation."""


class ClaudeBlock(TextPart):
    id: str = ""
    name: str = ""
    input: Raw = Raw(b"{}")
    tool_use_id: str = ""
    content: str | list[TextPart] | None = None
    is_error: bool | None = None


class ClaudeUsage(Struct):
    input_tokens: int = 0
    cache_creation_input_tokens: int | None = 0
    cache_read_input_tokens: int | None = 0
    output_tokens: int = 0


class ClaudeMessage(Struct):
    id: str = ""
    model: str = ""
    content: str | list[ClaudeBlock] | None = None
    usage: ClaudeUsage | None = None


class ClaudeOrigin(Struct):
    """Who a row is from: human, channel, peer, task-notification, coordinator, plugin, …"""

    kind: str = ""


class ClaudeAttachment(Struct):
    type: str = ""
    prompt: Raw = Raw(b'""')
    commandMode: str = ""
    isMeta: bool | None = False
    textNotTyped: bool = False
    promptRewritten: bool = False
    origin: ClaudeOrigin | None = None
    context: Raw = Raw(b"{}")
    planFilePath: str = ""
    planContent: str = ""
    filename: str = ""
    path: str = ""
    snippet: str = ""
    content: Raw = Raw(b'""')


class ClaudeSegment(Struct):
    """The rows that a compaction keeps in view."""

    headUuid: str = ""


class ClaudeCompaction(Struct):
    preservedSegment: ClaudeSegment | None = None


class ClaudeFile(Struct):
    filePath: str = ""
    path: str = ""
    content: str = ""
    file: "ClaudeFile | None" = None


class ClaudeThinking(Struct):
    level: str = ""


class ClaudeQuota(Struct):
    """What a reply that an account's limit refused says about that limit."""

    resetsAt: float | None = None
    """In seconds since 1970."""


class ClaudeLine(Struct):
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
    apiError: Raw = Raw(b'""')
    error: Raw = Raw(b'""')
    quotaLimits: Raw = Raw(b"{}")
    isVirtual: bool = False
    isVisibleInTranscriptOnly: bool = False
    promptSource: str = ""
    turnOrigin: str | None = ""
    rowSource: str = ""
    textNotTyped: bool = False
    handedOff: bool = False
    queueTranscriptOnly: bool = False
    origin: ClaudeOrigin | None = None
    thinkingMetadata: ClaudeThinking | None = None
    compactMetadata: ClaudeCompaction | None = None
    message: ClaudeMessage | None = None
    attachment: ClaudeAttachment | None = None
    operation: str = ""
    content: Raw = Raw(b'""')
    customTitle: str = ""
    aiTitle: str = ""
    summary: str = ""
    leafUuid: str | None = ""


class ClaudeReplyBlock(TextPart, gc=False):
    id: str = ""
    name: str = ""
    input: dict[str, Any] | None = None


class ClaudeReply(Struct, gc=False):
    model: str = ""
    id: str = ""
    content: list[ClaudeReplyBlock] = []
    usage: ClaudeUsage | None = None


class ClaudeReplyLine(Struct, gc=False):
    parentUuid: str
    message: ClaudeReply
    type: Literal["assistant"]
    uuid: str
    timestamp: str
    version: str = ""
    gitBranch: str = ""
    isSidechain: bool = False
    isApiErrorMessage: bool = False


class ClaudeResultBlock(Struct, gc=False):
    """A result whose content is not decoded."""

    tool_use_id: str
    type: Literal["tool_result"]
    content: Raw = Raw(b"null")
    is_error: bool | None = None


class ClaudeResults(Struct, gc=False):
    content: list[ClaudeResultBlock]


class ClaudeResultLine(Struct, gc=False):
    """A user line that holds results of tools and nothing else."""

    parentUuid: str
    type: Literal["user"]
    message: ClaudeResults
    uuid: str
    timestamp: str
    version: str = ""
    gitBranch: str = ""
    isSidechain: bool = False


class ClaudeNote(Struct):
    notes: str | None = ""


class ClaudeResult(Struct):
    """The copy of a result for the screen: of a shell's, and of what the user answered."""

    backgroundTaskId: str = ""
    answers: dict[str, str | list[str]] = {}
    annotations: dict[str, ClaudeNote | None] | None = None
    response: str | None = ""


class ClaudeCopy(Struct):
    toolDenialKind: str = ""
    toolUseResult: Raw = Raw()


LINE = msgspec.json.Decoder(ClaudeLine)
REPLY = msgspec.json.Decoder(ClaudeReplyLine)
RESULTS = msgspec.json.Decoder(ClaudeResultLine)
CONTENT = msgspec.json.Decoder(str | list[TextPart] | None)
QUOTA = msgspec.json.Decoder(ClaudeQuota)
FILE = msgspec.json.Decoder(ClaudeFile)
_COPY = msgspec.json.Decoder(ClaudeCopy)
_RESULT = msgspec.json.Decoder(ClaudeResult)


def count_context_tokens(usage: ClaudeUsage) -> int:
    """Count the tokens in the context window after one request, from its usage."""
    cached = (usage.cache_creation_input_tokens or 0) + (usage.cache_read_input_tokens or 0)
    return usage.input_tokens + cached + usage.output_tokens


COMMAND = compile_pattern(
    r"(?:\s*<command-(name|message|args|contents)>.*?</command-\1>)+\s*", re.DOTALL
)
"""How a command with a slash is recorded."""
_PASTED = '<pasted_content id="'


def remove_paste_marks(text: str) -> str:
    """Return a prompt as the user typed it: without the marks around what was pasted into it.

    The marks are two line ends, `<pasted_content id="1145">` and a line end before the paste; a
    line end, `</pasted_content id="1145">` and a line end after it. Seen: 2.1.330.
    """
    parts, position = [], 0
    while (start := text.find(_PASTED, position)) >= 0:
        begin = text.find('">\n', start, start + 80)
        closing = f'\n</pasted_content id="{text[start + len(_PASTED) : begin]}">'
        end = text.find(closing, begin + 2) if begin >= 0 else -1
        if end < 0:
            break  # It is not a mark: what follows is kept as it is.
        parts += [text[position:start].removesuffix("\n\n"), text[begin + 3 : end]]
        position = end + len(closing)
        position += text[position : position + 1] == "\n"
    return "".join((*parts, text[position:]))


_TYPED_SOURCES = ("typed", "queued", "suggestion_accepted")
_OPEN_SOURCES = ("", "sdk", *_TYPED_SOURCES)
"""Sources that a person's prompt may have: with `sdk`, a person or a program wrote it."""
_OPEN_TURNS = (None, "", "human", "sdk", "unknown")


def find_evidence(line: ClaudeLine) -> Evidence:
    """Find what a row says of who wrote its text, by the same marks as Claude Code 2.1.332."""
    kind = line.origin.kind if line.origin else ""
    marks = (line.isMeta, line.isVirtual, line.isVisibleInTranscriptOnly, line.textNotTyped,
             line.handedOff, line.queueTranscriptOnly)  # fmt: skip
    is_open = (
        line.rowSource in ("", "local")
        and line.promptSource in _OPEN_SOURCES
        and line.turnOrigin in _OPEN_TURNS
        and kind in ("", "human")
    )
    if any(marks) or not is_open:
        return "program"
    return "user" if kind == "human" or line.promptSource in _TYPED_SOURCES else ""


_CHANNEL = compile_pattern(
    r'\A<channel source="(?:[^"]*:)?(?:telegram|discord|imessage|slack|signal|whatsapp|matrix|teams|msteams|line|wechat|feishu|lark|zalo|sms|messenger)"([^<>]*)>'
    r"\s*(.*?)\s*</channel>\s*\Z",
    re.DOTALL,
)
"""A message of an application in which people write to each other: anybody may feed any other."""
_SENDER = compile_pattern(r'\b(?:user|user_id|username|sender)="([^"]+)"')
"""Who wrote a message of a chat; what a webhook sends names nobody."""


class ChannelMessage(NamedTuple):
    """What somebody wrote in a chat that the session listens to."""

    sender: str
    words: str


def read_channel_message(origin: ClaudeOrigin | None, text: str) -> ChannelMessage | None:
    """Read a message of a chat; None for any other row, and for one that names no sender."""
    match = _CHANNEL.match(text.strip()) if origin and origin.kind == "channel" else None
    sender = _SENDER.search(match[1]) if match else None
    if match is None or sender is None:
        return None
    return ChannelMessage(sender[1].casefold(), match[2])


def find_queued_evidence(attachment: ClaudeAttachment) -> Evidence:
    """Find what a queued prompt that was delivered says of who wrote it."""
    kind = attachment.origin.kind if attachment.origin else ""
    is_prompt = attachment.commandMode in ("", "prompt") and not attachment.promptRewritten
    if attachment.isMeta or attachment.textNotTyped or not is_prompt or kind not in ("", "human"):
        return "program"
    return "user" if kind else ""


def parse_version(version: str) -> tuple[int, ...]:
    """Parse `2.1.332`; empty where it is none."""
    parts = version.split(".")
    return tuple(map(int, parts)) if all(part.isdigit() for part in parts) else ()


def decode_text(raw: Raw) -> str:
    """Decode a JSON string, or the texts of a list of blocks; empty for anything else."""
    return extract_text(decode_part(CONTENT, raw, None))


class CopiedFacts(Struct, gc=False):
    """What a row of results says of its call besides the result; it is searched when a call asks."""

    line: bytes = b""
    start: int = 0
    """Where the copy for the screen begins, which is most of a row."""

    def find_denial(self) -> str:
        """Find who did not let the call begin, as the program names it."""
        return self._decode(b'"toolDenialKind"').toolDenialKind

    def find_job(self) -> str:
        """Find the id of the background job that the call has become."""
        return self._decode_result(b'"backgroundTaskId"').backgroundTaskId

    def find_answers(self) -> ClaudeResult | None:
        """Find what the user answered to the questions of the call."""
        result = self._decode_result(b'"answers"')
        return result if result.answers or result.annotations or result.response else None

    def _decode(self, key: bytes) -> ClaudeCopy:
        is_there = self.line.find(key, self.start) > 0
        return decode_part(_COPY, self.line, ClaudeCopy()) if is_there else ClaudeCopy()

    def _decode_result(self, key: bytes) -> ClaudeResult:
        if self.line.find(key, self.start) <= 0:
            return ClaudeResult()
        return decode_part(_RESULT, self._decode(key).toolUseResult, ClaudeResult())


NO_COPY = CopiedFacts()
