"""Finding sessions of Gemini CLI, the folder they belong to, and what a list of them shows."""

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from tasuki.harness.gemini.format import (
    FIELDS,
    LINE,
    MESSAGE,
    Fields,
    Message,
    context_size,
    elements,
    fields_around,
    fields_of,
    is_document,
    parts_of,
    texts_of,
    typed,
)
from tasuki.harness.jsonl import BYTE_ORDER_MARK, both_ends, decoded, scanned, thread_files
from tasuki.harness.protocol import ThreadFile
from tasuki.model import Sidechain, ThreadHead
from tasuki.paths import home_folder

HEAD_BYTES = 64 << 10
TAIL_BYTES = 24 << 10
_MAX_MARK = 8192

_SESSION = re.compile(rb'\A\s*\{\s*"sessionId": ?"[^"]*",\s*"projectHash": ?"')
_WORKSPACE = re.compile(rb"Workspace Directories:\*\*\\n  - (/[^\"\\]*)\\n")
_PATHS = re.compile(rb'/[^\s"\'\\:*?<>|,()]+')
_MESSAGE = re.compile(rb'\A\{"id": ?"([^"]*)".{0,80}?"type": ?"(?:user|gemini)"')
_RESULT = re.compile(rb'"functionResponse"|<session_context>')
_SUMMARY = re.compile(rb'"summary": ?("(?:[^"\\]|\\.)*")')
_TOTAL = re.compile(rb'"tokens": ?\{[^{}]*"total": ?(\d{1,12})')


def home() -> Path:
    """Folder of Gemini CLI; `GEMINI_CLI_HOME` moves the home folder it lies in."""
    base = os.environ.get("GEMINI_CLI_HOME", "")
    return (Path(base) if base else home_folder()) / ".gemini"


def is_session(first: bytes) -> bool:
    """Whether a file begins as a session of Gemini CLI does."""
    return bool(_SESSION.match(first))


def sessions(cwd: Path | None) -> Iterator[ThreadFile]:
    """Session files of one working directory, or of all of them."""
    root = home() / "tmp"
    if cwd is None:
        projects = [Path(e.path) for e in scanned(root) if os.path.isdir(e.path)]
    else:
        projects = [root / name for name in _names(root, cwd)]
    for project in projects:
        yield from _files_in(project / "chats")


def _files_in(folder: Path) -> Iterator[ThreadFile]:
    """A document that was resumed lies beside the log it became, and is passed over."""
    found = [e for e in scanned(folder) if e.name.startswith("session-") and e.is_file()]
    logs = {e.name for e in found if e.name.endswith(".jsonl")}
    yield from thread_files(
        e
        for e in found
        if e.name in logs or (e.name.endswith(".json") and f"{e.name}l" not in logs)
    )


def _names(root: Path, cwd: Path) -> list[str]:
    """Folders below `tmp` of a working directory: by a name of its own, or by a hash."""
    wanted = {os.path.abspath(cwd), os.path.realpath(cwd)}
    hashes = [hashlib.sha256(os.fsencode(path)).hexdigest() for path in sorted(wanted)]
    slugs = [slug for path, slug in _projects(root.parent).items() if path in wanted]
    marked = [e.name for e in scanned(root) if _mark(Path(e.path)) in wanted]
    return list(dict.fromkeys((*slugs, *marked, *hashes)))


def _projects(folder: Path) -> dict[str, str]:
    """Working directories and the names that Gemini CLI gave them, from `projects.json`."""
    try:
        known = msgspec.json.decode((folder / "projects.json").read_bytes())["projects"]
        return {str(path): str(slug) for path, slug in known.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}


def _mark(project: Path) -> str:
    """The working directory that is written down in a project's folder."""
    try:
        with (project / ".project_root").open("rb") as file:
            return os.fsdecode(file.read(_MAX_MARK)).strip()
    except OSError:
        return ""


def folder_of(path: Path, first: bytes, fields: Fields) -> str:
    """Working directory of a session: from its project's folder, else from the file itself.

    `first` is the beginning of the file. A path in it counts if it has the hash of the session's
    project.
    """
    project = path.parent.parent if path.parent.name == "chats" else path.parent.parent.parent
    if marked := _mark(project):
        return marked
    for known, slug in _projects(project.parent.parent).items():
        if slug == project.name:
            return known
    first = first[:HEAD_BYTES]
    if match := _WORKSPACE.search(first):
        return match[1].decode("utf-8", "replace")
    if fields.directories:
        return fields.directories[0]
    return _hashed(first, fields.projectHash or "")


