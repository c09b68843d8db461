"""What tasuki adds to pi and oh-my-pi, how their agents run in a fleet, and what they answer."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec
from msgspec import Struct, structs

from tasuki.harness import integration, protocol
from tasuki.harness.pi_v3.format import LINE, PiMessage, build_argument, extract_text
from tasuki.harness.plans import CUT_OFF, FLEET_MARK, BaseControl
from tasuki.harness.questions import ScreenQuestion
from tasuki.harness.reading.jsonl import decode_lines, scan_folder
from tasuki.harness.typed_text import SURE_ROWS, read_rows
from tasuki.patterns import compile_pattern

PACKAGE = Path(__file__).with_name("package")
"""The pi package: `pi install` takes it as it is, where tasuki is on the PATH."""
EXTENSION = "tasuki-handoff.ts"
FLEET_EXTENSION = "tasuki-fleet.ts"
COMPACTION_EXTENSION = "tasuki-compaction.ts"
ASSETS = Path(__file__).with_name("assets")
KINDS = frozenset(get_args(protocol.EventKind)) - {"child_started", "child_ended", "context"}
WORDS = {"prompt": "text", "idle": "text", "waiting": "text", "ended": "reason"}
"""The member of the payload that holds an event's words."""
SOURCED = frozenset({"started", "compacting", "compacted"})

_RULE = compile_pattern(r"^[─━]{2,}(?: .* [─━]+|[─━]*)$")
_CUT = compile_pattern(r"[─━]+ [↑↓] \d+ more [─━]")
"""The rule at which its input goes on out of sight."""
MARGIN = 5
"""Columns that a line of words leaves free: its sign, and the cursor with two columns beside it."""
_DIALOG = compile_pattern(r"\benter (submit|select)\b.*\bcancel\s*$")
"""The hint below a dialog of an extension, which stands in the place of the input."""
_WORKS = compile_pattern(r"^[─━]+ (?:[\u2800-\u28ff] |Retrying)")
"""The rule above the input while it works: `── ⠧ Working ───`."""
_TITLE = compile_pattern(r"π ([\u2800-\u28ff]|>)")
"""The title of oh-my-pi: `π ⠼ title` while it works, else `π > title`."""


class PiIntegration(integration.HarnessIntegration):
    """A command whose handoff is reviewed in the program's own editor, for pi or omp.

    `home` is the program's agent folder, `name` that of the command.
    """

    waits_after_compaction = True
    """It sends nothing to the model before the listeners to a compaction are done."""

    def __init__(
        self, harness: str, home: Path, name: str = "handoff", notes: tuple[str, ...] = ()
    ) -> None:
        self.harness = harness
        self.home = home
        self.name = name
        self.command = f"/{name} GOAL"
        self.notes = notes

    def list_additions(self, tasuki: tuple[str, ...]) -> tuple[integration.Addition, ...]:
        path, asset = self.home / "extensions" / EXTENSION, PACKAGE / "extensions" / EXTENSION
        constants = {
            "TASUKI: string[]": (["tasuki"], list(tasuki)),
            "HARNESS: string": ("pi", self.harness),
            "COMMAND: string": ("handoff", self.name),
        }
        purpose = (
            f"an extension: the command /{self.name}, and a suggestion when the context fills up"
        )
        skill, config = "skills/handing-off/SKILL.md", str(self.home / "mcp.json")
        server = {**integration.build_tools_server(tasuki), "exposure": "direct"}
        return (
            integration.build_script(path, asset, constants, purpose),
            integration.copy_asset(self.home, skill, PACKAGE / skill, integration.SKILL),
            *integration.build_tools_entries(config, ("mcpServers",), server),
        )

    def list_compaction_additions(
        self, tasuki: tuple[str, ...]
    ) -> tuple[integration.Addition, ...]:
        path, asset = self.home / "extensions" / COMPACTION_EXTENSION, ASSETS / COMPACTION_EXTENSION
        constants = {
            "TASUKI: string[]": (["tasuki"], list(tasuki)),
            "HARNESS: string": ("pi", self.harness),
            "REPLACES: boolean": (True, self.asks_before_compaction()),
            "WAITS: boolean": (True, self.waits_after_compaction),
        }
        purpose, mark = integration.COMPACTION_PURPOSE, integration.COMPACTION_FILE_MARK
        return (integration.build_script(path, asset, constants, purpose, mark),)

    def asks_before_compaction(self) -> bool:
        """Return whether the extension takes part before a compaction, too."""
        return True

    def parse_hook_call(self, payload: Mapping[str, Any]) -> integration.HookCall | None:
        """Parse the end of a turn or a compaction; the extension itself creates the handoff."""
        event = payload.get("event")
        call = integration.HookCall(
            "turn",
            integration.get_text(payload, "path"),
            integration.get_text(payload, "thread"),
            integration.get_text(payload, "cwd"),
            used=integration.parse_percent(payload.get("used")),
        )
        if event == "compacting":
            words = integration.get_text(payload, "instructions")
            return structs.replace(call, kind="compacting", text=words, can_replace=True)
        if event == "compacted":
            return structs.replace(call, kind="compacted", is_recorded=True)
        return call if event == "turn" else None

    def format_answer(self, call: integration.HookCall, answer: integration.HookAnswer) -> str:
        return integration.format_plugin_answer(call, answer)

    def find_obstacles(self, cwd: Path = Path()) -> tuple[str, ...]:
        path = self.home / "settings.json"
        listed = integration.read_setting(path, "extensions")
        names = map(str, listed) if isinstance(listed, list) else ()
        if any(name.startswith(("-", "!")) and EXTENSION in name for name in names):
            return (f'The extension is switched off. Remove it from "extensions" in {path}.',)
        if self.harness != "pi":
            return ()
        return integration.find_rejected_json(
            self.home / "mcp.json", "pi skips the whole of", ("mark",)
        )


