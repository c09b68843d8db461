"""Parses the updates of an agent (Agent Client Protocol) into the events of a Backend.

The raw messages are read: agents are ahead of the protocol's schema, and an unknown field,
kind of update or kind of tool must cost no more than itself. Source: protocol version 1,
schema 1.19.
"""

from typing import Any, get_args

from msgspec.structs import replace

from tasuki.session.agent_session.backend import (
    AgentCommand,
    AgentCommands,
    AgentPlan,
    AgentTodo,
    BackendEvent,
    ContextUsage,
    FileDiff,
    PermissionOption,
    TextPiece,
    ThoughtPiece,
    TodoStatus,
    ToolProgress,
    ToolStatus,
)
from tasuki.session.pi_store.messages import Json

_TOOL_STATES = get_args(ToolStatus)
_TODO_STATES: dict[object, TodoStatus] = {state: state for state in get_args(TodoStatus)}


class UpdateParser:
    """Parses the updates of one session of the agent, in order; it knows each tool call's state."""

    def __init__(self) -> None:
        self.tools: dict[str, ToolProgress] = {}

    def parse_update(self, update: Json) -> BackendEvent | None:
        """Parse an update into an event; None for one that a conversation does not need."""
        kind = update.get("sessionUpdate")
        if kind == "agent_message_chunk":
            return TextPiece(
                _extract_block_text(update.get("content")), str(update.get("messageId") or "")
            )
        if kind == "agent_thought_chunk":
            return ThoughtPiece(_extract_block_text(update.get("content")))
        if kind in ("tool_call", "tool_call_update"):
            return self.parse_tool(update)
        if kind == "plan":
            return AgentPlan(
                tuple(_parse_todo(entry) for entry in filter_dicts(update.get("entries")))
            )
        if kind == "usage_update":
            return ContextUsage(
                _parse_number(update.get("used")), _parse_number(update.get("size"))
            )
        if kind == "available_commands_update":
            commands = map(_parse_command, filter_dicts(update.get("availableCommands")))
            return AgentCommands(tuple(command for command in commands if command.name))
        return None

    def parse_tool(self, update: Json) -> ToolProgress:
        """Return a tool call, changed by an update or a question for permission."""
        id = str(update.get("toolCallId") or "")
        fields = {**parse_tool_fields(update), **_parse_output(update)}
        tool = replace(self.tools.get(id, ToolProgress(id)), **fields)
        self.tools[id] = tool
        return tool


def parse_options(params: Json) -> tuple[PermissionOption, ...]:
    """Parse the answers that a question for permission offers."""
    return tuple(
        PermissionOption(
            str(option["optionId"]),
            str(option.get("name") or option["optionId"]),
            str(option.get("kind") or ""),
        )
        for option in filter_dicts(params.get("options"))
        if option.get("optionId")
    )


def parse_tool_fields(update: Json) -> dict[str, Any]:
    """Parse the fields of a tool call that an update names, except its output."""
    fields: dict[str, Any] = {k: str(update[k]) for k in ("title", "kind") if update.get(k)}
    if update.get("status") in _TOOL_STATES:
        fields["status"] = update["status"]
    if isinstance(arguments := update.get("rawInput"), dict):
        fields["arguments"] = arguments
    locations = filter_dicts(update.get("locations"))
    if paths := tuple(str(p["path"]) for p in locations if p.get("path")):
        fields["paths"] = paths
    content = filter_dicts(update.get("content"))
    if diffs := tuple(_parse_diff(c) for c in content if c.get("type") == "diff"):
        fields["diffs"] = diffs
    return fields


def _parse_output(update: Json) -> dict[str, str]:
    """Parse the output of a tool call, if an update names it; it replaces the earlier one."""
    content = [c for c in filter_dicts(update.get("content")) if c.get("type") == "content"]
    texts = [_extract_block_text(c.get("content")) for c in content]
    output = "\n".join(text for text in texts if text)
    output = output or _extract_raw_output(update.get("rawOutput"))
    return {"output": output} if output or isinstance(update.get("content"), list) else {}


def _extract_raw_output(raw: object) -> str:
    """Extract output that an agent gives only in its own form."""
    if isinstance(raw, str):
        return raw
    if isinstance(raw, dict):
        outputs = (
            raw.get(name) for name in ("output", "stdout", "aggregated_output", "formatted_output")
        )
        return next((text for text in outputs if isinstance(text, str)), "")
    return ""


def _parse_diff(content: Json) -> FileDiff:
    old = content.get("oldText")
    return FileDiff(
        str(content.get("path") or ""),
        old if isinstance(old, str) else None,
        str(content.get("newText") or ""),
    )


def _parse_todo(entry: Json) -> AgentTodo:
    status = _TODO_STATES.get(entry.get("status"), "pending")
    return AgentTodo(str(entry.get("content") or ""), status)


def _parse_command(entry: Json) -> AgentCommand:
    input_spec = entry.get("input")
    hint = str(input_spec.get("hint") or "") if isinstance(input_spec, dict) else ""
    return AgentCommand(str(entry.get("name") or ""), str(entry.get("description") or ""), hint)


def _extract_block_text(content: object) -> str:
    """Extract the text of a block; of another block, its kind or address."""
    if not isinstance(content, dict):
        return ""
    if isinstance(text := content.get("text"), str):
        return text
    if isinstance(resource := content.get("resource"), dict):
        return str(resource.get("text") or resource.get("uri") or "")
    return str(content.get("uri") or f"[{content.get('type')}]")


def filter_dicts(value: object) -> list[Json]:
    """Return the objects in a list; none where it is no list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _parse_number(value: object) -> int:
    return int(value) if isinstance(value, (int, float)) else 0
