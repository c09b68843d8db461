"""Find sessions of Copilot CLI, and read what a list of them shows."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from tasuki.files import find_home_folder
from tasuki.harness.copilot.format import (
    LINE,
    CopilotContext,
    CopilotEvent,
    CopilotStart,
    CopilotStatement,
    CopilotUsageRecord,
    CopilotUserMessage,
    choose_name,
    decode_data,
    read_workspace,
)
from tasuki.harness.protocol import ThreadFile
from tasuki.harness.reading.jsonl import UNDECODABLE, decode_line, read_both_ends, scan_folder
from tasuki.harness.reading.speakers import extract_first_words
from tasuki.model import ThreadHead
from tasuki.patterns import compile_pattern

T = TypeVar("T")

HEAD_BYTES = 48 << 10
TAIL_BYTES = 24 << 10

_SESSION = compile_pattern(rb'\A\s*\{"type": ?"session\.start", ?"data": ?\{"sessionId": ?"')
_SAID = compile_pattern(rb'\A\{"type": ?"(?:user|assistant)\.message"')
_OF_AGENT = compile_pattern(rb'\},"agentId":"[^"]*","id":"[^"]*"')


def get_home() -> Path:
    """Return the folder of Copilot CLI; `COPILOT_HOME` moves it."""
    base = os.environ.get("COPILOT_HOME", "")
    return Path(base) if base else find_home_folder() / ".copilot"


def is_session(first: bytes) -> bool:
    """Tell whether a file begins as a session of Copilot CLI does."""
    return bool(_SESSION.match(first))


def list_sessions() -> Iterator[ThreadFile]:
    """Yield the event logs of all sessions: only their heads name the folder."""
    for folder in scan_folder(get_home() / "session-state"):
        path = Path(folder.path, "events.jsonl")
        try:
            stat = path.stat()
        except OSError:
            continue
        if stat.st_size:
            yield ThreadFile(path=path, modified=stat.st_mtime, bytes=stat.st_size)


def read_head(file: ThreadFile) -> ThreadHead | None:
    """Read both ends of a file; None without a start or without a prompt."""
    first, last = read_both_ends(file.path, HEAD_BYTES, TAIL_BYTES)
    head = _CopilotHead()
    for line in first:
        head.read_start(line)
    for line in reversed(last or first):
        if head.read_end(line):
            break
    if head.start is None or not head.start.sessionId or not (head.words or last):
        return None
    fields = read_workspace(file.path.parent)
    message_count = sum(
        bool(_SAID.match(line)) and not _OF_AGENT.search(line) for line in (*first, *last)
    )
    read = sum(map(len, first)) + sum(map(len, last)) or 1
    return ThreadHead(
        harness="copilot",
        id=head.start.sessionId,
        path=str(file.path),
        cwd=fields.get("cwd") or head.place.cwd,
        name=choose_name(fields, head.words) or head.title,
        first_words=head.words,
        modified=file.modified,
        bytes=file.bytes,
        messages=message_count if not last else round(message_count * file.bytes / read),
        exact=not last,
        context_tokens=head.context,
        context_window=head.window,
    )


class _CopilotHead:
    """What both ends of a file show."""

    def __init__(self) -> None:
        self.start: CopilotStart | None = None
        self.place = CopilotContext()
        self.words = self.title = ""
        self.context: int | None = None
        self.window: int | None = None

    def read_start(self, raw: bytes) -> None:
        """Read a line, first one first."""
        if self.start is None and b'"session.start"' in raw[:60]:
            if line := decode_line(LINE, raw):
                self.start = _decode_data(line, CopilotStart)
                self.place = self.start.context
        elif not self.words and b'"user.message"' in raw[:60]:
            line = decode_line(LINE, raw)
            if line and line.type == "user.message" and not line.agentId:
                message = _decode_data(line, CopilotUserMessage)
                by_program = bool(message.source) and message.source != "user"
                self.words = extract_first_words(message.content, "program" if by_program else "")

    def read_end(self, raw: bytes) -> bool:
        """Read a line, last one first; True once nothing more is wanted."""
        if not self.title and b'"session.title_changed"' in raw[:60]:
            line = decode_line(LINE, raw)
            self.title = (_decode_data(line, CopilotStatement).title or "") if line else ""
        elif self.context is None and b'"session.usage_record"' in raw[:60]:
            line = decode_line(LINE, raw)
            if line and not line.agentId:
                usage = _decode_data(line, CopilotUsageRecord).usage
                if usage.inputTokens > 0:
                    self.context = usage.inputTokens + usage.outputTokens
                    self.window = usage.maxPromptTokens
        return self.context is not None


def _decode_data(line: CopilotEvent, kind: type[T]) -> T:
    try:
        return decode_data(line, kind)
    except UNDECODABLE:
        return kind()
