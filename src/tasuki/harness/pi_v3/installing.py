"""What tasuki adds to pi and oh-my-pi: an extension, a skill and the tools. Seen: pi 1.5, omp 18.2."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tasuki.harness.integration import (
    Addition,
    HookAnswer,
    HookCall,
    OwnFile,
    percent,
    setting,
    text,
    tools,
    tools_entry,
)

PACKAGE = Path(__file__).with_name("package")
"""The pi package: `pi install` takes it as it is, where tasuki is on the PATH."""
EXTENSION = "tasuki-handoff.ts"


class PiIntegration:
    """A command that is reviewed in the program's own editor, in one of the two programs.

    `home` is its agent folder, `name` that of the command.
    """

    def __init__(
        self, harness: str, home: Path, name: str = "handoff", notes: tuple[str, ...] = ()
    ) -> None:
        self.harness = harness
        self.home = home
        self.name = name
        self.command = f"/{name} GOAL"
        self.notes = notes

    def additions(self, tasuki: tuple[str, ...]) -> tuple[Addition, ...]:
        skill = self.home / "skills" / "handing-off" / "SKILL.md"
        found: list[Addition] = [
            OwnFile(str(self.home / "extensions" / EXTENSION), extension(self.harness, self.name, tasuki),
                    f"an extension: the command /{self.name}, and a suggestion when the context fills up"),
            OwnFile(str(skill), (PACKAGE / "skills" / "handing-off" / "SKILL.md").read_text("utf-8"),
                    "a skill: when and how the agent hands off"),
        ]  # fmt: skip
        server = {**tools(tasuki), "exposure": "direct"}
        return (*found, *tools_entry(str(self.home / "mcp.json"), ("mcpServers",), server))

    def called(self, payload: Mapping[str, Any]) -> HookCall | None:
        """The extension makes the handoff itself; its hook tells the end of a turn alone."""
        if payload.get("event") != "turn":
            return None
        return HookCall(
            "turn",
            text(payload, "path"),
            text(payload, "thread"),
            text(payload, "cwd"),
            used=percent(payload.get("used")),
        )

    def answer(self, call: HookCall, answer: HookAnswer) -> str:
        return answer.said

    def hindrances(self) -> tuple[str, ...]:
        path = self.home / "settings.json"
        listed = setting(path, "extensions")
        names = (
            [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
        )
        if any(name.startswith(("-", "!")) and EXTENSION in name for name in names):
            return (f'The extension is switched off. Take it out of "extensions" in {path}.',)
        return ()


def extension(harness: str, command: str, tasuki: tuple[str, ...]) -> str:
    """The extension for one program, with its command there and the one that runs tasuki."""
    source = (PACKAGE / "extensions" / EXTENSION).read_text("utf-8")
    for name, default, value in (
        ("TASUKI: string[]", ["tasuki"], list(tasuki)),
        ("HARNESS: string", "pi", harness),
        ("COMMAND: string", "handoff", command),
    ):
        line = f"const {name} = {json.dumps(default)};"
        assert line in source, line
        source = source.replace(line, f"const {name} = {json.dumps(value)};")
    return source
