"""How agents of Copilot CLI are run in tmux, and what their hooks tell. Seen: 1.0.102."""

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
from tasuki.harness.copilot import _READY, _argument, home
from tasuki.harness.integration import Addition, OwnFile, text
from tasuki.harness.protocol import LaunchPlan

HOOKS = ("sessionStart", "userPromptSubmitted", "agentStop", "sessionEnd")
"""None on permissions: it fires for what is allowed already, too. None on compactions: nothing tells their end."""
SECONDS = 5
MARKS: tuple[tuple[str, EventKind], ...] = (
    ("initialPrompt", "started"),
    ("source", "started"),
    ("stopReason", "idle"),
    ("prompt", "prompt"),
    ("reason", "ended"),
)
"""Payloads do not name their event: the first of these members that one has tells it."""
WORDS = {"prompt": "prompt", "ended": "reason"}

_ID = re.compile(r"[\w.-]{1,200}", re.ASCII)
_RULE = re.compile(r"^[─━]{20,}")
_QUESTION = re.compile(r"enter to select · esc to cancel")
_WORKS = re.compile(r"^ ?\S Working\b")
"""The line below the input: `◎ Working · 96 B esc esc interrupt`, before the first words `… edit prompt`."""


class CopilotControl:
    """Agents of Copilot CLI."""

    exit_text = "/exit"
    interrupt_keys: tuple[str, ...] = ("Escape", "Escape")
    clear_keys: tuple[str, ...] = ("C-e", "C-u")
    enter_gap = 0.5
    chooses_session = False
    skill_at_start = False
    starts_at_prompt = True
    queues_prompts = False
    can_veto = False
    notes: tuple[str, ...] = (
        "Copilot asks before it writes a file, also the handoff document, unless its agents are "
        "started with --allow-tool=write. That it waits for an answer is not told by a hook.",
    )

    def additions(self, hook: str) -> tuple[Addition, ...]:
        call = {"type": "command", "bash": fleet_hook(hook, "copilot"), "timeoutSec": SECONDS}
        content = {"version": 1, "hooks": {name: [call] for name in HOOKS}}
        path = str(home() / "hooks" / "tasuki-fleet.json")
        what = "hooks that tell tasuki's server what the agent does"
        return (OwnFile(path, json.dumps(content, indent=2) + "\n", what, FLEET_MARK),)

    def event(self, payload: Mapping[str, Any]) -> AgentEvent | None:
        kind = next((kind for name, kind in MARKS if name in payload), None)
        session = text(payload, "sessionId")
        if kind is None or not _ID.fullmatch(session) or "transformedPrompt" in payload:
            return None
        path = str(home() / "session-state" / session / "events.jsonl")
        source = text(payload, "source")
        return AgentEvent(
            kind,
            session,
            path=text(payload, "transcriptPath") or path,
            cwd=text(payload, "cwd"),
            text=text(payload, WORDS.get(kind, "")),
            source="startup" if source == "new" else source,
        )

    def answer(self, event: AgentEvent, reply: HookReply) -> str:
        """Nothing: its session starts with the first prompt, which is the skill."""
        return ""

    def start(self, request: AgentRequest) -> LaunchPlan:
        """What it may do unasked stands in the operator's own arguments."""
        options = (
            *(("--model", request.model) if request.model else ()),
            *(word for folder in request.writable for word in ("--add-dir", folder)),
        )
        prompt = _argument(request.prompt) if request.prompt else ()
        return LaunchPlan(
            argv=("copilot", *options, *request.arguments, *prompt), cwd=request.cwd, ready=_READY
        )

    def sight(self, look: Look) -> Sight:
        """By the screen: the line below the input tells that it works."""
        if _QUESTION.search(look.text):
            return Sight("waiting")
        lines = look.text.rstrip().splitlines()
        rules = [number for number, line in enumerate(lines) if _RULE.match(line)]
        if len(rules) < 2 or not lines[rules[-2] + 1].startswith("❯"):
            return Sight("unknown")
        box = lines[rules[-2] + 1 : rules[-1]]
        typed = "\n".join(line.strip() for line in (box[0][1:], *box[1:])).strip()
        works = any(map(_WORKS.match, lines[rules[-1] + 1 :]))
        return Sight("busy" if works else "ready", typed)
