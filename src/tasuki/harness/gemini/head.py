"""Find sessions of Gemini CLI, the folder they belong to, and what a list of them shows."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

import msgspec

from tasuki.files import find_program_folder
from tasuki.harness.gemini import format as record
from tasuki.harness.protocol import ThreadFile
from tasuki.harness.reading import jsonl
from tasuki.harness.reading.heads import HeadReader, parse_time
from tasuki.harness.reading.speakers import extract_first_words
from tasuki.model import Sidechain
from tasuki.patterns import compile_pattern

HEAD_BYTES = 64 << 10
_MAX_MARK = 8192
_FILE = compile_pattern(r"(?s)session-.*\.jsonl?")

_SESSION = compile_pattern(rb'\A\s*\{\s*"sessionId": ?"[^"]*",\s*"projectHash": ?"')
_WORKSPACE = compile_pattern(rb"Workspace Directories:\*\*\\n  - (/[^\"\\]*)\\n")
_PATHS = compile_pattern(rb'/[^\s"\'\\:*?<>|,()]+')
_MESSAGE = compile_pattern(rb'\A\{"id": ?"([^"]*)".{0,80}?"type": ?"(?:user|gemini)"')
_RESULT = compile_pattern(rb'"functionResponse"|<session_context>')
_SUMMARY = compile_pattern(rb'"summary": ?("(?:[^"\\]|\\.)*")')
_TIME = compile_pattern(r'"(?:timestamp|lastUpdated)": ?"([^"]+)"')
_TOTAL = compile_pattern(rb'"tokens": ?\{[^{}]*"total": ?(\d{1,12})')


def get_home() -> Path:
    """Return the folder of Gemini CLI; `GEMINI_CLI_HOME` moves the home folder it is in."""
    return find_program_folder("GEMINI_CLI_HOME", "") / ".gemini"


def _list_files(folder: Path) -> Iterator[ThreadFile]:
    """Yield session files; a resumed document is skipped for the log that it became."""
    sessions = [e for e in jsonl.scan_folder(folder) if _FILE.fullmatch(e.name) and e.is_file()]
    logs = {e.name for e in sessions if e.name.endswith("l")}
    yield from jsonl.list_thread_files(e for e in sessions if f"{e.name}l" not in logs)


def _read_projects(folder: Path) -> dict[str, str]:
    """Read working directories and the names that Gemini CLI gave them, from `projects.json`."""
    try:
        projects = msgspec.json.decode((folder / "projects.json").read_bytes())["projects"]
        return {str(path): str(slug) for path, slug in projects.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}


def _read_project_root(project: Path) -> str:
    """Read the working directory that is recorded in a project's folder."""
    try:
        with (project / ".project_root").open("rb") as file:
            return os.fsdecode(file.read(_MAX_MARK)).strip()
    except OSError:
        return ""


def find_folder(path: Path, first: bytes, fields: record.GeminiSessionFields) -> str:
    """Find a session's working directory: from its project's folder, else from the file itself.

    `first` is the beginning of the file. A path in it counts if it has the hash of the
    session's project.
    """
    project = path.parent.parent if path.parent.name == "chats" else path.parent.parent.parent
    if marked := _read_project_root(project):
        return marked
    for folder, slug in _read_projects(project.parent.parent).items():
        if slug == project.name:
            return folder
    first = first[:HEAD_BYTES]
    if match := _WORKSPACE.search(first):
        return match[1].decode("utf-8", "replace")
    if fields.directories:
        return fields.directories[0]
    return _find_path_by_hash(first, fields.projectHash or "")


def _find_path_by_hash(first: bytes, digest: str) -> str:
    """Find the path whose hash names the project, among the beginnings of all paths in a text."""
    import hashlib

    seen: set[bytes] = set()
    for match in _PATHS.finditer(first):
        parts = match[0].split(b"/")
        for end in range(2, len(parts) + 1):
            path = b"/".join(parts[:end])
            if path not in seen and hashlib.sha256(path).hexdigest() == digest:
                return path.decode("utf-8", "replace")
            seen.add(path)
    return ""


