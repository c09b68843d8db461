"""How agents of opencode are run in tmux, and what their plugin tells. Seen: 1.18."""

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

from tasuki.errors import ThreadUnreadable
from tasuki.harness.control import (
    FLEET_MARK,
    AgentEvent,
    AgentRequest,
    EventKind,
    HookReply,
    Look,
    Sight,
)
from tasuki.harness.integration import Addition, OwnFile, text, tokens
from tasuki.harness.opencode import _READY, config_folder, data_folder, databases, store
from tasuki.harness.protocol import LaunchPlan

ASSET = Path(__file__).with_name("assets") / "fleet.js"
PERMISSION = "OPENCODE_PERMISSION"
"""Variable with permissions, as JSON, that are laid over those of the configuration."""
QUESTION_LINES = 12
"""Lines at the end of a screen among which a question's choices stand."""

_ID = re.compile(r"\w[\w.-]{0,199}", re.ASCII)
_BOTTOM = re.compile(r"^ *╹▀{8,}")
"""The lower edge of the input. Right of it, on the same lines, may stand other things."""
_BORDER = re.compile(r"^ *┃ *")
_HINT = re.compile(r'Ask anything(?:…|\.\.\.) *"[^\n]*')
_QUESTION = re.compile(r"△ |⇆ select|enter (?:confirm|submit)\b.*|esc dismiss")
_WORKS = re.compile(r"\besc (?:again to )?interrupt\b")


class OpencodeControl:
    """Agents of opencode."""

    exit_text = "/exit"
    interrupt_keys: tuple[str, ...] = ("Escape", "Escape")
    clear_keys: tuple[str, ...] = ("C-e", "C-u")
    enter_gap = 0.5
    chooses_session = False
    skill_at_start = False
    starts_at_prompt = True
    queues_prompts = False
    can_veto = False
    notes: tuple[str, ...] = (
        "At its next start opencode sets up its folder for plugins once, which takes a while.",
    )

    def additions(self, hook: str) -> tuple[Addition, ...]:
        source, line = ASSET.read_text(encoding="utf-8"), 'const HOOK = "hook.sh";'
        assert line in source
        content = source.replace(line, f"const HOOK = {json.dumps(hook)};")
        path = str(config_folder() / "plugin" / "tasuki-fleet.js")
        what = "a plugin that tells tasuki's server what the agent does"
        return (OwnFile(path, content, what, FLEET_MARK),)

    def event(self, payload: Mapping[str, Any]) -> AgentEvent | None:
        kind, session = text(payload, "event"), text(payload, "session")
        if kind not in get_args(EventKind) or not _ID.fullmatch(session):
            return None
        used, window = (tokens(payload.get(name)) or None for name in ("tokens", "window"))
        return AgentEvent(
            kind,  # type: ignore[arg-type]
            session,
            path=_path(session),
            cwd=text(payload, "cwd"),
            model=text(payload, "model"),
            text=text(payload, "reason" if kind == "ended" else "text"),
            turn=text(payload, "turn"),
            source=text(payload, "source"),
            previous=text(payload, "previous"),
            child=text(payload, "child"),
            interrupted=payload.get("aborted") is True,
            used=100 * used / window if used and window else None,
            tokens=used,
            window=window,
        )

    def answer(self, event: AgentEvent, reply: HookReply) -> str:
        """Nothing: its session starts with the first prompt, which is the skill."""
        return ""

    def start(self, request: AgentRequest) -> LaunchPlan:
        """What it may do unasked stands in its configuration; the writable folders are added to that."""
        model = ("--model", request.model) if request.model else ()
        prompt = (f"--prompt={request.prompt}",) if request.prompt else ()
        return LaunchPlan(
            argv=("opencode", *model, *request.arguments, *prompt),
            cwd=request.cwd,
            env=_allowed(request.writable),
            ready=_READY,
        )

    def sight(self, look: Look) -> Sight:
        """By the screen: the line below the input tells that it works; a question has the input's place."""
        lines = look.text.rstrip().splitlines()
        edges = [(n, found.end()) for n, line in enumerate(lines) if (found := _BOTTOM.match(line))]
        bottom, width = edges[-1] if edges else (len(lines) - QUESTION_LINES, 0)
        below = lines[max(0, bottom + 1) :]
        if any(_BORDER.match(line) and _QUESTION.search(line) for line in below):
            return Sight("waiting")
        if not edges:
            return Sight("unknown")
        typed = _typed(lines[:bottom], width)
        return Sight("busy" if any(map(_WORKS.search, below)) else "ready", typed)


def _typed(lines: list[str], width: int) -> str:
    """What stands in the box that these lines end with, above the line that names the model."""
    box: list[str] = []
    while lines and _BORDER.match(lines[-1]):
        box.insert(0, _BORDER.sub("", lines.pop()[:width]).rstrip())
    words = "\n".join(box[:-1]).strip()
    return "" if _HINT.fullmatch(words) else words


def _allowed(folders: tuple[str, ...]) -> dict[str, str]:
    """The environment in which some folders outside of the project may be written to."""
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


def _path(session: str) -> str:
    """Where a session is kept, as its thread is named."""
    found = databases()
    for database in found[: len(found) if len(found) > 1 else 0]:
        with suppress(ThreadUnreadable):
            if store.is_listed(database, session):
                return str(database / session)
    return str((found[0] if found else data_folder() / "opencode.db") / session)
