"""Claude Code: `~/.claude/projects/<folder>/<session>.jsonl`. Seen: 2.0.76, 2.1.330."""

import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from tasuki.harness.claude.head import get_projects_folder, list_threads, read_head
from tasuki.harness.integration import HarnessIntegration
from tasuki.harness.parts import ThreadPart
from tasuki.harness.plans import CUT_OFF, MAX_ARGUMENT, TOO_LONG, choose_ask_folder
from tasuki.harness.protocol import (
    AgentControl,
    AskAnswer,
    AskPlan,
    AskRequest,
    CallerIdentity,
    LaunchPlan,
    LaunchRequest,
    ThreadFile,
    ThreadFollower,
)
from tasuki.harness.reading.jsonl import decode_lines, split_output
from tasuki.model import Thread, ThreadHead
from tasuki.patterns import compile_pattern

OWN_VARIABLES = ("CLAUDECODE", "CLAUDE_CODE_CHILD_SESSION", "CLAUDE_CODE_SESSION_ID")

_FIRST_KEYS = compile_pattern(
    rb'"(?:sessionId|parentUuid|leafUuid)"|"type": ?"(?:summary|file-history-snapshot)"'
)
_NOT_OURS = compile_pattern(
    rb'\A\s*\{(?:\s*\Z|"(?:timestamp|ordinal|info)")|"type": ?"session(?:_meta|\.start)?"'
    rb'|\A\s*\{"sessionId": ?"[^"]*", ?"projectHash"'
)
_READY = r"^[❯>]\s"
"""It is at the edge of the screen: the cursor of a dialog is one column further in."""
SETTINGS = '{"disableAllHooks":true,"autoMemoryEnabled":false,"cleanupPeriodDays":36500}'
"""Settings without the user's hooks and without a folder for memories.

Nothing old is deleted either: a start of Claude Code deletes threads that were not written
to for 30 days, and the one in question may be among them.
"""
FLAGS = (
    *("-p", "--fork-session", "--no-session-persistence"),
    *("--output-format", "stream-json", "--verbose"),  # `json` names no model and holds one block
    *("--settings", SETTINGS, "--tools", "", "--strict-mcp-config"),
)
_COST = b'{"type":"cost-state"'


