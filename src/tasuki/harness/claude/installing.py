"""What tasuki adds to Claude Code, and how its hooks speak. Seen: 2.1.330."""

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tasuki.harness.claude import projects
from tasuki.harness.claude.format import unpasted
from tasuki.harness.integration import (
    HOOK_MARK,
    PROMPT_SECONDS,
    TURN_SECONDS,
    Addition,
    HookAnswer,
    HookCall,
    JsonEntry,
    OwnFile,
    command_hook,
    hook_answer,
    hook_call,
    percent,
    prompt_hook,
    setting,
    text,
    tools,
    tools_entry,
    turn_hook,
)
from tasuki.paths import home_folder

ASSETS = Path(__file__).with_name("assets")
PASTED = r"""*'"prompt":"\n\n<pasted_content '*'\n/handoff'*"""
"""How a command looks to the shell that was pasted with its goal."""
OWN_STATUS = (
    "To show tasuki's part in yours, pass its standard input on to `tasuki status claude` and "
    "print what that prints."
)


class ClaudeIntegration:
    """The command `/handoff`, hooks, a skill, the tools and a part of the status line."""

    command = "/handoff GOAL"
    notes: tuple[str, ...] = ("Sessions of Claude Code that are open now take the command and the hooks over when they are started again.",)  # fmt: skip

    def additions(self, tasuki: tuple[str, ...]) -> tuple[Addition, ...]:
        home = projects().parent
        settings = str(home / "settings.json")
        found: list[Addition] = [
            OwnFile(str(home / "commands" / "handoff.md"), _asset("command"), "the command /handoff"),
            OwnFile(str(home / "skills" / "handing-off" / "SKILL.md"), _asset("skill"),
                    "a skill: when and how the agent hands off"),
            command_hook(settings, "UserPromptSubmit", prompt_hook(tasuki, "claude", "/handoff", (PASTED,)),
                  PROMPT_SECONDS, "a hook that takes /handoff out before it reaches the model"),
            command_hook(settings, "Stop", turn_hook(tasuki, "claude"), TURN_SECONDS,
                  "a hook that suggests a handoff when the context fills up"),
            JsonEntry(settings, (), {"type": "command", "command": _status(tasuki)},
                      "a status line with context use", "statusLine", otherwise=OWN_STATUS),
        ]  # fmt: skip
        server = {"type": "stdio", **tools(tasuki)}
        return (*found, *tools_entry(str(_state_file()), ("mcpServers",), server))

    def called(self, payload: Mapping[str, Any]) -> HookCall | None:
        context = payload.get("context_window")
        if "hook_event_name" in payload or not isinstance(context, Mapping):
            prompt = unpasted(text(payload, "prompt"))
            call = hook_call({**payload, "prompt": prompt}, "/handoff")
            return None if call and call.kind == "turn" and _is_unattended() else call
        used, window = context.get("used_percentage"), context.get("context_window_size")
        return HookCall(
            "status",
            text(payload, "transcript_path"),
            text(payload, "session_id"),
            text(payload, "cwd"),
            used=percent(used),
            window=window if isinstance(window, int) else None,
        )

    def answer(self, call: HookCall, answer: HookAnswer) -> str:
        return hook_answer(answer)

    def hindrances(self) -> tuple[str, ...]:
        path = projects().parent / "settings.json"
        if setting(path, "disableAllHooks") is True:
            return (f'Hooks are switched off. Take "disableAllHooks" out of {path}.',)
        return ()


def _asset(name: str) -> str:
    return (ASSETS / f"{name}.md").read_text(encoding="utf-8")


def _is_unattended() -> bool:
    """Whether the session has no screen (`claude -p`), so that nobody is there to be told."""
    return os.environ.get("CLAUDE_CODE_ENTRYPOINT", "").startswith("sdk")


def _state_file() -> Path:
    """Where Claude Code keeps the MCP servers of the user."""
    base = os.environ.get("CLAUDE_CONFIG_DIR")
    return (Path(base) if base else home_folder()) / ".claude.json"


def _status(tasuki: tuple[str, ...]) -> str:
    return f": {HOOK_MARK}; {shlex.join((*tasuki, 'status', 'claude'))}"
