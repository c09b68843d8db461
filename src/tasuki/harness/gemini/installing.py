"""What tasuki adds to Gemini CLI, and how its hooks speak. Seen: 0.61.

A command is a prompt that Gemini puts what was typed behind, so its hook sees both: ours is a remark
that tells the model what to do, where the hook did not run.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import structs

from tasuki.harness.gemini.head import home
from tasuki.harness.integration import (
    PROMPT_SECONDS,
    TURN_SECONDS,
    Addition,
    HookAnswer,
    HookCall,
    JsonEntry,
    OwnFile,
    goal_of,
    hook_answer,
    prompt_hook,
    setting,
    text,
    tools,
    tools_entry,
    turn_hook,
)

ASSETS = Path(__file__).with_name("assets")
REMARK = "<!-- tasuki: "
"""How the prompt of the command begins; `-->` ends the remark, and what was typed follows."""
WINDOW = 1_048_576
"""Tokens of the context of Gemini's models, which no thread tells."""


class GeminiIntegration:
    """The command `/handoff`, hooks, a skill and the tools."""

    command = "/handoff GOAL"
    notes: tuple[str, ...] = (
        "Sessions of Gemini CLI that are open now take it over when they are started again.",
    )

    def additions(self, tasuki: tuple[str, ...]) -> tuple[Addition, ...]:
        folder = home()
        settings = str(folder / "settings.json")
        found: list[Addition] = [
            OwnFile(str(folder / "commands" / "handoff.toml"), _asset("command.toml"),
                    "the command /handoff"),
            OwnFile(str(folder / "skills" / "handing-off" / "SKILL.md"), _asset("skill.md"),
                    "a skill: when and how the agent hands off"),
            _hook(settings, "BeforeAgent", _prompt_hook(tasuki), PROMPT_SECONDS,
                  "a hook that takes /handoff out before it reaches the model"),
            _hook(settings, "AfterAgent", turn_hook(tasuki, "gemini"), TURN_SECONDS,
                  "a hook that suggests a handoff when the context fills up"),
        ]  # fmt: skip
        return (*found, *tools_entry(settings, ("mcpServers",), tools(tasuki)))

    def called(self, payload: Mapping[str, Any]) -> HookCall | None:
        about = HookCall(
            "turn",
            text(payload, "transcript_path"),
            text(payload, "session_id"),
            text(payload, "cwd"),
            window=WINDOW,
        )
        event = text(payload, "hook_event_name")
        if event == "BeforeAgent":
            goal = _goal(text(payload, "prompt"))
            return None if goal is None else structs.replace(about, kind="handoff", text=goal)
        return about if event == "AfterAgent" else None

    def answer(self, call: HookCall, answer: HookAnswer) -> str:
        return hook_answer(answer)

    def hindrances(self) -> tuple[str, ...]:
        path = home() / "settings.json"
        hooks = setting(path, "hooksConfig")
        if not isinstance(hooks, Mapping):
            return ()
        if hooks.get("enabled") is False:
            return (f'Hooks are switched off. Take "hooksConfig.enabled" out of {path}.',)
        off = hooks.get("disabled")
        if isinstance(off, list) and "tasuki" in off:
            return ("The hooks of tasuki are switched off. In gemini: /hooks enable tasuki",)
        return ()


def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


def _prompt_hook(tasuki: tuple[str, ...]) -> str:
    return prompt_hook(tasuki, "gemini", "/handoff", (f"""*'"prompt":"{REMARK}'*""",))


def _goal(prompt: str) -> str | None:
    """The goal to the letter; empty for the command alone, None for another prompt."""
    if prompt.startswith(REMARK):
        prompt = prompt.partition("-->")[2] or "/handoff"
    return goal_of(prompt, "/handoff")


def _hook(path: str, event: str, command: str, seconds: int, what: str) -> JsonEntry:
    """A hook in Gemini's shape, whose time limits are milliseconds."""
    hook = {"name": "tasuki", "type": "command", "command": command, "timeout": seconds * 1000}
    return JsonEntry(path, ("hooks", event), {"hooks": [hook]}, what)
