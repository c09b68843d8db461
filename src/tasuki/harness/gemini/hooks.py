"""What tasuki adds to Gemini CLI, and how its agents run in a fleet. Seen: 0.61.

A command is a prompt to which Gemini appends what was typed, so its hook sees both. Our
prompt is a remark that tells the model what to do where the hook did not run.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import structs

from tasuki.harness import claude_shape, integration, protocol, questions
from tasuki.harness.dialogs import DialogRows, begin_at_title, read_dialog
from tasuki.harness.gemini.format import SNAPSHOT
from tasuki.harness.gemini.head import get_home
from tasuki.harness.integration import Addition, HookAnswer, HookCall, get_text
from tasuki.harness.plans import BaseControl
from tasuki.harness.typed_text import SURE_ROWS, read_rows
from tasuki.patterns import compile_pattern

ASSETS = Path(__file__).with_name("assets")
HOOKS = claude_shape.HookFile("gemini", get_home, "settings.json", 1000, "tasuki")
REMARK = "<!-- tasuki: "
"""The start of the command's prompt; `-->` ends the remark, and what was typed follows."""
WINDOW = 1_048_576
"""Tokens of the context of Gemini's models, which no thread names."""

KINDS: Mapping[str, protocol.EventKind] = {
    "SessionStart": "started",
    "BeforeAgent": "prompt",
    "AfterAgent": "idle",
    "Notification": "waiting",
    "SessionEnd": "ended",
}
"""Hooks and the kinds of their events.

None is for compactions: that hook fires before every request to the model, and nothing
reports the end of a compaction.
"""
WORDS = {"prompt": "prompt", "idle": "prompt_response", "waiting": "message", "ended": "reason"}
SECONDS = 5
"""Time limit of a hook of a fleet."""
MODES = frozenset({"default", "auto_edit", "yolo", "plan"})

_STATES = {"◇": "ready", "✦": "busy", "✋": "waiting"}
"""The first character of its pane's title."""
_TOP = compile_pattern(r"▄{8,}|─{8,}")
_BOTTOM = compile_pattern(r"▀{8,}|─{8,}")
"""The edges of the input; rules where colours are off."""
_SIGN = compile_pattern(r" [>*] ")
_EMPTY = compile_pattern(r"Type your message.*|Press '(?:i|Esc)' for [A-Z]+ mode\.")
_ABOVE_DIALOG = compile_pattern(r"╭─")
"""The upper edge of a dialog; that of a box in it is indented."""
_FRAME = compile_pattern(r" *│ *│ *$")
_ASKS = "Answer Questions"
"""The title of a dialog in which the agent itself asks something."""
_FIRST = (
    compile_pattern(r"Do you trust the files in this folder\?"), compile_pattern("Trust folder"),
)  # fmt: skip
"""The title and the first choice of what it asks before its first prompt."""


DEFAULT_RETENTION_DAYS = 30.0
"""Days after which Gemini CLI deletes sessions, unless told otherwise."""
_AGE = compile_pattern(r"([1-9][0-9]{0,6})([hdwm])")
_DAYS = {"h": 1 / 24, "d": 1.0, "w": 7.0, "m": 30.0}


