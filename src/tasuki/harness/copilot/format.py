"""Session files of Copilot CLI 1.0: `events.jsonl`, one event a line, and `workspace.yaml` beside it.

Every event is `{"type", "data", "id", "timestamp", "parentId"}`, with `agentId` where a sub-agent
is behind it. The event types are those of the public `@github/copilot-sdk` 1.0.
"""

import re
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from tasuki.harness.jsonl import nested

T = TypeVar("T")

MAX_YAML = 64 << 10
_YAML_PLAIN = re.compile(r"([a-z_]+):(?: (.*))?")
_YAML_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "/": "/"}


class Line(Struct, gc=False):
    """Any event; what `data` holds depends on `type`."""

    type: str = ""
    id: str = ""
    timestamp: str = ""
    agentId: str | None = ""
    data: Raw = Raw(b"{}")


class Context(Struct, frozen=True, gc=False):
    """Where a session runs."""

    cwd: str = ""
    branch: str | None = ""
    headCommit: str | None = ""


class Start(Struct, gc=False):
    """`session.start` and `session.resume`."""

    sessionId: str = ""
    copilotVersion: str = ""
    startTime: str = ""
    selectedModel: str | None = ""
    reasoningEffort: str | None = ""
    context: Context = Context()


class ModelChange(Struct, gc=False):
    """`session.model_change`."""

    newModel: str | None = ""
    reasoningEffort: str | None = ""


class UserMessage(Struct, gc=False):
    """`user.message`: `content` is what was typed, without what Copilot adds for the model."""

    content: str = ""
    source: str | None = ""
    delivery: str | None = ""


class ToolRequest(Struct, gc=False):
    """A call inside an `assistant.message`."""

    toolCallId: str = ""
    name: str = ""
    arguments: Raw = Raw(b"{}")


class AssistantMessage(Struct, gc=False):
    """`assistant.message`."""

    content: str | None = ""
    model: str | None = ""
    toolRequests: list[ToolRequest] | None = None


class ToolStart(Struct, gc=False):
    """`tool.execution_start` and `tool.user_requested`."""

    toolCallId: str = ""
    toolName: str = ""
    arguments: Raw = Raw(b"{}")


class _Result(Struct, gc=False):
    content: str | None = ""


class _Error(Struct, gc=False):
    message: str | None = ""
    code: str | None = ""


class _Shell(Struct, gc=False):
    exitCode: int | None = None


class ToolComplete(Struct, gc=False):
    """`tool.execution_complete`."""

    toolCallId: str = ""
    success: bool = True
    result: _Result | None = None
    error: _Error | None = None
    shellExecution: _Shell | None = None


class _Decision(Struct, frozen=True, gc=False):
    kind: str = ""
    feedback: str | None = ""


class Permission(Struct, gc=False):
    """`permission.completed`."""

    toolCallId: str | None = ""
    result: _Decision = _Decision()


class Compaction(Struct, gc=False):
    """`session.compaction_complete`."""

    success: bool = True
    summaryContent: str | None = ""
    error: str | None = ""


class Told(Struct, gc=False):
    """Events that carry a sentence: errors, warnings, titles, skills, rewinds."""

    message: str | None = ""
    infoType: str | None = ""
    title: str | None = ""
    name: str | None = ""
    initialMessage: str | None = ""
    upToEventId: str | None = ""
    summary: str | None = ""


class Agent(Struct, gc=False):
    """`subagent.started`, `.completed` and `.failed`."""

    toolCallId: str = ""
    agentDisplayName: str | None = ""
    agentDescription: str | None = ""
    cancelled: bool = False


class _Kind(Struct, frozen=True, gc=False):
    type: str = ""
    shellId: str | None = ""
    exitCode: int | None = None


class Notification(Struct, gc=False):
    """`system.notification`."""

    content: str | None = ""
    kind: _Kind = _Kind()


class _Usage(Struct, frozen=True, gc=False):
    inputTokens: int = 0
    outputTokens: int = 0
    maxPromptTokens: int | None = None


class UsageRecord(Struct, gc=False):
    """`session.usage_record`."""

    usage: _Usage = _Usage()


LINE = msgspec.json.Decoder(Line)
_DECODERS: dict[type, msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(kind)
    for kind in (
        Start, ModelChange, UserMessage, AssistantMessage, ToolStart, ToolComplete, Permission,
        Compaction, Told, Agent, Notification, UsageRecord, Context,
    )
}  # fmt: skip


def data_of(line: Line, kind: type[T]) -> T:
    """The data of an event. Raises MsgspecError for data of wrong types."""
    value: T = nested(_DECODERS[kind], line.data)
    return value


def workspace(session: Path) -> dict[str, str]:
    """Fields of the `workspace.yaml` in a session's folder: `cwd`, `branch`, `name`, ….

    Copilot writes one field a line; longer texts are quoted or block scalars. What else YAML
    could say does not occur there, and is left out.
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
            fields[key] = "" if value in ("|", "|-", "|+", ">", ">-", ">+") else _scalar(value)
        elif key and line.startswith("  "):
            fields[key] = f"{fields[key]}\n{line.strip()}".strip()
    return fields


def _scalar(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] == "'":
        return value[1:-1].replace("''", "'")
    if len(value) >= 2 and value[0] == value[-1] == '"':
        return re.sub(r"\\(.)", lambda m: _YAML_ESCAPES.get(m[1], m[0]), value[1:-1])
    return value
