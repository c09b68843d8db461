"""What tasuki adds to opencode, and how its agents run in a fleet. Seen: 1.18."""

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, get_args

from msgspec.structs import replace

from tasuki.errors import ThreadUnreadable
from tasuki.harness import integration, protocol
from tasuki.harness.integration import Addition, HookAnswer, HookCall, get_text
from tasuki.harness.opencode import store
from tasuki.harness.opencode.head import get_config_folder, get_data_folder, list_databases
from tasuki.harness.plans import FLEET_MARK, BaseControl
from tasuki.harness.typed_text import SURE_ROWS
from tasuki.patterns import compile_pattern
from tasuki.text_safety import count_columns

ASSETS = Path(__file__).with_name("assets")
NOTES = ("At its next start opencode sets up its folder for plugins once, which takes a while.",)
PERMISSION = "OPENCODE_PERMISSION"
"""Variable with permissions, as JSON, that override those of the configuration."""
QUESTION_LINES = 12
"""Lines at the end of a screen that contain a question's choices."""

_ID = compile_pattern(r"\w[\w.-]{0,199}", re.ASCII)
_BOTTOM = compile_pattern(r"^ *╹▀{8,}")
"""The lower edge of the input. Other things may be to its right, on the same lines."""
_BORDER = compile_pattern(r"^ *┃")
_HINT = compile_pattern(r'Ask anything(?:…|\.\.\.) *"[^\n]*')
_QUESTION = compile_pattern(r"△ |⇆ select|enter (?:confirm|submit)\b.*|esc dismiss")
_WORKS = compile_pattern(r"\besc (?:again to )?interrupt\b")


class OpencodeIntegration(integration.HarnessIntegration):
    """The command `/handoff`, the plugin that carries it out, and the tools."""

    notes: tuple[str, ...] = NOTES

    own_commands = ("command/handoff.md", "commands/handoff.md")

    def list_command_folders(self, cwd: Path) -> tuple[Path, ...]:
        return (get_config_folder(), cwd / ".opencode")

    def list_additions(self, tasuki: tuple[str, ...]) -> tuple[Addition, ...]:
        folder, command = get_config_folder(), self.own_commands[0]
        plugin = folder / "plugin" / "tasuki-handoff.js"
        constants = {"TASUKI": (["tasuki"], list(tasuki))}
        purpose = "a plugin that carries it out, and suggests it when the context fills up"
        shared = integration.build_tools_server(tasuki)
        server = {
            "type": "local",
            "command": [shared["command"], *shared["args"]],
            "enabled": True,
            "environment": shared["env"],
        }
        with_comments = folder / "opencode.jsonc"
        config = with_comments if with_comments.is_file() else folder / "opencode.json"
        return (
            integration.copy_asset(folder, command, ASSETS / "command.md", integration.COMMAND),
            integration.build_script(plugin, ASSETS / "plugin.js", constants, purpose),
            *integration.build_tools_entries(str(config), ("mcp",), server),
        )

    def list_compaction_additions(self, tasuki: tuple[str, ...]) -> tuple[Addition, ...]:
        plugin = get_config_folder() / "plugin" / "tasuki-compaction.js"
        asset, constants = ASSETS / "compaction.js", {"TASUKI": (["tasuki"], list(tasuki))}
        purpose, mark = integration.COMPACTION_PURPOSE, integration.COMPACTION_FILE_MARK
        return (integration.build_script(plugin, asset, constants, purpose, mark),)

    def parse_hook_call(self, payload: Mapping[str, Any]) -> HookCall | None:
        event, session = get_text(payload, "event"), get_text(payload, "session")
        path = _find_path(list_databases(), session) if session else ""
        call = HookCall("turn", path, session, get_text(payload, "cwd"))
        if event == "compacting" or event == "compacted":
            text = get_text(payload, "text")
            return replace(call, kind=event, text=text, can_replace=event == "compacted")
        if event == "handoff":
            goal = get_text(payload, "goal").rstrip(" ")  # opencode appends one to what is pasted
            return replace(call, kind="handoff", text=goal)
        return call if event == "turn" and path else None

    def format_answer(self, call: HookCall, answer: HookAnswer) -> str:
        return integration.format_plugin_answer(call, answer)


def _find_path(databases: list[Path], session: str) -> str:
    """Find where a session is kept, as its thread is named; empty for a sub-agent's."""
    for database in databases:
        with suppress(ThreadUnreadable):
            if store.is_listed(database, session):
                return str(database / session)
    return ""


