"""What the agents of several harnesses have in common when they run in a fleet."""

import json
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tasuki.harness.integration import Addition, build_command_hook, get_text
from tasuki.harness.protocol import AgentEvent, AgentRequest, EventKind, HookReply, LaunchPlan

FLEET_MARK = "tasuki fleet"
"""Mark in everything that `tasuki install HARNESS --fleet` adds."""
TOKEN = "TASUKI_AGENT_TOKEN"  # noqa: S105 the name of a variable
"""Environment variable of an agent by which its hooks identify the agent."""
_WORDS = {"prompt": "prompt", "idle": "last_assistant_message", "ended": "reason"}


class BaseControl:
    """How agents of most harnesses are run; `tasuki.harness.protocol.AgentControl` explains it.

    `ready` matches the screen once the program takes input, `argument` turns a prompt into
    arguments, and `unset` are variables that the program must not inherit.
    """

    exit_text = "/exit"
    interrupt_keys: tuple[str, ...] = ("Escape",)
    clear_keys: tuple[str, ...] = ("C-e", "C-u")
    enter_gap = 0.5
    chooses_session = False
    skill_at_start = False
    starts_at_prompt = False
    queues_prompts = False
    can_veto = False
    notes: tuple[str, ...] = ()

    def __init__(
        self,
        program: str,
        ready: str,
        argument: Callable[[str], tuple[str, ...]],
        unset: tuple[str, ...] = (),
    ) -> None:
        self.program = program
        self.ready = ready
        self.argument = argument
        self.unset = unset

    def format_reply(self, event: AgentEvent, reply: HookReply) -> str:
        """Return nothing: its session starts with the first prompt, which is the skill."""
        return ""

    def list_options(self, request: AgentRequest) -> tuple[str, ...]:
        """List the options of a start, in front of the operator's own arguments."""
        return ("--model", request.model) if request.model else ()

    def plan_start(self, request: AgentRequest) -> LaunchPlan:
        prompt = self.argument(request.prompt) if request.prompt else ()
        return LaunchPlan(
            argv=(self.program, *self.list_options(request), *request.arguments, *prompt),
            cwd=request.cwd,
            unset=self.unset,
            ready=self.ready,
        )


def build_fleet_hook(hook: str, harness: str) -> str:
    """Build the shell command of a hook: it passes its payload to tasuki's hook script.

    It is silent once that script is gone.
    """
    script = shlex.quote(hook)
    return f": {FLEET_MARK}; if [ -r {script} ]; then sh {script} {harness}; fi"


def list_fleet_hooks(
    path: str, events: Iterable[str], hook: str, harness: str, timeout: int, name: str = ""
) -> tuple[Addition, ...]:
    """List a hook in Claude's shape for each of these events.

    `timeout` is in the harness's own unit; `name` is that of the hook, where it has one.
    """
    command = build_fleet_hook(hook, harness)
    return tuple(
        build_command_hook(path, event, command, timeout,
                           f"a hook that tells tasuki's server: {event}", FLEET_MARK, name)
        for event in events
    )  # fmt: skip


def parse_claude_event(
    payload: Mapping[str, Any], kinds: Mapping[str, EventKind], turn: str
) -> AgentEvent | None:
    """Parse an event in Claude's shape; `turn` is the member that holds the id of the turn.

    Codex has the same shape.
    """
    kind = kinds.get(get_text(payload, "hook_event_name"))
    session = get_text(payload, "session_id")
    if kind is None or not session:
        return None
    child = get_text(payload, "agent_id")
    if kind != "waiting" and bool(child) != kind.startswith("child_"):
        return None  # It is from a sub-agent, of which only questions count.
    waits = kind == "waiting"
    return AgentEvent(
        kind,
        session,
        path=get_text(payload, "transcript_path"),
        cwd=get_text(payload, "cwd"),
        model=get_text(payload, "model"),
        text=_describe_permission(payload) if waits else get_text(payload, _WORDS.get(kind, "")),
        turn=get_text(payload, turn),
        source=get_text(payload, "source") or get_text(payload, "trigger"),
        child=child if kind.startswith("child_") else "",
    )


def format_start_context(event: AgentEvent, reply: HookReply) -> str:
    """Format text for the model at the start of a session, in Claude's shape."""
    if event.kind != "started" or not reply.context:
        return ""
    output = {"hookEventName": "SessionStart", "additionalContext": reply.context}
    return json.dumps({"hookSpecificOutput": output})


def _describe_permission(payload: Mapping[str, Any]) -> str:
    """Describe what a tool may not do without permission, in the tool's own words.

    Commands are left out, because they may hold keys.
    """
    tool_input = payload.get("tool_input")
    tool_input = tool_input if isinstance(tool_input, Mapping) else {}
    subject = get_text(tool_input, "file_path") or get_text(tool_input, "description")
    return ": ".join(filter(None, ("permission for " + get_text(payload, "tool_name"), subject)))