def list_sidechains(path: Path, id: str, labels: Mapping[str, str]) -> tuple[Sidechain, ...]:
    """List the records of a session's sub-agents, in the folder named after the session."""
    if path.parent.name != "chats" or "/" in id or id in ("", ".", ".."):
        return ()
    paths = sorted(e.path for e in jsonl.scan_folder(path.parent / id) if e.name.endswith(".jsonl"))
    stems = ((p, os.path.basename(p).removesuffix(".jsonl")) for p in paths)
    return tuple(Sidechain(id=stem, path=p, label=labels.get(stem, "")) for p, stem in stems)


# -- what a list shows -----------------------------------------------------------------


class GeminiHead(HeadReader):
    """What both ends of a session show: of a log, or of one document."""

    harness = "gemini"
    begins = _SESSION
    head_bytes = HEAD_BYTES

    @staticmethod
    def list_files() -> Iterator[ThreadFile]:
        """Yield all session files: only the projects' folders and the files name the folder."""
        for project in jsonl.scan_folder(get_home() / "tmp"):
            if os.path.isdir(project.path):
                yield from _list_files(Path(project.path, "chats"))

    def __init__(self, file: ThreadFile) -> None:
        super().__init__(file)
        self.fields = record.GeminiSessionFields()
        self._first: list[bytes] = []
        self._ids: set[bytes] = set()

    def take_source(self, source: BinaryIO) -> None:
        first = source.read(HEAD_BYTES).removeprefix(jsonl.BYTE_ORDER_MARK)
        source.seek(0)
        if not record.is_document(first.partition(b"\n")[0] + b"\n"):
            super().take_source(source)
            return
        self._first = [first]
        self.fields = (
            jsonl.decode_line(record.FIELDS, record.extract_outer_json(first)) or self.fields
        )
        decoded = (
            jsonl.decode_line(record.MESSAGE, e.data) for e in record.list_elements(first) if e.data
        )
        messages = [message for message in decoded if message]
        words = list(filter(None, map(_extract_words, messages)))
        self.words = "".join(words[:1])
        replies = (m for m in messages if m.type == "gemini")
        self.messages = len(words) + sum(
            any(record.list_texts(record.list_parts(m.content))) for m in replies
        )
        self.is_whole = self.file.bytes <= HEAD_BYTES or not messages
        source.seek(max(0, self.file.bytes - self.tail_bytes))
        last = source.read()
        summaries = _SUMMARY.findall(last, max(last.rfind(b"]"), 0))
        self.name = (jsonl.decode_line(jsonl.TEXT, summaries[-1]) or "") if summaries else ""
        totals = [int(t) for t in _TOTAL.findall(last) if int(t)]
        self.context = totals[-1] if totals else None
        self.time = max(map(parse_time, _TIME.findall(last.decode("utf-8", "replace"))), default=0)

    def take_start(self, line: bytes) -> None:
        if sum(map(len, self._first)) < HEAD_BYTES:
            self._first.append(line)
        if (match := _MESSAGE.match(line)) and not _RESULT.search(line, 0, 400):
            self._ids.add(match[1])
            self.messages = len(self._ids)
        if self.words or (row := jsonl.decode_line(record.LINE, line)) is None:
            return
        if row.sessionId and row.projectHash and not self.fields.sessionId:
            self.fields = row
        messages = (row, *(row.messages or ())) if row.set is None else row.set.messages or ()
        self.words = next(filter(None, map(_extract_words, messages)), "")

    def take_end(self, line: bytes) -> None:
        if (row := jsonl.decode_line(record.LINE, line)) is None:
            return
        stamp = row.timestamp or row.lastUpdated or (row.set.lastUpdated if row.set else "")
        self.time = self.time or parse_time(stamp or "")
        self.name = self.name or (row.set.summary if row.set else "") or ""
        if self.context is None:
            self.context = record.find_context_size(row.tokens)

    def finish(self) -> bool:
        fields = self.fields
        self.id = fields.sessionId or ""
        self.name = self.name or fields.summary or ""
        if not self.id or fields.kind == "subagent" or not (self.words or not self.is_whole):
            return False
        self.cwd = find_folder(self.file.path, b"".join(self._first), fields)
        return True


def _extract_words(message: record.GeminiMessage) -> str:
    """Return the beginning of what the user says in a message."""
    if message.type != "user":
        return ""
    content = "".join(record.list_texts(record.list_parts(message.content)))
    displayed = "".join(record.list_texts(record.list_parts(message.displayContent)))
    text, own = record.extract_user_text(content, displayed, "")
    return extract_first_words(text) if own else ""
