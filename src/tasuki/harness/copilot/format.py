"""Session files of Copilot CLI 1.0: `events.jsonl`, one event a line, and `workspace.yaml`.

Every event is `{"type", "data", "id", "timestamp", "parentId"}`, with `agentId` where it
comes from a sub-agent. The event types are those of the public `@github/copilot-sdk` 1.0.
"""

import re
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from tasuki.harness.reading.jsonl import decode_nested
from tasuki.patterns import compile_pattern

T = TypeVar("T")

MAX_YAML = 64 << 10
_YAML_PLAIN = compile_pattern(r"([a-z_]+):(?: (.*))?")
_YAML_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "/": "/"}


class CopilotEvent(Struct, gc=False):
    """Any event; the content of `data` depends on `type`."""

    type: str = ""
    id: str = ""
    timestamp: str = ""
    agentId: str | None = ""
    data: Raw = Raw(b"{}")


class CopilotContext(Struct, frozen=True, gc=False):
    """Where a session runs."""

    cwd: str = ""
    branch: str | None = ""
    headCommit: str | None = ""


class CopilotStart(Struct, gc=False):
    """`session.start` and `session.resume`."""

    sessionId: str = ""
    copilotVersion: str = ""
    startTime: str = ""
    selectedModel: str | None = ""
    reasoningEffort: str | None = ""
    context: CopilotContext = CopilotContext()


class CopilotModelChange(Struct, gc=False):
    """`session.model_change`."""

    newModel: str | None = ""
    reasoningEffort: str | None = ""


class CopilotUserMessage(Struct, gc=False):
    """`user.message`: `content` is what was typed, without what Copilot adds for the model."""

    content: str = ""
    source: str | None = ""
    delivery: str | None = ""


class CopilotToolRequest(Struct, gc=False):
    """A call inside an `assistant.message`."""

    toolCallId: str = ""
    name: str = ""
    arguments: Raw = Raw(b"{}")


class CopilotAssistantMessage(Struct, gc=False):
    """`assistant.message`."""

    content: str | None = ""
    model: str | None = ""
    toolRequests: list[CopilotToolRequest] | None = None


class CopilotToolStart(Struct, gc=False):
    """`tool.execution_start` and `tool.user_requested`."""

    toolCallId: str = ""
    toolName: str = ""
    arguments: Raw = Raw(b"{}")


class _CopilotToolResult(Struct, gc=False):
    content: str | None = ""


class _CopilotToolError(Struct, gc=False):
    message: str | None = ""
    code: str | None = ""


class _CopilotShellExecution(Struct, gc=False):
    exitCode: int | None = None


class CopilotToolComplete(Struct, gc=False):
    """`tool.execution_complete`."""

    toolCallId: str = ""
    success: bool = True
    result: _CopilotToolResult | None = None
    error: _CopilotToolError | None = None
    shellExecution: _CopilotShellExecution | None = None


class _CopilotDecision(Struct, frozen=True, gc=False):
    kind: str = ""
    feedback: str | None = ""


class CopilotPermission(Struct, gc=False):
    """`permission.completed`."""

    toolCallId: str | None = ""
    result: _CopilotDecision = _CopilotDecision()


class CopilotCompaction(Struct, gc=False):
    """`session.compaction_complete`."""

    success: bool = True
    summaryContent: str | None = ""
    error: str | None = ""


class CopilotStatement(Struct, gc=False):
    """Events that carry a sentence: errors, warnings, titles, skills, rewinds."""

    message: str | None = ""
    infoType: str | None = ""
    errorType: str | None = ""
    title: str | None = ""
    name: str | None = ""
    initialMessage: str | None = ""
    upToEventId: str | None = ""
    summary: str | None = ""


class CopilotAgent(Struct, gc=False):
    """`subagent.started`, `.completed` and `.failed`."""

    toolCallId: str = ""
    agentDisplayName: str | None = ""
    agentDescription: str | None = ""
    cancelled: bool = False


class _CopilotNotificationKind(Struct, frozen=True, gc=False):
    type: str = ""
    shellId: str | None = ""
    exitCode: int | None = None


class CopilotNotification(Struct, gc=False):
    """`system.notification`."""

    content: str | None = ""
    kind: _CopilotNotificationKind = _CopilotNotificationKind()


class _CopilotUsage(Struct, frozen=True, gc=False):
    inputTokens: int = 0
    outputTokens: int = 0
    maxPromptTokens: int | None = None


class CopilotUsageRecord(Struct, gc=False):
    """`session.usage_record`."""

    usage: _CopilotUsage = _CopilotUsage()


LINE = msgspec.json.Decoder(CopilotEvent)
_DECODERS: dict[type, msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(kind)
    for kind in (
        CopilotStart, CopilotModelChange, CopilotUserMessage, CopilotAssistantMessage, CopilotToolStart, CopilotToolComplete, CopilotPermission,
        CopilotCompaction, CopilotStatement, CopilotAgent, CopilotNotification, CopilotUsageRecord, CopilotContext,
    )
}  # fmt: skip


def decode_data(line: CopilotEvent, kind: type[T]) -> T:
    """Decode the data of an event. Raises MsgspecError for data of wrong types."""
    value: T = decode_nested(_DECODERS[kind], line.data)
    return value


def read_workspace(session: Path) -> dict[str, str]:
    """Read the fields of the `workspace.yaml` in a session's folder: `cwd`, `branch`, `name`, ….

    Copilot writes one field a line; longer texts are quoted or block scalars. Other forms of
    YAML do not occur there, and are left out.
    """
    try:
        with (session / "workspace.yaml").open("rb") as file:
            text = file.read(MAX_YAML).decode("utf-8", "replace")
    except OSError:
        return {}
    fields: dict[str, str] = {}
    key = ""
    for line in text.splitlines():
        if match := _YAML_PLAIN.fullmatch(line):
            key, value = match[1], (match[2] or "").strip()
            fields[key] = (
                "" if value in ("|", "|-", "|+", ">", ">-", ">+") else _parse_scalar(value)
            )
        elif key and line.startswith("  "):
            fields[key] = f"{fields[key]}\n{line.strip()}".strip()
    return fields


def _parse_scalar(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] == "'":
        return value[1:-1].replace("''", "'")
    if len(value) >= 2 and value[0] == value[-1] == '"':
        return re.sub(r"\\(.)", lambda m: _YAML_ESCAPES.get(m[1], m[0]), value[1:-1])
    return value


def choose_name(fields: dict[str, str], words: str) -> str:
    """Return the name of a session; the mere beginning of its first prompt does not count."""
    name = " ".join(fields.get("name", "").split())
    own = fields.get("user_named") == "true" or name[:100] != words[: len(name)][:100]
    return name if own else ""
