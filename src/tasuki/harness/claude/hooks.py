"""What tasuki adds to Claude Code, and how its agents run in a fleet. Seen: 2.1.330."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tasuki.files import find_home_folder, find_program_folder
from tasuki.harness import claude_shape, integration, protocol
from tasuki.harness.claude.format import remove_paste_marks
from tasuki.harness.claude.head import get_home
from tasuki.harness.claude.questions import parse_question, read_question
from tasuki.harness.integration import Addition, HookCall, JsonEntry, get_text, parse_tokens
from tasuki.harness.plans import BaseControl
from tasuki.harness.questions import ScreenQuestion
from tasuki.harness.reading.jsonl import UNDECODABLE
from tasuki.harness.typed_text import read_rows
from tasuki.patterns import compile_pattern

ASSETS = Path(__file__).with_name("assets")
HOOKS = claude_shape.HookFile("claude", get_home, "settings.json")
PATTERNS = (
    r"""*'"prompt":"\n\n<pasted_content '*'\n/handoff'*""",  # pasted together with its goal
    """*'"prompt":"/tasuki:handoff'*""",
)
"""What else the shell sees of a prompt that is tasuki's command."""
OWN_STATUS = (
    "To include tasuki's part in yours, pass its standard input to `tasuki status claude` and print its "
    "output."
)

KINDS: Mapping[str, protocol.EventKind] = {
    "SessionStart": "started",
    "UserPromptSubmit": "prompt",
    "PostToolUse": "busy",
    "Stop": "idle",
    "StopFailure": "idle",
    "PermissionRequest": "waiting",
    "Notification": "waiting",
    "PreCompact": "compacting",
    "PostCompact": "compacted",
    "SubagentStart": "child_started",
    "SubagentStop": "child_ended",
    "SessionEnd": "ended",
}
EVENTS = tuple(name for name in KINDS if name != "PostToolUse")
"""All hooks but that of tools.

That one would cost every call some 15 ms and report little: that a question was answered.
The program's own signal shows that, and also Escape, which no hook reports.
"""
ASKS = frozenset({"permission_prompt", "elicitation_dialog"})
"""Notifications of a question to the user; others only say that it is idle."""
MOST_RUNNING = 20
MOST_COST = 1e6
"""US dollars; more is no cost of a session."""
SECONDS = 5
"""Time limit of a hook; its script ends within about one."""
STATES: Mapping[str, str] = {"idle": "ready", "busy": "busy", "waiting": "waiting"}
COMPACTION_HOOKS = (
    ("PreCompact", "", ""),
    (
        "SubagentStop",
        "",
        """*'"agent_type":""'*""",
    ),  # A sub-agent without a type makes the summary.
    ("SessionStart", "compact", ""),
)
PLUGIN_COMMAND = "/tasuki:handoff"
"""The command in a plug-in, whose commands have its name before theirs. Seen: 2.1.330."""
MANAGED = (Path("/etc/claude-code"), Path("/Library/Application Support/ClaudeCode"))
"""Where an organization keeps its settings, on Linux and on macOS."""
SETTINGS = "managed-settings"
MANAGED_SWITCHES = ("disableAllHooks", "allowManagedHooksOnly")
DEFAULT_RETENTION_DAYS = 30.0
"""Days after which Claude Code deletes threads, unless told otherwise."""

_SPECIAL = compile_pattern(r"[][*]")
"""Signs of a pattern that a backslash takes for themselves in a rule. Seen: 2.1.332."""
_ANY = compile_pattern(r"[()]")
"""Signs that a rule takes in no form; `?` stands for any."""
_SUMMARY = compile_pattern(r"<summary>(.*?)(?:</summary>|\Z)", re.DOTALL)
_RULE = compile_pattern(r"[─━]{20,}|[─━]{2,} [↑↓] \d+ more [─━]")
_OWN_KEYS = compile_pattern(r'"(?:ctrl\+[su]|f12)\b')
_HISTORY = compile_pattern(r"(?m)^[─━]{2,} History \d+/\d+ [─━]")
"""The rule over a prompt of before, which hides what was in the input."""
_CUT = compile_pattern(r"[─━]{2,} [↑↓] \d+ more [─━]")
"""The rule at which its input goes on out of sight."""
_SIGN = compile_pattern(r"[❯>!](?:\s|$)")
_HINT = compile_pattern(r'Press up to edit queued messages|Try ".*"?')
"""What an empty input shows."""


