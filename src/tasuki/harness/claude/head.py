"""Find threads of Claude Code, and read what a list of them shows."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from tasuki.files import find_home_folder
from tasuki.harness.claude.format import ClaudeMessage, count_context_tokens
from tasuki.harness.protocol import ThreadFile
from tasuki.harness.reading.jsonl import decode_line, list_thread_files, read_both_ends, scan_folder
from tasuki.model import ThreadHead

HEAD_BYTES = 12 << 10
TAIL_BYTES = 16 << 10


class _ClaudeHeadLine(Struct):
    type: str = ""
    sessionId: str = ""
    cwd: str = ""
    isMeta: bool | None = False
    isSidechain: bool = False
    message: ClaudeMessage | None = None
    customTitle: str = ""
    aiTitle: str = ""
    messageCount: int = 0


_LINE = msgspec.json.Decoder(_ClaudeHeadLine)


def get_projects_folder() -> Path:
    """Return the folder of all threads of Claude Code; `CLAUDE_CONFIG_DIR` moves it."""
    base = os.environ.get("CLAUDE_CONFIG_DIR")
    return (Path(base) if base else find_home_folder() / ".claude") / "projects"


def build_folder_name(cwd: Path) -> str:
    """Return the folder name of a working directory.

    Every character but letters and digits becomes `-`. Over 200 characters Claude Code cuts and
    appends a hash; the prefix is returned then.
    """
    return re.sub(r"[^A-Za-z0-9]", "-", os.path.realpath(cwd))[:200]


def list_threads(cwd: Path | None) -> Iterator[ThreadFile]:
    """Yield thread files of one working directory, or of all of them."""
    folder = build_folder_name(cwd) if cwd is not None else ""
    for directory in (d for d in scan_folder(get_projects_folder()) if d.is_dir()):
        if folder and not directory.name.startswith(folder):
            continue
        if folder and len(folder) < 200 and directory.name != folder:
            continue
        yield from list_thread_files(
            e
            for e in scan_folder(directory.path)
            if e.name.endswith(".jsonl") and not e.name.startswith("agent-")
        )


def read_head(file: ThreadFile) -> ThreadHead | None:
    """Read both ends of a file; None without a conversation."""
    first, last = read_both_ends(file.path, HEAD_BYTES, TAIL_BYTES)
    head = _ClaudeHead(file)
    for line in first:
        head.read_start(line)
    for line in reversed(last):
        head.read_end(line)
    return head.build_head(first, last)


class _ClaudeHead:
    """What both ends of a file show."""

    def __init__(self, file: ThreadFile) -> None:
        self.file = file
        self.id = self.cwd = self.title = self.ai_title = self.words = ""
        self.seen = 0
        self.counted = 0
        self.conversation = self.ended = False
        self.context: int | None = None

    def read_start(self, line: bytes) -> None:
        if (parsed := decode_line(_LINE, line)) is None or parsed.isSidechain:
            return
        self._read_common(parsed)
        message = parsed.message
        if not self.words and parsed.type == "user" and message and not parsed.isMeta:
            self.words = _extract_first_words(message)
        if message and message.usage and parsed.type == "assistant":
            self.context = count_context_tokens(message.usage) or self.context

    def read_end(self, line: bytes) -> None:
        if (parsed := decode_line(_LINE, line)) is None or parsed.isSidechain:
            return
        self._read_common(parsed)
        self.counted = self.counted or parsed.messageCount
        usage = parsed.message.usage if parsed.message else None
        if usage and parsed.type == "assistant" and not self.ended:
            tokens = count_context_tokens(usage)  # 0 where the harness itself speaks, of an error
            self.context, self.ended = tokens or self.context, bool(tokens)

    def _read_common(self, line: _ClaudeHeadLine) -> None:
        self.id = self.id or line.sessionId
        self.cwd = self.cwd or line.cwd
        self.title = self.title or line.customTitle
        self.ai_title = self.ai_title or line.aiTitle
        if line.type in ("user", "assistant") and line.message:
            self.conversation = True
            self.seen += 1

    def build_head(self, first: list[bytes], last: list[bytes]) -> ThreadHead | None:
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


def _extract_first_words(message: ClaudeMessage) -> str:
    content = message.content
    if not isinstance(content, str):
        content = " ".join(part.text for part in content or () if part.text)
    text = content.strip()
    return "" if text.startswith(("<", "Caveat:", "[Request")) else " ".join(text.split())[:120]
