"""Read what a list shows of a thread of lines: from both ends, and on to the user's first words."""

import os
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, ClassVar

from tasuki.harness.protocol import ThreadFile
from tasuki.harness.reading.jsonl import BYTE_ORDER_MARK, note_unreadable
from tasuki.harness.reading.speakers import extract_first_words, find_first_prompt
from tasuki.model import Thread, ThreadHead

FAR_BYTES = 32 << 20
"""How far a file is searched for the user's first words, or from its end for a time."""


def parse_time(text: str) -> float:
    """Return the seconds since the epoch of an ISO 8601 time, 0 where it is none."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError, TypeError):
        return 0.0


def build_head(
    thread: Thread,
    file: ThreadFile,
    *,
    words: str = "",
    is_whole: bool = True,
    of_project: bool = False,
) -> ThreadHead | None:
    """Build the head of a thread that was read, or of its beginning; None without a message."""
    messages = sum(e.kind in ("user", "assistant") for e in thread.entries)
    words = words or find_first_prompt(thread.entries)
    if not messages and is_whole:
        return None
    return ThreadHead(
        harness=thread.harness,
        id=thread.id,
        path=str(file.path),
        cwd=thread.cwd,
        name=thread.name,
        first_words=extract_first_words(words),
        modified=parse_time(thread.updated) or file.modified,
        bytes=file.bytes,
        messages=messages if is_whole else None,
        context_tokens=thread.context_tokens,
        context_window=thread.context_window,
        of_project=of_project,
    )


class HeadReader:
    """What a list shows of one thread; a harness says what its lines mean.

    `take_start` gets lines from the first one on, `take_end` those of the end, the last one first:
    both set what is not set yet.
    """

    harness = ""
    begins: ClassVar[re.Pattern[bytes]]
    """Matches the beginning of a thread's file, where that is enough to tell one."""
    head_bytes: ClassVar[int] = 16 << 10
    """Bytes that are read in any case, with the line in which they end."""
    tail_bytes: ClassVar[int] = 24 << 10

    def __init__(self, file: ThreadFile) -> None:
        self.file = file
        self.id = self.cwd = self.name = self.words = ""
        self.folders: dict[str, None] = {}
        """Other folders that the lines name."""
        self.messages = 0
        """Messages in the lines from the start."""
        self.time = 0.0
        self.context: int | None = None
        self.window: int | None = None
        self.is_child = False
        self.parent = ""
        self.is_whole = False

    @staticmethod
    def list_files() -> Iterator[ThreadFile]:
        """Yield the files of all threads on this machine."""
        raise NotImplementedError

    @classmethod
    def is_thread(cls, path: Path, first: bytes) -> bool:  # noqa: ARG003
        """Tell from its first 8 KiB whether a file is a thread."""
        return bool(cls.begins.match(first))

    def take_start(self, line: bytes) -> None:
        """Take a line, the first one first."""
        raise NotImplementedError

    def take_end(self, line: bytes) -> None:
        """Take a line, the last one first."""
        raise NotImplementedError

    @property
    def is_complete(self) -> bool:
        """Whether nothing more is wanted of the lines before."""
        return bool(self.time and self.context and self.name)

    def finish(self) -> bool:
        """Complete what was read; False where it is no thread, or holds no conversation."""
        return bool(self.id and (self.words or self.messages or not self.is_whole))

    def read(self) -> ThreadHead | None:
        """Read both ends of the file; None where `finish` says so, or it cannot be read."""
        try:
            with self.open_source() as source:
                self.take_source(source)
        except OSError as error:
            note_unreadable(self.file.path, error)
            return None
        if not self.finish():
            return None
        return ThreadHead(
            harness=self.harness,
            id=self.id,
            path=str(self.file.path),
            cwd=self.cwd,
            name=" ".join(self.name.split()),
            first_words=self.words,
            modified=self.time or self.file.modified,
            bytes=self.file.bytes,
            messages=self.messages if self.is_whole else None,
            context_tokens=self.context,
            context_window=self.window,
            folders=tuple(folder for folder in self.folders if folder and folder != self.cwd),
            is_child=self.is_child,
            parent=self.parent,
        )

    def open_source(self) -> BinaryIO:
        """Open the file, or what it holds."""
        return open(self.file.path, "rb", buffering=self.head_bytes)

    def take_source(self, source: BinaryIO) -> None:
        """Take the lines of the opened file, as few as there need to be."""
        size = source.seek(0, os.SEEK_END)
        source.seek(0)
        taken, lines = 0, []
        for line in source:
            lines.append(line if taken else line.removeprefix(BYTE_ORDER_MARK))
            self.take_start(lines[-1])
            taken += len(line)
            is_far = size - taken > self.tail_bytes  # Else the rest is read anyway.
            if is_far and taken >= self.head_bytes and (self.words or taken > FAR_BYTES):
                break
        self.is_whole = taken >= size
        if self.is_whole:
            self._take_ends(lines)
        tail = self.tail_bytes
        while not (self.is_whole or self.is_complete):
            start = max(taken, size - tail)
            source.seek(start)
            last = source.read(size - start)
            self._take_ends((last if start == taken else last.partition(b"\n")[2]).splitlines())
            if start == taken or self.time or tail > FAR_BYTES:
                break
            tail *= 16

    def _take_ends(self, lines: Sequence[bytes]) -> None:
        for line in reversed(lines):
            if self.is_complete:
                return
            self.take_end(line)