class ClaudeIntegration(integration.HarnessIntegration):
    """The command `/handoff`, hooks, a skill, the tools and a part of the status line."""

    notes: tuple[str, ...] = (
        "Sessions that are open get it once you restart them, for example with: claude --continue",
    )
    own_commands = ("skills/handoff/SKILL.md", "commands/handoff.md")

    @property
    def command(self) -> str:  # type: ignore[override]
        """Another one in a plug-in, and where the user has a command of that name."""
        is_other = "CLAUDE_PLUGIN_ROOT" in os.environ or self.find_own_command(find_home_folder())
        return f"{PLUGIN_COMMAND if is_other else '/handoff'} GOAL"

    def list_command_folders(self, cwd: Path) -> tuple[Path, ...]:
        return (get_home(), cwd / ".claude")

    def list_additions(self, tasuki: tuple[str, ...]) -> tuple[Addition, ...]:
        home = get_home()
        call = integration.build_turn_call(tasuki, "status", "claude")
        status = {"type": "command", "command": call}
        server = {"type": "stdio", **integration.build_tools_server(tasuki)}
        name = self.command.removesuffix(" GOAL").removeprefix("/")
        place = "handoff" if "CLAUDE_PLUGIN_ROOT" in os.environ else name.replace(":", "/")
        skill, purpose = "skills/handing-off/SKILL.md", f"the command /{name}"
        return (
            integration.copy_asset(
                home, f"commands/{place}.md", ASSETS / "command.md", purpose
            ),
            integration.copy_asset(home, skill, ASSETS / "skill.md", integration.SKILL),
            *HOOKS.list_handoff_hooks(tasuki, "/handoff", PATTERNS),
            JsonEntry(
                str(HOOKS.get_path()), (), status, "a status line with context use", "statusLine",
                otherwise=OWN_STATUS,
            ),
            *integration.build_tools_entries(str(_get_state_file()), ("mcpServers",), server),
        )  # fmt: skip

    def list_compaction_additions(self, tasuki: tuple[str, ...]) -> tuple[Addition, ...]:
        return HOOKS.list_compaction_hooks(tasuki, COMPACTION_HOOKS)

    def parse_hook_call(self, payload: Mapping[str, Any]) -> HookCall | None:
        if call := _parse_compaction(payload):
            return call
        context = payload.get("context_window")
        if "hook_event_name" not in payload and isinstance(context, Mapping):
            used, window = context.get("used_percentage"), context.get("context_window_size")
            tokens = window if isinstance(window, int) else None
            call = claude_shape.build_call(payload, "status")
            return replace(call, used=integration.parse_percent(used), window=tokens)
        prompt = remove_paste_marks(get_text(payload, "prompt"))
        by_plugin = prompt.lstrip().startswith(PLUGIN_COMMAND)
        command = PLUGIN_COMMAND if by_plugin else "/handoff"
        call = claude_shape.parse_call({**payload, "prompt": prompt}, command)
        if call and call.kind == "handoff" and not by_plugin:
            return None if self.find_own_command(Path(call.cwd)) else call
        # Without a screen (`claude -p`) a message at the end of a turn would not be seen.
        is_unattended = os.environ.get("CLAUDE_CODE_ENTRYPOINT", "").startswith("sdk")
        return None if call and call.kind == "turn" and is_unattended else call

    def find_retention_days(self) -> float | None:
        """Return `cleanupPeriodDays`, 30 where it is unset. Seen: 2.1."""
        days = integration.read_setting(HOOKS.get_path(), "cleanupPeriodDays")
        return days if isinstance(days, int | float) and days >= 0 else DEFAULT_RETENTION_DAYS

    def find_obstacles(self, cwd: Path = Path()) -> tuple[str, ...]:
        settings, state = HOOKS.get_path(), _get_state_file()
        own = (settings, cwd / ".claude/settings.json", cwd / ".claude/settings.local.json")
        managed = [folder / f"{SETTINGS}.json" for folder in MANAGED]
        managed += [p for f in MANAGED for p in sorted((f / f"{SETTINGS}.d").glob("*.json"))]
        ask = 'Ask those who manage this computer: "{}" in {}.'
        rejects = integration.find_rejected_json
        return (
            *rejects(settings, "Claude Code skips the whole of", ("mark",)),
            *rejects(state, "Claude Code does not start with", ("mark",)),
            *_find_switches(own, ("disableAllHooks",), 'Remove "{}" from {}.'),
            *_find_switches(tuple(managed), MANAGED_SWITCHES, ask),
        )


