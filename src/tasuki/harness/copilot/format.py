"""Session files of Copilot CLI 1.0: `events.jsonl`, one event a line, and `workspace.yaml`.

Every event is `{"type", "data", "id", "timestamp", "parentId"}`, with `agentId` where it
comes from a sub-agent. The event types are those of the public `@github/copilot-sdk` 1.0.
"""

import re
from pathlib import Path

import msgspec
from msgspec import Raw, Struct

from tasuki.patterns import compile_pattern

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
    cwd: str = ""
    branch: str | None = ""
    headCommit: str | None = ""


class CopilotToolRequest(Struct, gc=False):
    """A call inside an `assistant.message`."""

    toolCallId: str = ""
    name: str = ""
    arguments: Raw = Raw(b"{}")


class CopilotResult(Struct, frozen=True, gc=False):
    content: str | None = ""
    kind: str = ""
    feedback: str | None = ""


class CopilotError(Struct, frozen=True, gc=False):
    message: str | None = ""
    code: str | None = ""


class CopilotExecution(Struct, frozen=True, gc=False):
    """A command that ended, as the result of a call or a notification states it."""

    type: str = ""
    shellId: str | None = ""
    exitCode: int | None = None


class CopilotUsage(Struct, frozen=True, gc=False):
    inputTokens: int = 0
    outputTokens: int = 0
    maxPromptTokens: int | None = None


class CopilotData(Struct, gc=False):
    """The content of an event, as far as it is read; which fields count depends on its type."""

    sessionId: str = ""
    copilotVersion: str = ""
    startTime: str = ""
    selectedModel: str | None = ""
    newModel: str | None = ""
    reasoningEffort: str | None = ""
    context: CopilotContext | str | None = None
    cwd: str = ""
    branch: str | None = ""
    headCommit: str | None = ""
    content: str | None = ""
    """What was typed, without what Copilot adds for the model; what the agent said."""
    source: str | None = ""
    delivery: str | None = ""
    model: str | None = ""
    toolRequests: list[CopilotToolRequest] | None = None
    toolCallId: str | None = ""
    toolName: str = ""
    arguments: Raw = Raw(b"{}")
    success: bool = True
    result: CopilotResult | None = None
    error: CopilotError | str | None = None
    shellExecution: CopilotExecution | None = None
    summaryContent: str | None = ""
    message: str | None = ""
    errorType: str | None = ""
    title: str | None = ""
    name: str | None = ""
    initialMessage: str | None = ""
    upToEventId: str | None = ""
    summary: str | None = ""
    agentDisplayName: str | None = ""
    agentDescription: str | None = ""
    cancelled: bool = False
    kind: CopilotExecution | str | None = None
    usage: CopilotUsage | None = None

    @property
    def call_id(self) -> str:
        """The call that it is about."""
        return self.toolCallId or ""

    @property
    def place(self) -> CopilotContext:
        """Where a session starts."""
        return self.context if isinstance(self.context, CopilotContext) else CopilotContext()

    @property
    def is_by_program(self) -> bool:
        """Whether a message in the user's name is none of the user's."""
        return bool(self.source) and self.source != "user"


LINE = msgspec.json.Decoder(CopilotEvent)
DATA = msgspec.json.Decoder(CopilotData)


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