class GeminiIntegration(integration.HarnessIntegration):
    """The command `/handoff`, hooks, a skill and the tools."""

    notes: tuple[str, ...] = ("Sessions that are open get it once you restart them.",)
    own_commands = ("commands/handoff.toml",)

    def list_command_folders(self, cwd: Path) -> tuple[Path, ...]:
        return (get_home(), cwd / ".gemini")

    def list_additions(self, tasuki: tuple[str, ...]) -> tuple[Addition, ...]:
        folder, command, skill = get_home(), self.own_commands[0], "skills/handing-off/SKILL.md"
        events, patterns = ("BeforeAgent", "AfterAgent"), (f"""*'"prompt":"{REMARK}'*""",)
        server = integration.build_tools_server(tasuki)
        return (
            integration.copy_asset(folder, command, ASSETS / "command.toml", integration.COMMAND),
            integration.copy_asset(folder, skill, ASSETS / "skill.md", integration.SKILL),
            *HOOKS.list_handoff_hooks(tasuki, "/handoff", patterns, events),
            *integration.build_tools_entries(str(HOOKS.get_path()), ("mcpServers",), server),
        )

    def list_compaction_additions(self, tasuki: tuple[str, ...]) -> tuple[Addition, ...]:
        return HOOKS.list_compaction_hooks(tasuki, (("BeforeModel", "", f"*'{SNAPSHOT}'*"),))

    def format_answer(self, call: HookCall, answer: HookAnswer) -> str:
        if call.kind not in integration.COMPACTION_KINDS or not answer.context:
            return super().format_answer(call, answer)
        # The request to the model, with the block behind the newest summary in it.
        last = max(n for n, m in enumerate(call.messages) if SNAPSHOT in get_text(m, "content"))
        messages = list(call.messages)
        messages[last] = {
            **messages[last], "content": f"{messages[last]['content']}\n\n{answer.context}",
        }  # fmt: skip
        return claude_shape.format_output(call.event, llm_request={"messages": messages})

    def parse_hook_call(self, payload: Mapping[str, Any]) -> HookCall | None:
        call = structs.replace(claude_shape.build_call(payload), window=WINDOW)
        event = get_text(payload, "hook_event_name")
        if event == "BeforeModel":
            return _parse_request(call, payload.get("llm_request"))
        if event == "BeforeAgent":
            prompt = get_text(payload, "prompt")
            if prompt.startswith(REMARK):
                prompt = prompt.partition("-->")[2] or "/handoff"
            goal = integration.parse_goal(prompt, "/handoff")
            return None if goal is None else structs.replace(call, kind="handoff", text=goal)
        return call if event == "AfterAgent" else None

    def find_retention_days(self) -> float | None:
        """Return `general.sessionRetention.maxAge` in days; on by default with 30 days. Seen: 0.61."""
        general = integration.read_setting(HOOKS.get_path(), "general")
        retention = general.get("sessionRetention") if isinstance(general, Mapping) else None
        if not isinstance(retention, Mapping):
            return DEFAULT_RETENTION_DAYS
        if retention.get("enabled") is False:
            return None
        age = _AGE.fullmatch(str(retention.get("maxAge", "")))
        return int(age[1]) * _DAYS[age[2]] if age else DEFAULT_RETENTION_DAYS

    def find_obstacles(self, cwd: Path = Path()) -> tuple[str, ...]:
        path = HOOKS.get_path()
        refuses = "Gemini CLI does not start with"
        if rejected := integration.find_rejected_json(path, refuses, ("comments",)):
            return rejected
        hooks = integration.read_setting(path, "hooksConfig")
        if not isinstance(hooks, Mapping):
            return ()
        if hooks.get("enabled") is False:
            return (f'Hooks are switched off. Remove "hooksConfig.enabled" from {path}.',)
        off = hooks.get("disabled")
        if isinstance(off, list) and "tasuki" in off:
            return ("The hooks of tasuki are switched off. In gemini: /hooks enable tasuki",)
        return ()


def _parse_request(call: HookCall, request: object) -> HookCall | None:
    """Parse a request to the model that holds the summary of a compaction; None for another.

    The hook runs before each request, and its answer is stored nowhere.
    """
    messages = request.get("messages") if isinstance(request, Mapping) else None
    if not isinstance(messages, list) or not all(isinstance(m, Mapping) for m in messages):
        return None
    texts = [get_text(message, "content") for message in messages]
    holding = [number for number, text in enumerate(texts) if SNAPSHOT in text]
    if not holding:
        return None
    in_view = "\n".join(text for number, text in enumerate(texts) if number != holding[-1])
    summary = texts[holding[-1]]
    return structs.replace(
        call, kind="compacted", text=summary, in_view=in_view, messages=tuple(messages), event="BeforeModel"
    )  # fmt: skip