class OpencodeControl(BaseControl):
    """Agents of opencode."""

    pasted = compile_pattern(r"\[Pasted ~(?P<lines>\d+) lines\]")
    starts_at_prompt = True
    notes: tuple[str, ...] = NOTES

    def list_additions(self, hook: str) -> tuple[Addition, ...]:
        path, asset = get_config_folder() / "plugin" / "tasuki-fleet.js", ASSETS / "fleet.js"
        constants = {"HOOK": ("hook.sh", hook)}
        purpose = "a plugin that tells tasuki's server what the agent does"
        return (integration.build_script(path, asset, constants, purpose, FLEET_MARK),)

    def parse_event(self, payload: Mapping[str, Any]) -> protocol.AgentEvent | None:
        kind, session = get_text(payload, "event"), get_text(payload, "session")
        if kind not in get_args(protocol.EventKind) or not _ID.fullmatch(session):
            return None
        sizes = (integration.parse_tokens(payload.get(name)) for name in ("tokens", "window"))
        used, window = (size or None for size in sizes)
        return protocol.AgentEvent(
            kind,  # type: ignore[arg-type]
            session,
            path=_name_path(session),
            cwd=get_text(payload, "cwd"),
            model=get_text(payload, "model"),
            text=get_text(payload, "reason" if kind == "ended" else "text"),
            turn=get_text(payload, "turn"),
            source=get_text(payload, "source"),
            previous=get_text(payload, "previous"),
            child=get_text(payload, "child"),
            interrupted=payload.get("aborted") is True,
            error=get_text(payload, "error"),
            used=100 * used / window if used and window else None,
            tokens=used,
            window=window,
        )

    def plan_start(self, request: protocol.AgentRequest) -> protocol.LaunchPlan:
        """Plan the start of an agent: the writable folders are added to its configuration's permissions."""
        return replace(super().plan_start(request), env=_build_permissions(request.writable))

    def read_screen(self, screenshot: protocol.Screenshot) -> protocol.ScreenState:
        """Read the state from the line below the input, in whose place a question is."""
        lines = screenshot.text.rstrip().splitlines()
        edges = [(n, match.end()) for n, line in enumerate(lines) if (match := _BOTTOM.match(line))]
        bottom, width = edges[-1] if edges else (len(lines) - QUESTION_LINES, 0)
        below = lines[max(0, bottom + 1) :]
        if any(_BORDER.match(line) and _QUESTION.search(line) for line in below):
            return protocol.ScreenState("waiting")
        if not edges:
            return protocol.ScreenState("unknown")
        state: Literal["ready", "busy"] = "busy" if any(map(_WORKS.search, below)) else "ready"
        words = _read_input(lines[:bottom], width)
        return protocol.ScreenState(state, words, (words or "").count("\n") < SURE_ROWS)


def _read_input(lines: list[str], width: int) -> str | None:
    """Return the text in the box at the end of these lines, above the line that names the model.

    A menu may be above it, with a narrower margin. None for the box of a shell.
    """
    box: list[str] = []
    while lines and (border := _BORDER.match(lines[-1])):
        row = lines.pop()
        while count_columns(row) > width:
            row = row[:-1]
        row = row[border.end() :].rstrip()
        if row and not row.startswith("  "):
            break
        box.insert(0, row[2:])
    words = "\n".join(box[:-1]).strip()
    if box and box[-1].strip() == "Shell":
        return None
    return "" if _HINT.fullmatch(words) else words


def _build_permissions(folders: tuple[str, ...]) -> dict[str, str]:
    """Build the environment that allows writing to some folders outside of the project."""
    if not folders:
        return {}
    try:
        rules = json.loads(os.environ.get(PERMISSION, "") or "{}")
    except ValueError:
        return {}
    outside = rules.get("external_directory", {}) if isinstance(rules, dict) else None
    if not isinstance(outside, dict):
        return {}
    names = dict.fromkeys(name for folder in folders for name in (folder, os.path.realpath(folder)))
    ours = {f"{name}/*": "allow" for name in names}
    return {PERMISSION: json.dumps({**rules, "external_directory": outside | ours})}


def _name_path(session: str) -> str:
    """Name the path of a session; only where there are several databases are they searched."""
    databases = list_databases()
    path = _find_path(databases, session) if len(databases) > 1 else ""
    return path or str((databases[0] if databases else get_data_folder() / "opencode.db") / session)
