"""What tasuki adds to Codex, and how its agents run in a fleet. Seen: 0.169."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tasuki.config import toml_text
from tasuki.files import find_home_folder
from tasuki.harness import claude_shape, integration
from tasuki.harness.codex.head import find_rollout, get_home
from tasuki.harness.dialogs import DialogRows, begin_at_title, read_dialog
from tasuki.harness.integration import Addition, HookCall, TomlTable, get_text
from tasuki.harness.plans import FLEET_MARK, BaseControl
from tasuki.harness.protocol import AgentEvent, AgentRequest, EventKind, Screenshot, ScreenState
from tasuki.harness.questions import ScreenQuestion
from tasuki.harness.typed_text import SURE_ROWS, read_rows
from tasuki.patterns import compile_pattern

ASSETS = Path(__file__).with_name("assets")
HOOKS = claude_shape.HookFile("codex", get_home, "hooks.json")
KINDS: Mapping[str, EventKind] = {
    "SessionStart": "started",
    "UserPromptSubmit": "prompt",
    "Stop": "idle",
    "Interrupt": "idle",
    "PermissionRequest": "waiting",
    "PreCompact": "compacting",
    "PostCompact": "compacted",
    "SubagentStart": "child_started",
    "SubagentStop": "child_ended",
    "SessionEnd": "ended",
}
SECONDS = 3
"""Time limit of a hook; Codex allows no more for some."""
SANDBOXES = frozenset({"read-only", "workspace-write", "danger-full-access"})
APPROVALS = frozenset({"on-request", "never"})
TAIL = 256 << 10
"""Bytes from the end of a rollout in which the last turn's start or end is searched."""

_TURN = compile_pattern(rb'"payload": ?\{"type": ?"(task_started|task_complete|turn_aborted)"')
_SPINNER = compile_pattern(r"[\u2800-\u28ff] ")
_QUESTION = compile_pattern(
    r"(?m)^\s+(?:Press enter to|enter (?:select|continue|confirm) ·).*\b(?:esc|continue)\b"
)
_WORKS = compile_pattern(r"(?m)^. .*esc to interrupt\)")
_EMPTY = compile_pattern("Ask Codex to do anything")
_SIGN = compile_pattern(r"[›!](?:\s|$)")
_ABOVE_DIALOG = compile_pattern(r"\S|    \+ Show details")
"""The line above a dialog, which is indented itself."""
_FIRST = (
    compile_pattern(r"Folder access|Hooks need review|Welcome to Codex\b"),
    compile_pattern(r"Trust\b|Review hooks|Sign in\b"),
)
"""Titles and first choices of what it asks before its first prompt."""


class CodexIntegration(integration.HarnessIntegration):
    """The skill `$handoff`, hooks and the tools."""

    command = "$handoff GOAL"
    notes: tuple[str, ...] = (
        "Codex runs hooks only once you have approved them: start codex, type /hooks and trust "
        "both tasuki hooks. Until then, $handoff reaches the model.",
    )
    own_commands = ("skills/handoff/SKILL.md",)

    def list_additions(self, tasuki: tuple[str, ...]) -> tuple[Addition, ...]:
        skill, config = ASSETS / "skill.md", str(get_home() / "config.toml")
        server = integration.build_tools_server(tasuki)
        env = ", ".join(f"{name} = {_quote(value)}" for name, value in server["env"].items())
        args = ", ".join(map(_quote, server["args"]))
        table = f"command = {_quote(server['command'])}\nargs = [{args}]\nenv = {{ {env} }}"
        tools = TomlTable(config, ("mcp_servers", "tasuki"), table, integration.TOOLS)
        return (
            integration.copy_asset(get_home(), self.own_commands[0], skill, "the skill $handoff"),
            *HOOKS.list_handoff_hooks(tasuki, "$handoff"),
            *((tools,) if integration.can_serve_tools() else ()),
        )

    def list_compaction_additions(self, tasuki: tuple[str, ...]) -> tuple[Addition, ...]:
        return HOOKS.list_compaction_hooks(tasuki, (("SessionStart", "compact", ""),))

    def parse_hook_call(self, payload: Mapping[str, Any]) -> HookCall | None:
        if payload.get("hook_event_name") == "SessionStart" and payload.get("source") == "compact":
            return replace(claude_shape.build_call(payload, "compacted"), is_recorded=True)
        call = claude_shape.parse_call(payload, "$handoff")
        is_own = call and call.kind == "handoff" and self.find_own_command(Path(call.cwd))
        return None if is_own else call

    def list_command_folders(self, cwd: Path) -> tuple[Path, ...]:
        return (get_home(), find_home_folder() / ".agents", cwd / ".agents", cwd / ".codex")

    def find_obstacles(self, cwd: Path = Path()) -> tuple[str, ...]:
        config = get_home() / "config.toml"
        try:
            toml_text.parse_toml(integration.read_settings(config))
        except toml_text.NotToml as error:
            return (f"Codex does not start with {config}: {error}. Correct it.",)
        return integration.find_rejected_json(HOOKS.get_path(), "Codex skips the whole of")

    def find_blockers(self) -> tuple[str, ...]:
        if obstacles := self.find_obstacles():
            return obstacles
        hooks = integration.read_settings(HOOKS.get_path())
        starts = FLEET_MARK in hooks or integration.COMPACTION_MARK in hooks
        if not hooks or _are_trusted(
            ("user_prompt_submit", *(("session_start",) if starts else ()))
        ):
            return ()
        return ("The hooks wait for your approval. Start codex, type /hooks and trust them.",)


