"""Hooks in the shape of Claude Code's, which Codex and Gemini CLI have as well."""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tasuki.harness import integration
from tasuki.harness.integration import Addition, HookCall, HookKind, JsonEntry, get_text
from tasuki.harness.plans import FLEET_MARK, build_fleet_hook
from tasuki.harness.protocol import AgentEvent, EventKind, HookReply
from tasuki.harness.questions import describe_tool_call

_WORDS = {"prompt": "prompt", "idle": "last_assistant_message", "ended": "reason"}


class HookFile(Struct, frozen=True):
    """The file in which a harness keeps its hooks, and how it writes them."""

    harness: str
    get_folder: Callable[[], Path]
    name: str
    unit: int = 1
    """So many of its time limits are a second."""
    label: str = ""
    """The name of tasuki's hooks, where they have one."""

    def get_path(self) -> Path:
        """Return its path; a variable may move it."""
        return self.get_folder() / self.name

    def build_hook(
        self, event: str, command: str, seconds: int, purpose: str,
        mark: str = integration.HOOK_MARK, suffix: str = "", matcher: str = "",
    ) -> JsonEntry:  # fmt: skip
        """Build a hook that runs a command with a mark in it, for some sources of its event."""
        assert mark in command, command
        hook = {"type": "command", "command": command, "timeout": seconds * self.unit}
        hooks = [{"name": f"{self.label}{suffix}", **hook} if self.label else hook]
        entry = {"matcher": matcher, "hooks": hooks} if matcher else {"hooks": hooks}
        return JsonEntry(str(self.get_path()), ("hooks", event), entry, purpose, mark=mark)

    def list_handoff_hooks(
        self, tasuki: tuple[str, ...], command: str, patterns: tuple[str, ...] = (),
        events: tuple[str, str] = ("UserPromptSubmit", "Stop"),
    ) -> list[Addition]:  # fmt: skip
        """List the hooks of every prompt and of a turn's end; `patterns` as in `build_prompt_hook`."""
        prompt = integration.build_prompt_hook(tasuki, self.harness, command, patterns)
        turn = integration.build_turn_call(tasuki, "hook", self.harness)
        return [
            self.build_hook(events[0], prompt, integration.PROMPT_SECONDS,
                            f"a hook that intercepts {command} before it reaches the model"),
            self.build_hook(events[1], turn, integration.TURN_SECONDS,
                            "a hook that suggests a handoff when the context fills up"),
        ]  # fmt: skip

    def list_compaction_hooks(
        self, tasuki: tuple[str, ...], hooks: Iterable[tuple[str, str, str]]
    ) -> tuple[Addition, ...]:
        """List hooks around a compaction.

        Each is an event, the matcher of its source and a shell pattern of payloads; the last two
        may be empty.
        """
        mark, seconds, found = integration.COMPACTION_MARK, integration.COMPACTION_SECONDS, []
        for event, matcher, pattern in hooks:
            check = f"case $p in {pattern}) ;; *) false;; esac" if pattern else ""
            command = integration.build_compaction_hook(tasuki, self.harness, check)
            purpose = f"a hook at a compaction ({event})"
            hook = self.build_hook(event, command, seconds, purpose, mark, "-compaction", matcher)
            found.append(hook)
        return tuple(found)

    def list_fleet_hooks(
        self, events: Iterable[str], hook: str, seconds: int
    ) -> tuple[Addition, ...]:
        """List a hook for each of these events, which passes it to tasuki's hook script."""
        command = build_fleet_hook(hook, self.harness)
        purpose = "a hook that tells tasuki's server: "
        return tuple(
            self.build_hook(event, command, seconds, purpose + event, FLEET_MARK, "-fleet")
            for event in events
        )


def build_call(payload: Mapping[str, Any], kind: HookKind = "turn") -> HookCall:
    """Build a call from the members that all hooks have."""
    path, id = get_text(payload, "transcript_path"), get_text(payload, "session_id")
    event = get_text(payload, "hook_event_name") if kind == "compacted" else ""
    return HookCall(kind, path, id, get_text(payload, "cwd"), event=event)


def parse_call(payload: Mapping[str, Any], command: str) -> HookCall | None:
    """Parse what a hook of a prompt or of a turn's end asks for; None for nothing."""
    call, event = build_call(payload), get_text(payload, "hook_event_name")
    if payload.get("agent_id"):
        return None
    if event == "UserPromptSubmit":
        goal = integration.parse_goal(payload.get("prompt"), command)
        return None if goal is None else replace(call, kind="handoff", text=goal)
    is_end = event == "Stop"
    return replace(call, text=get_text(payload, "last_assistant_message")) if is_end else None


def parse_event(
    payload: Mapping[str, Any], kinds: Mapping[str, EventKind], turn: str = ""
) -> AgentEvent | None:
    """Parse an event of an agent; `turn` is the member that holds the id of the turn."""
    kind = kinds.get(get_text(payload, "hook_event_name"))
    session, child = get_text(payload, "session_id"), get_text(payload, "agent_id")
    if kind is None or not session:
        return None
    waits = kind == "waiting"
    if not waits and bool(child) != kind.startswith("child_"):
        return None  # It is from a sub-agent, of which only questions count.
    tool, tool_input = get_text(payload, "tool_name"), payload.get("tool_input")
    arguments = tool_input if isinstance(tool_input, Mapping) else {}
    cwd = get_text(payload, "cwd")
    return AgentEvent(
        kind,
        session,
        path=get_text(payload, "transcript_path"),
        cwd=cwd,
        model=get_text(payload, "model"),
        text=f"permission for {tool}" if waits else get_text(payload, _WORDS.get(kind, "")),
        question=describe_tool_call(tool, arguments, cwd) if waits and tool else None,
        turn=get_text(payload, turn),
        source=get_text(payload, "source") or get_text(payload, "trigger"),
        child=child,
    )


def format_output(event: str, **output: object) -> str:
    """Format what a hook hands on to the model."""
    named = {"hookEventName": event, **output}
    return json.dumps({"hookSpecificOutput": named}, ensure_ascii=False)


def format_start_context(event: AgentEvent, reply: HookReply) -> str:
    """Format text for the model at the start of a session."""
    if event.kind != "started" or not reply.context:
        return ""
    output = {"hookEventName": "SessionStart", "additionalContext": reply.context}
    return json.dumps({"hookSpecificOutput": output})
