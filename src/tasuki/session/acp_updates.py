"""What an agent tells by the Agent Client Protocol, as the events of a Backend.

Read from the raw messages: agents are ahead of the protocol's schema, and an unknown field, kind of
update or kind of tool must cost no more than itself. Source: protocol version 1, schema 1.19.
"""

from collections.abc import Iterable
from typing import Any, get_args

from msgspec.structs import replace

from tasuki.session.backend import (
    AgentCommand,
    BackendEvent,
    Commands,
    Diff,
    PermissionOption,
    Plan,
    Text,
    Thought,
    Todo,
    TodoStatus,
    Tool,
    ToolStatus,
    Usage,
)
from tasuki.session.messages import Json

_TOOL_STATES = get_args(ToolStatus)
_TODO_STATES: dict[object, TodoStatus] = {state: state for state in get_args(TodoStatus)}


class Updates:
    """The updates of one session of the agent, in order; it knows each tool call as it stands."""

    def __init__(self) -> None:
        self.tools: dict[str, Tool] = {}

    def event(self, update: Json) -> BackendEvent | None:
        """What an update says; None for what a conversation does not need."""
        kind = update.get("sessionUpdate")
        if kind == "agent_message_chunk":
            return Text(_text(update.get("content")), str(update.get("messageId") or ""))
        if kind == "agent_thought_chunk":
            return Thought(_text(update.get("content")))
        if kind in ("tool_call", "tool_call_update"):
            return self.tool(update)
        if kind == "plan":
            return Plan(tuple(_todo(entry) for entry in _dicts(update.get("entries"))))
        if kind == "usage_update":
            return Usage(_number(update.get("used")), _number(update.get("size")))
        if kind == "available_commands_update":
            commands = map(_command, _dicts(update.get("availableCommands")))
            return Commands(tuple(command for command in commands if command.name))
        return None

    def tool(self, update: Json) -> Tool:
        """A tool call with what an update, or a question for permission, says of it."""
        id = str(update.get("toolCallId") or "")
        tool = replace(self.tools.get(id, Tool(id)), **_said(update))
        self.tools[id] = tool
        return tool


def options(params: Json) -> tuple[PermissionOption, ...]:
    """The answers that a question for permission offers."""
    return tuple(
        PermissionOption(
            str(option["optionId"]),
            str(option.get("name") or option["optionId"]),
            str(option.get("kind") or ""),
        )
        for option in _dicts(params.get("options"))
        if option.get("optionId")
    )


def _said(update: Json) -> dict[str, Any]:
    """The fields of a tool call that an update names."""
    said: dict[str, Any] = {k: str(update[k]) for k in ("title", "kind") if update.get(k)}
    if update.get("status") in _TOOL_STATES:
        said["status"] = update["status"]
    if isinstance(arguments := update.get("rawInput"), dict):
        said["arguments"] = arguments
    if paths := tuple(str(p["path"]) for p in _dicts(update.get("locations")) if p.get("path")):
        said["paths"] = paths
    if isinstance(update.get("content"), list):  # it takes the place of what was told before
        content = _dicts(update["content"])
        texts = [_text(c.get("content")) for c in content if c.get("type") == "content"]
        said["output"] = "\n".join(text for text in texts if text)
        if diffs := tuple(_diff(c) for c in content if c.get("type") == "diff"):
            said["diffs"] = diffs
    if not said.get("output") and (output := _raw_output(update.get("rawOutput"))):
        said["output"] = output
    return said


def _raw_output(raw: object) -> str:
    """Output that an agent gives in its own form alone."""
    if isinstance(raw, str):
        return raw
    if isinstance(raw, dict):
        found = (
            raw.get(name) for name in ("output", "stdout", "aggregated_output", "formatted_output")
        )
        return next((text for text in found if isinstance(text, str)), "")
    return ""


def _diff(content: Json) -> Diff:
    old = content.get("oldText")
    return Diff(
        str(content.get("path") or ""),
        old if isinstance(old, str) else None,
        str(content.get("newText") or ""),
    )


def _todo(entry: Json) -> Todo:
    status = _TODO_STATES.get(entry.get("status"), "pending")
    return Todo(str(entry.get("content") or ""), status)


def _command(entry: Json) -> AgentCommand:
    given = entry.get("input")
    hint = str(given.get("hint") or "") if isinstance(given, dict) else ""
    return AgentCommand(str(entry.get("name") or ""), str(entry.get("description") or ""), hint)


def _text(content: object) -> str:
    """The text of a block; of what is no text, its kind or address."""
    if not isinstance(content, dict):
        return ""
    if isinstance(text := content.get("text"), str):
        return text
    if isinstance(resource := content.get("resource"), dict):
        return str(resource.get("text") or resource.get("uri") or "")
    return str(content.get("uri") or f"[{content.get('type')}]")


def _dicts(value: object) -> Iterable[Json]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _number(value: object) -> int:
    return int(value) if isinstance(value, (int, float)) else 0
