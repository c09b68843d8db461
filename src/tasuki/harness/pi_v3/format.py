"""Session files of pi and omp, version 3: their records, and how to write them.

A header, then entries linked into a tree; the active branch is the walk from the last line
to the root. Files written before version 2 have no ids and are linear.
"""

import json
import os
import re
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from tasuki.harness.plans import plan_with_brief
from tasuki.harness.protocol import LaunchPlan, LaunchRequest, PlannedFile
from tasuki.patterns import compile_pattern
from tasuki.text_safety import cut_text
from tasuki.typed_prompts import HANDOFF_CLOSING

_WALL_TIME = compile_pattern(r"\nWall time: [\d.]+ seconds\s*\Z")
_EXITED = compile_pattern(r"(?:\A|\n)Command exited with code (-?\d+)\s*\Z")
_NOTE = "The session holds the handoff; the goal is pasted into its input."


class PiBlock(Struct, gc=False):
    type: str = ""
    text: str = ""
    id: str = ""
    name: str = ""
    arguments: Raw = Raw(b"{}")


class PiUsage(Struct, gc=False):
    input: int = 0
    output: int = 0
    cacheRead: int = 0
    cacheWrite: int = 0
    cost: Raw = Raw(b"{}")


class PiMessage(Struct, gc=False):
    """A `message` of any role."""

    role: str = ""
    content: str | list[PiBlock] | None = None
    model: str = ""
    provider: str = ""
    usage: PiUsage | None = None
    stopReason: str | None = ""
    errorMessage: str | None = ""
    toolCallId: str = ""
    isError: bool = False
    details: Raw = Raw(b"{}")
    command: str = ""
    output: str = ""
    exitCode: int | None = None
    cancelled: bool = False
    attribution: str | None = ""


class PiLine(Struct, gc=False):
    """Any line of a session file; which fields count depends on `type`."""

    type: str = ""
    version: int | None = None
    id: str = ""
    parentId: str | None = None
    timestamp: str = ""
    cwd: str = ""
    parentSession: str | None = ""
    branchedFrom: str | None = ""
    message: PiMessage | None = None
    provider: str | None = ""
    modelId: str | None = ""
    model: str | None = ""
    thinkingLevel: str | None = ""
    summary: str | None = ""
    firstKeptEntryId: str | None = ""
    firstKeptEntryIndex: int | None = None
    customType: str = ""
    content: str | list[PiBlock] | None = None
    name: str | None = ""
    title: str | None = ""
    targetId: str = ""
    replacement: Raw = Raw(b"0")
    data: Raw = Raw(b"{}")


LINE = msgspec.json.Decoder(PiLine)
LAST_SKILL = "handoff:last-skill"
"""Custom type of the entry that names the skill that was used last."""


def count_context_tokens(usage: PiUsage) -> int:
    """Count the tokens of the context after a message."""
    return usage.input + usage.output + usage.cacheRead + usage.cacheWrite


def build_model_name(line: PiLine) -> str:
    """Build `provider/id`, from a header or a `model_change`."""
    if line.modelId:
        return f"{line.provider}/{line.modelId}" if line.provider else line.modelId
    return line.model or ""


def extract_text(content: str | list[PiBlock] | None) -> str:
    """Return the texts of a message, one a line."""
    if isinstance(content, str):
        return content
    if content and len(content) == 1 and content[0].text:
        return content[0].text
    texts = (b.text or ("[image]" if b.type == "image" else "") for b in content or ())
    return "\n".join(t for t in texts if t)


def parse_shell_result(text: str, failed: bool) -> tuple[str, int | None]:
    """Parse output without the harness's own last lines, and the exit code in those lines."""
    code = None if failed else 0
    if match := _EXITED.search(text, max(len(text) - 60, 0)):
        text, code = text[: match.start()].rstrip("\n"), int(match[1])
    if match := _WALL_TIME.search(text, max(len(text) - 60, 0)):
        text = text[: match.start()].rstrip("\n")
    return text, code


# -- writing ---------------------------------------------------------------------------