def _are_trusted(events: tuple[str, ...]) -> bool:
    """Tell whether the user approved a hook of each event; Codex asks again about one that changed."""
    config = integration.read_settings(get_home() / "config.toml")
    try:
        hooks = toml_text.find_value(config, ("hooks", "state"))
    except toml_text.NotToml:
        return False
    return isinstance(hooks, dict) and all(
        any(f":{event}:" in key for key in hooks) for event in events
    )


def _quote(text: str) -> str:
    """Quote a string as in JSON, which is valid in TOML too."""
    return json.dumps(text, ensure_ascii=False)


class CodexControl(BaseControl):
    """Agents of Codex, without its background server, whose hooks see another agent's pane.

    Nothing is answered to a hook: the skill is its first prompt, and a veto would discard the
    user's prompt as well.
    """

    exit_text = "/quit"
    enter_gap = 0.3
    pasted = compile_pattern(r"\[Pasted Content (?P<chars>\d+) chars\](?: #\d+)?")
    starts_at_prompt = True
    notes: tuple[str, ...] = (
        "Codex runs hooks only once you have approved them: start codex, type /hooks and trust those "
        "of tasuki. Until then the fleet gets no events from its agents.",
    )

    def list_additions(self, hook: str) -> tuple[Addition, ...]:
        return HOOKS.list_fleet_hooks(KINDS, hook, SECONDS)

    def parse_event(self, payload: Mapping[str, Any]) -> AgentEvent | None:
        event = claude_shape.parse_event(payload, KINDS, "turn_id")
        interrupted = get_text(payload, "hook_event_name") == "Interrupt"
        return replace(event, interrupted=interrupted) if event else None

    def list_options(self, request: AgentRequest) -> tuple[str, ...]:
        """List the options of a start.

        `permission` holds a sandbox, an approval policy, or both: `workspace-write never`. Hooks do
        not report which sandbox there is, so that is not handed on.
        """
        words = request.permission.split()
        return (
            "--no-daemon",
            *super().list_options(request),
            *(x for word in words if word in SANDBOXES for x in ("--sandbox", word)),
            *(x for word in words if word in APPROVALS for x in ("--ask-for-approval", word)),
            # Its sandbox refuses every command where such a folder is named through a symbolic link.
            *(x for folder in request.writable for x in ("--add-dir", os.path.realpath(folder))),
        )

    def read_screen(self, screenshot: Screenshot) -> ScreenState:
        """Read the state from the title's spinner, else from the screen, else from the thread."""
        if not screenshot.text:  # A turn that goes on may wait for the user.
            return ScreenState("ready" if _has_ended(screenshot.session) else "unknown")
        if screenshot.title.startswith("[ ! ]") or _QUESTION.search(screenshot.text):
            return ScreenState("waiting")
        shown = _read_input(screenshot)
        works = _SPINNER.match(screenshot.title) or _WORKS.search(screenshot.text)
        return replace(shown, state="busy") if works else shown

    def read_question(self, screenshot: Screenshot) -> ScreenQuestion | None:
        """Read its dialog; a digit takes a choice. It shows neither tabs nor the lines of a patch."""
        found = read_dialog(screenshot.text, _ABOVE_DIALOG, _find_subject)
        return begin_at_title(replace(found, is_faithful=False), *_FIRST) if found else None


def _find_subject(rows: Sequence[str]) -> DialogRows:
    """Find the command of a dialog: its last rows, from the one with the prompt of a shell on."""
    start = next((n for n, row in enumerate(rows) if row.startswith("  $ ")), len(rows))
    command = (rows[start].removeprefix("  $ "), *rows[start + 1 :]) if rows[start:] else ()
    return DialogRows(start, len(rows), tuple(command))


def _has_ended(session: str) -> bool:
    """Tell whether the last turn in a thread is over: no hook reports one that ends with an error."""
    path = find_rollout(session, get_home() / "sessions" / "none")
    try:
        with path.open("rb") if path else open("/dev/null", "rb") as file:
            file.seek(max(0, file.seek(0, 2) - TAIL))
            events = _TURN.findall(file.read())
    except OSError:
        return False
    return bool(events) and events[-1] != b"task_started"


def _read_input(screenshot: Screenshot) -> ScreenState:
    """Read the input, from the last `›` to the empty line above the footer; that of a shell is none."""
    lines = screenshot.text.rstrip().splitlines()
    starts = [number for number, line in enumerate(lines) if _SIGN.match(line)]
    ends = [number for number, line in enumerate(lines) if not line.strip()]
    if not starts or not ends or ends[-1] < starts[-1] or lines[starts[-1]].startswith("!"):
        return ScreenState("unknown")
    hint = None if screenshot.solid else _EMPTY
    words = read_rows(screenshot, starts[-1], ends[-1], 2, hint)
    return ScreenState("ready", words, ends[-1] - starts[-1] <= SURE_ROWS)
