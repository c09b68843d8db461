"""Codex: `~/.codex/sessions/YYYY/MM/DD/rollout-<time>-<id>.jsonl`. Seen: 0.53 to 0.169."""

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from tasuki.harness.control import Control
from tasuki.harness.integration import Integration
from tasuki.harness.jsonl import UNDECODABLE, both_ends, scanned, thread_files
from tasuki.harness.plans import with_brief
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

HEAD_BYTES = 72 << 10
TAIL_BYTES = 16 << 10
FAR_BYTES = 256 << 10
"""How far into a file the first prompt is looked for, behind long instructions."""

_META = re.compile(rb'"type": ?"session_meta"')
_ID = re.compile(rb'"id": ?"([^"]+)"')
_CWD = re.compile(rb'"cwd": ?("[^"\\]*(?:\\.[^"\\]*)*")')
_ITEM = re.compile(rb'"item": ?\{"type": ?"(User|Agent)Message"')
_TYPED = re.compile(
    rb'"type": ?"user_message", ?"message": ?("[^"\\]*(?:\\.[^"\\]*)*")'
    rb'|"type": ?"UserMessage".{0,200}?"text": ?("[^"\\]*(?:\\.[^"\\]*)*")'
)
_USAGE = re.compile(rb'"last_token_usage": ?\{[^}]*"total_tokens": ?(\d+)')
_WINDOW = re.compile(rb'"model_context_window": ?(\d+)')
_NAME = re.compile(rb'"thread_name": ?("[^"\\]*(?:\\.[^"\\]*)*")')
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TYPED_MARKS = (b'"user_message"', b'"UserMessage"')
_KIND = slice(50, 150)
"""Where the kind of a record stands in its line."""
_READY = r"^› "


def _argument(prompt: str) -> tuple[str, ...]:
    return ("--", prompt) if prompt.startswith("-") else (prompt,)


def home() -> Path:
    """Folder of Codex; `CODEX_HOME` moves it."""
    base = os.environ.get("CODEX_HOME")
    return Path(base) if base else home_folder() / ".codex"


class Codex:
    """The adapter of Codex."""

    name = "codex"
    title = "Codex"
    program = "codex"
    can_start = True
    can_prefill = False
    can_ask = True
    caller = Caller("codex-mcp-client", meta=("x-codex-turn-metadata", "thread_id"))

    def files(self, cwd: Path | None = None) -> Iterator[ThreadFile]:
        """All rollouts: only their heads tell the folder."""
        for folder in ("sessions", "archived_sessions"):
            yield from _rollouts_in(str(home() / folder))

    def recognises(self, path: Path, first: bytes) -> bool:
        line = first.lstrip()[:300].partition(b"\n")[0]
        return line.startswith(b"{") and bool(_META.search(line))

    def head(self, file: ThreadFile) -> ThreadHead | None:
        first, last = both_ends(file.path, HEAD_BYTES, TAIL_BYTES)
        if not first:
            first, last = both_ends(file.path, FAR_BYTES, TAIL_BYTES)
        if not first or not _META.search(first[0], 0, 300):
            return None
        head = _Head(file)
        head.begin(first[0])
        head.take_all(first[1:])
        head.take_all(last)
        if last and not head.words:
            head.look_further()
        return head.result(sum(map(len, first[1:])) + sum(map(len, last)), whole=not last)

    def read(self, path: Path) -> Thread:
        from tasuki.harness.codex.read import Reader  # not needed to list threads

        return Reader(path, lambda id: rollout(id, path)).read()

    def skill_command(self, skill: str) -> str:
        return f"${skill}"

    def skill_folders(self, cwd: Path) -> tuple[Path, ...]:
        return (cwd / ".codex" / "skills", cwd / ".agents" / "skills", home() / "skills")

    def plan(self, request: LaunchRequest) -> LaunchPlan:
        """`codex PROMPT` where it is to be sent at once, else an unsent paste."""
        return with_brief(self.program, self.title, request, ready=_READY, argument=_argument)

    def ask(self, request: AskRequest) -> AskPlan:
        from tasuki.harness.codex import asking

        return asking.plan(self.program, request, home())

    def answered(self, output: str, request: AskRequest) -> AskAnswer:
        from tasuki.harness.codex import asking

        return asking.answered(output)

    def resume_command(self, thread: Thread) -> tuple[str, ...]:
        return (self.program, "resume", thread.id)

    def integration(self) -> Integration:
        from tasuki.harness.codex.installing import CodexIntegration

        return CodexIntegration()

    def control(self) -> Control:
        from tasuki.harness.codex.control import CodexControl

        return CodexControl()