def create_id() -> str:
    """Create a UUID of version 7, whose first 48 bits are the time in milliseconds."""
    value = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10))
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return str(UUID(int=value))


def format_now() -> str:
    """Format the time as the harness writes it: UTC, milliseconds, `Z`."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def build_file_name(id: str, timestamp: str) -> str:
    """Build the name of a session file: `<time with - for : and .>_<id>.jsonl`."""
    return f"{re.sub('[:.]', '-', timestamp)}_{id}.jsonl"


def build_header(id: str, cwd: str, timestamp: str, parent: str = "") -> dict[str, object]:
    """Build the first record of a session; `parent` is the path of the session it continues."""
    header = {"type": "session", "version": 3, "id": id, "timestamp": timestamp, "cwd": cwd}
    return header | ({"parentSession": parent} if parent else {})


def wrap_handoff(context: str) -> str:
    """Wrap what a session is given of the one before it, exactly as the seed does."""
    return f"<handoff-context>\n{context}\n</handoff-context>\n\n{HANDOFF_CLOSING}"


def build_handoff_message(
    context: str, details: Mapping[str, object], attribution: str = ""
) -> dict[str, object]:
    """Build the record that carries a handoff; pi and omp show it to the model as a user message."""
    message = {
        "type": "custom_message",
        "customType": "handoff",
        "content": wrap_handoff(context),
        "display": True,
        "details": dict(details),
    }
    return message | ({"attribution": attribution} if attribution else {})


def link_records(
    records: Iterable[Mapping[str, object]], timestamp: str
) -> list[dict[str, object]]:
    """Add ids to records, each the child of the one before it; the header, which comes first, has none."""
    chain: list[dict[str, object]] = []
    parent: str | None = None
    for record in records:
        if record["type"] == "session":
            chain.append(dict(record))
            continue
        id = os.urandom(4).hex()
        place = {"type": record["type"], "id": id, "parentId": parent, "timestamp": timestamp}
        chain.append(place | dict(record))
        parent = id
    return chain


def dump_records(records: Iterable[Mapping[str, object]]) -> str:
    """Format records as the text of a session file."""
    return "".join(json.dumps(r, ensure_ascii=False, separators=(",", ":")) + "\n" for r in records)


def plan_session(
    request: LaunchRequest, folder: Path, argv: tuple[str, ...], ready: str, omp: bool
) -> LaunchPlan:
    """Plan a successor of pi or omp: a session file with the past, and the goal in the input.

    `argv` is the program and its flag for a session file. The goal is an argument if it is to be
    sent at once, and fits.
    """
    id, timestamp = create_id(), format_now()
    path, handoff = str(folder / build_file_name(id, timestamp)), request.handoff
    skill, goal = handoff.draft.skill, handoff.goal.text
    prompt = replace(request, brief=f"/skill:{skill} {goal}" if skill else goal)
    plan = plan_with_brief("", "", prompt, ready=ready, argument=build_argument)
    origin = handoff.predecessor
    parent = origin.path if origin.harness in ("pi", "omp") else ""
    predecessor = {"harness": origin.harness, "id": origin.thread_id, "path": origin.path}
    details = {"handoff": handoff.id, "predecessor": predecessor}
    records: list[Mapping[str, object]] = [build_header(id, request.cwd, timestamp, parent)]
    if not omp:
        name = cut_text(" ".join(goal.split()), 60)
        records.append({"type": "session_info", "name": name})
    records.append(build_handoff_message(request.context, details, "agent" if omp else ""))
    content = dump_records(link_records(records, timestamp))
    return replace(
        plan,
        argv=(*argv, path, *plan.argv[1:]),
        files=(PlannedFile(path, content),),
        thread_path=path,
        thread_id=id,
        note=plan.note if request.send else _NOTE,
    )


def build_argument(prompt: str) -> tuple[str, ...]:
    """Return a prompt as an argument, behind a blank where it looks like an option or a file."""
    return (f" {prompt}" if prompt[0] in "-@" else prompt,)
