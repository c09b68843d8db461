"""What tasuki adds to Copilot CLI, and how its agents run in a fleet. Seen: 1.0.102.

The command is a skill, which Copilot fills in before its hook sees it: the goal is between
marks.
"""

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tasuki.files import get_data_folder
from tasuki.harness import integration
from tasuki.harness.copilot.head import get_home
from tasuki.harness.dialogs import DialogRows, read_dialog
from tasuki.harness.integration import Addition, HookAnswer, HookCall, OwnFile, get_text
from tasuki.harness.plans import FLEET_MARK, BaseControl, build_fleet_hook
from tasuki.harness.protocol import AgentEvent, AgentRequest, EventKind, Screenshot, ScreenState
from tasuki.harness.questions import ScreenQuestion
from tasuki.harness.typed_text import SURE_ROWS, read_rows
from tasuki.patterns import compile_pattern

ASSETS = Path(__file__).with_name("assets")
HOOKS = ("sessionStart", "userPromptSubmitted", "agentStop", "sessionEnd")
"""The hooks that are installed.

None is for permissions: it also fires for what is already allowed. None is for compactions:
nothing reports their end.
"""
COMPACTED = '{"compacted": %s}'
"""Form in which a payload is passed on by a hook for compactions: it looks like any other."""
COMPACTION_HOOKS = ("userPromptSubmitted", "postToolUse")
"""The hooks after which a block can reach the model.

Nothing reports the end of a compaction: each of them looks for a new checkpoint, which is there
before the thread tells of it.
"""
SECONDS = 5
MARKS: tuple[tuple[str, EventKind], ...] = (
    ("initialPrompt", "started"),
    ("source", "started"),
    ("stopReason", "idle"),
    ("prompt", "prompt"),
    ("reason", "ended"),
)
"""Members of a payload and the kinds of events.

Payloads do not name their event: the first of these members that one has determines it.
"""
WORDS = {"prompt": "prompt", "ended": "reason"}
_ABOVE_DIALOG = compile_pattern(r"╭─")
"""The upper edge of a dialog; that of a box in it is indented."""


_INVOKED = compile_pattern(
    r'\A\s*The user explicitly invoked the "/handoff" skill\.'
    r".*?<tasuki-handoff-goal>\n(.*)\n</tasuki-handoff-goal>",
    re.DOTALL,
)
"""Up to the last closing mark: the goal may hold one."""
_ID = compile_pattern(r"[\w.-]{1,200}", re.ASCII)
_RULE = compile_pattern(r"^[─━]{20,}")
_QUESTION = compile_pattern(r"enter to select · esc to cancel")
_WORKS = compile_pattern(r"^ ?\S Working\b")
"""The line below the input: `◎ Working · 96 B esc esc interrupt`.

Before the first words it is `… edit prompt`.
"""


class CopilotIntegration(integration.HarnessIntegration):
    """The skill `/handoff`, hooks and the tools."""

    notes: tuple[str, ...] = (
        "Copilot does not show what a hook prints at the end of a turn: a handoff is suggested only by "
        "notification (setting `notify`).",
    )

    own_commands = ("skills/handoff/SKILL.md",)

    def list_command_folders(self, cwd: Path) -> tuple[Path, ...]:
        return (get_home(), cwd / ".github", cwd / ".copilot")

    def list_additions(self, tasuki: tuple[str, ...]) -> tuple[Addition, ...]:
        skill, marks = self.own_commands[0], ("*'<tasuki-handoff-goal>'*",)
        prompt = integration.build_prompt_hook(tasuki, "copilot", "/handoff", marks, tells=False)
        turn = integration.build_turn_call(tasuki, "hook", "copilot")
        hooks = {
            "userPromptSubmitted": (prompt, integration.PROMPT_SECONDS),
            "agentStop": (turn, integration.TURN_SECONDS),
        }
        purpose = "hooks that intercept /handoff before it reaches the model, and watch the context"
        config = str(get_home() / "mcp-config.json")
        server = {"type": "local", **integration.build_tools_server(tasuki), "tools": ["*"]}
        return (
            integration.copy_asset(get_home(), skill, ASSETS / "skill.md", "the skill /handoff"),
            _build_hooks_file("handoff", hooks, purpose, integration.HOOK_MARK),
            *integration.build_tools_entries(config, ("mcpServers",), server),
        )

    def list_compaction_additions(self, tasuki: tuple[str, ...]) -> tuple[Addition, ...]:
        command = integration.build_compaction_hook(tasuki, "copilot", _build_check(), COMPACTED)
        hooks = dict.fromkeys(COMPACTION_HOOKS, (command, integration.COMPACTION_SECONDS))
        purpose, mark = integration.COMPACTION_PURPOSE, integration.COMPACTION_MARK
        return (_build_hooks_file("compaction", hooks, purpose, mark),)

    def parse_hook_call(self, payload: Mapping[str, Any]) -> HookCall | None:
        compacted = payload.get("compacted")
        payload = compacted if isinstance(compacted, Mapping) else payload
        session, cwd = get_text(payload, "sessionId"), get_text(payload, "cwd")
        if not _ID.fullmatch(session):
            return None
        path = _build_path(session)
        if compacted:
            name, summary = _read_checkpoint(session)
            return HookCall("compacted", path, session, cwd, summary, compaction=name)
        if "prompt" in payload:
            invoked = _INVOKED.match(get_text(payload, "prompt"))
            return HookCall("handoff", path, session, cwd, invoked[1]) if invoked else None
        if "stopReason" in payload:
            return HookCall("turn", get_text(payload, "transcriptPath") or path, session, cwd)
        return None

    def format_answer(self, call: HookCall, answer: HookAnswer) -> str:
        """Return nothing at the end of a turn: Copilot would not show it."""
        if call.kind in integration.COMPACTION_KINDS:
            return json.dumps({"additionalContext": answer.context}) if answer.context else ""
        return super().format_answer(call, answer) if call.kind == "handoff" else ""


