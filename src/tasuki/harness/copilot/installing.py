"""What tasuki adds to Copilot CLI, and how its hooks speak. Seen: 1.0.102.

The command is a skill, which Copilot fills in before its hook sees it: the goal stands between marks.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tasuki.harness.copilot import home
from tasuki.harness.integration import (
    HOOK_MARK,
    PROMPT_SECONDS,
    TURN_SECONDS,
    Addition,
    HookAnswer,
    HookCall,
    OwnFile,
    hook_answer,
    prompt_hook,
    text,
    tools,
    tools_entry,
    turn_hook,
)

ASSETS = Path(__file__).with_name("assets")
_INVOKED = re.compile(
    r'\A\s*The user explicitly invoked the "/handoff" skill\.'
    r".*?<tasuki-handoff-goal>\n(.*)\n</tasuki-handoff-goal>",
    re.DOTALL,
)
"""Up to the last closing mark: the goal may hold one."""
_ID = re.compile(r"[\w.-]{1,200}", re.ASCII)


class CopilotIntegration:
    """The skill `/handoff`, hooks and the tools."""

    command = "/handoff GOAL"
    notes: tuple[str, ...] = (
        "Copilot shows nothing of what a hook says at the end of a turn: a handoff is suggested by "
        "notification alone there (setting `notify`).",
    )

    def additions(self, tasuki: tuple[str, ...]) -> tuple[Addition, ...]:
        folder = home()
        found: list[Addition] = [
            OwnFile(str(folder / "skills" / "handoff" / "SKILL.md"),
                    (ASSETS / "skill.md").read_text("utf-8"), "the skill /handoff"),
            OwnFile(str(folder / "hooks" / "tasuki-handoff.json"), _hooks(tasuki),
                    "hooks: they take /handoff out before it reaches the model, and watch the context",
                    HOOK_MARK),
        ]  # fmt: skip
        server = {"type": "local", **tools(tasuki), "tools": ["*"]}
        return (*found, *tools_entry(str(folder / "mcp-config.json"), ("mcpServers",), server))

    def called(self, payload: Mapping[str, Any]) -> HookCall | None:
        session, cwd = text(payload, "sessionId"), text(payload, "cwd")
        if not _ID.fullmatch(session):
            return None
        path = str(home() / "session-state" / session / "events.jsonl")
        if "prompt" in payload:
            invoked = _INVOKED.match(text(payload, "prompt"))
            return HookCall("handoff", path, session, cwd, invoked[1]) if invoked else None
        if "stopReason" in payload:
            return HookCall("turn", text(payload, "transcriptPath") or path, session, cwd)
        return None

    def answer(self, call: HookCall, answer: HookAnswer) -> str:
        """Nothing at the end of a turn: Copilot would not show it."""
        return hook_answer(answer) if call.kind == "handoff" else ""

    def hindrances(self) -> tuple[str, ...]:
        return ()


def _hooks(tasuki: tuple[str, ...]) -> str:
    """A file of hooks of our own, in Copilot's shape."""
    prompt = prompt_hook(tasuki, "copilot", "/handoff", ("*'<tasuki-handoff-goal>'*",))
    hooks = {
        "userPromptSubmitted": [_hook(prompt, PROMPT_SECONDS)],
        "agentStop": [_hook(turn_hook(tasuki, "copilot"), TURN_SECONDS)],
    }
    return json.dumps({"version": 1, "hooks": hooks}, indent=2) + "\n"


def _hook(command: str, seconds: int) -> dict[str, Any]:
    return {"type": "command", "bash": command, "timeoutSec": seconds}