class GeminiControl(BaseControl):
    """Agents of Gemini CLI."""

    exit_text = "/quit"
    pasted = compile_pattern(
        r"\[Pasted Text: (?:(?P<lines>\d+) lines|(?P<chars>\d+) chars)(?: #\d+)?\]"
    )
    skill_at_start = True
    queues_prompts = True
    notes: tuple[str, ...] = (
        "Gemini CLI asks before it writes a file, including the handoff document, unless its agents are "
        "started with --approval-mode=auto_edit.",
    )

    def list_additions(self, hook: str) -> tuple[Addition, ...]:
        return HOOKS.list_fleet_hooks(KINDS, hook, SECONDS)

    def parse_event(self, payload: Mapping[str, Any]) -> protocol.AgentEvent | None:
        event = claude_shape.parse_event(payload, KINDS)
        waits = event is not None and event.kind == "waiting"
        is_other = get_text(payload, "notification_type") != "ToolPermission"
        if event is None or (waits and is_other):
            return None
        return structs.replace(
            event,
            text=get_text(payload, WORDS.get(event.kind, "")),
            question=_parse_question(payload) if waits else None,
            turn=_derive_turn_id(get_text(payload, "prompt")),
        )

    def format_reply(self, event: protocol.AgentEvent, reply: protocol.HookReply) -> str:
        """Format the context of a session's start, in which Gemini escapes `<` and `&`."""
        return claude_shape.format_start_context(event, reply)

    def list_options(self, request: protocol.AgentRequest) -> tuple[str, ...]:
        mode = request.permission if request.permission in MODES else ""
        return (
            *super().list_options(request),
            *(("--approval-mode", mode) if mode else ()),
            *(f"--include-directories={folder}" for folder in request.writable),
        )

    def read_screen(self, screenshot: protocol.Screenshot) -> protocol.ScreenState:
        """Read the state from the title of its pane, else from the screen."""
        shown = _read_input(screenshot)
        if state := _STATES.get(screenshot.title[:1]):
            return structs.replace(shown, state=state)
        works = "(esc to cancel, " in screenshot.text
        return structs.replace(shown, state="busy") if works else shown

    def read_question(self, screenshot: protocol.Screenshot) -> questions.ScreenQuestion | None:
        """Read its dialog; a digit takes a choice. Only a question of the agent is shown as it is."""
        found = read_dialog(screenshot.text, _ABOVE_DIALOG, _find_subject)
        if found is None:
            return None
        found = structs.replace(found, is_faithful=_ASKS in "".join(found.above))
        return begin_at_title(found, *_FIRST)


def _find_subject(rows: Sequence[str]) -> DialogRows:
    """Find what stands in a box of its own within a dialog: a command, or a change of a file."""
    boxed = [number for number, row in enumerate(rows) if row.startswith("│ │ ")]
    if not boxed:
        return DialogRows()
    start, end = boxed[0], boxed[-1] + 1
    subject = tuple(_FRAME.sub("", row.removeprefix("│ │ ")) for row in rows[start:end])
    return DialogRows(start, end, subject)


def _parse_question(payload: Mapping[str, Any]) -> questions.AskedQuestion | None:
    """Parse what a tool may not do unasked; None for a question whose words only the screen has."""
    details = payload.get("details")
    if not isinstance(details, Mapping) or details.get("type") == "ask_user":
        return None
    title = get_text(details, "title").removeprefix("Confirm ").partition(":")[0] or "a tool"
    text = f"Allow {title}?"
    if command := get_text(details, "command"):
        return questions.AskedQuestion(
            text, command, subject=questions.DialogSubject("command", command)
        )
    if diff := get_text(details, "fileDiff"):
        file = get_text(details, "filePath") or get_text(details, "fileName")
        place = questions.name_file(file, get_text(payload, "cwd"))
        lines = diff.partition("\n@@")[2].split("\n")[1:]
        new, old = ("\n".join(x[1:] for x in lines if x[:1] in (" ", sign)) for sign in "+-")
        change = questions.DialogSubject("change", new, old, place)
        return questions.AskedQuestion(text, diff, subject=change, file=file)
    rest = {key: value for key, value in details.items() if key not in ("type", "title")}
    return structs.replace(
        questions.describe_tool_call(get_text(details, "toolName"), rest), text=text
    )


def _derive_turn_id(prompt: str) -> str:
    """Derive an id from the prompt: turns have no ids, but their ends repeat the prompt."""
    return hashlib.sha256(prompt.encode("utf-8", "replace")).hexdigest()[:16] if prompt else ""


def _read_input(screenshot: protocol.Screenshot) -> protocol.ScreenState:
    """Read the input between its edges, after its sign; that of a shell counts as none."""
    lines = screenshot.text.rstrip().splitlines()
    ends = [number for number, line in enumerate(lines) if _BOTTOM.match(line)]
    starts = [n for n, line in enumerate(lines) if _TOP.match(line) and n < max(ends, default=0)]
    if not starts or not _SIGN.match(lines[starts[-1] + 1]):
        return protocol.ScreenState("unknown")
    words = read_rows(screenshot, starts[-1] + 1, ends[-1], 3, _EMPTY)
    return protocol.ScreenState("ready", words, ends[-1] - starts[-1] - 1 <= SURE_ROWS)