class OmpIntegration(PiIntegration):
    """The same for oh-my-pi.

    Whoever listens before its compactions stops those that it makes in the background, so that
    is done only where tasuki writes the summary.
    """

    waits_after_compaction = False

    def asks_before_compaction(self) -> bool:
        from tasuki.config.settings import load_settings

        return load_settings(Path.cwd()).compaction == "replace"


class PiControl(BaseControl):
    """Agents of pi, which ask for no permissions; the extension is in `home`, the settings folder."""

    exit_text = "/quit"
    enter_gap = 0.3
    pasted = compile_pattern(r"\[paste #\d+ (?:\+(?P<lines>\d+) lines|(?P<chars>\d+) chars)\]")
    blank_shields = False
    skill_at_start = True
    settles = True
    """It reports when a run is really over."""

    def __init__(self, program: str, ready: str, home: Path) -> None:
        super().__init__(program, ready, build_argument)
        self.home = home

    def list_additions(self, hook: str) -> tuple[integration.Addition, ...]:
        path, asset = self.home / "extensions" / FLEET_EXTENSION, ASSETS / FLEET_EXTENSION
        purpose = "an extension that tells tasuki's server what the agent does"
        constants = {
            "HOOK: string": ("hook.sh", hook),
            "HARNESS: string": ("pi", self.program),
            "SETTLES: boolean": (True, self.settles),
        }
        return (integration.build_script(path, asset, constants, purpose, FLEET_MARK),)

    def parse_event(self, payload: Mapping[str, Any]) -> protocol.AgentEvent | None:
        kind, session = (integration.get_text(payload, name) for name in ("event", "session"))
        if kind not in KINDS or not session:
            return None
        return protocol.AgentEvent(
            kind,  # type: ignore[arg-type]
            session,
            path=integration.get_text(payload, "path"),
            cwd=integration.get_text(payload, "cwd"),
            model=integration.get_text(payload, "model"),
            text=integration.get_text(payload, WORDS.get(kind, "")),
            turn=integration.get_text(payload, "turn"),
            source=integration.get_text(payload, "reason") if kind in SOURCED else "",
            previous=integration.get_text(payload, "previous"),
            interrupted=kind == "idle" and payload.get("aborted") is True,
            error=integration.get_text(payload, "error") if kind == "idle" else "",
            used=integration.parse_percent(payload.get("used")),
            tokens=integration.parse_tokens(payload.get("tokens")),
            window=integration.parse_tokens(payload.get("window")) or None,
        )

    def format_reply(self, event: protocol.AgentEvent, reply: protocol.HookReply) -> str:
        """Return the text itself: the extension shows it to the model with the first prompt."""
        return reply.context if event.kind == "started" else ""

    def read_screen(self, screenshot: protocol.Screenshot) -> protocol.ScreenState:
        """Read the state from the screen.

        Without the screen, the end of work that no event reports cannot be known.
        """
        lines, top, bottom = _find_box(screenshot)
        if not bottom:
            return protocol.ScreenState("unknown")
        if any(map(_DIALOG.search, lines[top + 1 : bottom])):
            return protocol.ScreenState("waiting")
        is_cut = any(_CUT.match(lines[number]) for number in (top, bottom))
        words = read_rows(screenshot, top + 1, bottom, 0)
        return protocol.ScreenState(
            "busy" if _WORKS.match(lines[top]) else "ready", words, not is_cut
        )

    def read_field(self, screenshot: protocol.Screenshot) -> protocol.ScreenField | None:
        """Read the words in a dialog of an extension: one line, which shows the end of a long text."""
        lines, top, bottom = _find_box(screenshot)
        fields = [line[2:].rstrip() for line in lines[top + 1 : bottom] if line.startswith("> ")]
        if not fields:
            return None
        return protocol.ScreenField(
            "", fields[-1], len(fields[-1]) + MARGIN < len(lines[top].rstrip())
        )

    def read_question(self, screenshot: protocol.Screenshot) -> ScreenQuestion | None:
        """Read what a dialog of an extension asks; only one for words can be answered from here."""
        lines, top, bottom = _find_box(screenshot)
        box = lines[top + 1 : bottom]
        hint = next((match for line in box if (match := _DIALOG.search(line))), None)
        text = next((line.strip() for line in box if line.strip()), "")
        return ScreenQuestion(text, text_keys=() if hint[1] == "submit" else None) if hint else None


