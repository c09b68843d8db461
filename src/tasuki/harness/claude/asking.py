"""Asking the agent of a thread of Claude Code, in a fork that is not kept. Seen: 2.1.330."""

from pathlib import Path

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from tasuki.harness.jsonl import output_lines, understood
from tasuki.harness.plans import CUT_OFF, ask_place
from tasuki.harness.protocol import AskAnswer, AskPlan, AskRequest

SETTINGS = '{"disableAllHooks":true,"autoMemoryEnabled":false,"cleanupPeriodDays":36500}'
"""Without the user's hooks and without a folder for memories; and nothing old is cleared away, for
a start of Claude Code deletes threads that nobody wrote to for 30 days, the one asked among them."""
FLAGS = (
    *("-p", "--fork-session", "--no-session-persistence"),
    *("--output-format", "stream-json", "--verbose"),  # `json` names no model and holds one block
    *("--settings", SETTINGS, "--tools", "", "--strict-mcp-config"),
)
_COST = b'{"type":"cost-state"'


class _Block(Struct):
    type: str = ""
    text: str = ""


class _Usage(Struct):
    input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0
    output_tokens: int = 0


class _Message(Struct):
    id: str = ""
    model: str = ""
    content: str | list[_Block] = []


class _Line(Struct):
    """A line of `--output-format stream-json`; the last one is of type `result`."""

    type: str = ""
    message: _Message | None = None
    parent_tool_use_id: str | None = None
    subtype: str = ""
    is_error: bool = False
    errors: list[str] = []
    result: str = ""
    structured_output: Raw | UnsetType = UNSET
    stop_reason: str | None = None
    terminal_reason: str | None = None
    total_cost_usd: float | None = None
    usage: _Usage = msgspec.field(default_factory=_Usage)


class _Cost(Struct):
    totalCostUSD: float = 0.0


_LINE = msgspec.json.Decoder(_Line)
_COST_LINE = msgspec.json.Decoder(_Cost)


def plan(program: str, request: AskRequest, store: Path, unset: tuple[str, ...]) -> AskPlan:
    """`claude -p --resume ID --fork-session …`, the file instead where it lies elsewhere."""
    path = Path(request.thread.path)
    own = path.parent.parent == store and path.stem == request.thread.id
    schema = ("--json-schema", request.schema) if request.schema else ()
    return AskPlan(
        argv=(program, *FLAGS, *schema, "--resume", path.stem if own else str(path)),
        cwd=ask_place(request),
        stdin=request.question,
        unset=unset,
    )


def answered(output: str, request: AskRequest) -> AskAnswer:
    """The last message, or what it gave as structured output."""
    texts: list[str] = []
    id = model = ""
    end = _Line()
    for line in understood(output_lines(output), _LINE):
        if line.type == "result":
            end = line
        elif line.type == "assistant" and line.message and not line.parent_tool_use_id:
            if line.message.id != id:
                id, texts = line.message.id, []
            model = line.message.model
            texts += _texts(line.message)
    error = _error(end)
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
        price=_price(end.total_cost_usd, Path(request.thread.path)),
        aborted=(end.terminal_reason or "").startswith("aborted"),
        error=error,
    )


def _texts(message: _Message) -> list[str]:
    if isinstance(message.content, str):
        return [message.content]
    return [block.text for block in message.content if block.type == "text"]


def _error(end: _Line) -> str:
    if end.stop_reason == "max_tokens":
        return CUT_OFF
    if not end.is_error:
        return ""
    return end.result or "; ".join(end.errors) or end.subtype or "an error without words"


def _price(total: float | None, path: Path) -> float | None:
    """What this question cost: the total goes on from what the thread itself had cost."""
    if total is None:
        return None
    before = 0.0
    try:
        with path.open("rb") as file:
            for cost in understood((li for li in file if li.startswith(_COST)), _COST_LINE):
                before = cost.totalCostUSD
    except OSError:
        return None
    return round(total - before, 6) if total >= before else None
