"""What tasuki adds to Codex, and how its hooks speak. Seen: 0.169."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tasuki.harness import tomltext
from tasuki.harness.codex import home
from tasuki.harness.control import FLEET_MARK
from tasuki.harness.integration import (
    PROMPT_SECONDS,
    TOOLS,
    TURN_SECONDS,
    Addition,
    HookAnswer,
    HookCall,
    OwnFile,
    TomlTable,
    command_hook,
    hook_answer,
    hook_call,
    prompt_hook,
    serves_tools,
    tools,
    turn_hook,
)

ASSETS = Path(__file__).with_name("assets")


class CodexIntegration:
    """The skill `$handoff`, hooks and the tools."""

    command = "$handoff GOAL"
    notes: tuple[str, ...] = (
        "Codex runs hooks only once you have approved them: start codex, type /hooks and trust "
        "both hooks of tasuki. Until then $handoff reaches the model, which can do it by the tools.",
    )

    def additions(self, tasuki: tuple[str, ...]) -> tuple[Addition, ...]:
        folder = home()
        skill = str(folder / "skills" / "handoff" / "SKILL.md")
        hooks = str(folder / "hooks.json")
        found: list[Addition] = [
            OwnFile(skill, (ASSETS / "skill.md").read_text(encoding="utf-8"), "the skill $handoff"),
            command_hook(hooks, "UserPromptSubmit", prompt_hook(tasuki, "codex", "$handoff"),
                  PROMPT_SECONDS, "a hook that takes $handoff out before it reaches the model"),
            command_hook(hooks, "Stop", turn_hook(tasuki, "codex"), TURN_SECONDS,
                  "a hook that suggests a handoff when the context fills up"),
        ]  # fmt: skip
        if serves_tools():
            found.append(TomlTable(str(folder / "config.toml"), ("mcp_servers", "tasuki"),
                                   _table(tools(tasuki)), TOOLS))  # fmt: skip
        return tuple(found)

    def called(self, payload: Mapping[str, Any]) -> HookCall | None:
        return hook_call(payload, "$handoff")

    def answer(self, call: HookCall, answer: HookAnswer) -> str:
        return hook_answer(answer)

    def hindrances(self) -> tuple[str, ...]:
        try:
            hooks = (home() / "hooks.json").read_text(encoding="utf-8")
        except (OSError, ValueError):
            return ()
        events = ("user_prompt_submit", *(("session_start",) if FLEET_MARK in hooks else ()))
        if _are_trusted(home() / "config.toml", events):
            return ()
        return ("The hooks wait for your approval. Start codex, type /hooks and trust them.",)


def _are_trusted(path: Path, events: tuple[str, ...]) -> bool:
    """Whether the user approved a hook of each of these; one that changed since, Codex asks about again."""
    try:
        found = tomltext.at(path.read_text(encoding="utf-8"), ("hooks", "state"))
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and all(
        any(f":{event}:" in key for key in found) for event in events
    )


def _table(server: Mapping[str, Any]) -> str:
    """The server as the lines of a TOML table."""
    env = ", ".join(f"{name} = {_quoted(value)}" for name, value in server["env"].items())
    args = ", ".join(map(_quoted, server["args"]))
    return f"command = {_quoted(server['command'])}\nargs = [{args}]\nenv = {{ {env} }}"


def _quoted(text: str) -> str:
    """A string of JSON, which is one of TOML too."""
    return json.dumps(text, ensure_ascii=False)