def _hashed(first: bytes, wanted: str) -> str:
    """The path whose hash names the project, among the beginnings of all paths in a text."""
    seen: set[bytes] = set()
    for match in _PATHS.finditer(first):
        parts = match[0].split(b"/")
        for end in range(2, len(parts) + 1):
            path = b"/".join(parts[:end])
            if path not in seen and hashlib.sha256(path).hexdigest() == wanted:
                return path.decode("utf-8", "replace")
            seen.add(path)
    return ""


def sidechains(path: Path, id: str, labels: Mapping[str, str]) -> tuple[Sidechain, ...]:
    """Records of a session's sub-agents, in a folder of the session's name beside it."""
    if path.parent.name != "chats" or "/" in id or id in ("", ".", ".."):
        return ()
    found = sorted(e.path for e in scanned(path.parent / id) if e.name.endswith(".jsonl"))
    stems = ((p, os.path.basename(p).removesuffix(".jsonl")) for p in found)
    return tuple(Sidechain(id=stem, path=p, label=labels.get(stem, "")) for p, stem in stems)


# -- what a list shows -----------------------------------------------------------------


def read_head(file: ThreadFile, harness: str) -> ThreadHead | None:
    """Both ends of a file; None if it has no start, is a sub-agent's, or nobody spoke yet."""
    first, last = both_ends(file.path, HEAD_BYTES, TAIL_BYTES)
    if not first and file.bytes > HEAD_BYTES:
        first = _cut_line(file.path)
    if not first:
        return None
    document = is_document(first[0] + b"\n")
    data = b"\n".join(first)
    if document:
        fields, words = _document_start(data)
        name, context = _document_end(b"\n".join(last or first))
    else:
        fields, words = _log_start(first)
        name, context = _log_end(last or first)
    if not fields.sessionId or fields.kind == "subagent" or not (words or last):
        return None
    said = {
        m[1]
        for line in (*first, *last)
        if (m := _MESSAGE.match(line)) and not _RESULT.search(line, 0, 400)
    }
    return ThreadHead(
        harness=harness,
        id=fields.sessionId,
        path=str(file.path),
        cwd=folder_of(file.path, data, fields),
        name=" ".join((name or fields.summary or "").split()),
        first_words=words,
        modified=file.modified,
        bytes=file.bytes,
        messages=None if document or last else len(said),
        exact=not document and not last,
        context_tokens=context,
    )


def _cut_line(path: Path) -> list[bytes]:
    """The beginning of a file whose first line is longer than what is read of it."""
    try:
        with path.open("rb") as file:
            return [file.read(HEAD_BYTES).removeprefix(BYTE_ORDER_MARK)]
    except OSError:
        return []


def _log_start(lines: list[bytes]) -> tuple[Fields, str]:
    fields = Fields()
    for raw in lines:
        line = decoded(LINE, raw)
        if line is None:
            continue
        if line.sessionId and line.projectHash and not fields.sessionId:
            fields = fields_of(line)
        for message in (
            (line, *(line.messages or ())) if line.set is None else line.set.messages or ()
        ):
            if words := _words(message):
                return fields, words
    return fields, ""


def _document_start(data: bytes) -> tuple[Fields, str]:
    fields = decoded(FIELDS, fields_around(data)) or Fields()
    for element in elements(data):
        message = decoded(MESSAGE, element.data) if element.data else None
        if message is not None and (words := _words(message)):
            return fields, words
    return fields, ""


def _words(message: Message) -> str:
    """The beginning of what the user says in a message."""
    if message.type != "user":
        return ""
    said = "".join(texts_of(parts_of(message.content)))
    shown = "".join(texts_of(parts_of(message.displayContent)))
    text, own = typed(said, shown, "")
    return " ".join(text.split())[:120] if own and not text.startswith("<state_snapshot>") else ""


def _log_end(lines: list[bytes]) -> tuple[str, int | None]:
    """The newest summary and the size of the context, from lines in order."""
    name, context = "", None
    for raw in reversed(lines):
        if not name and raw.startswith(b'{"$set":') and b'"summary":' in raw:
            line = decoded(LINE, raw)
            name = (line.set.summary or "") if line and line.set else ""
        elif context is None and b'"tokens":' in raw and (line := decoded(LINE, raw)):
            context = context_size(line.tokens)
        if name and context is not None:
            break
    return name, context


def _document_end(data: bytes) -> tuple[str, int | None]:
    """The same of a document, from its last bytes."""
    found = _SUMMARY.findall(data, max(data.rfind(b"]"), 0))
    totals = [int(t) for t in _TOTAL.findall(data) if int(t)]
    return (decoded(_TEXT, found[-1]) or "") if found else "", totals[-1] if totals else None


_TEXT = msgspec.json.Decoder(str)
