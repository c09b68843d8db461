"""What tasuki adds to opencode, and how its plugin speaks. Seen: 1.18."""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import structs

from tasuki.errors import ThreadUnreadable
from tasuki.harness.integration import (
    Addition,
    HookAnswer,
    HookCall,
    OwnFile,
    text,
    tools_entry,
    tools_environment,
)
from tasuki.harness.opencode import config_folder, databases, store

ASSETS = Path(__file__).with_name("assets")


class OpencodeIntegration:
    """The command `/handoff`, the plugin that carries it out, and the tools."""

    command = "/handoff GOAL"
    notes: tuple[str, ...] = (
        "At its next start opencode sets up its folder for plugins once, which takes a while.",
    )

    def additions(self, tasuki: tuple[str, ...]) -> tuple[Addition, ...]:
        folder = config_folder()
        found: list[Addition] = [
            OwnFile(str(folder / "command" / "handoff.md"), _asset("command.md"), "the command /handoff"),
            OwnFile(str(folder / "plugin" / "tasuki-handoff.js"), plugin(tasuki),
                    "a plugin that carries it out, and suggests it when the context fills up"),
        ]  # fmt: skip
        server = {
            "type": "local",
            "command": [*tasuki, "mcp"],
            "enabled": True,
            "environment": tools_environment(),
        }
        return (*found, *tools_entry(str(_config(folder)), ("mcp",), server))

    def called(self, payload: Mapping[str, Any]) -> HookCall | None:
        event, session = text(payload, "event"), text(payload, "session")
        if event not in ("handoff", "turn"):
            return None
        path = _path(session) if session else ""
        about = HookCall("turn", path, session, text(payload, "cwd"))
        if event == "handoff":
            goal = text(payload, "goal").rstrip(" ")  # opencode puts one behind what is pasted
            return structs.replace(about, kind="handoff", text=goal)
        return about if path else None

    def answer(self, call: HookCall, answer: HookAnswer) -> str:
        return answer.said

    def hindrances(self) -> tuple[str, ...]:
        return ()


def plugin(tasuki: tuple[str, ...]) -> str:
    """The plugin, with the command that runs tasuki."""
    line = 'const TASUKI = ["tasuki"];'
    source = _asset("plugin.js")
    assert line in source
    return source.replace(line, f"const TASUKI = {json.dumps(list(tasuki))};")


def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


def _config(folder: Path) -> Path:
    """The configuration that is there, with comments or without."""
    with_comments = folder / "opencode.jsonc"
    return with_comments if with_comments.is_file() else folder / "opencode.json"


def _path(session: str) -> str:
    """Where a session is kept, as its thread is named; empty for one of a sub-agent."""
    for database in databases():
        with suppress(ThreadUnreadable):
            if store.is_listed(database, session):
                return str(database / session)
    return ""
