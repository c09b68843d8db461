"""Finding sessions of pi and omp, and what a list of them shows."""

import re
from collections.abc import Iterator
from pathlib import Path

from tasuki.harness.jsonl import both_ends, decoded, scanned, thread_files
from tasuki.harness.pi_v3.format import LINE, Line, context_tokens, plain
from tasuki.harness.protocol import ThreadFile
from tasuki.model import ThreadHead

HEAD_BYTES = 16 << 10
TAIL_BYTES = 24 << 10

_SESSION = re.compile(rb'\A\s*(?:\{"type": ?"title".*\n\s*)?\{"type": ?"session"[,}]')
_OMP = re.compile(
    rb'\A\s*\{"type": ?"title"|"titleSource":|"attribution": ?"|"resolvedModelIsFallback":'
    rb'|"type": ?"model_change",[^\n]{0,200}"model": ?"|"type": ?"service_tier_change"'
)
_MESSAGE = re.compile(rb'"type": ?"message"')
_SAID = re.compile(rb'"role": ?"(?:user|assistant)"')


def is_session(first: bytes) -> bool:
    """Whether a file begins as a session of pi or omp does."""
    return bool(_SESSION.match(first))


def is_omp(path: Path, first: bytes) -> bool:
    """Whether a session is omp's: by where it lies, else by records that only omp writes."""
    if ".omp" in path.parts:
        return True
    return ".pi" not in path.parts and bool(_OMP.search(first))


def sessions_in(root: Path, folder: str | None) -> Iterator[ThreadFile]:
    """Session files of one folder, or of all of them."""
    folders = [root / folder] if folder else [Path(e.path) for e in scanned(root)]
    for directory in folders:
        yield from _files_in(directory)


def _files_in(directory: Path) -> Iterator[ThreadFile]:
    yield from thread_files(
        e for e in scanned(directory) if e.name.endswith(".jsonl") and e.is_file()
    )


def read_head(file: ThreadFile, harness: str) -> ThreadHead | None:
    """Both ends of a file; None if it has no header or nobody has said anything yet."""
    first, last = both_ends(file.path, HEAD_BYTES, TAIL_BYTES)
    head = _Head()
    for line in first:
        head.from_start(line)
    for line in reversed(last or first):
        if head.from_end(line):
            break
    if not head.id or not (head.words or last):
        return None
    said = sum(1 for line in (*first, *last) if _SAID.search(line, 0, 400))
    read = sum(map(len, first)) + sum(map(len, last)) or 1
    return ThreadHead(
        harness=harness,
        id=head.id,
        path=str(file.path),
        cwd=head.cwd,
        name=head.name,
        first_words=head.words,
        modified=file.modified,
        bytes=file.bytes,
        messages=said if not last else round(said * file.bytes / read),
        exact=not last,
        context_tokens=head.context,
    )


class _Head:
    """What both ends of a file say."""

    def __init__(self) -> None:
        self.id = self.cwd = self.name = self.words = ""
        self.context: int | None = None
        self._named = False

    def from_start(self, raw: bytes) -> None:
        """Take in a line, first one first."""
        if self.words and _MESSAGE.search(raw, 0, 60):
            return
        if (line := decoded(LINE, raw)) is None:
            return
        if line.type == "session" and not self.id:
            self.id, self.cwd = line.id, line.cwd
        self.name = _name(line) or self.name
        if line.type == "message" and line.message and line.message.role == "user":
            self.words = _words(plain(line.message.content))

    def from_end(self, raw: bytes) -> bool:
        """Take in a line, last one first; True once nothing more is wanted."""
        if (line := decoded(LINE, raw)) is None:
            return False
        if (name := _name(line)) and not self._named:
            self.name, self._named = name, True
        usage = line.message.usage if line.message else None
        if usage and usage.input + usage.output:
            self.context = context_tokens(usage)
        return self.context is not None


def _name(line: Line) -> str:
    if line.type == "session_info":
        return line.name or ""
    return line.title or "" if line.type in ("title", "title_change", "session") else ""


def _words(text: str) -> str:
    return " ".join(text.split())[:120]
