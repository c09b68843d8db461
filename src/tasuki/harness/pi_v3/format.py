"""Session files of pi and omp, version 3: their records, and how to write them.

A header, then entries linked into a tree; the active branch is the walk from the last line to
the root. Files written before version 2 have no ids and are linear.
"""

import json
import os
import re
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Raw, Struct

from tasuki.harness.jsonl import HANDOFF_CLOSING
from tasuki.harness.plans import MAX_ARGUMENT
from tasuki.harness.protocol import LaunchPlan, LaunchRequest, PlannedFile

_NOTE = "The session holds the handoff; the goal is pasted into its input."


class Block(Struct, gc=False):
    """A piece of a message."""

    type: str = ""
    text: str = ""
    id: str = ""
    name: str = ""
    arguments: Raw = Raw(b"{}")


class Usage(Struct, gc=False):
    """Tokens of one request."""

    input: int = 0
    output: int = 0
    cacheRead: int = 0
    cacheWrite: int = 0


class Message(Struct, gc=False):
    """A `message` of any role."""

    role: str = ""
    content: str | list[Block] | None = None
    model: str = ""
    provider: str = ""
    usage: Usage | None = None
    stopReason: str | None = ""
    errorMessage: str | None = ""
    toolCallId: str = ""
    toolName: str = ""
    isError: bool = False
    details: Raw = Raw(b"{}")
    command: str = ""
    output: str = ""
    exitCode: int | None = None
    cancelled: bool = False
    attribution: str | None = ""


class Line(Struct, gc=False):
    """Any line of a session file; which fields count depends on `type`."""

    type: str = ""
    version: int | None = None
    id: str = ""
    parentId: str | None = None
    timestamp: str = ""
    cwd: str = ""
    parentSession: str | None = ""
    branchedFrom: str | None = ""
    message: Message | None = None
    provider: str | None = ""
    modelId: str | None = ""
    model: str | None = ""
    thinkingLevel: str | None = ""
    summary: str | None = ""
    firstKeptEntryId: str | None = ""
    firstKeptEntryIndex: int | None = None
    customType: str = ""
    content: str | list[Block] | None = None
    name: str | None = ""
    title: str | None = ""
    targetId: str = ""
    replacement: Raw = Raw(b"0")
    data: Raw = Raw(b"{}")


LINE = msgspec.json.Decoder(Line)
LAST_SKILL = "handoff:last-skill"
"""Custom type of the entry that names the skill that was used last."""


def context_tokens(usage: Usage) -> int:
    """Size of the context after a message."""
    return usage.input + usage.output + usage.cacheRead + usage.cacheWrite


def model_name(line: Line) -> str:
    """`provider/id`, from a header or a `model_change`."""
    if line.modelId:
        return f"{line.provider}/{line.modelId}" if line.provider else line.modelId
    return line.model or ""


def plain(content: str | list[Block] | None) -> str:
    """The texts of a message, one a line."""
    if isinstance(content, str):
        return content
    if content and len(content) == 1 and content[0].text:
        return content[0].text
    texts = (b.text or ("[image]" if b.type == "image" else "") for b in content or ())
    return "\n".join(t for t in texts if t)


# -- writing ---------------------------------------------------------------------------


def new_id() -> str:
    """A UUID of version 7, whose first 48 bits are the time in milliseconds."""
    value = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10))
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    text = f"{value:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def now() -> str:
    """The time as the harness writes it: UTC, milliseconds, `Z`."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def file_name(id: str, at: str) -> str:
    """Name of a session file: `<time with - for : and .>_<id>.jsonl`."""
    return f"{re.sub('[:.]', '-', at)}_{id}.jsonl"


def header(id: str, cwd: str, at: str, parent: str = "") -> dict[str, object]:
    """First record of a session; `parent` is the path of the session it continues."""
    record: dict[str, object] = {
        "type": "session", "version": 3, "id": id, "timestamp": at, "cwd": cwd,
    }  # fmt: skip
    if parent:
        record["parentSession"] = parent
    return record


def handoff_text(context: str) -> str:
    """What a session is given of the one before it: the seed's wrapping, to the letter."""
    return f"<handoff-context>\n{context}\n</handoff-context>\n\n{HANDOFF_CLOSING}"


def handoff_message(
    context: str, details: Mapping[str, object], attribution: str = ""
) -> dict[str, object]:
    """The record that carries a handoff; pi and omp show it to the model as a user message."""
    record: dict[str, object] = {
        "type": "custom_message",
        "customType": "handoff",
        "content": handoff_text(context),
        "display": True,
        "details": dict(details),
    }
    if attribution:
        record["attribution"] = attribution
    return record


def linked(records: Iterable[Mapping[str, object]], at: str) -> list[dict[str, object]]:
    """Records with ids, each the child of the one before it. The header, which comes first,
    has none."""
    chain: list[dict[str, object]] = []
    parent: str | None = None
    for record in records:
        if record["type"] == "session":
            chain.append(dict(record))
            continue
        id = os.urandom(4).hex()
        chain.append({"type": record["type"], "id": id, "parentId": parent, "timestamp": at})
        chain[-1].update(record)
        parent = id
    return chain


def dump(records: Iterable[Mapping[str, object]]) -> str:
    """Records as the text of a session file."""
    return "".join(json.dumps(r, ensure_ascii=False, separators=(",", ":")) + "\n" for r in records)


def plan(
    request: LaunchRequest, folder: Path, argv: tuple[str, ...], ready: str, omp: bool
) -> LaunchPlan:
    """A successor of pi or omp: a session file that holds the past, and the goal in the input.

    `argv` is the program and its flag for a session file. The goal is an argument only if it is
    to be sent at once and cannot be taken for a flag or a file.
    """
    id, at = new_id(), now()
    path = str(folder / file_name(id, at))
    goal = _goal(request)
    as_argument = request.send and not goal.startswith(("-", "@")) and _fits(goal)
    model = ("--model", request.model) if request.model else ()
    return LaunchPlan(
        argv=(*argv, path, *model, *request.arguments, *((goal,) if as_argument else ())),
        cwd=request.cwd,
        files=(PlannedFile(path=path, content=_session(request, id, at, omp)),),
        paste="" if as_argument else goal,
        submit=request.send and not as_argument,
        ready=ready,
        thread_path=path,
        thread_id=id,
        note="" if as_argument else _NOTE,
    )


def _goal(request: LaunchRequest) -> str:
    skill = request.handoff.draft.skill
    goal = request.handoff.goal.text
    return f"/skill:{skill} {goal}" if skill else goal


def _fits(text: str) -> bool:
    return len(text.encode()) <= MAX_ARGUMENT


def _session(request: LaunchRequest, id: str, at: str, omp: bool) -> str:
    handoff = request.handoff
    origin = handoff.predecessor
    parent = origin.path if origin.harness in ("pi", "omp") else ""
    predecessor = {"harness": origin.harness, "id": origin.thread_id, "path": origin.path}
    details = {"handoff": handoff.id, "predecessor": predecessor}
    name = " ".join(handoff.goal.text.split())[:60]
    records: list[Mapping[str, object]] = [header(id, request.cwd, at, parent)]
    if not omp:
        records.append({"type": "session_info", "name": name})
    records.append(handoff_message(request.context, details, "agent" if omp else ""))
    return dump(linked(records, at))