def rollout(id: str, near: Path) -> Path | None:
    """The rollout of a thread, by its id: beside another one, or elsewhere in the store.

    Ids are UUIDs of version 7, so they tell the day, and with it the folder.
    """
    if not _UUID.fullmatch(id):
        return None
    pattern = f"rollout-*-{id}.jsonl"
    folders = [near.parent, *(f for store in _stores(near) for f in _folders(store, id))]
    found = (path for folder in dict.fromkeys(folders) for path in folder.glob(pattern))
    return next(found, None)


def _stores(near: Path) -> Iterator[Path]:
    for parent in near.parents:
        if parent.name in ("sessions", "archived_sessions"):
            yield parent.parent
    yield home()


def _folders(store: Path, id: str) -> Iterator[Path]:
    yield store / "archived_sessions"
    try:
        began = datetime.fromtimestamp(int(id.replace("-", "")[:12], 16) / 1000, UTC)
    except (ValueError, OverflowError):
        return  # an id of another kind
    for days in (0, -1, 1):
        day = began + timedelta(days=days)
        yield store / "sessions" / f"{day:%Y}" / f"{day:%m}" / f"{day:%d}"


def _rollouts_in(folder: str) -> Iterator[ThreadFile]:
    for entry in scanned(folder):
        if entry.is_dir(follow_symlinks=False):
            yield from _rollouts_in(entry.path)
        elif entry.name.startswith("rollout-") and entry.name.endswith(".jsonl"):
            yield from thread_files([entry])


class _Head:
    """What both ends of a file say; lines are looked at, not decoded."""

    def __init__(self, file: ThreadFile) -> None:
        self.file = file
        self.id = self.cwd = self.words = self.name = ""
        self.said = 0
        self.count = b""

    def begin(self, line: bytes) -> None:
        """The `session_meta` line: instructions of many kB, behind what is wanted."""
        id, cwd = _ID.search(line, 0, 2000), _CWD.search(line, 0, 4000)
        self.id = id[1].decode("utf-8", "replace") if id else ""
        self.cwd = _string(cwd[1]) if cwd else ""

    def take_all(self, lines: list[bytes]) -> None:
        """Lines in the order of the file; the kind of a record stands near its beginning."""
        for line in lines:
            kind = line[_KIND]
            if b'_message"' in kind or (b'item_completed"' in kind and _ITEM.search(line, 60, 500)):
                self.said += 1
                if not self.words:
                    self._typed(line)
            elif b'token_count"' in kind:
                self.count = line
            elif b'thread_name_updated"' in kind and (name := _NAME.search(line)):
                self.name = _string(name[1])

    def look_further(self) -> None:
        """The first prompt stands behind instructions that fill the usual window."""
        for line in both_ends(self.file.path, FAR_BYTES, 0)[0]:
            if any(mark in line[:500] for mark in _TYPED_MARKS):
                self._typed(line)
                return

    def _typed(self, line: bytes) -> None:
        if match := _TYPED.search(line):
            self.words = " ".join(_string(match[1] or match[2]).split())[:120]

    def result(self, read: int, whole: bool) -> ThreadHead | None:
        """The head; messages were counted in `read` bytes behind the first line."""
        if not self.id or (whole and not self.words):
            return None
        file = self.file
        usage, window = _USAGE.search(self.count), _WINDOW.search(self.count)
        return ThreadHead(
            harness="codex",
            id=self.id,
            path=str(file.path),
            cwd=self.cwd,
            name=self.name,
            first_words=self.words,
            modified=file.modified,
            bytes=file.bytes,
            messages=self.said if whole else round(self.said * file.bytes / (read or 1)),
            exact=whole,
            context_tokens=int(usage[1]) if usage else None,
            context_window=int(window[1]) if window else None,
        )


def _string(raw: bytes) -> str:
    try:
        return msgspec.json.decode(raw, type=str)
    except UNDECODABLE:
        return raw[1:-1].decode("utf-8", "replace")
