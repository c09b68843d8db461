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

from tasuki.files import find_home_folder
from tasuki.harness.claude.format import remove_paste_marks
from tasuki.harness.claude.head import get_projects_folder
from tasuki.harness.claude.questions import parse_question, read_question
from tasuki.harness.integration import (
    SKILL,
    Addition,
    HarnessIntegration,
    HookCall,
    JsonEntry,
    build_claude_call,
    build_quiet_call,
    build_tools_entries,
    build_tools_server,
    copy_asset,
    find_rejected_json,
    get_text,
    list_compaction_hooks,
    list_handoff_hooks,
    parse_claude_hook_call,
    parse_percent,
    parse_tokens,
    read_setting,
)
from tasuki.harness.plans import (
    BaseControl,
    format_start_context,
    list_fleet_hooks,
    parse_claude_event,
)
from tasuki.harness.protocol import (
    AgentEvent,
    AgentRequest,
    EventKind,
    HookReply,
    RunningProgram,
    Screenshot,
    ScreenState,
)
from tasuki.harness.questions import ScreenQuestion
from tasuki.harness.reading.jsonl import UNDECODABLE
from tasuki.harness.typed_text import read_rows
from tasuki.patterns import compile_pattern

ASSETS = Path(__file__).with_name("assets")
PASTED = r"""*'"prompt":"\n\n<pasted_content '*'\n/handoff'*"""
"""What the shell sees of a command that was pasted together with its goal."""
PATTERNS = (PASTED, """*'"prompt":"/tasuki:handoff'*""")
OWN_STATUS = (
    "To include tasuki's part in yours, pass its standard input to `tasuki status claude` and print its "
    "output."
)

KINDS: Mapping[str, EventKind] = {
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
HOOKS = tuple(name for name in KINDS if name != "PostToolUse")
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
    ("SubagentStop", "", """*'"agent_type":""'*"""),
    ("SessionStart", "compact", ""),
)
"""The hooks around a compaction: event, matcher, and what the shell sees of its payload.

The summary is made by a sub-agent without a type.
"""

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


PLUGIN_COMMAND = "/tasuki:handoff"
"""The command in a plug-in, whose commands have its name before theirs. Seen: 2.1.330."""
MANAGED = (Path("/etc/claude-code"), Path("/Library/Application Support/ClaudeCode"))
"""Where an organization keeps its settings, on Linux and on macOS."""
SETTINGS = "managed-settings"
MANAGED_SWITCHES = ("disableAllHooks", "allowManagedHooksOnly")
DEFAULT_RETENTION_DAYS = 30.0
"""Days after which Claude Code deletes threads, unless told otherwise."""


class ClaudeIntegration(HarnessIntegration):
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
        return (get_projects_folder().parent, cwd / ".claude")

    def list_additions(self, tasuki: tuple[str, ...]) -> tuple[Addition, ...]:
        home = get_projects_folder().parent
        settings = str(home / "settings.json")
        events = ("UserPromptSubmit", "Stop")
        status = {"type": "command", "command": build_quiet_call(tasuki, "status", "claude")}
        server = {"type": "stdio", **build_tools_server(tasuki)}
        named = self.command.removesuffix(" GOAL").removeprefix("/")
        place = named.replace(":", "/") if "CLAUDE_PLUGIN_ROOT" not in os.environ else "handoff"
        return (
            copy_asset(
                home, f"commands/{place}.md", ASSETS / "command.md", f"the command /{named}"
            ),
            copy_asset(home, "skills/handing-off/SKILL.md", ASSETS / "skill.md", SKILL),
            *list_handoff_hooks(settings, events, tasuki, "claude", "/handoff", PATTERNS),
            JsonEntry(
                settings,
                (),
                status,
                "a status line with context use",
                "statusLine",
                otherwise=OWN_STATUS,
            ),
            *build_tools_entries(str(_get_state_file()), ("mcpServers",), server),
        )

    def list_compaction_additions(self, tasuki: tuple[str, ...]) -> tuple[Addition, ...]:
        settings = str(get_projects_folder().parent / "settings.json")
        return list_compaction_hooks(settings, COMPACTION_HOOKS, tasuki, "claude")

    def parse_hook_call(self, payload: Mapping[str, Any]) -> HookCall | None:
        if call := _parse_compaction(payload):
            return call
        context = payload.get("context_window")
        if "hook_event_name" in payload or not isinstance(context, Mapping):
            prompt = remove_paste_marks(get_text(payload, "prompt"))
            by_plugin = prompt.lstrip().startswith(PLUGIN_COMMAND)
            command = PLUGIN_COMMAND if by_plugin else "/handoff"
            call = parse_claude_hook_call({**payload, "prompt": prompt}, command)
            if call and call.kind == "handoff" and not by_plugin:
                return None if self.find_own_command(Path(call.cwd)) else call
            return None if call and call.kind == "turn" and _is_unattended() else call
        used, window = context.get("used_percentage"), context.get("context_window_size")
        tokens = window if isinstance(window, int) else None
        call = build_claude_call(payload, "status")
        return replace(call, used=parse_percent(used), window=tokens)

    def find_retention_days(self) -> float | None:
        """Return `cleanupPeriodDays`, 30 where it is unset. Seen: 2.1."""
        days = read_setting(get_projects_folder().parent / "settings.json", "cleanupPeriodDays")
        return days if isinstance(days, int | float) and days >= 0 else DEFAULT_RETENTION_DAYS

    def find_obstacles(self, cwd: Path = Path()) -> tuple[str, ...]:
        settings = get_projects_folder().parent / "settings.json"
        others = (cwd / ".claude/settings.json", cwd / ".claude/settings.local.json")
        return (
            *find_rejected_json(settings, "Claude Code skips the whole of", ("mark",)),
            *find_rejected_json(_get_state_file(), "Claude Code does not start with", ("mark",)),
            *_find_switches((settings, *others), ("disableAllHooks",), 'Remove "{}" from {}.'),
            *_find_switches(
                _list_managed(), MANAGED_SWITCHES, 'Ask those who manage this computer: "{}" in {}.'
            ),
        )


