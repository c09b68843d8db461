"""What `tasuki install` puts into a harness, and what the hooks among it ask of tasuki."""

import json
import os
import shlex
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, Protocol

from msgspec import Struct, structs

from tasuki.paths import expand_user

WRITTEN_BY = "tasuki install"
"""Stands in every file of ours, so that it is known as ours."""
HOOK_MARK = "tasuki hook"
"""Stands in every command of ours that a harness runs."""
TOOLS_MARK = "TASUKI_INSTALLED"
INSTALLED = {TOOLS_MARK: "1"}
"""Environment of an entry that could not be told from one that the user wrote, as of an MCP server."""

FOLDERS = ("TASUKI_DATA", "TASUKI_CONFIG", "XDG_DATA_HOME", "XDG_CONFIG_HOME")
"""Variables that say where tasuki keeps its data and settings."""


class OwnFile(Struct, frozen=True, tag="file"):
    """A whole file of ours. One at this path that does not hold the mark is the user's, and stays.

    `what` is what it is for people: `the command /handoff`.
    """

    path: str
    content: str
    what: str
    mark: str = WRITTEN_BY


class JsonEntry(Struct, frozen=True, tag="json"):
    """A value in a JSON file that others write to as well; comments in it are allowed and stay.

    `keys` lead from the document to the object or list that holds it, which is made where it is
    missing. With a `name` that is an object and this its member; without, a list and this one of
    its elements. A value whose JSON text holds the `mark` is ours, of whatever version.
    """

    path: str
    keys: tuple[str, ...]
    value: Any
    what: str
    name: str = ""
    mark: str = HOOK_MARK
    otherwise: str = ""
    """What the user can do where something else has its place, as a sentence."""


class TomlTable(Struct, frozen=True, tag="toml"):
    """A table of a TOML file that others write to as well, with the tables below it.

    `body` is its text behind the header, and must hold the mark; the text around it stays.
    """

    path: str
    keys: tuple[str, ...]
    body: str
    what: str
    mark: str = TOOLS_MARK


Addition = OwnFile | JsonEntry | TomlTable


class HookCall(Struct, frozen=True):
    """What a hook of a harness asks of tasuki.

    handoff: the user typed the command, `text` is what follows it, to the letter. turn: a turn of
    the agent ended, `text` is what it said last. status: the harness draws its status line. Context use is that of the payload,
    None where it does not tell: `used` in percent, `window` in tokens.
    """

    kind: Literal["handoff", "turn", "status"]
    path: str
    thread_id: str = ""
    cwd: str = ""
    text: str = ""
    used: float | None = None
    window: int | None = None


class HookAnswer(Struct, frozen=True):
    """What tasuki says to a hook: a sentence for the user, and whether the prompt stops here."""

    said: str = ""
    blocked: bool = False


class Integration(Protocol):
    """What tasuki can add to one harness, and how its hooks speak."""

    command: str
    """How the user hands off inside it: `/handoff GOAL`."""
    notes: tuple[str, ...]
    """What the user has to do after the installation, and what cannot work, as sentences."""

    def additions(self, tasuki: tuple[str, ...]) -> tuple[Addition, ...]:
        """Everything to be added; `tasuki` is the command that runs it, its program a whole path."""
        ...

    def called(self, payload: Mapping[str, Any]) -> HookCall | None:
        """What the payload of a hook asks for; None for nothing.

        The payload may be anything. A prompt that is not the command asks for nothing, nor does
        the end of a sub-agent's turn.
        """
        ...

    def answer(self, call: HookCall, answer: HookAnswer) -> str:
        """What the hook prints; empty for nothing."""
        ...

    def hindrances(self) -> tuple[str, ...]:
        """What keeps from working what is there, as sentences that say what mends it."""
        ...


# -- what several harnesses share --------------------------------------------------------

PROMPT_SECONDS = 300
"""Time limit of the hook that drafts a handoff where there is no tmux."""
TURN_SECONDS = 60
"""Time limit of the hook at the end of a turn."""
TOOLS = "tasuki's tools for the agent (MCP)"


@cache
def serves_tools() -> bool:
    """Whether this tasuki can serve its tools: an entry that only fails is not installed."""
    from importlib.util import find_spec

    return find_spec("mcp") is not None


