"""Asking the agent of a thread of opencode, in a fork that is deleted afterwards. Seen: 1.18."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from tasuki.errors import ThreadUnreadable, UsageError
from tasuki.harness.jsonl import UNDECODABLE, output_lines, repaired, understood
from tasuki.harness.opencode import format as record
from tasuki.harness.opencode import store
from tasuki.harness.plans import CUT_OFF, ask_place
from tasuki.harness.protocol import AskAnswer, AskPlan, AskRequest

if TYPE_CHECKING:
    from sqlite3 import Connection

CONFIG = {
    "share": "disabled",
    "snapshot": False,
    "autoupdate": False,
    "permission": {"*": "deny", "bash": "deny", "edit": "deny"},
}
"""On top of the user's settings: nothing is published, changed or run."""
_VARIABLE = "OPENCODE_CONFIG_CONTENT"


class _Cache(Struct):
    read: int = 0
    write: int = 0


class _Tokens(Struct):
    input: int = 0
    output: int = 0
    cache: _Cache = msgspec.field(default_factory=_Cache)


class _Part(Struct):
    messageID: str = ""
    text: str = ""
    reason: str = ""
    tokens: _Tokens = msgspec.field(default_factory=_Tokens)
    cost: float = 0.0


class _Data(Struct):
    message: str = ""


class _Error(Struct):
    name: str = ""
    data: _Data = msgspec.field(default_factory=_Data)


class _Event(Struct):
    """A line of `--format json`: a whole part of a message, or an error."""

    type: str = ""
    sessionID: str = ""
    part: _Part = msgspec.field(default_factory=_Part)
    error: _Error | None = None


_EVENT = msgspec.json.Decoder(_Event)


def plan(program: str, request: AskRequest) -> AskPlan:
    """`opencode run -s ID --fork`, in the thread's database. UsageError for an export."""
    database = _database(request)
    if database is None:
        raise UsageError(
            f"{request.thread.path} is an export: opencode can only be asked about a thread in its "
            "database. Name that one, or draft without it: --author offline."
        )
    return AskPlan(
        argv=(program, "run", "-s", request.thread.id, "--fork", "--format", "json"),
        cwd=ask_place(request),
        stdin=request.question,
        env={
            _VARIABLE: _config(os.environ.get(_VARIABLE, "")),
            "OPENCODE_DB": str(database),
            "OPENCODE_PURE": "1",  # without the user's plugins
        },
    )


def _database(request: AskRequest) -> Path | None:
    path = Path(request.thread.path)
    holder = path.parent if path.parent.is_file() else path
    try:
        return holder if store.is_database(holder) else None
    except ThreadUnreadable:
        return None


def _config(own: str) -> str:
    """What the user gives that way, and what is set here."""
    try:
        given: Any = msgspec.json.decode(own)
    except UNDECODABLE:
        given = {}
    given = given if isinstance(given, dict) else {}
    return msgspec.json.encode({**given, **CONFIG}).decode()


def answered(output: str, request: AskRequest, program: str) -> AskAnswer:
    """The texts of the last message, and how the fork is deleted."""
    texts: list[str] = []
    steps: list[_Part] = []
    failed: _Error | None = None
    id = fork = ""
    for event in understood(output_lines(output), _EVENT):
        fork = event.sessionID or fork
        if event.part.messageID not in ("", id):
            id, texts = event.part.messageID, []
        if event.type == "text":
            texts.append(event.part.text)
        elif event.type == "step_finish":
            steps.append(event.part)
        elif event.type == "error":
            failed = event.error or _Error()
    cut = bool(steps) and steps[-1].reason == "length"
    error = (failed.data.message or failed.name or "an error without words") if failed else ""
    price = sum(step.cost for step in steps)
    fork = fork or _fork(request)
    return AskAnswer(
        text="" if error or cut else "\n".join(texts),
        input_tokens=sum(
            s.tokens.input + s.tokens.cache.read + s.tokens.cache.write for s in steps
        ),
        output_tokens=sum(s.tokens.output for s in steps),
        price=round(price, 6) if price else None,
        aborted=bool(failed and failed.name == "MessageAbortedError"),
        error=error or (CUT_OFF if cut else ""),
        remove=(program, "session", "delete", fork) if fork not in ("", request.thread.id) else (),
    )


def _fork(request: AskRequest) -> str:
    """The fork that was asked, by the question in it: it has no name before the model speaks."""
    path = Path(request.thread.path)
    database = _database(request)
    if database is None:
        return ""
    try:
        since = os.stat(request.scratch).st_ctime_ns // 1_000_000 - 60_000
        return store.ask(database, path, lambda db: _holding(db, request, since))
    except (OSError, ThreadUnreadable):
        return ""


def _holding(db: "Connection", request: AskRequest, since: int) -> str:
    """The session, made since then, in which the question stands, other than the thread itself."""
    asked = request.question.strip()
    query = (
        "SELECT p.session_id, p.data FROM session s JOIN part p ON p.session_id = s.id"
        " WHERE s.time_created >= ? AND s.id <> ? ORDER BY s.time_created DESC"
    )
    for id, data in db.execute(query, (since, request.thread.id)):
        for part in understood((repaired(data),), record.PART):
            if part.type == "text" and (part.text or "").strip() == asked:
                return store.text(id)
    return ""