class CopilotControl(BaseControl):
    """Agents of Copilot CLI. What they may do without asking is in the operator's arguments."""

    pasted = compile_pattern(r"\[Paste #\d+ - (?P<lines>\d+) lines\]")
    blank_shields = False
    starts_at_prompt = True
    notes: tuple[str, ...] = (
        "Copilot asks before it writes a file, including the handoff document, unless its agents are "
        "started with --allow-tool=write. No hook reports that it waits for an answer.",
    )

    def list_additions(self, hook: str) -> tuple[Addition, ...]:
        hooks = dict.fromkeys(HOOKS, (build_fleet_hook(hook, "copilot"), SECONDS))
        purpose = "hooks that tell tasuki's server what the agent does"
        return (_build_hooks_file("fleet", hooks, purpose, FLEET_MARK),)

    def parse_event(self, payload: Mapping[str, Any]) -> AgentEvent | None:
        kind = next((kind for name, kind in MARKS if name in payload), None)
        session = get_text(payload, "sessionId")
        if kind is None or not _ID.fullmatch(session) or "transformedPrompt" in payload:
            return None
        source = get_text(payload, "source")
        return AgentEvent(
            kind,
            session,
            path=get_text(payload, "transcriptPath") or _build_path(session),
            cwd=get_text(payload, "cwd"),
            text=get_text(payload, WORDS.get(kind, "")),
            source="startup" if source == "new" else source,
        )

    def list_options(self, request: AgentRequest) -> tuple[str, ...]:
        folders = (word for folder in request.writable for word in ("--add-dir", folder))
        return (*super().list_options(request), *folders)

    def read_screen(self, screenshot: Screenshot) -> ScreenState:
        """Read the state from the screen: the line below the input shows that it works."""
        if _QUESTION.search(screenshot.text):
            return ScreenState("waiting")
        lines = screenshot.text.rstrip().splitlines()
        rules = [number for number, line in enumerate(lines) if _RULE.match(line)]
        if len(rules) < 2 or not lines[rules[-2] + 1].startswith("❯"):
            return ScreenState("unknown")
        words = read_rows(screenshot, rules[-2] + 1, rules[-1], 2)
        works = any(map(_WORKS.match, lines[rules[-1] + 1 :]))
        is_whole = rules[-1] - rules[-2] - 1 <= SURE_ROWS
        return ScreenState("busy" if works else "ready", words, is_whole)

    def read_question(self, screenshot: Screenshot) -> ScreenQuestion | None:
        """Read what its dialog asks; which key takes a choice was not tried."""
        found = read_dialog(screenshot.text, _ABOVE_DIALOG, lambda _: DialogRows())
        return replace(found, choices=(), text_keys=None) if found else None


def _build_check() -> str:
    """Build the shell's test whether a session has a new checkpoint: Python starts only then.

    `$p` is the payload. A checkpoint is the summary of a compaction; that it was seen is marked
    by an empty file, which is made before tasuki starts.
    """
    sessions = shlex.quote(str(get_home() / "session-state"))
    marks = shlex.quote(str(get_data_folder() / "compactions" / "copilot"))
    return (
        r"""s=${p#*'"sessionId":"'}; s=${s%%\"*}; """
        rf"""case $s in ''|*[!A-Za-z0-9._-]*) false;; *) set -- {sessions}/$s/checkpoints/[0-9]*.md; """
        rf"""[ -e "$1" ] && mkdir -p {marks} && (set -C; : > {marks}/$s.$#) 2>/dev/null;; esac"""
    )


def _read_checkpoint(session: str) -> tuple[str, str]:
    """Read the newest checkpoint of a session: its name and text, both empty without one."""
    folder = get_home() / "session-state" / session / "checkpoints"
    try:
        newest = max(folder.glob("[0-9]*.md"), default=None)
        return (newest.name, newest.read_text("utf-8", "replace")) if newest else ("", "")
    except OSError:
        return "", ""


def _build_path(session: str) -> str:
    return str(get_home() / "session-state" / session / "events.jsonl")


def _build_hooks_file(
    name: str, hooks: Mapping[str, tuple[str, int]], purpose: str, mark: str
) -> OwnFile:
    """Build a hooks file of our own in Copilot's shape: commands and their limits in seconds."""
    entries = {
        name: [{"type": "command", "bash": command, "timeoutSec": seconds}]
        for name, (command, seconds) in hooks.items()
    }
    content = json.dumps({"version": 1, "hooks": entries}, indent=2) + "\n"
    return OwnFile(str(get_home() / "hooks" / f"tasuki-{name}.json"), content, purpose, mark)