class OmpControl(PiControl):
    """Agents of oh-my-pi."""

    exit_text = "/exit"
    pasted = compile_pattern(r"📄 #\d+")
    code_signs = "!$"
    settles = False

    def read_screen(self, screenshot: protocol.Screenshot) -> protocol.ScreenState:
        """Read the state from the title of its pane; the input follows the last `╰─`."""
        match = _TITLE.match(screenshot.title)
        if not match:
            return protocol.ScreenState("unknown")
        state: Literal["ready", "busy"] = "ready" if match[1] == ">" else "busy"
        lines = screenshot.text.rstrip().splitlines()
        starts = [number for number, line in enumerate(lines) if line[:3].rstrip() == "╰─"]
        if not starts:
            return protocol.ScreenState(
                state, asks_about_paste="│ Esc to paste inline" in screenshot.text
            )
        below = range(starts[-1] + 1, len(lines))
        end = next((number for number in below if not lines[number].startswith("   ")), len(lines))
        words = read_rows(screenshot, starts[-1], end, 3)
        return protocol.ScreenState(state, words, end - starts[-1] <= SURE_ROWS)


def _find_box(screenshot: protocol.Screenshot) -> tuple[list[str], int, int]:
    """Return the lines, and the rules around the input or the dialog in its place; zeros for none."""
    lines = screenshot.text.rstrip().splitlines()
    rules = [number for number, line in enumerate(lines) if _RULE.match(line)]
    return (lines, rules[-2], rules[-1]) if len(rules) > 1 else (lines, 0, 0)


TAIL_BYTES = 8 << 20
"""How far back from the end of the record the question is searched."""


class _PiAnswerCost(Struct):
    total: float = 0.0


_COST = msgspec.json.Decoder(_PiAnswerCost)


def parse_answer(request: protocol.AskRequest) -> protocol.AskAnswer:
    """Parse the last message after the question, from the record in the scratch folder."""
    messages = _list_answers(request)
    if not messages:
        return protocol.AskAnswer()
    last = messages[-1]
    failed = last.errorMessage or "an error without a message" if last.stopReason == "error" else ""
    error = CUT_OFF if last.stopReason == "length" else failed
    usages = [message.usage for message in messages if message.usage]
    price = sum(cost.total for cost in decode_lines((bytes(u.cost) for u in usages), _COST))
    return protocol.AskAnswer(
        text="" if error else extract_text(last.content),
        model=last.model,
        input_tokens=sum(u.input + u.cacheRead + u.cacheWrite for u in usages),
        output_tokens=sum(u.output for u in usages),
        price=round(price, 6) if price else None,
        aborted=any(message.stopReason == "aborted" for message in messages),
        error=error,
    )


def _list_answers(request: protocol.AskRequest) -> list[PiMessage]:
    """List the agent's messages after the question; empty where the record does not hold it."""
    question = request.question.strip()
    answers: list[PiMessage] = []
    has_question = False
    for line in decode_lines(_read_tail(Path(request.scratch)), LINE):
        message = line.message
        if line.type != "message" or message is None:
            continue
        if message.role == "user":
            has_question, answers = extract_text(message.content).strip().endswith(question), []
        elif message.role == "assistant" and has_question:
            answers.append(message)
    return answers


def _read_tail(folder: Path) -> list[bytes]:
    """Read the end of the newest record in a folder."""
    records = [e for e in scan_folder(folder) if e.name.endswith(".jsonl")]
    newest = max(records, key=lambda e: e.stat().st_mtime_ns, default=None)
    return Path(newest.path).read_bytes()[-TAIL_BYTES:].splitlines() if newest else []
