"""aider: `.aider.chat.history.md` in a project's folder. Seen: 0.62 to 0.86.

There is no central store: the histories of other projects are found only from their folders.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from tasuki.errors import ThreadUnreadable
from tasuki.harness import markdown, plans
from tasuki.harness.aider.read import START, Reader
from tasuki.harness.protocol import (
    AskAnswer,
    AskPlan,
    AskRequest,
    Caller,
    LaunchPlan,
    LaunchRequest,
    ThreadFile,
)
from tasuki.model import Entry, Thread, ThreadHead
from tasuki.paths import expand_user, home_folder

FILE = ".aider.chat.history.md"
HEAD_BYTES = 16 << 10
TAIL_BYTES = 64 << 10
_START = re.compile(
    rb"\A(?:\xef\xbb\xbf)?\s*# aider chat started at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
)
_SAID = re.compile(rb"^#### .*  \r?$", re.MULTILINE)


class Aider:
    """The adapter of aider: its threads can be read; a successor is started elsewhere."""

    name = "aider"
    title = "aider"
    program = "aider"
    can_start = False
    can_prefill = False
    can_ask = False
    caller = Caller()

    def files(self, cwd: Path | None = None) -> Iterator[ThreadFile]:
        """The history of a folder, or of one above it; of the current folder if none is given.

        `AIDER_CHAT_HISTORY_FILE` names another file.
        """
        for path in dict.fromkeys(_places(cwd)):
            try:
                stat = path.stat()
            except (OSError, ValueError):
                continue
            if stat.st_size and path.is_file():
                yield ThreadFile(path=path, modified=stat.st_mtime, bytes=stat.st_size)

    def recognises(self, path: Path, first: bytes) -> bool:
        return bool(_START.match(first) or (path.name == FILE and _SAID.search(first)))

    def head(self, file: ThreadFile) -> ThreadHead | None:
        """From both ends; the words are the first of the newest chat."""
        try:
            first, last, at = markdown.both_parts(file.path, HEAD_BYTES, TAIL_BYTES)
        except OSError:
            return None
        begun = _part(file.path, first, 0)
        latest = _part(file.path, last, at) if last else begun
        if not (begun.entries or latest.entries) or not _START.match(first):
            return None
        words = _newest(latest.entries) or _newest(begun.entries)
        return ThreadHead(
            harness=self.name,
            id=begun.id,
            path=str(file.path),
            cwd=begun.cwd,
            first_words=markdown.first_words(words),
            modified=file.modified,
            bytes=file.bytes,
            messages=None if last else len(begun.entries),
            exact=not last,
            context_tokens=latest.context_tokens,
            of_project=True,
        )

    def read(self, path: Path) -> Thread:
        text = markdown.text_of(path)
        known = any(START.match(line) for line in text.lines)
        if not known and not (path.name == FILE and _SAID.search(path.read_bytes())):
            raise ThreadUnreadable(
                f"{path} holds no chat of aider: no line `# aider chat started at …` stands in it."
            )
        return Reader(text, thread_id(path)).read()

    def skill_command(self, skill: str) -> str:
        return ""

    def skill_folders(self, cwd: Path) -> tuple[Path, ...]:
        return ()

    def plan(self, request: LaunchRequest) -> LaunchPlan:
        return plans.none(self.title)

    def ask(self, request: AskRequest) -> AskPlan:
        plans.not_asked(self.title)

    def answered(self, output: str, request: AskRequest) -> AskAnswer:
        plans.not_asked(self.title)

    def resume_command(self, thread: Thread) -> tuple[str, ...]:
        """aider takes up what was said since the history begins, as far as it fits."""
        return (self.program, "--chat-history-file", thread.path, "--restore-chat-history")

    def integration(self) -> None:
        """Nothing is added to it."""

    def control(self) -> None:
        """It is not run in a fleet."""


def thread_id(path: Path) -> str:
    """The id of a history: of its folder, or of the file itself where it has another name."""
    return markdown.stable_id("aider", path.parent if path.name == FILE else path)


def _places(cwd: Path | None) -> Iterator[Path]:
    if named := os.environ.get("AIDER_CHAT_HISTORY_FILE", ""):
        yield expand_user(named, "AIDER_CHAT_HISTORY_FILE")
    try:
        folder = Path.cwd() if cwd is None else cwd
    except OSError:
        folder = home_folder()
    yield from (place / FILE for place in markdown.upwards(folder))
    if cwd is None:
        yield home_folder() / FILE


def _part(path: Path, raw: bytes, offset: int) -> Thread:
    return Reader(markdown.text_in(path, raw, offset), thread_id(path), offset > 0).read()


def _newest(entries: tuple[Entry, ...]) -> str:
    """What the user said first in the newest chat in which they said anything."""
    words = ""
    for entry in reversed(entries):
        if entry.kind == "user":
            words = entry.text
        elif entry.kind == "compaction" and words:
            break
    return words
