"""Parse what an agent of pi or omp answered.

The record of the fork contains more than what is printed.
"""

from pathlib import Path

import msgspec
from msgspec import Struct

from tasuki.harness.pi_v3.format import PiBlock, PiUsage
from tasuki.harness.plans import CUT_OFF
from tasuki.harness.protocol import AskAnswer, AskRequest
from tasuki.harness.reading.jsonl import decode_lines, read_both_ends, scan_folder

TAIL_BYTES = 8 << 20
"""How far back from the end of the record the question is searched."""


class _PiAnswerCost(Struct):
    total: float = 0.0


class _PiAnswerUsage(PiUsage):
    cost: _PiAnswerCost = msgspec.field(default_factory=_PiAnswerCost)


class _PiAnswerMessage(Struct):
    role: str = ""
    content: str | list[PiBlock] | None = None
    model: str = ""
    usage: _PiAnswerUsage = msgspec.field(default_factory=_PiAnswerUsage)
    stopReason: str | None = ""
    errorMessage: str | None = ""


class _PiAnswerLine(Struct):
    type: str = ""
    message: _PiAnswerMessage | None = None


_LINE = msgspec.json.Decoder(_PiAnswerLine)


def parse_answer(request: AskRequest) -> AskAnswer:
    """Parse the last message after the question, from the record in the scratch folder."""
    messages = _list_answers(request)
    if not messages:
        return AskAnswer()
    last = messages[-1]
    error = _find_error(last)
    price = sum(message.usage.cost.total for message in messages)
    usages = [message.usage for message in messages]
    return AskAnswer(
        text="" if error else _extract_text(last),
        model=last.model,
        input_tokens=sum(u.input + u.cacheRead + u.cacheWrite for u in usages),
        output_tokens=sum(u.output for u in usages),
        price=round(price, 6) if price else None,
        aborted=any(message.stopReason == "aborted" for message in messages),
        error=error,
    )


def _list_answers(request: AskRequest) -> list[_PiAnswerMessage]:
    """List the agent's messages after the question.

    The list is empty where the record does not hold the question.
    """
    question = request.question.strip()
    answers: list[_PiAnswerMessage] = []
    has_question = False
    for line in decode_lines(_read_tail(Path(request.scratch)), _LINE):
        message = line.message
        if line.type != "message" or message is None:
            continue
        if message.role == "user":
            has_question, answers = _extract_text(message).strip().endswith(question), []
        elif message.role == "assistant" and has_question:
            answers.append(message)
    return answers


def _read_tail(folder: Path) -> list[bytes]:
    """Read the end of the newest record in a folder."""
    records = [e for e in scan_folder(folder) if e.name.endswith(".jsonl")]
    newest = max(records, key=lambda e: e.stat().st_mtime_ns, default=None)
    return read_both_ends(Path(newest.path), 0, TAIL_BYTES)[1] if newest else []


def _extract_text(message: _PiAnswerMessage) -> str:
    if not isinstance(message.content, list):
        return message.content or ""
    return "\n".join(block.text for block in message.content if block.type == "text")


def _find_error(message: _PiAnswerMessage) -> str:
    if message.stopReason == "length":
        return CUT_OFF
    if message.stopReason != "error":
        return ""
    return message.errorMessage or "an error without words"