def _list_managed() -> tuple[Path, ...]:
    """List the settings files of an organization."""
    parts = (
        part for folder in MANAGED for part in sorted((folder / f"{SETTINGS}.d").glob("*.json"))
    )
    return (*(folder / f"{SETTINGS}.json" for folder in MANAGED), *parts)


def _find_switches(paths: tuple[Path, ...], names: tuple[str, ...], advice: str) -> tuple[str, ...]:
    """Find settings that switch hooks off, in files that Claude Code reads."""
    return tuple(
        f"Hooks are switched off. {advice.format(name, path)}"
        for path in dict.fromkeys(paths)
        for name in names
        if read_setting(path, name) is True and not find_rejected_json(path, "", ("mark",))
    )


def _parse_compaction(payload: Mapping[str, Any]) -> HookCall | None:
    """Parse a hook around a compaction; None for another one, and for that of a sub-agent.

    The summary is in no file yet when the session starts again: its last message has it.
    """
    call = build_claude_call(payload, "compacted")
    event = call.event
    if event == "SubagentStop" and payload.get("agent_type") == "":
        summary = _SUMMARY.search(get_text(payload, "last_assistant_message"))
        return replace(call, kind="summarized", text=summary[1].strip()) if summary else None
    if payload.get("agent_id"):
        return None
    if event == "PreCompact":
        words = get_text(payload, "custom_instructions")
        by_user = payload.get("trigger") == "manual"
        return replace(call, kind="compacting", text=words, by_user=by_user)
    return call if event == "SessionStart" and payload.get("source") == "compact" else None


def _is_unattended() -> bool:
    """Tell whether the session has no screen (`claude -p`), so that a message would not be seen."""
    return os.environ.get("CLAUDE_CODE_ENTRYPOINT", "").startswith("sdk")


def _get_state_file() -> Path:
    """Return the file in which Claude Code keeps the user's MCP servers."""
    base = os.environ.get("CLAUDE_CONFIG_DIR")
    return (Path(base) if base else find_home_folder()) / ".claude.json"


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
        settings = str(get_projects_folder().parent / "settings.json")
        return list_fleet_hooks(settings, HOOKS, hook, "claude", SECONDS)

    def parse_event(self, payload: Mapping[str, Any]) -> AgentEvent | None:
        if "hook_event_name" not in payload:
            return _parse_status(payload)
        event = parse_claude_event(payload, KINDS, "prompt_id")
        if event is None or (event.kind == "waiting" and not _is_question(payload)):
            return None
        message = get_text(payload, "message") if event.kind == "waiting" else ""
        tasks = payload.get("background_tasks") if event.kind == "idle" else None
        failed = get_text(payload, "hook_event_name") == "StopFailure"
        return replace(
            event,
            error=event.text if failed else "",
            error_code=get_text(payload, "error") if failed else "",
            permission=get_text(payload, "permission_mode"),
            text=message or event.text,
            question=parse_question(payload, event.question),
            running=_list_running(tasks),
        )

    def format_reply(self, event: AgentEvent, reply: HookReply) -> str:
        if event.kind == "compacting" and reply.veto:
            return json.dumps({"decision": "block", "reason": reply.veto})
        return format_start_context(event, reply)

    def list_options(self, request: AgentRequest) -> tuple[str, ...]:
        return (
            *(("--session-id", request.session) if request.session else ()),
            *super().list_options(request),
            *(("--permission-mode", request.permission) if request.permission else ()),
            *_build_allow_rules(request.writable),
        )

    @property
    def own_keys(self) -> str:
        """Bindings that name a key which is pressed here."""
        path = get_projects_folder().with_name("keybindings.json")
        try:
            text = path.read_text(errors="replace").lower()
        except OSError:
            return ""
        return f"{path} binds its keys anew" if _OWN_KEYS.search(text) else ""

    def read_screen(self, screenshot: Screenshot) -> ScreenState:
        shown = _read_input(screenshot)
        state = STATES.get(_read_signal(screenshot))
        if state is None and shown.typed is not None:
            state = "busy" if "esc to interrupt" in screenshot.text else "ready"
        return replace(shown, state=state or "unknown")

    def read_question(self, screenshot: Screenshot) -> ScreenQuestion | None:
        """Read its dialog: a digit takes a choice, but not in its first moment."""
        return read_question(screenshot.text)


