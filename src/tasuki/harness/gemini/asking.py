"""Asking the agent of a thread of Gemini CLI: on a copy, in a home folder of its own. Seen: 0.61.

At home it would take the copy in as a new thread, add a summary to the user's last one, and clear
away others with the same short id. So `tmp`, `history` and the registry of projects are new and
empty; login and everything else are links to the user's own.
"""

import re
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from tasuki.harness.jsonl import output_lines, scanned, understood
from tasuki.harness.plans import ask_place
from tasuki.harness.protocol import AskAnswer, AskPlan, AskRequest, PlannedFile

OWN = {"tmp", "history", "projects.json", "state.json", "settings.json", "extensions"}
"""Entries of `.gemini` that are not the user's: what the program writes, and settings changed here."""
POLICY = '[[rule]]\ntoolName = "*"\ndecision = "deny"\npriority = 999\n'
FLAGS = ("--output-format", "stream-json", "-e", "none", "--allowed-mcp-server-names", "none")
_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)


class _Stats(Struct):
    input_tokens: int = 0
    output_tokens: int = 0


class _Error(Struct):
    message: str = ""


class _Event(Struct):
    """A line of `--output-format stream-json`; the last one is of type `result`."""

    type: str = ""
    role: str = ""
    content: str = ""
    model: str = ""
    status: str = ""
    error: _Error | None = None
    stats: _Stats | None = None


_EVENT = msgspec.json.Decoder(_Event)


def plan(program: str, request: AskRequest, own: Path) -> AskPlan:
    """`gemini --session-file COPY`, every tool denied; `own` is the user's `.gemini`."""
    scratch = Path(request.scratch)
    home = scratch / "home"
    copy = scratch / f"thread{Path(request.thread.path).suffix}"
    policy = scratch / "deny.toml"
    settings = _settings(own / "settings.json")
    return AskPlan(
        argv=(
            *(program, "--session-file", str(copy), *FLAGS),
            *("--admin-policy", str(policy), "-p", ""),
        ),
        cwd=ask_place(request),
        stdin=request.question,
        env={"GEMINI_CLI_HOME": str(home)},
        copies=((request.thread.path, str(copy)),),
        links=tuple(_links(own, home)),
        files=(
            PlannedFile(str(policy), POLICY),
            PlannedFile(str(home / ".gemini" / "settings.json"), settings),
        ),
    )


def _links(own: Path, home: Path) -> list[tuple[str, str]]:
    entries = [e for e in scanned(own) if e.name not in OWN and not e.name.endswith(".lock")]
    links = [(e.path, str(home / ".gemini" / e.name)) for e in entries]
    beside = [own.parent / name for name in (".env", ".agents")]
    return links + [(str(path), str(home / path.name)) for path in beside if path.exists()]


def _settings(path: Path) -> str:
    """The user's settings without their hooks; the file may hold comments."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
        settings: Any = msgspec.json.decode(_COMMENT.sub(lambda m: m[1] or "", text))
    except (OSError, msgspec.MsgspecError, RecursionError):
        settings = {}
    if not isinstance(settings, dict):
        settings = {}
    settings.pop("hooks", None)
    return msgspec.json.encode({**settings, "hooksConfig": {"enabled": False}}).decode()


def answered(output: str) -> AskAnswer:
    """What came after the last tool; a turn without a result was broken off."""
    pieces: list[str] = []
    model = error = ""
    began = False
    end: _Event | None = None
    for event in understood(output_lines(output), _EVENT):
        if event.type == "init":
            began, model = True, event.model
        elif event.type == "message" and event.role == "assistant":
            pieces.append(event.content)
        elif event.type.startswith("tool_"):
            pieces = []
        elif event.type == "result":
            end = event
    if end and end.status != "success":
        error = (end.error or _Error()).message or "an error without words"
    stats = (end.stats if end else None) or _Stats()
    return AskAnswer(
        text="" if error else "".join(pieces),
        model=model,
        input_tokens=stats.input_tokens,
        output_tokens=stats.output_tokens,
        aborted=began and end is None,
        error=error,
    )
