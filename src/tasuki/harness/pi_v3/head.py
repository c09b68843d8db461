"""Find sessions of pi and omp, and read what a list of them shows."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from tasuki.harness.pi_v3.format import LINE, PiLine, count_context_tokens, extract_text
from tasuki.harness.protocol import ThreadFile
from tasuki.harness.reading.jsonl import decode_line, list_thread_files, read_both_ends, scan_folder
from tasuki.harness.reading.speakers import extract_first_words
from tasuki.model import ThreadHead
from tasuki.patterns import compile_pattern

HEAD_BYTES = 16 << 10
TAIL_BYTES = 24 << 10

_SESSION = compile_pattern(
    rb'\A\s*(?:\{"type": ?"title".*\n\s*)?\{"type": ?(?:"session"[,}]'
    rb'|"(?:message|model_change|thinking_level_change|session_info|custom|compaction)", ?"id": ?"[^"]*", ?"parentId":)'
)
"""How a session begins, also one that has lost its header."""
_OMP = compile_pattern(
    rb'\A\s*\{"type": ?"title"|"titleSource":|"attribution": ?"|"resolvedModelIsFallback":'
    rb'|"type": ?"model_change",[^\n]{0,200}"model": ?"|"type": ?"service_tier_change"'
)
_MESSAGE = compile_pattern(rb'"type": ?"message"')
_SAID = compile_pattern(rb'"role": ?"(?:user|assistant)"')


def build_folder_name(cwd: str) -> str:
    """Return the folder name of a working directory: `--home-me-proj--`.

    Symbolic links are not resolved.
    """
    path = os.path.abspath(cwd).removeprefix("/")
    return f"--{re.sub(r'[/:]', '-', path)}--"


def is_session(first: bytes) -> bool:
    """Tell whether a file begins as a session of pi or omp does."""
    return bool(_SESSION.match(first))


def is_omp(path: Path, first: bytes) -> bool:
    """Tell whether a session is omp's: by its place, else by records that only omp writes."""
    if ".omp" in path.parts:
        return True
    return ".pi" not in path.parts and bool(_OMP.search(first))


def list_session_files(root: Path, folder: str | None) -> Iterator[ThreadFile]:
    """Yield session files of one folder, or of all of them."""
    folders = [root / folder] if folder else [Path(e.path) for e in scan_folder(root)]
    for directory in folders:
        yield from list_thread_files(
            e for e in scan_folder(directory) if e.name.endswith(".jsonl") and e.is_file()
        )


def read_head(file: ThreadFile, harness: str) -> ThreadHead | None:
    """Read both ends of a file; None without a header or any message."""
    first, last = read_both_ends(file.path, HEAD_BYTES, TAIL_BYTES)
    head = _PiHead()
    for line in first:
        head.read_start(line)
    for line in reversed(last or first):
        if head.read_end(line):
            break
    if not head.id or not (head.words or last):
        return None
    message_count = sum(1 for line in (*first, *last) if _SAID.search(line, 0, 400))
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
        messages=message_count if not last else round(message_count * file.bytes / read),
        exact=not last,
        context_tokens=head.context,
    )


class _PiHead:
    """What both ends of a file show."""

    def __init__(self) -> None:
        self.id = self.cwd = self.name = self.words = ""
        self.context: int | None = None
        self._named = False

    def read_start(self, raw: bytes) -> None:
        """Read a line, first one first."""
        if self.words and _MESSAGE.search(raw, 0, 60):
            return
        if (line := decode_line(LINE, raw)) is None:
            return
        if line.type == "session" and not self.id:
            self.id, self.cwd = line.id, line.cwd
        self.name = _find_name(line) or self.name
        if line.type == "message" and line.message and line.message.role == "user":
            self.words = extract_first_words(extract_text(line.message.content))

    def read_end(self, raw: bytes) -> bool:
        """Read a line, last one first; True once nothing more is wanted."""
        if (line := decode_line(LINE, raw)) is None:
            return False
        if (name := _find_name(line)) and not self._named:
            self.name, self._named = name, True
        usage = line.message.usage if line.message else None
        if usage and usage.input + usage.output:
            self.context = count_context_tokens(usage)
        return self.context is not None


def _find_name(line: PiLine) -> str:
    if line.type == "session_info":
        return line.name or ""
    return line.title or "" if line.type in ("title", "title_change", "session") else ""
