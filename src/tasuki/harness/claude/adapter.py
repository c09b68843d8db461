"""Claude Code: `~/.claude/projects/<folder>/<session>.jsonl`. Seen: 2.0.76, 2.1.330."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from uuid import uuid4

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace

from tasuki.files import find_home_folder
from tasuki.harness import protocol
from tasuki.harness.claude.format import ClaudeLine, ClaudeUsage, count_context_tokens
from tasuki.harness.claude.head import ClaudeHead, get_home, get_projects_folder
from tasuki.harness.optional import ThreadFollower, ThreadPart
from tasuki.harness.plans import CUT_OFF, choose_ask_folder, plan_with_brief
from tasuki.harness.programs import ProgramHarness
from tasuki.harness.reading.jsonl import decode_lines, extract_text, split_output
from tasuki.model import Thread

OWN_VARIABLES = ("CLAUDECODE", "CLAUDE_CODE_CHILD_SESSION", "CLAUDE_CODE_SESSION_ID")

_NAMES_THREAD = frozenset(
    ("--session-id", "--resume", "-r", "--continue", "-c", "--from-pr", "--teleport")
)

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


class Claude(ProgramHarness):
    """The adapter of Claude Code."""

    name = "claude"
    title = "Claude Code"
    program = "claude"
    head = ClaudeHead
    prefix = "Claude"
    ready = r"^[❯>]\s"
    """It is at the edge of the screen: the cursor of a dialog is one column further in."""
    can_prefill = True
    key_variables = (
        "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN",
        "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX",
    )  # fmt: skip
    unset = OWN_VARIABLES
    caller = protocol.CallerIdentity("claude-code", variable="CLAUDE_CODE_SESSION_ID")
    facts = protocol.HarnessFacts(
        package="@anthropic-ai/claude-code",
        tested="2.1.330",
        process_names=("claude",),
        child_variables=(
            *OWN_VARIABLES, "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_CHILD_NOTES_DIR",
            "CLAUDE_CODE_MESSAGING_SOCKET", "CLAUDE_CODE_MESSAGING_TOKEN", "CLAUDE_CODE_SESSION_ATTENDED",
            "CLAUDE_EFFORT", "CLAUDE_ENV_FILE", "CLAUDE_PID", "CLAUDE_PROJECT_DIR", "AI_AGENT",
        ),
        acp=protocol.AcpCommand(("claude-agent-acp",), "@agentclientprotocol/claude-agent-acp", 4, ("claude-code-acp",)),
    )  # fmt: skip

    def list_running(self, session: str) -> Iterator[protocol.RunningProgram]:
        yield from self.load("hooks", "list_running")(session)

    def follow(self, path: Path) -> ThreadFollower:
        return self.build_reader(path, follows=True)

    def follow_for_draft(self, path: Path) -> ThreadFollower:
        """Follow a thread whose outputs stay in the file until somebody asks for them."""
        return self.build_reader(path, leaves_outputs=True, follows=True)

    def list_parts(self, path: Path, cwd: str) -> tuple[ThreadPart, ...]:
        """List the file, and the long outputs of tools that are in files beside it."""
        outputs = sorted((path.with_suffix("") / "tool-results").glob("*.*"))
        beside = (ThreadPart(f"{path.stem}/tool-results/{o.name}", str(o)) for o in outputs)
        return (ThreadPart(path.name, str(path)), *beside)

    def read_for_draft(self, path: Path) -> Thread:
        """Read a thread whose outputs stay in the file until somebody asks for them."""
        return self.build_reader(path, leaves_outputs=True).read()

    def list_skill_folders(self, cwd: Path) -> tuple[Path, ...]:
        return (cwd / ".claude" / "skills", get_home() / "skills")

    def plan(self, request: protocol.LaunchRequest) -> protocol.LaunchPlan:
        """Plan `claude --prefill TEXT`, or the prompt itself where it is to be sent at once.

        The thread's id is chosen here, so that it is known before the first prompt. Every version
        with `--prefill` takes `--session-id`, but not beside an option that names a thread.
        """
        named = any(word.partition("=")[0] in _NAMES_THREAD for word in request.arguments)
        id = "" if named else str(uuid4())
        chosen = ("--session-id", id) if id else ()
        plan = plan_with_brief(
            self.program,
            self.title,
            replace(request, arguments=(*chosen, *request.arguments)),
            ready=self.ready,
            argument=lambda text: (text,),
            prefill=lambda text: ("--prefill", text),
        )
        return replace(plan, unset=OWN_VARIABLES, thread_id=id)

    def ask(self, request: protocol.AskRequest) -> protocol.AskPlan:
        """Plan `claude -p --resume ID --fork-session …`, a fork that is not kept. Seen: 2.1.330.

        The file's path replaces the id where the thread is stored elsewhere.
        """
        path = Path(request.thread.path)
        own = path.parent.parent == get_projects_folder() and path.stem == request.thread.id
        schema = ("--json-schema", request.schema) if request.schema else ()
        return protocol.AskPlan(
            argv=(self.program, *FLAGS, *schema, "--resume", path.stem if own else str(path)),
            cwd=choose_ask_folder(request),
            stdin=request.question,
            unset=OWN_VARIABLES,
        )

    def parse_answer(self, output: str, request: protocol.AskRequest) -> protocol.AskAnswer:
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
                texts.append(extract_text(line.message.content))
        failed = end.result or "; ".join(end.errors) or end.subtype or "an error without a message"
        error = CUT_OFF if end.stop_reason == "max_tokens" else failed if end.is_error else ""
        if request.schema and end.structured_output is not UNSET:
            texts = [bytes(end.structured_output).decode("utf-8", "replace")]
        usage = end.usage
        return protocol.AskAnswer(
            text="" if error else "\n".join(filter(None, texts)),
            model="" if model.startswith("<") else model,
            input_tokens=count_context_tokens(usage) - usage.output_tokens,
            output_tokens=usage.output_tokens,
            price=_compute_price(end.total_cost_usd, Path(request.thread.path)),
            aborted=(end.terminal_reason or "").startswith("aborted"),
            error=error,
        )

    def build_resume_command(self, thread: Thread) -> tuple[str, ...]:
        return (self.program, "--resume", thread.id)

    def build_argument(self, prompt: str) -> tuple[str, ...]:
        return ("--", prompt)

    def list_key_files(self) -> tuple[Iterable[Path], Iterable[Path]]:
        """List the file; on macOS the credentials may be in the keychain."""
        return [get_home() / ".credentials.json"], [find_home_folder() / "Library" / "Keychains"]


# -- what an agent answers -----------------------------------------------------------------


class _ClaudeAnswerLine(ClaudeLine):
    """A line of `--output-format stream-json`; the last one is of type `result`."""

    parent_tool_use_id: str | None = None
    is_error: bool = False
    errors: tuple[str, ...] = ()
    result: str = ""
    structured_output: Raw | UnsetType = UNSET
    stop_reason: str | None = None
    terminal_reason: str | None = None
    total_cost_usd: float | None = None
    usage: ClaudeUsage = msgspec.field(default_factory=ClaudeUsage)


class _ClaudeCost(Struct):
    totalCostUSD: float = 0.0


_LINE = msgspec.json.Decoder(_ClaudeAnswerLine)
_COST_LINE = msgspec.json.Decoder(_ClaudeCost)


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
