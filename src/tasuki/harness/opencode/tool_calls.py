"""opencode's tool calls: what they ask for, and their results."""

from collections.abc import Sequence

from msgspec import Raw

from tasuki.harness.opencode import format as record
from tasuki.harness.reading.answers import OfferedQuestion, format_answers
from tasuki.harness.reading.jsonl import decode_part
from tasuki.harness.tool_table import tools
from tasuki.harness.tool_table.tools import ToolInput
from tasuki.model import ToolCall, ToolStatus

_REFUSED = ("The user rejected permission", "The user dismissed this question")
_FEEDBACK = "with the following feedback: "
_STOPPED = "User aborted the command"
_STATUS: dict[str, ToolStatus] = {"completed": "ok", "error": "error"}


def build_tool_call(
    part: record.OpencodePart, given: ToolInput
) -> tuple[ToolCall, record.OpencodeMetadata]:
    """Build what a call asks for, and read the tool's metadata."""
    raw = part.state.metadata if part.state else Raw(b"{}")
    metadata = decode_part(record.METADATA, raw, record.OpencodeMetadata())
    name = part.tool or "tool"
    return tools.build_tool_call(part.callID, name, given, creates=not metadata.exists), metadata


def read_result(
    call: ToolCall, state: record.OpencodeToolState, metadata: record.OpencodeMetadata
) -> tuple[str, ToolStatus, int | None]:
    """Read output, status and exit code; a call is running while it is neither completed nor failed."""
    output = (state.error if state.status == "error" else state.output) or ""
    code = metadata.exit if call.kind == "shell" else None
    return output, _find_status(call.kind, state, metadata, output), code


def find_answer(
    call: ToolCall, questions: Sequence[OfferedQuestion], metadata: record.OpencodeMetadata
) -> str:
    """Return what the user says in a result: answers, or the words with which they refused."""
    if call.status == "refused":
        if not tools.is_own_tool(call.name):  # A server of MCP could say so, too.
            return ""
        return call.output.partition(_FEEDBACK)[2].strip()
    if call.kind != "ask":
        return ""
    answers = [", ".join(choices) for choices in metadata.answers]
    return format_answers(questions, answers)


def _find_status(
    kind: str, state: record.OpencodeToolState, metadata: record.OpencodeMetadata, output: str
) -> ToolStatus:
    status = _STATUS.get(state.status, "running")
    if status == "error" and output.startswith(_REFUSED):
        return "refused"
    if metadata.interrupted or (
        kind == "shell" and _STOPPED in output[-200:] and metadata.exit is None
    ):
        return "aborted"
    return "error" if metadata.exit and kind == "shell" and status == "ok" else status