class Claude:
    """The adapter of Claude Code."""

    name = "claude"
    title = "Claude Code"
    program = "claude"
    can_start = True
    can_prefill = True
    can_ask = True
    caller = CallerIdentity("claude-code", variable="CLAUDE_CODE_SESSION_ID")

    def list_files(self, cwd: Path | None = None) -> Iterator[ThreadFile]:
        return list_threads(cwd)

    def is_thread_file(self, path: Path, first: bytes) -> bool:
        line = first.lstrip().partition(b"\n")[0]
        return (
            line.startswith(b"{")
            and not _NOT_OURS.search(line[:200])
            and bool(_FIRST_KEYS.search(first))
        )

    def read_head(self, file: ThreadFile) -> ThreadHead | None:
        return read_head(file)

    def read(self, path: Path) -> Thread:
        from tasuki.harness.claude.read import ClaudeReader  # not needed to list threads

        return ClaudeReader(path).read()

    def follow(self, path: Path) -> ThreadFollower:
        from tasuki.harness.claude.read import ClaudeReader

        return ClaudeReader(path, follows=True)

    def list_parts(self, path: Path, cwd: str) -> tuple[ThreadPart, ...]:
        """List the file, and the long outputs of tools that are in files beside it."""
        outputs = sorted((path.with_suffix("") / "tool-results").glob("*.*"))
        beside = (ThreadPart(f"{path.stem}/tool-results/{o.name}", str(o)) for o in outputs)
        return (ThreadPart(path.name, str(path)), *beside)

    def read_for_draft(self, path: Path) -> Thread:
        """Read a thread whose outputs stay in the file until somebody asks for them."""
        from tasuki.harness.claude.read import ClaudeReader

        return ClaudeReader(path, leaves_outputs=True).read()

    def format_skill_command(self, skill: str) -> str:
        return f"/{skill}"

    def list_skill_folders(self, cwd: Path) -> tuple[Path, ...]:
        return (cwd / ".claude" / "skills", get_projects_folder().parent / "skills")

    def plan(self, request: LaunchRequest) -> LaunchPlan:
        """Plan `claude --prefill TEXT`, or the prompt itself where it is to be sent at once."""
        text = request.brief
        model = ("--model", request.model) if request.model else ()
        fits = len(text.encode()) <= MAX_ARGUMENT
        argument: tuple[str, ...] = ()
        if fits:
            argument = (text,) if request.send else ("--prefill", text)
        return LaunchPlan(
            argv=(self.program, *model, *request.arguments, *argument),
            cwd=request.cwd,
            unset=OWN_VARIABLES,
            paste="" if fits else text,
            ready=_READY,
            note=TOO_LONG if request.send and not fits else "",
        )

    def ask(self, request: AskRequest) -> AskPlan:
        """Plan `claude -p --resume ID --fork-session …`, a fork that is not kept. Seen: 2.1.330.

        The file's path replaces the id where the thread is stored elsewhere.
        """
        path = Path(request.thread.path)
        own = path.parent.parent == get_projects_folder() and path.stem == request.thread.id
        schema = ("--json-schema", request.schema) if request.schema else ()
        return AskPlan(
            argv=(self.program, *FLAGS, *schema, "--resume", path.stem if own else str(path)),
            cwd=choose_ask_folder(request),
            stdin=request.question,
            unset=OWN_VARIABLES,
        )

    def parse_answer(self, output: str, request: AskRequest) -> AskAnswer:
        """Parse the last message, or what it gave as structured output."""
        texts: list[str] = []
        id = model = ""
        end = _ClaudeAnswerLine()
        for line in decode_lines(split_output(output), _LINE):
            if line.type == "result":
                end = line
            elif line.type == "assistant" and line.message and not line.parent_tool_use_id:
                if line.message.id != id:
                    id, texts = line.message.id, []
                model = line.message.model
                texts += _list_texts(line.message)
        error = _find_error(end)
        if request.schema and end.structured_output is not UNSET:
            texts = [bytes(end.structured_output).decode("utf-8", "replace")]
        usage = end.usage
        return AskAnswer(
            text="" if error else "\n".join(texts),
            model="" if model.startswith("<") else model,
            input_tokens=usage.input_tokens
            + usage.cache_creation_input_tokens
            + usage.cache_read_input_tokens,
            output_tokens=usage.output_tokens,
            price=_compute_price(end.total_cost_usd, Path(request.thread.path)),
            aborted=(end.terminal_reason or "").startswith("aborted"),
            error=error,
        )

    def build_resume_command(self, thread: Thread) -> tuple[str, ...]:
        return (self.program, "--resume", thread.id)

    def is_signed_in(self) -> bool | None:
        """Tell whether there are credentials of it; on macOS they may be in the keychain."""
        from tasuki.harness.reading.credentials import find_credentials

        names = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
        found = find_credentials(names, [get_projects_folder().parent / ".credentials.json"])
        return found or (None if sys.platform == "darwin" else False)

    def get_integration(self) -> HarnessIntegration:
        from tasuki.harness.claude.hooks import ClaudeIntegration

        return ClaudeIntegration()

    def get_control(self) -> AgentControl:
        from tasuki.harness.claude.hooks import ClaudeControl

        return ClaudeControl(self.program, _READY, lambda prompt: ("--", prompt), OWN_VARIABLES)


# -- what an agent answers -----------------------------------------------------------------


class _ClaudeAnswerBlock(Struct):
    type: str = ""
    text: str = ""


class _ClaudeAnswerUsage(Struct):
    input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0
    output_tokens: int = 0


class _ClaudeAnswerMessage(Struct):
    id: str = ""
    model: str = ""
    content: str | list[_ClaudeAnswerBlock] = []


class _ClaudeAnswerLine(Struct):
    """A line of `--output-format stream-json`; the last one is of type `result`."""

    type: str = ""
    message: _ClaudeAnswerMessage | None = None
    parent_tool_use_id: str | None = None
    subtype: str = ""
    is_error: bool = False
    errors: list[str] = []
    result: str = ""
    structured_output: Raw | UnsetType = UNSET
    stop_reason: str | None = None
    terminal_reason: str | None = None
    total_cost_usd: float | None = None
    usage: _ClaudeAnswerUsage = msgspec.field(default_factory=_ClaudeAnswerUsage)


class _ClaudeCost(Struct):
    totalCostUSD: float = 0.0


_LINE = msgspec.json.Decoder(_ClaudeAnswerLine)
_COST_LINE = msgspec.json.Decoder(_ClaudeCost)


def _list_texts(message: _ClaudeAnswerMessage) -> list[str]:
    if isinstance(message.content, str):
        return [message.content]
    return [block.text for block in message.content if block.type == "text"]


def _find_error(end: _ClaudeAnswerLine) -> str:
    if end.stop_reason == "max_tokens":
        return CUT_OFF
    if not end.is_error:
        return ""
    return end.result or "; ".join(end.errors) or end.subtype or "an error without a message"


def _compute_price(total: float | None, path: Path) -> float | None:
    """Compute the price of this question: the total includes what the thread itself had cost."""
    if total is None:
        return None
    before = 0.0
    try:
        with path.open("rb") as file:
            for cost in decode_lines((li for li in file if li.startswith(_COST)), _COST_LINE):
                before = cost.totalCostUSD
    except OSError:
        return None
    return round(total - before, 6) if total >= before else None
