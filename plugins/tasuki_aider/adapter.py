"""aider: `.aider.chat.history.md` in a project's folder. Seen: 0.62 to 0.86.

There is no central store: the histories of other projects are found only from their
folders.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from tasuki.errors import ThreadUnreadable
from tasuki.files import expand_user, find_home_folder
from tasuki.harness.plans import ReadOnlyHarness
from tasuki.harness.protocol import ThreadFile
from tasuki.harness.reading import markdown
from tasuki.harness.reading.heads import build_head
from tasuki.model import Entry, Thread, ThreadHead
from tasuki.patterns import compile_pattern

FILE = ".aider.chat.history.md"
HEAD_BYTES = 16 << 10
TAIL_BYTES = 64 << 10
_START = compile_pattern(
    rb"\A(?:\xef\xbb\xbf)?\s*# aider chat started at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
)
_SAID = compile_pattern(rb"^#### .*  \r?$", re.MULTILINE)


class Aider(ReadOnlyHarness):
    """The adapter of aider: its threads can be read; a successor is started elsewhere."""

    name = "aider"
    title = "aider"
    program = "aider"

    def list_files(self, cwd: Path | None = None) -> Iterator[ThreadFile]:
        """Yield the history of a folder, or of one above it; of the current folder by default.

        `AIDER_CHAT_HISTORY_FILE` names another file.
        """
        for path in dict.fromkeys(_list_paths(cwd)):
            try:
                stat = path.stat()
            except (OSError, ValueError):
                continue
            if stat.st_size and path.is_file():
                yield ThreadFile(path=path, modified=stat.st_mtime, bytes=stat.st_size)

    def is_thread_file(self, path: Path, first: bytes) -> bool:
        return bool(_START.match(first) or (path.name == FILE and _SAID.search(first)))

    def read_head(self, file: ThreadFile) -> ThreadHead | None:
        """Read the head from both ends; the words are the first of the newest chat."""
        try:
            first, last, tail_start = markdown.read_both_parts(file.path, HEAD_BYTES, TAIL_BYTES)
        except OSError:
            return None
        first_part = _read_part(file.path, first, 0)
        last_part = _read_part(file.path, last, tail_start) if last else first_part
        if not (first_part.entries or last_part.entries) or not _START.match(first):
            return None
        words = _find_newest_words(last_part.entries) or _find_newest_words(first_part.entries)
        updated, tokens = last_part.updated, last_part.context_tokens
        newest = replace(first_part, updated=updated, context_tokens=tokens)
        return build_head(newest, file, words=words, is_whole=not last, of_project=True)

    def read(self, path: Path) -> Thread:
        from tasuki_aider.read import START, AiderReader

        text = markdown.read_markdown(path)
        has_start = any(START.match(line) for line in text.lines)
        if not has_start and not (path.name == FILE and _SAID.search(path.read_bytes())):
            raise ThreadUnreadable(
                f"{path} holds no chat of aider: it has no line `# aider chat started at …`."
            )
        return AiderReader(text, derive_thread_id(path)).read()

    def build_resume_command(self, thread: Thread) -> tuple[str, ...]:
        """Return the command; aider restores what was said in the history, as far as it fits."""
        return (self.program, "--chat-history-file", thread.path, "--restore-chat-history")


def derive_thread_id(path: Path) -> str:
    """Derive the id of a history: from its folder, or from the file itself with another name."""
    return markdown.derive_id("aider", path.parent if path.name == FILE else path)


def _list_paths(cwd: Path | None) -> Iterator[Path]:
    if file_name := os.environ.get("AIDER_CHAT_HISTORY_FILE", ""):
        yield expand_user(file_name, "AIDER_CHAT_HISTORY_FILE")
    try:
        folder = Path.cwd() if cwd is None else cwd
    except OSError:
        folder = find_home_folder()
    yield from (place / FILE for place in markdown.walk_up(folder))
    if cwd is None:
        yield find_home_folder() / FILE


def _read_part(path: Path, raw: bytes, offset: int) -> Thread:
    from tasuki_aider.read import AiderReader

    return AiderReader(
        markdown.parse_markdown(path, raw, offset), derive_thread_id(path), offset > 0
    ).read()


def _find_newest_words(entries: tuple[Entry, ...]) -> str:
    """Return what the user said first in the newest chat in which they said anything."""
    words = ""
    for entry in reversed(entries):
        if entry.kind == "user":
            words = entry.text
        elif entry.kind == "compaction" and words:
            break
    return words