def _find_switches(paths: tuple[Path, ...], names: tuple[str, ...], advice: str) -> tuple[str, ...]:
    """Find settings that switch hooks off, in files that Claude Code reads."""
    return tuple(
        f"Hooks are switched off. {advice.format(name, path)}"
        for path in dict.fromkeys(paths)
        for name in names
        if integration.read_setting(path, name) is True
        and not integration.find_rejected_json(path, "", ("mark",))
    )


def _parse_compaction(payload: Mapping[str, Any]) -> HookCall | None:
    """Parse a hook around a compaction; None for another one, and for that of a sub-agent.

    The summary is in no file yet when the session starts again: its last message has it.
    """
    call = claude_shape.build_call(payload, "compacted")
    if call.event == "SubagentStop" and payload.get("agent_type") == "":
        summary = _SUMMARY.search(get_text(payload, "last_assistant_message"))
        return replace(call, kind="summarized", text=summary[1].strip()) if summary else None
    if payload.get("agent_id"):
        return None
    if call.event == "PreCompact":
        words = get_text(payload, "custom_instructions")
        by_user = payload.get("trigger") == "manual"
        return replace(call, kind="compacting", text=words, by_user=by_user)
    return call if call.event == "SessionStart" and payload.get("source") == "compact" else None


def _get_state_file() -> Path:
    """Return the file in which Claude Code keeps the user's MCP servers."""
    return find_program_folder("CLAUDE_CONFIG_DIR", "") / ".claude.json"


class ClaudeControl(BaseControl):
    """Agents of Claude Code."""

    # The first, which is bound to nothing, ends a chord.
    stash_keys: tuple[str, ...] = ("F12", "C-s")
    clear_keys: tuple[str, ...] = ("C-u", "C-u")
    pasted = compile_pattern(r"\[Pasted text #\d+(?: \+(?P<ends>\d+) lines)?\]")
    enter_gap = 0.05
    chooses_session = True
    skill_at_start = True
    queues_prompts = True
    can_veto = True

    def list_additions(self, hook: str) -> tuple[Addition, ...]:
        return HOOKS.list_fleet_hooks(EVENTS, hook, SECONDS)

    def parse_event(self, payload: Mapping[str, Any]) -> protocol.AgentEvent | None:
        if "hook_event_name" not in payload:
            return _parse_status(payload)
        event = claude_shape.parse_event(payload, KINDS, "prompt_id")
        name, notice = payload["hook_event_name"], get_text(payload, "notification_type")
        waits = event is not None and event.kind == "waiting"
        if event is None or (waits and name != "PermissionRequest" and notice not in ASKS):
            return None  # It only says that it is idle.
        message = get_text(payload, "message") if waits else ""
        tasks = payload.get("background_tasks") if event.kind == "idle" else None
        told = tasks[:MOST_RUNNING] if isinstance(tasks, list) else None
        running = None if told is None else tuple(map(_describe_task, told))
        failed = name == "StopFailure"
        return replace(
            event,
            error=event.text if failed else "",
            error_code=get_text(payload, "error") if failed else "",
            permission=get_text(payload, "permission_mode"),
            text=message or event.text,
            question=parse_question(payload, event.question),
            running=running,
        )

    def format_reply(self, event: protocol.AgentEvent, reply: protocol.HookReply) -> str:
        if event.kind == "compacting" and reply.veto:
            return json.dumps({"decision": "block", "reason": reply.veto})
        return claude_shape.format_start_context(event, reply)

    def list_options(self, request: protocol.AgentRequest) -> tuple[str, ...]:
        return (
            *(("--session-id", request.session) if request.session else ()),
            *super().list_options(request),
            *(("--permission-mode", request.permission) if request.permission else ()),
            *_build_allow_rules(request.writable),
        )

    @property
    def own_keys(self) -> str:
        """Bindings that name a key which is pressed here."""
        path = get_home() / "keybindings.json"
        try:
            text = path.read_text(errors="replace").lower()
        except OSError:
            return ""
        return f"{path} binds its keys anew" if _OWN_KEYS.search(text) else ""

    def read_screen(self, screenshot: protocol.Screenshot) -> protocol.ScreenState:
        shown = _read_input(screenshot)
        state = STATES.get(_read_signal(screenshot))
        if state is None and shown.typed is not None:
            state = "busy" if "esc to interrupt" in screenshot.text else "ready"
        return replace(shown, state=state or "unknown")

    def read_question(self, screenshot: protocol.Screenshot) -> ScreenQuestion | None:
        """Read its dialog: a digit takes a choice, but not in its first moment."""
        return read_question(screenshot.text)


