"""How agents of Codex are run in tmux, and what their hooks tell. Seen: 0.169."""

import os
import re
from collections.abc import Mapping
from typing import Any

from tasuki.harness.codex import _READY, _argument, home, rollout
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
from tasuki.harness.integration import Addition, command_hook, text
from tasuki.harness.protocol import LaunchPlan

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
"""Bytes from the end of a rollout in which the last turn's begin or end is looked for."""

_TURN = re.compile(rb'"payload": ?\{"type": ?"(task_started|task_complete|turn_aborted)"')
_SPINNER = re.compile(r"[\u2800-\u28ff] ")
_QUESTION = re.compile(r"(?m)^\s+(?:Press enter to|enter select ·).*\besc\b")
_WORKS = re.compile(r"(?m)^. .*esc to interrupt\)")
_EMPTY = "Ask Codex to do anything"


class CodexControl:
    """Agents of Codex, without its background server, in which hooks see another agent's pane."""

    exit_text = "/quit"
    interrupt_keys: tuple[str, ...] = ("Escape",)
    clear_keys: tuple[str, ...] = ("C-e", "C-u")
    enter_gap = 0.3
    chooses_session = False
    skill_at_start = False
    starts_at_prompt = True
    queues_prompts = False
    can_veto = False
    notes: tuple[str, ...] = (
        "Codex runs hooks only once you have approved them: start codex, type /hooks and trust those "
        "of tasuki. Until then the fleet hears nothing of its agents.",
    )

    def additions(self, hook: str) -> tuple[Addition, ...]:
        path = str(home() / "hooks.json")
        return tuple(
            command_hook(path, name, fleet_hook(hook, "codex"), SECONDS,
                         f"a hook that tells tasuki's server: {name}", FLEET_MARK)
            for name in KINDS
        )  # fmt: skip

    def event(self, payload: Mapping[str, Any]) -> AgentEvent | None:
        name, session = text(payload, "hook_event_name"), text(payload, "session_id")
        kind = KINDS.get(name)
        if kind is None or not session:
            return None
        child = text(payload, "agent_id")
        if kind != "waiting" and bool(child) != kind.startswith("child_"):
            return None  # of a sub-agent, whose questions alone are the agent's own
        return AgentEvent(
            kind,
            session,
            path=text(payload, "transcript_path"),
            cwd=text(payload, "cwd"),
            model=text(payload, "model"),
            text=_words(kind, payload),
            turn=text(payload, "turn_id"),
            source=text(payload, "source") or text(payload, "trigger"),
            child=child if kind.startswith("child_") else "",
            interrupted=name == "Interrupt",
        )

    def answer(self, event: AgentEvent, reply: HookReply) -> str:
        """Nothing: the skill is its first prompt, and a veto would take the user's prompt with it."""
        return ""

    def start(self, request: AgentRequest) -> LaunchPlan:
        """`permission` holds a sandbox, a policy of approvals, or both: `workspace-write never`.

        What hooks tell of it does not say which sandbox there is, so that is not handed on.
        """
        words = request.permission.split()
        options = (
            *(("--model", request.model) if request.model else ()),
            *(x for word in words if word in SANDBOXES for x in ("--sandbox", word)),
            *(x for word in words if word in APPROVALS for x in ("--ask-for-approval", word)),
            # Its sandbox refuses every command where such a folder is named through a symbolic link.
            *(x for folder in request.writable for x in ("--add-dir", os.path.realpath(folder))),
        )
        prompt = _argument(request.prompt) if request.prompt else ()
        return LaunchPlan(
            argv=("codex", "--no-daemon", *options, *request.arguments, *prompt),
            cwd=request.cwd,
            ready=_READY,
        )

    def sight(self, look: Look) -> Sight:
        """By the title, which has a spinner while it works; else by the screen; without both by the thread."""
        if not look.text:  # a turn that goes on may wait for the user
            return Sight("ready" if _has_ended(look.session) else "unknown")
        typed = _typed(look.text)
        if look.title.startswith("[ ! ]") or _QUESTION.search(look.text):
            return Sight("waiting")
        if _SPINNER.match(look.title) or _WORKS.search(look.text):
            return Sight("busy", typed or "")
        return Sight("unknown" if typed is None else "ready", typed or "")


def _words(kind: EventKind, payload: Mapping[str, Any]) -> str:
    """The words of an event: the prompt, the last answer, why it ended, what it asks."""
    if kind == "waiting":
        return permission_asked(payload)
    name = {"prompt": "prompt", "idle": "last_assistant_message", "ended": "reason"}.get(kind, "")
    return text(payload, name)


def _has_ended(session: str) -> bool:
    """Whether the last turn in a thread is over.

    A turn that an error of the model's ends is told by no hook.
    """
    path = rollout(session, home() / "sessions" / "none")
    try:
        with path.open("rb") if path else open("/dev/null", "rb") as file:
            file.seek(max(0, file.seek(0, 2) - TAIL))
            found = _TURN.findall(file.read())
    except OSError:
        return False
    return bool(found) and found[-1] != b"task_started"


def _typed(screen: str) -> str | None:
    """What stands in the input: from the last `›` to the empty line above the footer; None for no input."""
    lines = screen.rstrip().splitlines()
    starts = [number for number, line in enumerate(lines) if re.match(r"›(?:\s|$)", line)]
    ends = [number for number, line in enumerate(lines) if not line.strip()]
    if not starts or not ends or ends[-1] < starts[-1]:
        return None
    box = lines[starts[-1] : ends[-1]]
    words = "\n".join((box[0][1:], *box[1:])).strip()
    return "" if words == _EMPTY else words
