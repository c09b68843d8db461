"""Find threads of Claude Code, and read what a list of them shows."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Raw, Struct

from tasuki.files import find_home_folder, find_program_folder
from tasuki.harness.claude import format as record
from tasuki.harness.protocol import ThreadFile
from tasuki.harness.reading.heads import HeadReader, parse_time
from tasuki.harness.reading.jsonl import decode_line, list_thread_files, scan_folder
from tasuki.harness.reading.speakers import extract_first_words
from tasuki.patterns import compile_pattern

_COMMAND_FIELD = compile_pattern(r"(?s)<command-(name|args)>(.*?)</command-\1>")
_DESKTOP = (".config/Claude", "Library/Application Support/Claude")
"""Folders of Claude Desktop, whose local agent mode keeps threads of Claude Code."""


class _ClaudeHeadMessage(Struct, gc=False):
    """A message, of which a list shows the words of the first alone."""

    content: Raw = Raw(b"null")
    usage: record.ClaudeUsage | None = None


class _ClaudeWorktree(Struct, gc=False):
    """Where a thread was before it entered a worktree."""

    originalCwd: str = ""


class _ClaudeHeadLine(record.ClaudeLine):
    message: _ClaudeHeadMessage | None = None  # type: ignore[assignment]
    attachment: Raw = Raw()  # type: ignore[assignment]
    worktreeSession: _ClaudeWorktree | None = None


_LINE = msgspec.json.Decoder(_ClaudeHeadLine)


def get_home() -> Path:
    """Return the folder of Claude Code; `CLAUDE_CONFIG_DIR` moves it."""
    return find_program_folder("CLAUDE_CONFIG_DIR", ".claude")


def get_projects_folder() -> Path:
    """Return the folder of all threads of Claude Code."""
    return get_home() / "projects"


def build_folder_name(cwd: Path) -> str:
    """Return the folder name of a working directory, as JavaScript counts its characters.

    Every character but letters and digits becomes `-`. Over 200 characters Claude Code cuts and
    appends a hash; the prefix is returned then.
    """
    units = re.sub(r"[\U00010000-\U0010ffff]", "--", os.path.realpath(cwd))
    return re.sub(r"[^A-Za-z0-9]", "-", units)[:200]


_FIRST_KEYS = compile_pattern(
    rb'"(?:sessionId|parentUuid|leafUuid)"|"type": ?"(?:summary|file-history-snapshot)"'
)
_NOT_OURS = compile_pattern(
    rb'\A\s*\{(?:\s*\Z|"(?:timestamp|ordinal|info)")|"type": ?"session(?:_meta|\.start)?"'
    rb'|\A\s*\{"sessionId": ?"[^"]*", ?"projectHash"'
)


MAX_SETTING = 5
"""Words of a command, with its name, that sets something; more of them tell something."""


class ClaudeHead(HeadReader):
    """What both ends of a thread show."""

    harness = "claude"
    head_bytes = 12 << 10
    tail_bytes = 16 << 10
    _is_known = False
    """The size of the context was found."""

    @staticmethod
    def list_files() -> Iterator[ThreadFile]:
        """Yield all thread files: only their lines name the folders."""
        desktop = (find_home_folder() / place / "local-agent-mode-sessions" for place in _DESKTOP)
        sessions = (
            s for f in desktop if f.is_dir() for s in f.glob("*/*/local_*/.claude/projects")
        )
        for projects in (get_projects_folder(), *sessions):
            for directory in (d for d in scan_folder(projects) if os.path.isdir(d.path)):
                files = (e for e in scan_folder(directory.path) if e.name.endswith(".jsonl"))
                yield from list_thread_files(e for e in files if not e.name.startswith("agent-"))

    @staticmethod
    def is_thread(path: Path, first: bytes) -> bool:  # noqa: ARG004
        """Tell whether a file begins as a thread of Claude Code does."""
        line = first.lstrip().partition(b"\n")[0]
        is_other = not line.startswith(b"{") or _NOT_OURS.search(line[:200])
        return not is_other and bool(_FIRST_KEYS.search(first))

    def take_start(self, line: bytes) -> None:
        row = self._take(line)
        message = row.message if row else None
        if self.words.startswith("/") and b"<local-command-std" in line:
            self._take_back_command()
        if row is None or message is None or row.type not in ("user", "assistant"):
            return
        if row.type == "assistant":
            self.messages += bool(record.decode_text(message.content).strip())
        elif not row.isCompactSummary and (words := _extract_words(row, message.content)):
            self.words = self.words or words
            self.messages += 1

    def _take_back_command(self) -> None:
        """Take the only words so far, a command that printed something at once, for no prompt."""
        if self.messages == 1 and len(self.words.split()) <= MAX_SETTING:
            self.words, self.messages = "", 0

    def take_end(self, line: bytes) -> None:
        row = self._take(line)
        if row is None:
            return
        if row.timestamp and not self.time:
            self.time = parse_time(row.timestamp)
        if row.cwd and not self.folders:
            self.folders[row.cwd] = None
        if row.type == "assistant" and row.message and row.message.usage and not self._is_known:
            # 0 where the harness itself speaks, of an error
            tokens = record.count_context_tokens(row.message.usage)
            self.context, self._is_known = tokens or self.context, bool(tokens)

    def _take(self, line: bytes) -> _ClaudeHeadLine | None:
        row = decode_line(_LINE, line)
        if row is None or row.isSidechain:
            return None
        self.id, self.cwd = self.id or row.sessionId, self.cwd or row.cwd
        self.name = row.customTitle or self.name or row.aiTitle
        if row.worktreeSession:
            self.folders.setdefault(row.worktreeSession.originalCwd)
        return row

    def finish(self) -> bool:
        stem = self.file.path.stem
        self.id = stem if len(stem) == 36 and self.id else self.id
        return super().finish()


def _extract_words(row: _ClaudeHeadLine, content: Raw) -> str:
    text = record.remove_paste_marks(record.decode_text(content))
    if match := record.COMMAND.match(text):
        fields = dict(_COMMAND_FIELD.findall(text))
        name = fields.get("name", "").strip().removeprefix("/")
        words = fields.get("args", "").strip()
        return "" if match.end() < len(text) else " ".join(f"/{name} {words}".split())[:120]
    if chat := record.read_channel_message(row.origin, text):
        return " ".join(chat.words.split())[:120]
    return extract_first_words(text, record.find_evidence(row))
