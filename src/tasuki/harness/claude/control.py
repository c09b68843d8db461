"""How agents of Claude Code are run in tmux, and what their hooks tell. Seen: 2.1.330."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tasuki.harness.claude import _READY, UNSET, projects
from tasuki.harness.control import (
    FLEET_MARK,
    AgentEvent,
    AgentRequest,
    EventKind,
    HookReply,
    Look,
    Sight,
    fleet_hook,
    permission_asked,
)
from tasuki.harness.integration import Addition, command_hook, percent, text, tokens
from tasuki.harness.protocol import LaunchPlan

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
"""One for tools would cost every call some 15 ms, to tell little: that a question was answered. That, and
Escape, of which no hook tells, is known by the program's own signal."""
ASKS = frozenset({"permission_prompt", "elicitation_dialog"})
"""Notifications of a question to the user; others only say that it is idle."""
MOST_RUNNING = 20
SECONDS = 5
"""Time limit of a hook; its script ends within about one."""
STATES: Mapping[str, str] = {"idle": "ready", "busy": "busy", "waiting": "waiting"}

_RULE = re.compile(r"^[─━]{20,}")
_HINT = re.compile(r'Press up to edit queued messages|Try ".*"?')
"""What stands in an empty input."""


class ClaudeControl:
    """Agents of Claude Code."""

    exit_text = "/exit"
    interrupt_keys: tuple[str, ...] = ("Escape",)
    clear_keys: tuple[str, ...] = ("C-u",)
    enter_gap = 0.05
    chooses_session = True
    skill_at_start = True
    starts_at_prompt = False
    queues_prompts = True
    can_veto = True
    notes: tuple[str, ...] = ()

    def additions(self, hook: str) -> tuple[Addition, ...]:
        settings = str(projects().parent / "settings.json")
        return tuple(
            command_hook(settings, name, fleet_hook(hook, "claude"), SECONDS,
                         f"a hook that tells tasuki's server: {name}", FLEET_MARK)
            for name in HOOKS
        )  # fmt: skip

    def event(self, payload: Mapping[str, Any]) -> AgentEvent | None:
        if "hook_event_name" not in payload:
            return _status(payload)
        kind = KINDS.get(text(payload, "hook_event_name"))
        session = text(payload, "session_id")
        if kind is None or not session:
            return None
        child = text(payload, "agent_id")
        if kind != "waiting" and bool(child) != kind.startswith("child_"):
            return None  # of a sub-agent, whose questions alone are the agent's own
        if kind == "waiting" and not _asks(payload):
            return None
        return AgentEvent(
            kind,
            session,
            path=text(payload, "transcript_path"),
            cwd=text(payload, "cwd"),
            model=text(payload, "model"),
            permission=text(payload, "permission_mode"),
            text=_words(kind, payload),
            turn=text(payload, "prompt_id"),
            source=text(payload, "source") or text(payload, "trigger"),
            child=child if kind.startswith("child_") else "",
            running=_running(payload.get("background_tasks")) if kind == "idle" else None,
        )

    def answer(self, event: AgentEvent, reply: HookReply) -> str:
        if event.kind == "compacting" and reply.veto:
            return json.dumps({"decision": "block", "reason": reply.veto})
        if event.kind == "started" and reply.context:
            output = {"hookEventName": "SessionStart", "additionalContext": reply.context}
            return json.dumps({"hookSpecificOutput": output})
        return ""

    def start(self, request: AgentRequest) -> LaunchPlan:
        options = (
            *(("--session-id", request.session) if request.session else ()),
            *(("--model", request.model) if request.model else ()),
            *(("--permission-mode", request.permission) if request.permission else ()),
            *_allowed(request.writable),
        )
        prompt = ("--", request.prompt) if request.prompt else ()
        return LaunchPlan(
            argv=("claude", *options, *request.arguments, *prompt),
            cwd=request.cwd,
            unset=UNSET,
            ready=_READY,
        )

    def sight(self, look: Look) -> Sight:
        typed, has_input = _typed(look.text)
        state = STATES.get(_signal(look))
        if state is None:
            state = "ready" if has_input else "unknown"
            state = "busy" if has_input and "esc to interrupt" in look.text else state
        return Sight(state, typed)  # type: ignore[arg-type]


def _allowed(folders: tuple[str, ...]) -> tuple[str, ...]:
    """What lets an agent write below some folders without being asked, in every permission mode.

    `--add-dir` would do less, and opens a dialog of its own that asks whether the folder is trusted.
    """
    # A path through a symbolic link must be allowed by both of its names.
    named = dict.fromkeys(name for folder in folders for name in (folder, os.path.realpath(folder)))
    rules = [f"{tool}(/{folder}/**)" for folder in named for tool in ("Read", "Edit")]
    return ("--allowedTools", *rules) if rules else ()


def _words(kind: EventKind, payload: Mapping[str, Any]) -> str:
    """The words of an event: the prompt, the last answer, why it ended, what it asks."""
    if kind == "waiting":
        return text(payload, "message") or permission_asked(payload)
    name = {"prompt": "prompt", "idle": "last_assistant_message", "ended": "reason"}.get(kind, "")
    return text(payload, name)


def _asks(payload: Mapping[str, Any]) -> bool:
    """Whether it is a question to the user, and no mere word that it is idle."""
    if text(payload, "hook_event_name") == "PermissionRequest":
        return True
    return text(payload, "notification_type") in ASKS


def _running(tasks: object) -> tuple[str, ...] | None:
    """What goes on behind a turn's end, a line each; None where that is not told."""
    if not isinstance(tasks, list):
        return None
    return tuple(_task(task) for task in tasks[:MOST_RUNNING])


def _task(task: object) -> str:
    if not isinstance(task, dict):
        return "a task"
    return text(task, "description") or text(task, "command") or text(task, "id") or "a task"


def _status(payload: Mapping[str, Any]) -> AgentEvent | None:
    """The context use that a status line is given."""
    context, session = payload.get("context_window"), text(payload, "session_id")
    if not isinstance(context, Mapping) or not session:
        return None
    used = percent(context.get("used_percentage"))
    if used is None:
        return None
    return AgentEvent(
        "context",
        session,
        path=text(payload, "transcript_path"),
        used=used,
        window=tokens(context.get("context_window_size")) or None,
    )


# -- the screen ------------------------------------------------------------------------


def _signal(look: Look) -> str:
    """The status that Claude Code tells of itself, in `sessions/<pid>.json`; empty where it does not."""
    folder = projects().parent / "sessions"
    for path in (folder / f"{look.pid}.json", *_others(folder, look)):
        try:
            told = json.loads(path.read_bytes())
        except (OSError, ValueError):
            continue
        if isinstance(told, dict) and told.get("sessionId") == (
            look.session or told.get("sessionId")
        ):
            return text(told, "status")
    return ""


def _others(folder: Path, look: Look) -> Iterator[Path]:
    """The files of other processes: the program may run below the one that is known."""
    if look.session:
        yield from folder.glob("[0-9]*.json")


def _typed(screen: str) -> tuple[str, bool]:
    """What stands in the input, between the last two rules; and whether an input is there."""
    lines = screen.rstrip().splitlines()
    rules = [number for number, line in enumerate(lines) if _RULE.match(line)]
    for top, bottom in zip(reversed(rules[:-1]), reversed(rules[1:]), strict=True):
        box = lines[top + 1 : bottom]
        if box and re.match(r"[❯>](?:\s|$)", box[0]):
            words = "\n".join((box[0][1:], *box[1:])).strip()
            return ("" if _HINT.fullmatch(words) else words), True
    return "", False
