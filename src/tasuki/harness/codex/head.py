"""Find rollouts of Codex, and read what a list of them shows."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from tasuki.files import find_home_folder
from tasuki.harness.protocol import ThreadFile
from tasuki.harness.reading.jsonl import UNDECODABLE, list_thread_files, read_both_ends, scan_folder
from tasuki.harness.reading.speakers import extract_first_words
from tasuki.model import ThreadHead
from tasuki.patterns import compile_pattern

HEAD_BYTES = 72 << 10
TAIL_BYTES = 16 << 10
FAR_BYTES = 256 << 10
"""How far into a file the first prompt is searched, after long instructions."""

_META = compile_pattern(rb'"type": ?"session_meta"')
_ID = compile_pattern(rb'"id": ?"([^"]+)"')
_CWD = compile_pattern(rb'"cwd": ?("[^"\\]*(?:\\.[^"\\]*)*")')
_CHILD = compile_pattern(
    rb'"source": ?\{"subagent"|"thread_source": ?"subagent"|"parent_thread_id": ?"'
)
_ITEM = compile_pattern(rb'"item": ?\{"type": ?"(User|Agent)Message"')
_TYPED = compile_pattern(
    rb'"type": ?"user_message", ?"message": ?("[^"\\]*(?:\\.[^"\\]*)*")'
    rb'|"type": ?"UserMessage".{0,200}?"text": ?("[^"\\]*(?:\\.[^"\\]*)*")'
)
_USAGE = compile_pattern(rb'"last_token_usage": ?\{[^}]*"total_tokens": ?(\d+)')
_WINDOW = compile_pattern(rb'"model_context_window": ?(\d+)')
_NAME = compile_pattern(rb'"thread_name": ?("[^"\\]*(?:\\.[^"\\]*)*")')
_UUID = compile_pattern(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TYPED_MARKS = (b'"user_message"', b'"UserMessage"')
_KIND = slice(50, 150)
"""The part of a line that holds the kind of its record."""


def get_home() -> Path:
    """Return the folder of Codex; `CODEX_HOME` moves it."""
    base = os.environ.get("CODEX_HOME")
    return Path(base) if base else find_home_folder() / ".codex"


def is_rollout(first: bytes) -> bool:
    """Tell whether a file begins as a rollout of Codex does."""
    line = first.lstrip()[:300].partition(b"\n")[0]
    return line.startswith(b"{") and bool(_META.search(line))


def list_rollouts() -> Iterator[ThreadFile]:
    """Yield all rollouts: only their heads name the folder."""
    for folder in ("sessions", "archived_sessions"):
        yield from _list_below(str(get_home() / folder))


def _list_below(folder: str) -> Iterator[ThreadFile]:
    for entry in scan_folder(folder):
        if entry.is_dir(follow_symlinks=False):
            yield from _list_below(entry.path)
        elif entry.name.startswith("rollout-") and entry.name.endswith(".jsonl"):
            yield from list_thread_files([entry])


def find_rollout(id: str, near: Path) -> Path | None:
    """Find the rollout of a thread by its id: next to another one, or elsewhere in the store.

    Ids are UUIDs of version 7, so they contain the day, and with it the folder.
    """
    if not _UUID.fullmatch(id):
        return None
    pattern = f"rollout-*-{id}.jsonl"
    folders = [near.parent, *(f for store in _list_stores(near) for f in _list_folders(store, id))]
    matches = (path for folder in dict.fromkeys(folders) for path in folder.glob(pattern))
    return next(matches, None)


def _list_stores(near: Path) -> Iterator[Path]:
    for parent in near.parents:
        if parent.name in ("sessions", "archived_sessions"):
            yield parent.parent
    yield get_home()


def _list_folders(store: Path, id: str) -> Iterator[Path]:
    yield store / "archived_sessions"
    try:
        began = datetime.fromtimestamp(int(id.replace("-", "")[:12], 16) / 1000, UTC)
    except (ValueError, OverflowError):
        return  # It is an id of another kind.
    for days in (0, -1, 1):
        day = began + timedelta(days=days)
        yield store / "sessions" / f"{day:%Y}" / f"{day:%m}" / f"{day:%d}"


def read_head(file: ThreadFile) -> ThreadHead | None:
    """Read both ends of a file; None without a start or without a prompt."""
    first, last = read_both_ends(file.path, HEAD_BYTES, TAIL_BYTES)
    if not first:
        first, last = read_both_ends(file.path, FAR_BYTES, TAIL_BYTES)
    if not first or not _META.search(first[0], 0, 300):
        return None
    head = _CodexHead(file)
    head.read_first_line(first[0])
    head.read_lines(first[1:])
    head.read_lines(last)
    if last and not head.words:
        head.find_first_prompt()
    return head.build_head(sum(map(len, first[1:])) + sum(map(len, last)), whole=not last)


class _CodexHead:
    """What both ends of a file show; lines are searched, not decoded."""

    def __init__(self, file: ThreadFile) -> None:
        self.file = file
        self.id = self.cwd = self.words = self.name = ""
        self.said = 0
        self.is_child = False
        self.count = b""

    def read_first_line(self, line: bytes) -> None:
        """Read the `session_meta` line: it holds many kB of instructions after what is wanted."""
        id, cwd = _ID.search(line, 0, 2000), _CWD.search(line, 0, 4000)
        self.id = id[1].decode("utf-8", "replace") if id else ""
        self.cwd = _decode_string(cwd[1]) if cwd else ""
        self.is_child = bool(_CHILD.search(line))

    def read_lines(self, lines: list[bytes]) -> None:
        """Read lines in the order of the file.

        The kind of a record is near the beginning of its line.
        """
        for line in lines:
            kind = line[_KIND]
            if b'_message"' in kind or (b'item_completed"' in kind and _ITEM.search(line, 60, 500)):
                self.said += 1
                if not self.words:
                    self._read_prompt(line)
            elif b'token_count"' in kind:
                self.count = line
            elif b'thread_name_updated"' in kind and (name := _NAME.search(line)):
                self.name = _decode_string(name[1])

    def find_first_prompt(self) -> None:
        """Find the first prompt after instructions that fill the usual window."""
        for line in read_both_ends(self.file.path, FAR_BYTES, 0)[0]:
            if any(mark in line[:500] for mark in _TYPED_MARKS):
                self._read_prompt(line)
                return

    def _read_prompt(self, line: bytes) -> None:
        if match := _TYPED.search(line):
            self.words = extract_first_words(_decode_string(match[1] or match[2]))

    def build_head(self, read: int, whole: bool) -> ThreadHead | None:
        """Build the head; messages were counted in `read` bytes after the first line."""
        if not self.id or (whole and not (self.words or self.said)):
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
            is_child=self.is_child,
        )


def _decode_string(raw: bytes) -> str:
    try:
        return msgspec.json.decode(raw, type=str)
    except UNDECODABLE:
        return raw[1:-1].decode("utf-8", "replace")
