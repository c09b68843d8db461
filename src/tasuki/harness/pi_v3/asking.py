"""What an agent of pi or omp answered: the record of the fork tells more than what is printed."""

from pathlib import Path

import msgspec
from msgspec import Struct

from tasuki.harness.jsonl import both_ends, scanned, understood
from tasuki.harness.pi_v3.format import Block, Usage
from tasuki.harness.plans import CUT_OFF
from tasuki.harness.protocol import AskAnswer, AskRequest

TAIL_BYTES = 8 << 20
"""How far back from the end of the record the question is looked for."""


class _Cost(Struct):
    total: float = 0.0


class _Usage(Usage):
    cost: _Cost = msgspec.field(default_factory=_Cost)


class _Message(Struct):
    role: str = ""
    content: str | list[Block] | None = None
    model: str = ""
    usage: _Usage = msgspec.field(default_factory=_Usage)
    stopReason: str | None = ""
    errorMessage: str | None = ""


class _Line(Struct):
    type: str = ""
    message: _Message | None = None


_LINE = msgspec.json.Decoder(_Line)


def answered(request: AskRequest) -> AskAnswer:
    """The last message after the question, from the record in the scratch folder."""
    said = _said(request)
    if not said:
        return AskAnswer()
    last = said[-1]
    error = _error(last)
    price = sum(message.usage.cost.total for message in said)
    usages = [message.usage for message in said]
    return AskAnswer(
        text="" if error else _text(last),
        model=last.model,
        input_tokens=sum(u.input + u.cacheRead + u.cacheWrite for u in usages),
        output_tokens=sum(u.output for u in usages),
        price=round(price, 6) if price else None,
        aborted=any(message.stopReason == "aborted" for message in said),
        error=error,
    )


def _said(request: AskRequest) -> list[_Message]:
    """What the agent said after the question; nothing where the record does not hold it."""
    asked = request.question.strip()
    said: list[_Message] = []
    found = False
    for line in understood(_tail(Path(request.scratch)), _LINE):
        message = line.message
        if line.type != "message" or message is None:
            continue
        if message.role == "user":
            found, said = _text(message).strip().endswith(asked), []
        elif message.role == "assistant" and found:
            said.append(message)
    return said


def _tail(folder: Path) -> list[bytes]:
    """The end of the newest record in a folder."""
    records = [e for e in scanned(folder) if e.name.endswith(".jsonl")]
    newest = max(records, key=lambda e: e.stat().st_mtime_ns, default=None)
    return both_ends(Path(newest.path), 0, TAIL_BYTES)[1] if newest else []


def _text(message: _Message) -> str:
    if not isinstance(message.content, list):
        return message.content or ""
    return "\n".join(block.text for block in message.content if block.type == "text")


def _error(message: _Message) -> str:
    if message.stopReason == "length":
        return CUT_OFF
    if message.stopReason != "error":
        return ""
    return message.errorMessage or "an error without words"
