"""Gemini CLI's tool calls: what they ask for, and what their results show."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from tasuki.harness.gemini.format import GeminiFunctionResponse, GeminiToolCall, list_parts
from tasuki.harness.reading.answers import OfferedQuestion, format_answers
from tasuki.harness.reading.jsonl import decode_part
from tasuki.harness.tool_table import tools
from tasuki.harness.tool_table.calls import build_user_command
from tasuki.harness.tool_table.results import WordedResult
from tasuki.model import ToolCall, ToolKind, ToolStatus
from tasuki.patterns import compile_pattern

_STATUS: dict[str, ToolStatus] = {
    "success": "ok", "error": "error", "cancelled": "aborted", "executing": "running",
    "scheduled": "running", "validating": "running", "awaiting_approval": "running",
}  # fmt: skip
_REFUSED = compile_pattern(
    r"User denied|did not allow|denied by the user|rejected by the user", re.IGNORECASE
)
_FENCE = compile_pattern(r"\A<untrusted_context>\n(.*)\n</untrusted_context>\s*\Z", re.DOTALL)
_OUTPUT = compile_pattern(r"(?:\A|\n)(?:Output|Stdout): ")
_FIELD = compile_pattern(
    r"\n(Exit Code|Signal|Background PIDs|Process Group PGID|(?:Error|Stderr)(?=: \(none\)))"
    r": ?([^\n]*)\Z"
)
_BACKGROUND = compile_pattern(r"Command moved to background \(PID: (\d+)\)")
_PROCESS = compile_pattern(r"^- \[PID (\d+)\] (\w+):.*?(?:\(Exit Code: (-?\d+)\))?$", re.MULTILINE)
_TERMINATION = compile_pattern(r"Termination Reason: (\w+)")
_ANSWERS = compile_pattern(r'\A\s*\{"answers"')
_USER_COMMAND = compile_pattern(
    r"\AI ran the following shell command:\n```sh\n(.*?)\n```\n\n"
    r"This produced the following result:\n```\n(.*)\n```\s*\Z",
    re.DOTALL,
)
"""How a command of the user appears in the conversation."""
_USER_CODE = compile_pattern(r"\ACommand exited with code (-?\d{1,9})\.?(?:\n|\Z)")


class _GeminiDisplay(Struct, gc=False):
    isNewFile: bool = True


class _GeminiResponse(Struct, gc=False):
    output: Any = None
    error: Any = None
    content: Any = None


class _GeminiAnswers(Struct, gc=False):
    answers: dict[str, Any] = {}


_DISPLAY = msgspec.json.Decoder(_GeminiDisplay)
_RESPONSE = msgspec.json.Decoder(_GeminiResponse)
_ANSWERED = msgspec.json.Decoder(_GeminiAnswers)


def build_tool_call(call: GeminiToolCall, given: tools.ToolInput) -> ToolCall:
    """Build what a call asks for, before its result is known."""
    display = decode_part(_DISPLAY, call.resultDisplay, _GeminiDisplay())
    kind: ToolKind | None = "agent" if call.agentId else None
    return tools.build_tool_call(
        call.id, call.name or "(no name)", given, kind=kind, creates=display.isNewFile
    )


def extract_output(call: GeminiToolCall) -> str:
    """Return the result of a call as text; those of a whole turn may be under each of its calls."""
    parts = list_parts(call.result)
    results = [p.functionResponse for p in parts if p.functionResponse is not None]
    own = [r for r in results if r.id == call.id] or results
    texts = [extract_response(r) for r in own]
    if len(results) < 2:
        texts += [
            p.text if p.text is not None else "[image]" for p in parts if p.inlineData or p.text
        ]
    return "\n".join(t for t in texts if t)


def extract_response(response: GeminiFunctionResponse) -> str:
    """Return what a result gave to the model."""
    result = decode_part(_RESPONSE, response.response, None)
    if result is None:
        return bytes(response.response).decode("utf-8", "replace")
    for value in (result.error, result.output, result.content):
        if value is not None and value != "":
            return value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return ""


def has_failed(call: GeminiToolCall) -> bool:
    """Tell whether a result reported an error to the model."""
    responses = [p.functionResponse for p in list_parts(call.result) if p.functionResponse]
    results = [decode_part(_RESPONSE, r.response, None) for r in responses]
    return None not in results and any(r is not None and r.error is not None for r in results)


def find_status(call: GeminiToolCall, output: str) -> ToolStatus:
    """Return how a call went; Gemini CLI calls a command that failed a success."""
    status = _STATUS.get(call.status or "", "unknown")
    if status == "aborted" and _REFUSED.search(output[:400]):
        return "refused"
    return status


def parse_shell_result(text: str) -> WordedResult:
    """Parse output without the lines that Gemini CLI adds, and what those lines show."""
    if match := _FENCE.match(text):
        text = match[1]
    if match := _BACKGROUND.search(text[:200]):
        return WordedResult(None, text, match[1])
    start = _OUTPUT.search(text[:4000])
    if start is None:
        return WordedResult(None, text)
    fields: dict[str, str] = {}
    body = text
    while match := _FIELD.search(body, max(body.rfind("\n"), 0)):
        fields[match[1]] = match[2].strip()
        body = body[: match.start()]
    shown_code = fields.get("Exit Code", "0")
    code = int(shown_code) if re.fullmatch(r"-?\d{1,9}", shown_code) else None
    if fields.get("Signal", "(none)") not in ("(none)", "0", ""):
        code = None
    output = body[start.end() :]
    return WordedResult(code, "" if output == "(empty)" else output)


def parse_user_command(id: str, text: str, keep: int) -> ToolCall | None:
    """Parse a command that the user ran, from the message that informs the model; else None."""
    match = _USER_COMMAND.match(text)
    if match is None:
        return None
    output, code = match[2], 0
    if exit_line := _USER_CODE.match(output):
        output, code = output[exit_line.end() :], int(exit_line[1])
    return build_user_command(id, match[1], output, keep, code)


def find_answer(questions: Sequence[OfferedQuestion], output: str) -> str:
    """Return what the user answered to the questions of a call."""
    if not _ANSWERS.match(output):
        return ""
    answers = decode_part(_ANSWERED, output, _GeminiAnswers()).answers.values()
    texts = [a if isinstance(a, str) else msgspec.json.encode(a).decode() for a in answers]
    return format_answers(questions, texts)


def find_ended_processes(output: str) -> list[tuple[str, int]]:
    """Find background processes that a list shows as ended, and their exit codes."""
    listed = _PROCESS.findall(output)
    return [(pid, int(code or 0)) for pid, state, code in listed if state != "RUNNING"]


def has_agent_failed(output: str) -> bool:
    """Tell whether a sub-agent returned without having done what it was asked."""
    match = _TERMINATION.search(output[:2000])
    return match is not None and match[1] != "GOAL"