def _build_allow_rules(folders: tuple[str, ...]) -> tuple[str, ...]:
    """Let an agent write below some folders without asking, in every permission mode.

    `--add-dir` would do less, and opens its own dialog that asks whether the folder is trusted.
    """
    # A path through a symbolic link must be allowed by both of its names.
    named = dict.fromkeys(name for folder in folders for name in (folder, os.path.realpath(folder)))
    patterns = [_ANY.sub("?", _SPECIAL.sub(r"\\\g<0>", folder)) for folder in named]
    rules = [f"{tool}(/{pattern}/**)" for pattern in patterns for tool in ("Read", "Edit")]
    return ("--allowedTools", *rules) if rules else ()


def _describe_task(task: object) -> str:
    """Describe in a line what goes on after a turn's end."""
    about = task if isinstance(task, dict) else {}
    named = (get_text(about, name) for name in ("description", "command", "id"))
    return next(filter(None, named), "a task")


def _parse_status(payload: Mapping[str, Any]) -> protocol.AgentEvent | None:
    """Parse the context use that a status line is given."""
    context, session = payload.get("context_window"), get_text(payload, "session_id")
    if not isinstance(context, Mapping) or not session:
        return None
    if (used := integration.parse_percent(context.get("used_percentage"))) is None:
        return None
    cost = payload.get("cost")
    total = cost.get("total_cost_usd") if isinstance(cost, Mapping) else None
    is_number = isinstance(total, int | float) and not isinstance(total, bool)
    spent = float(total) if is_number else -1.0  # type: ignore[arg-type]
    return protocol.AgentEvent(
        "context",
        session,
        path=get_text(payload, "transcript_path"),
        used=used,
        window=parse_tokens(context.get("context_window_size")) or None,
        spent_input=parse_tokens(context.get("total_input_tokens")),
        spent_output=parse_tokens(context.get("total_output_tokens")),
        spent_cost=spent if 0 <= spent < MOST_COST else None,
    )


# -- the screen ------------------------------------------------------------------------


class _ClaudeSession(Struct):
    """What Claude Code says of itself while it runs, in `sessions/<pid>.json`. Seen: 2.1.330."""

    pid: int = 0
    sessionId: str = ""
    procStart: str = ""
    status: str = ""
    tmux: str = ""


def _list_sessions(pattern: str) -> Iterator[_ClaudeSession]:
    for path in (get_home() / "sessions").glob(pattern):
        with suppress(OSError, *UNDECODABLE):
            yield msgspec.json.decode(path.read_bytes(), type=_ClaudeSession)


def list_running(session: str) -> Iterator[protocol.RunningProgram]:
    """Yield the programs that have a session open."""
    for one in _list_sessions("*.json"):
        if one.sessionId == session:
            yield protocol.RunningProgram(one.pid, one.procStart, one.status, one.tmux)


def _read_signal(screenshot: protocol.Screenshot) -> str:
    """Read the status that Claude Code gives of itself; it is empty where there is none."""
    # The program may run below the known process, so its own file may be another one.
    others = _list_sessions("[0-9]*.json") if screenshot.session else ()
    for one in chain(_list_sessions(f"{screenshot.pid}.json"), others):
        if not screenshot.session or one.sessionId == screenshot.session:
            return one.status
    return ""


def _read_input(screenshot: protocol.Screenshot) -> protocol.ScreenState:
    """Read the input, between the last two rules; what a shell would run begins with its sign."""
    if _HISTORY.search(screenshot.text):
        return protocol.ScreenState("unknown")
    lines = screenshot.text.rstrip().splitlines()
    rules = [number for number, line in enumerate(lines) if _RULE.match(line)]
    hint = None if screenshot.solid else _HINT
    for top, bottom in zip(reversed(rules[:-1]), reversed(rules[1:]), strict=True):
        sign = _SIGN.match(lines[top + 1])
        is_cut = any(_CUT.match(lines[number]) for number in (top, bottom))
        if bottom - top > 1 and (sign or is_cut):
            shell = "!" if sign and sign[0][0] == "!" else ""
            words = read_rows(screenshot, top + 1, bottom, 2, hint)
            has_stash = top > 0 and "stashed" in lines[top - 1]
            return protocol.ScreenState("unknown", shell + words, not is_cut, has_stash)
    return protocol.ScreenState("unknown")