def _build_allow_rules(folders: tuple[str, ...]) -> tuple[str, ...]:
    """Let an agent write below some folders without asking, in every permission mode.

    `--add-dir` would do less, and opens its own dialog that asks whether the folder is
    trusted.
    """
    # A path through a symbolic link must be allowed by both of its names.
    named = dict.fromkeys(name for folder in folders for name in (folder, os.path.realpath(folder)))
    patterns = [_ANY.sub("?", _SPECIAL.sub(r"\\\g<0>", folder)) for folder in named]
    rules = [f"{tool}(/{pattern}/**)" for pattern in patterns for tool in ("Read", "Edit")]
    return ("--allowedTools", *rules) if rules else ()


def _is_question(payload: Mapping[str, Any]) -> bool:
    """Tell whether it is a question to the user, and not only a notice that it is idle."""
    if get_text(payload, "hook_event_name") == "PermissionRequest":
        return True
    return get_text(payload, "notification_type") in ASKS


def _list_running(tasks: object) -> tuple[str, ...] | None:
    """List what goes on after a turn's end, a line each; None where that is unknown."""
    if not isinstance(tasks, list):
        return None
    return tuple(_describe_task(task) for task in tasks[:MOST_RUNNING])


def _describe_task(task: object) -> str:
    if not isinstance(task, dict):
        return "a task"
    return (
        get_text(task, "description")
        or get_text(task, "command")
        or get_text(task, "id")
        or "a task"
    )


def _parse_status(payload: Mapping[str, Any]) -> AgentEvent | None:
    """Parse the context use that a status line is given."""
    context, session = payload.get("context_window"), get_text(payload, "session_id")
    if not isinstance(context, Mapping) or not session:
        return None
    used = parse_percent(context.get("used_percentage"))
    if used is None:
        return None
    return AgentEvent(
        "context",
        session,
        path=get_text(payload, "transcript_path"),
        used=used,
        window=parse_tokens(context.get("context_window_size")) or None,
        spent_input=parse_tokens(context.get("total_input_tokens")),
        spent_output=parse_tokens(context.get("total_output_tokens")),
        spent_cost=_parse_cost(payload.get("cost")),
    )


def _parse_cost(cost: object) -> float | None:
    """Return the dollars that a session has cost; None where they are not said."""
    total = cost.get("total_cost_usd") if isinstance(cost, Mapping) else None
    if isinstance(total, bool) or not isinstance(total, int | float):
        return None
    return float(total) if 0 <= total < MOST_COST else None


# -- the screen ------------------------------------------------------------------------


class _ClaudeSession(Struct):
    """What Claude Code says of itself while it runs, in `sessions/<pid>.json`. Seen: 2.1.330."""

    pid: int = 0
    sessionId: str = ""
    procStart: str = ""
    status: str = ""
    tmux: str = ""


def _list_sessions(pattern: str) -> Iterator[_ClaudeSession]:
    """Yield what running programs say, in files whose names match a pattern."""
    for path in (get_projects_folder().parent / "sessions").glob(pattern):
        with suppress(OSError, *UNDECODABLE):
            yield msgspec.json.decode(path.read_bytes(), type=_ClaudeSession)


def list_running(session: str) -> Iterator[RunningProgram]:
    """Yield the programs that have a session open."""
    for one in _list_sessions("*.json"):
        if one.sessionId == session:
            yield RunningProgram(one.pid, one.procStart, one.status, one.tmux)


def _read_signal(screenshot: Screenshot) -> str:
    """Read the status that Claude Code gives of itself; it is empty where there is none."""
    # The program may run below the known process, so its own file may be another one.
    others = _list_sessions("[0-9]*.json") if screenshot.session else ()
    for one in chain(_list_sessions(f"{screenshot.pid}.json"), others):
        if not screenshot.session or one.sessionId == screenshot.session:
            return one.status
    return ""


def _read_input(screenshot: Screenshot) -> ScreenState:
    """Read the input, between the last two rules; what a shell would run begins with its sign."""
    if _HISTORY.search(screenshot.text):
        return ScreenState("unknown")
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
            return ScreenState("unknown", shell + words, not is_cut, has_stash)
    return ScreenState("unknown")