def tools(tasuki: tuple[str, ...]) -> dict[str, Any]:
    """The MCP server in the shape that most harnesses share.

    Some harnesses start it without the user's environment: what names tasuki's folders goes along.
    """
    return {"command": tasuki[0], "args": [*tasuki[1:], "mcp"], "env": tools_environment()}


def tools_environment() -> dict[str, str]:
    """The environment of the MCP server: the mark, and where tasuki keeps its data and settings."""
    return INSTALLED | {
        name: os.path.abspath(expand_user(value, name))
        for name in FOLDERS
        if (value := os.environ.get(name))
    }


def tools_entry(path: str, keys: tuple[str, ...], server: Mapping[str, Any]) -> list[Addition]:
    """The MCP server as a member of the object that `keys` lead to; none where it cannot be served."""
    if not serves_tools():
        return []
    return [JsonEntry(path, keys, server, TOOLS, "tasuki", TOOLS_MARK)]


def prompt_hook(
    tasuki: tuple[str, ...], harness: str, command: str, also: tuple[str, ...] = ()
) -> str:
    """A shell command for the hook of every prompt: starts tasuki for ours alone.

    Python takes ten times as long to start as the shell takes to look. A prompt that only looks
    like ours is looked at again by tasuki; one that is ours and does not look like it reaches the
    model, whose command file says what to do then. `also` are further patterns of the shell.
    """
    begins = [f"""*'"prompt":{gap}"{command}'*""" for gap in ("", " ")]
    looks = "|".join((*begins, *also))
    call = shlex.join((*tasuki, "hook", harness))
    return f': {HOOK_MARK}; p=$(cat); case $p in {looks}) printf %s "$p" | {call};; esac'


def turn_hook(tasuki: tuple[str, ...], harness: str) -> str:
    """A shell command for the hook of a turn's end; silent once tasuki is gone."""
    call = shlex.join((*tasuki, "hook", harness))
    return f": {HOOK_MARK}; if [ -x {shlex.quote(tasuki[0])} ]; then {call}; fi"


def goal_of(prompt: object, command: str) -> str | None:
    """What follows the command at the beginning of a prompt, to the letter; None for another prompt."""
    if not isinstance(prompt, str):
        return None
    words = prompt.lstrip()
    rest = words.removeprefix(command)
    if rest == words or rest[:1].strip():
        return None
    return rest[1:]


def hook_call(payload: Mapping[str, Any], command: str) -> HookCall | None:
    """What a hook of Claude's shape asks for, which Codex has too; None for nothing."""
    about = HookCall(
        "turn",
        text(payload, "transcript_path"),
        text(payload, "session_id"),
        text(payload, "cwd"),
    )
    if payload.get("agent_id"):
        return None
    event = text(payload, "hook_event_name")
    if event == "UserPromptSubmit":
        goal = goal_of(payload.get("prompt"), command)
        return None if goal is None else structs.replace(about, kind="handoff", text=goal)
    if event == "Stop":
        return structs.replace(about, text=text(payload, "last_assistant_message"))
    return None


def hook_answer(answer: HookAnswer) -> str:
    """An answer in the same shape."""
    if not answer.said:
        return ""
    if answer.blocked:
        return json.dumps({"decision": "block", "reason": answer.said})
    return json.dumps({"systemMessage": answer.said})


def command_hook(
    path: str, event: str, command: str, seconds: int, what: str, mark: str = HOOK_MARK
) -> JsonEntry:
    """A hook that runs a command with a mark in it, in the same shape; `seconds` is its time limit."""
    assert mark in command, command
    entry = {"hooks": [{"type": "command", "command": command, "timeout": seconds}]}
    return JsonEntry(path, ("hooks", event), entry, what, mark=mark)


def setting(path: Path, name: str) -> object:
    """A setting of the user in a JSON file, None where it cannot be read."""
    from tasuki.harness import jsontext

    try:
        content = path.read_text(encoding="utf-8")
        node = jsontext.at(content, (name,)) if content.strip() else None
    except (OSError, ValueError):
        return None
    return jsontext.value(content, node) if node else None


def percent(value: object) -> float | None:
    """A percentage of a payload, None where it is none: JSON may hold NaN and 400 digits."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= 1000 else None


def tokens(value: object) -> int | None:
    """A number of tokens of a payload, None where it is none."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 40:
        return None
    return value


def text(payload: Mapping[str, Any], key: str) -> str:
    """A text of a payload, empty where there is none."""
    value = payload.get(key)
    return value if isinstance(value, str) else ""
