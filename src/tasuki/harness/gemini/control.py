"""How agents of Gemini CLI are run in tmux, and what their hooks tell. Seen: 0.61."""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from tasuki.harness.control import (
    FLEET_MARK,
    AgentEvent,
    AgentRequest,
    EventKind,
    HookReply,
    Look,
    Sight,
    fleet_hook,
)
from tasuki.harness.gemini import _READY, _argument
from tasuki.harness.gemini.head import home
from tasuki.harness.integration import Addition, JsonEntry, text
from tasuki.harness.protocol import LaunchPlan

KINDS: Mapping[str, EventKind] = {
    "SessionStart": "started",
    "BeforeAgent": "prompt",
    "AfterAgent": "idle",
    "Notification": "waiting",
    "SessionEnd": "ended",
}
"""No hook on compactions: it fires before every request to the model, and nothing tells their end."""
WORDS = {"prompt": "prompt", "idle": "prompt_response", "waiting": "message", "ended": "reason"}
MILLISECONDS = 5000
MODES = frozenset({"default", "auto_edit", "yolo", "plan"})

_STATES = {"◇": "ready", "✦": "busy", "✋": "waiting"}
"""What the title of its pane begins with."""
_INPUT = re.compile(r"(?m)^▄{8,}\s*\n([\s\S]*?)\n▀{8,}")
_EMPTY = re.compile(r"\s*Type your message.*")


class GeminiControl:
    """Agents of Gemini CLI."""

    exit_text = "/quit"
    interrupt_keys: tuple[str, ...] = ("Escape",)
    clear_keys: tuple[str, ...] = ("C-e", "C-u")
    enter_gap = 0.5
    chooses_session = False
    skill_at_start = True
    starts_at_prompt = False
    queues_prompts = True
    can_veto = False
    notes: tuple[str, ...] = (
        "Gemini CLI asks before it writes a file, also the handoff document, unless its agents are "
        "started with --approval-mode=auto_edit.",
    )

    def additions(self, hook: str) -> tuple[Addition, ...]:
        settings = str(home() / "settings.json")
        return tuple(
            JsonEntry(settings, ("hooks", name), _hook(fleet_hook(hook, "gemini")),
                      f"a hook that tells tasuki's server: {name}", mark=FLEET_MARK)
            for name in KINDS
        )  # fmt: skip

    def event(self, payload: Mapping[str, Any]) -> AgentEvent | None:
        kind = KINDS.get(text(payload, "hook_event_name"))
        session = text(payload, "session_id")
        if kind is None or not session:
            return None
        if kind == "waiting" and text(payload, "notification_type") != "ToolPermission":
            return None
        return AgentEvent(
            kind,
            session,
            path=text(payload, "transcript_path"),
            cwd=text(payload, "cwd"),
            text=text(payload, WORDS.get(kind, "")),
            turn=_turn(text(payload, "prompt")),
            source=text(payload, "source"),
        )

    def answer(self, event: AgentEvent, reply: HookReply) -> str:
        """Gemini escapes `<` and `&` in it before the model sees it."""
        if event.kind != "started" or not reply.context:
            return ""
        output = {"hookEventName": "SessionStart", "additionalContext": reply.context}
        return json.dumps({"hookSpecificOutput": output})

    def start(self, request: AgentRequest) -> LaunchPlan:
        mode = request.permission if request.permission in MODES else ""
        options = (
            *(("--model", request.model) if request.model else ()),
            *(("--approval-mode", mode) if mode else ()),
            *(f"--include-directories={folder}" for folder in request.writable),
        )
        prompt = _argument(request.prompt) if request.prompt else ()
        return LaunchPlan(
            argv=("gemini", *options, *request.arguments, *prompt), cwd=request.cwd, ready=_READY
        )

    def sight(self, look: Look) -> Sight:
        """By the title of its pane, else by the screen."""
        boxes = _INPUT.findall(look.text)
        typed = _typed(boxes[-1]) if boxes else ""
        if state := _STATES.get(look.title[:1]):
            return Sight(state, typed)  # type: ignore[arg-type]
        if "(esc to cancel, " in look.text:
            return Sight("busy", typed)
        return Sight("ready" if boxes else "unknown", typed)


def _hook(command: str) -> dict[str, Any]:
    """A hook in Gemini's shape, whose time limits are milliseconds."""
    hook = {
        "name": "tasuki-fleet", "type": "command", "command": command, "timeout": MILLISECONDS
    }  # fmt: skip
    return {"hooks": [hook]}


def _turn(prompt: str) -> str:
    """Its turns have no ids, but their ends repeat the prompt."""
    return hashlib.sha256(prompt.encode("utf-8", "replace")).hexdigest()[:16] if prompt else ""


def _typed(box: str) -> str:
    """What stands in the input, behind its sign; empty for the hint that stands in an empty one."""
    lines = [line.strip() for line in box.splitlines()]
    words = "\n".join((lines[0].lstrip("*>!").strip(), *lines[1:])).strip() if lines else ""
    return "" if _EMPTY.fullmatch(words) else words
