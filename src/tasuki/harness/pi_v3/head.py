"""Find sessions of pi and omp, and read what a list of them shows."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from tasuki.harness.pi_v3.format import LINE, PiLine, count_context_tokens, extract_text
from tasuki.harness.protocol import ThreadFile
from tasuki.harness.reading.heads import HeadReader, parse_time
from tasuki.harness.reading.jsonl import UNDECODABLE, decode_line, list_thread_files, scan_folder
from tasuki.harness.reading.speakers import extract_first_words
from tasuki.patterns import compile_pattern

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
_SAID = compile_pattern(rb'"role": ?"(user|assistant)"')
_TEXT = compile_pattern(rb'\{"type": ?"text"')


class _PiSettings(Struct):
    sessionDir: str = ""


_SETTINGS = msgspec.json.Decoder(_PiSettings)


def build_folder_name(cwd: str) -> str:
    """Return the folder name of a working directory, links not resolved: `--home-me-proj--`."""
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


def list_session_files(root: Path, folder: str | None = None) -> Iterator[ThreadFile]:
    """Yield session files of one folder, or of a root and all folders in it."""
    entries = scan_folder(root / (folder or ""))
    yield from list_thread_files(e for e in entries if e.name.endswith(".jsonl") and e.is_file())
    for entry in entries if folder is None else ():
        if os.path.isdir(entry.path):
            yield from list_session_files(root, entry.name)


def list_named_folders(base: Path, cwd: Path) -> list[Path]:
    """List the folders for sessions that a variable and pi's settings name, the one in use first.

    `base` is pi's folder. Sessions are not grouped in them. Source: pi 1.5, docs/settings.md.
    """
    names = [os.environ.get("PI_CODING_AGENT_SESSION_DIR", "")]
    names += [_read_session_folder(place / "settings.json") for place in (cwd / ".pi", base)]
    return [cwd / os.path.expanduser(name) for name in names if name]


def _read_session_folder(settings: Path) -> str:
    try:
        return _SETTINGS.decode(settings.read_bytes()).sessionDir
    except (OSError, *UNDECODABLE):
        return ""


class PiHead(HeadReader):
    """What both ends of a session show."""

    def __init__(self, file: ThreadFile, harness: str) -> None:
        super().__init__(file)
        self.harness = harness
        self._title = ""

    def take_start(self, line: bytes) -> None:
        if (said := _SAID.search(line, 0, 400)) and (said[1] == b"user" or _TEXT.search(line)):
            self.messages += 1
        if (self.words and _MESSAGE.search(line, 0, 60)) or (
            row := decode_line(LINE, line)
        ) is None:
            return
        if row.type == "session" and not self.id:
            self.id, self.cwd = row.id, row.cwd
        self._title = _find_name(row) or self._title
        if row.type == "message" and row.message and row.message.role == "user":
            self.words = extract_first_words(extract_text(row.message.content))

    def take_end(self, line: bytes) -> None:
        if (row := decode_line(LINE, line)) is None:
            return
        self.time = self.time or parse_time(row.timestamp)
        self.name = self.name or _find_name(row)
        usage = row.message.usage if row.message else None
        if usage and usage.input + usage.output and self.context is None:
            self.context = count_context_tokens(usage)

    @property
    def is_complete(self) -> bool:
        return bool(self.time and self.context)

    def finish(self) -> bool:
        self.name = self.name or self._title
        self.id = self.id or self.file.path.stem.rpartition("_")[2]  # The header may be lost.
        return bool(self.id and (self.words or not self.is_whole))


def _find_name(line: PiLine) -> str:
    if line.type == "session_info":
        return line.name or ""
    return line.title or "" if line.type in ("title", "title_change", "session") else ""
