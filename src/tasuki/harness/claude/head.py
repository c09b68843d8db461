"""Find threads of Claude Code, and read what a list of them shows."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Raw, Struct

from tasuki.files import find_home_folder
from tasuki.harness.claude.format import (
    ClaudeLine,
    ClaudeOrigin,
    ClaudeUsage,
    count_context_tokens,
    decode_text,
    find_evidence,
    read_channel_message,
    remove_paste_marks,
)
from tasuki.harness.protocol import ThreadFile
from tasuki.harness.reading.jsonl import (
    decode_block,
    list_thread_files,
    read_end_blocks,
    scan_folder,
)
from tasuki.harness.reading.speakers import extract_first_words
from tasuki.model import ThreadHead

HEAD_BYTES = 12 << 10
TAIL_BYTES = 16 << 10


class _ClaudeHeadMessage(Struct, gc=False):
    """A message, of which a list shows the words of the first alone."""

    content: Raw = Raw(b"null")
    usage: ClaudeUsage | None = None


class _ClaudeHeadLine(Struct, gc=False):
    type: str = ""
    sessionId: str = ""
    cwd: str = ""
    isMeta: bool | None = False
    isSidechain: bool = False
    isCompactSummary: bool = False
    promptSource: str = ""
    rowSource: str = ""
    turnOrigin: str | None = ""
    origin: ClaudeOrigin | None = None
    message: _ClaudeHeadMessage | None = None
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
    first, last = read_end_blocks(file.path, HEAD_BYTES, TAIL_BYTES)
    head = _ClaudeHead(file)
    head.read_start(decode_block(_LINE, first))
    head.read_end(decode_block(_LINE, last))
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

    def read_start(self, lines: list[_ClaudeHeadLine]) -> None:
        for line in lines:
            if line.isSidechain:
                continue
            message, kind = self._read_common(line), line.type
            if message is None:
                continue
            if kind == "user" and not self.words and not line.isCompactSummary:
                self.words = _extract_first_words(line, message)
            if kind == "assistant" and message.usage:
                self.context = count_context_tokens(message.usage) or self.context

    def read_end(self, lines: list[_ClaudeHeadLine]) -> None:
        for line in reversed(lines):
            if line.isSidechain:
                continue
            message = self._read_common(line)
            self.counted = self.counted or line.messageCount
            if message and message.usage and line.type == "assistant" and not self.ended:
                # 0 where the harness itself speaks, of an error
                tokens = count_context_tokens(message.usage)
                self.context, self.ended = tokens or self.context, bool(tokens)

    def _read_common(self, line: _ClaudeHeadLine) -> _ClaudeHeadMessage | None:
        self.id = self.id or line.sessionId
        self.cwd = self.cwd or line.cwd
        self.title = self.title or line.customTitle
        self.ai_title = self.ai_title or line.aiTitle
        message = line.message
        if message and line.type in ("user", "assistant"):
            self.conversation = True
            self.seen += 1
        return message

    def build_head(self, first: bytes, last: bytes) -> ThreadHead | None:
        if not self.id or not (self.conversation or last):
            return None
        file = self.file
        read = sum(len(block) - block.count(b"\n") for block in (first, last)) or 1
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


def _extract_first_words(line: _ClaudeHeadLine, message: _ClaudeHeadMessage) -> str:
    mark = {name: getattr(line, name) for name in _MARKS}
    text = remove_paste_marks(decode_text(message.content))
    if chat := read_channel_message(line.origin, text):
        return " ".join(chat.words.split())[:120]
    return extract_first_words(text, find_evidence(ClaudeLine(**mark)))


_MARKS = ("isMeta", "promptSource", "rowSource", "turnOrigin", "origin")
