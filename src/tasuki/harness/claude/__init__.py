"""Claude Code: `~/.claude/projects/<folder>/<session>.jsonl`. Seen: 2.0.76, 2.1.330."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from tasuki.harness.claude.format import Message, context_tokens
from tasuki.harness.control import Control
from tasuki.harness.integration import Integration
from tasuki.harness.jsonl import both_ends, decoded, scanned, thread_files
from tasuki.harness.plans import MAX_ARGUMENT
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

HEAD_BYTES = 12 << 10
TAIL_BYTES = 16 << 10
UNSET = ("CLAUDECODE", "CLAUDE_CODE_CHILD_SESSION", "CLAUDE_CODE_SESSION_ID")

_FIRST_KEYS = re.compile(
    rb'"(?:sessionId|parentUuid|leafUuid)"|"type": ?"(?:summary|file-history-snapshot)"'
)
_NOT_OURS = re.compile(
    rb'\A\s*\{(?:\s*\Z|"(?:timestamp|ordinal|info)")|"type": ?"session(?:_meta|\.start)?"'
    rb'|\A\s*\{"sessionId": ?"[^"]*", ?"projectHash"'
)
_READY = r"^[❯>]\s"
"""At the edge of the screen: the cursor of a dialog stands one column further in."""


class _Line(Struct):
    type: str = ""
    sessionId: str = ""
    cwd: str = ""
    isMeta: bool | None = False
    isSidechain: bool = False
    message: Message | None = None
    customTitle: str = ""
    aiTitle: str = ""
    messageCount: int = 0


_LINE = msgspec.json.Decoder(_Line)


def projects() -> Path:
    """Folder that holds all threads of Claude Code; `CLAUDE_CONFIG_DIR` moves it."""
    base = os.environ.get("CLAUDE_CONFIG_DIR")
    return (Path(base) if base else home_folder() / ".claude") / "projects"


def folder_name(cwd: Path) -> str:
    """Folder name of a working directory: every character but letters and digits becomes `-`.

    Over 200 characters Claude Code cuts and appends a hash; the prefix is returned then.
    """
    return re.sub(r"[^A-Za-z0-9]", "-", os.path.realpath(cwd))[:200]


class Claude:
    """The adapter of Claude Code."""

    name = "claude"
    title = "Claude Code"
    program = "claude"
    can_start = True
    can_prefill = True
    can_ask = True
    caller = Caller("claude-code", variable="CLAUDE_CODE_SESSION_ID")

    def files(self, cwd: Path | None = None) -> Iterator[ThreadFile]:
        folder = folder_name(cwd) if cwd is not None else ""
        for directory in (d for d in scanned(projects()) if d.is_dir()):
            if folder and not directory.name.startswith(folder):
                continue
            if folder and len(folder) < 200 and directory.name != folder:
                continue
            yield from _threads_in(directory.path)

    def recognises(self, path: Path, first: bytes) -> bool:
        line = first.lstrip().partition(b"\n")[0]
        return (
            line.startswith(b"{")
            and not _NOT_OURS.search(line[:200])
            and bool(_FIRST_KEYS.search(first))
        )

    def head(self, file: ThreadFile) -> ThreadHead | None:
        first, last = both_ends(file.path, HEAD_BYTES, TAIL_BYTES)
        head = _Head(file)
        for line in first:
            head.from_start(line)
        for line in reversed(last):
            head.from_end(line)
        return head.result(first, last)

    def read(self, path: Path) -> Thread:
        from tasuki.harness.claude.read import Reader  # not needed to list threads

        return Reader(path).read()

    def skill_command(self, skill: str) -> str:
        return f"/{skill}"

    def skill_folders(self, cwd: Path) -> tuple[Path, ...]:
        return (cwd / ".claude" / "skills", projects().parent / "skills")

    def plan(self, request: LaunchRequest) -> LaunchPlan:
        """`claude --prefill TEXT`, or the prompt itself where it is to be sent at once."""
        text = request.brief
        model = ("--model", request.model) if request.model else ()
        fits = len(text.encode()) <= MAX_ARGUMENT
        argument: tuple[str, ...] = ()
        if fits:
            argument = (text,) if request.send else ("--prefill", text)
        return LaunchPlan(
            argv=(self.program, *model, *request.arguments, *argument),
            cwd=request.cwd,
            unset=UNSET,
            paste="" if fits else text,
            submit=request.send,
            ready=_READY,
        )

    def ask(self, request: AskRequest) -> AskPlan:
        from tasuki.harness.claude import asking

        return asking.plan(self.program, request, projects(), UNSET)

    def answered(self, output: str, request: AskRequest) -> AskAnswer:
        from tasuki.harness.claude import asking

        return asking.answered(output, request)

    def resume_command(self, thread: Thread) -> tuple[str, ...]:
        return (self.program, "--resume", thread.id)

    def integration(self) -> Integration:
        from tasuki.harness.claude.installing import ClaudeIntegration

        return ClaudeIntegration()

    def control(self) -> Control:
        from tasuki.harness.claude.control import ClaudeControl

        return ClaudeControl()


def _threads_in(folder: str) -> Iterator[ThreadFile]:
    yield from thread_files(
        e for e in scanned(folder) if e.name.endswith(".jsonl") and not e.name.startswith("agent-")
    )


class _Head:
    """What both ends of a file say."""

    def __init__(self, file: ThreadFile) -> None:
        self.file = file
        self.id = self.cwd = self.title = self.ai_title = self.words = ""
        self.seen = 0
        self.counted = 0
        self.conversation = self.ended = False
        self.context: int | None = None

    def from_start(self, line: bytes) -> None:
        if (parsed := decoded(_LINE, line)) is None or parsed.isSidechain:
            return
        self._common(parsed)
        message = parsed.message
        if not self.words and parsed.type == "user" and message and not parsed.isMeta:
            self.words = _first_words(message)
        if message and message.usage and parsed.type == "assistant":
            self.context = context_tokens(message.usage) or self.context

    def from_end(self, line: bytes) -> None:
        if (parsed := decoded(_LINE, line)) is None or parsed.isSidechain:
            return
        self._common(parsed)
        self.counted = self.counted or parsed.messageCount
        usage = parsed.message.usage if parsed.message else None
        if usage and parsed.type == "assistant" and not self.ended:
            tokens = context_tokens(usage)  # 0 where the harness itself speaks, of an error
            self.context, self.ended = tokens or self.context, bool(tokens)

    def _common(self, line: _Line) -> None:
        self.id = self.id or line.sessionId
        self.cwd = self.cwd or line.cwd
        self.title = self.title or line.customTitle
        self.ai_title = self.ai_title or line.aiTitle
        if line.type in ("user", "assistant") and line.message:
            self.conversation = True
            self.seen += 1

    def result(self, first: list[bytes], last: list[bytes]) -> ThreadHead | None:
        if not self.id or not (self.conversation or last):
            return None
        file = self.file
        read = sum(map(len, first)) + sum(map(len, last)) or 1
        whole = not last
        stem = file.path.stem
        return ThreadHead(
            harness="claude",
            id=stem if len(stem) == 36 else self.id,
            path=str(file.path),
            cwd=self.cwd,
            name=self.title or self.ai_title,
            first_words=self.words,
            modified=file.modified,
            bytes=file.bytes,
            messages=self.counted or (self.seen if whole else round(self.seen * file.bytes / read)),
            exact=bool(whole or self.counted),
            context_tokens=self.context,
        )


def _first_words(message: Message) -> str:
    content = message.content
    if not isinstance(content, str):
        content = " ".join(part.text for part in content or () if part.text)
    text = content.strip()
    return "" if text.startswith(("<", "Caveat:", "[Request")) else " ".join(text.split())[:120]
