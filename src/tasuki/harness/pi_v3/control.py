"""How agents of pi and oh-my-pi are run in tmux, and what their extension tells. Seen: pi 1.5, omp 18.2."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from tasuki.harness.control import (
    FLEET_MARK,
    AgentEvent,
    AgentRequest,
    EventKind,
    HookReply,
    Look,
    Sight,
)
from tasuki.harness.integration import Addition, OwnFile, percent, text, tokens
from tasuki.harness.protocol import LaunchPlan

EXTENSION = "tasuki-fleet.ts"
ASSET = Path(__file__).with_name("assets") / EXTENSION
KINDS = frozenset(get_args(EventKind)) - {"child_started", "child_ended", "context"}
WORDS = {"prompt": "text", "idle": "text", "waiting": "text", "ended": "reason"}
"""Where an event's words stand."""
SOURCED = frozenset({"started", "compacting", "compacted"})

_RULE = re.compile(r"^[─━]{2,}(?: .* [─━]+|[─━]*)$")
_WORKS = re.compile(r"^[─━]+ (?:[\u2800-\u28ff] |Retrying)")
"""The rule above the input while it works: `── ⠧ Working ───`."""
_TITLE = re.compile(r"π ([\u2800-\u28ff]|>)")
"""The title of oh-my-pi: `π ⠼ title` while it works, else `π > title`."""


class PiControl:
    """Agents of pi; its extension is `home`'s, the folder of its settings."""

    exit_text = "/quit"
    interrupt_keys: tuple[str, ...] = ("Escape",)
    clear_keys: tuple[str, ...] = ("C-e", "C-u")
    enter_gap = 0.3
    chooses_session = False
    skill_at_start = True
    starts_at_prompt = False
    queues_prompts = False
    can_veto = False
    notes: tuple[str, ...] = ()
    program = "pi"
    settles = True
    """It says when a run is really over."""

    def __init__(self, home: Path, ready: str) -> None:
        self.home = home
        self.ready = ready

    def additions(self, hook: str) -> tuple[Addition, ...]:
        path = str(self.home / "extensions" / EXTENSION)
        what = "an extension that tells tasuki's server what the agent does"
        return (OwnFile(path, self._extension(hook), what, FLEET_MARK),)

    def _extension(self, hook: str) -> str:
        source = ASSET.read_text("utf-8")
        for name, default, value in (
            ("HOOK: string", "hook.sh", hook),
            ("HARNESS: string", "pi", self.program),
            ("SETTLES: boolean", True, self.settles),
        ):
            line = f"const {name} = {json.dumps(default)};"
            assert line in source, line
            source = source.replace(line, f"const {name} = {json.dumps(value)};")
        return source

    def event(self, payload: Mapping[str, Any]) -> AgentEvent | None:
        kind, session = text(payload, "event"), text(payload, "session")
        if kind not in KINDS or not session:
            return None
        return AgentEvent(
            kind,  # type: ignore[arg-type]
            session,
            path=text(payload, "path"),
            cwd=text(payload, "cwd"),
            model=text(payload, "model"),
            text=text(payload, WORDS.get(kind, "")),
            turn=text(payload, "turn"),
            source=text(payload, "reason") if kind in SOURCED else "",
            previous=text(payload, "previous"),
            interrupted=kind == "idle" and payload.get("aborted") is True,
            used=percent(payload.get("used")),
            tokens=tokens(payload.get("tokens")),
            window=tokens(payload.get("window")) or None,
        )

    def answer(self, event: AgentEvent, reply: HookReply) -> str:
        """The text itself: the extension puts it before the model with the first prompt."""
        return reply.context if event.kind == "started" else ""

    def start(self, request: AgentRequest) -> LaunchPlan:
        """It asks for no permissions, so there are none to give."""
        model = ("--model", request.model) if request.model else ()
        return LaunchPlan(
            argv=(self.program, *model, *request.arguments, *self._prompt(request.prompt)),
            cwd=request.cwd,
            ready=self.ready,
        )

    def _prompt(self, prompt: str) -> tuple[str, ...]:
        """A prompt as an argument, where it begins neither like an option nor like a file."""
        return ((f" {prompt}" if prompt[0] in "-@" else prompt),) if prompt else ()

    def sight(self, look: Look) -> Sight:
        """By the screen; a program that ended its work without a word cannot be known without it."""
        lines = look.text.rstrip().splitlines()
        rules = [number for number, line in enumerate(lines) if _RULE.match(line)]
        if len(rules) < 2:
            return Sight("unknown")
        top, bottom = rules[-2:]
        typed = "\n".join(line.rstrip() for line in lines[top + 1 : bottom]).strip()
        return Sight("busy" if _WORKS.match(lines[top]) else "ready", typed)


class OmpControl(PiControl):
    """Agents of oh-my-pi."""

    exit_text = "/exit"
    program = "omp"
    settles = False

    def sight(self, look: Look) -> Sight:
        """By the title of its pane; the input stands behind the last `╰─`."""
        found = _TITLE.match(look.title)
        if not found:
            return Sight("unknown")
        before, _, typed = f"\n{look.text.rstrip()}".rpartition("\n╰─")
        words = "\n".join(line.strip() for line in typed.splitlines())
        return Sight("ready" if found[1] == ">" else "busy", words.strip() if before else "")
