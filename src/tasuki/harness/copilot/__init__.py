"""Copilot CLI: `~/.copilot/session-state/<id>/events.jsonl`. Seen: 1.0.102."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from tasuki.harness import plans
from tasuki.harness.control import Control
from tasuki.harness.copilot.format import (
    LINE,
    Context,
    Line,
    Start,
    Told,
    UsageRecord,
    UserMessage,
    data_of,
    workspace,
)
from tasuki.harness.copilot.read import Reader, named
from tasuki.harness.integration import Integration
from tasuki.harness.jsonl import UNDECODABLE, both_ends, decoded, scanned
from tasuki.harness.protocol import (
    AskAnswer,
    AskPlan,
    AskRequest,
    Caller,
    LaunchPlan,
    LaunchRequest,
    ThreadFile,
)
from tasuki.model import Thread, ThreadHead
from tasuki.paths import home_folder

T = TypeVar("T")

HEAD_BYTES = 48 << 10
TAIL_BYTES = 24 << 10

_READY = r"/ commands"
"""The line below the input, once the program takes any: `/ commands · ? help`."""
_SESSION = re.compile(rb'\A\s*\{"type": ?"session\.start", ?"data": ?\{"sessionId": ?"')
_SAID = re.compile(rb'\A\{"type": ?"(?:user|assistant)\.message"')
_OF_AGENT = re.compile(rb'\},"agentId":"[^"]*","id":"[^"]*"')


def home() -> Path:
    """Folder of Copilot CLI; `COPILOT_HOME` moves it."""
    base = os.environ.get("COPILOT_HOME", "")
    return Path(base) if base else home_folder() / ".copilot"


class Copilot:
    """The adapter of Copilot CLI."""

    name = "copilot"
    title = "Copilot CLI"
    program = "copilot"
    can_start = True
    can_prefill = False
    can_ask = False
    caller = Caller("copilot-cli", variable="COPILOT_AGENT_SESSION_ID")

    def files(self, cwd: Path | None = None) -> Iterator[ThreadFile]:
        for folder in scanned(home() / "session-state"):
            path = Path(folder.path, "events.jsonl")
            try:
                stat = path.stat()
            except OSError:
                continue
            if stat.st_size:
                yield ThreadFile(path=path, modified=stat.st_mtime, bytes=stat.st_size)

    def recognises(self, path: Path, first: bytes) -> bool:
        return bool(_SESSION.match(first))

    def head(self, file: ThreadFile) -> ThreadHead | None:
        first, last = both_ends(file.path, HEAD_BYTES, TAIL_BYTES)
        head = _Head()
        for line in first:
            head.from_start(line)
        for line in reversed(last or first):
            if head.from_end(line):
                break
        if head.start is None or not head.start.sessionId or not (head.words or last):
            return None
        noted = workspace(file.path.parent)
        said = sum(1 for line in (*first, *last) if _said(line))
        read = sum(map(len, first)) + sum(map(len, last)) or 1
        return ThreadHead(
            harness=self.name,
            id=head.start.sessionId,
            path=str(file.path),
            cwd=noted.get("cwd") or head.place.cwd,
            name=named(noted, head.words) or head.title,
            first_words=head.words,
            modified=file.modified,
            bytes=file.bytes,
            messages=said if not last else round(said * file.bytes / read),
            exact=not last,
            context_tokens=head.context,
            context_window=head.window,
        )

    def read(self, path: Path) -> Thread:
        return Reader(path).read()

    def skill_command(self, skill: str) -> str:
        return f"/{skill}"

    def skill_folders(self, cwd: Path) -> tuple[Path, ...]:
        own = tuple(cwd / base / "skills" for base in (".github", ".agents", ".claude"))
        return (*own, home() / "skills", home_folder() / ".agents" / "skills")

    def plan(self, request: LaunchRequest) -> LaunchPlan:
        return plans.with_brief(self.program, self.title, request, ready=_READY, argument=_argument)

    def ask(self, request: AskRequest) -> AskPlan:
        plans.not_asked(self.title)

    def answered(self, output: str, request: AskRequest) -> AskAnswer:
        plans.not_asked(self.title)

    def resume_command(self, thread: Thread) -> tuple[str, ...]:
        return (self.program, f"--resume={thread.id}")

    def integration(self) -> Integration:
        from tasuki.harness.copilot.installing import CopilotIntegration

        return CopilotIntegration()

    def control(self) -> Control:
        from tasuki.harness.copilot.control import CopilotControl

        return CopilotControl()


def _argument(text: str) -> tuple[str, ...]:
    return (f"--interactive={text}",) if text.startswith("-") else ("-i", text)


def _said(line: bytes) -> bool:
    return bool(_SAID.match(line)) and not _OF_AGENT.search(line)


class _Head:
    """What both ends of a file say."""

    def __init__(self) -> None:
        self.start: Start | None = None
        self.place = Context()
        self.words = self.title = ""
        self.context: int | None = None
        self.window: int | None = None

    def from_start(self, raw: bytes) -> None:
        """Take in a line, first one first."""
        if self.start is None and b'"session.start"' in raw[:60]:
            if line := decoded(LINE, raw):
                self.start = _data(line, Start)
                self.place = self.start.context
        elif not self.words and b'"user.message"' in raw[:60]:
            line = decoded(LINE, raw)
            if line and line.type == "user.message" and not line.agentId:
                self.words = " ".join(_data(line, UserMessage).content.split())[:120]

    def from_end(self, raw: bytes) -> bool:
        """Take in a line, last one first; True once nothing more is wanted."""
        if not self.title and b'"session.title_changed"' in raw[:60]:
            line = decoded(LINE, raw)
            self.title = (_data(line, Told).title or "") if line else ""
        elif self.context is None and b'"session.usage_record"' in raw[:60]:
            line = decoded(LINE, raw)
            if line and not line.agentId:
                usage = _data(line, UsageRecord).usage
                if usage.inputTokens > 0:
                    self.context = usage.inputTokens + usage.outputTokens
                    self.window = usage.maxPromptTokens
        return self.context is not None


def _data(line: Line, kind: type[T]) -> T:
    try:
        return data_of(line, kind)
    except UNDECODABLE:
        return kind()
