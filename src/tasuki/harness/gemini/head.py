"""Find sessions of Gemini CLI, the folder they belong to, and what a list of them shows."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from tasuki.files import find_home_folder
from tasuki.harness.gemini.format import (
    FIELDS,
    LINE,
    MESSAGE,
    GeminiMessage,
    GeminiSessionFields,
    extract_fields,
    extract_outer_json,
    extract_user_text,
    find_context_size,
    is_document,
    list_elements,
    list_parts,
    list_texts,
)
from tasuki.harness.protocol import ThreadFile
from tasuki.harness.reading.jsonl import (
    BYTE_ORDER_MARK,
    decode_line,
    list_thread_files,
    read_both_ends,
    scan_folder,
)
from tasuki.harness.reading.speakers import extract_first_words
from tasuki.model import Sidechain, ThreadHead
from tasuki.patterns import compile_pattern

HEAD_BYTES = 64 << 10
TAIL_BYTES = 24 << 10
_MAX_MARK = 8192

_SESSION = compile_pattern(rb'\A\s*\{\s*"sessionId": ?"[^"]*",\s*"projectHash": ?"')
_WORKSPACE = compile_pattern(rb"Workspace Directories:\*\*\\n  - (/[^\"\\]*)\\n")
_PATHS = compile_pattern(rb'/[^\s"\'\\:*?<>|,()]+')
_MESSAGE = compile_pattern(rb'\A\{"id": ?"([^"]*)".{0,80}?"type": ?"(?:user|gemini)"')
_RESULT = compile_pattern(rb'"functionResponse"|<session_context>')
_SUMMARY = compile_pattern(rb'"summary": ?("(?:[^"\\]|\\.)*")')
_TOTAL = compile_pattern(rb'"tokens": ?\{[^{}]*"total": ?(\d{1,12})')


def get_home() -> Path:
    """Return the folder of Gemini CLI; `GEMINI_CLI_HOME` moves the home folder it is in."""
    base = os.environ.get("GEMINI_CLI_HOME", "")
    return (Path(base) if base else find_home_folder()) / ".gemini"


def is_session(first: bytes) -> bool:
    """Tell whether a file begins as a session of Gemini CLI does."""
    return bool(_SESSION.match(first))


def list_sessions(cwd: Path | None) -> Iterator[ThreadFile]:
    """Yield session files of one working directory, or of all of them."""
    root = get_home() / "tmp"
    if cwd is None:
        projects = [Path(e.path) for e in scan_folder(root) if os.path.isdir(e.path)]
    else:
        projects = [root / name for name in _list_folder_names(root, cwd)]
    for project in projects:
        yield from _list_files(project / "chats")


def _list_files(folder: Path) -> Iterator[ThreadFile]:
    """Yield session files; a resumed document is skipped for the log that it became."""
    sessions = [e for e in scan_folder(folder) if e.name.startswith("session-") and e.is_file()]
    logs = {e.name for e in sessions if e.name.endswith(".jsonl")}
    yield from list_thread_files(
        e
        for e in sessions
        if e.name in logs or (e.name.endswith(".json") and f"{e.name}l" not in logs)
    )


def _list_folder_names(root: Path, cwd: Path) -> list[str]:
    """List the folders below `tmp` of a working directory: by its own name, or by a hash."""
    import hashlib

    wanted = {os.path.abspath(cwd), os.path.realpath(cwd)}
    hashes = [hashlib.sha256(os.fsencode(path)).hexdigest() for path in sorted(wanted)]
    slugs = [slug for path, slug in _read_projects(root.parent).items() if path in wanted]
    marked = [e.name for e in scan_folder(root) if _read_project_root(Path(e.path)) in wanted]
    return list(dict.fromkeys((*slugs, *marked, *hashes)))


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


def find_folder(path: Path, first: bytes, fields: GeminiSessionFields) -> str:
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
    paths = sorted(e.path for e in scan_folder(path.parent / id) if e.name.endswith(".jsonl"))
    stems = ((p, os.path.basename(p).removesuffix(".jsonl")) for p in paths)
    return tuple(Sidechain(id=stem, path=p, label=labels.get(stem, "")) for p, stem in stems)


# -- what a list shows -----------------------------------------------------------------


def read_head(file: ThreadFile, harness: str) -> ThreadHead | None:
    """Read both ends of a file; None without a start, of a sub-agent, or without a message."""
    first, last = read_both_ends(file.path, HEAD_BYTES, TAIL_BYTES)
    if not first and file.bytes > HEAD_BYTES:
        first = _read_cut_line(file.path)
    if not first:
        return None
    document = is_document(first[0] + b"\n")
    data = b"\n".join(first)
    if document:
        fields, words = _read_document_start(data)
        name, context = _read_document_end(b"\n".join(last or first))
    else:
        fields, words = _read_log_start(first)
        name, context = _read_log_end(last or first)
    if not fields.sessionId or fields.kind == "subagent" or not (words or last):
        return None
    message_ids = {
        m[1]
        for line in (*first, *last)
        if (m := _MESSAGE.match(line)) and not _RESULT.search(line, 0, 400)
    }
    return ThreadHead(
        harness=harness,
        id=fields.sessionId,
        path=str(file.path),
        cwd=find_folder(file.path, data, fields),
        name=" ".join((name or fields.summary or "").split()),
        first_words=words,
        modified=file.modified,
        bytes=file.bytes,
        messages=None if document or last else len(message_ids),
        exact=not document and not last,
        context_tokens=context,
    )


def _read_cut_line(path: Path) -> list[bytes]:
    """Read the beginning of a file whose first line is longer than what is read of it."""
    try:
        with path.open("rb") as file:
            return [file.read(HEAD_BYTES).removeprefix(BYTE_ORDER_MARK)]
    except OSError:
        return []


def _read_log_start(lines: list[bytes]) -> tuple[GeminiSessionFields, str]:
    fields = GeminiSessionFields()
    for raw in lines:
        line = decode_line(LINE, raw)
        if line is None:
            continue
        if line.sessionId and line.projectHash and not fields.sessionId:
            fields = extract_fields(line)
        for message in (
            (line, *(line.messages or ())) if line.set is None else line.set.messages or ()
        ):
            if words := _extract_words(message):
                return fields, words
    return fields, ""


def _read_document_start(data: bytes) -> tuple[GeminiSessionFields, str]:
    fields = decode_line(FIELDS, extract_outer_json(data)) or GeminiSessionFields()
    for element in list_elements(data):
        message = decode_line(MESSAGE, element.data) if element.data else None
        if message is not None and (words := _extract_words(message)):
            return fields, words
    return fields, ""


def _extract_words(message: GeminiMessage) -> str:
    """Return the beginning of what the user says in a message."""
    if message.type != "user":
        return ""
    content = "".join(list_texts(list_parts(message.content)))
    displayed = "".join(list_texts(list_parts(message.displayContent)))
    text, own = extract_user_text(content, displayed, "")
    return extract_first_words(text) if own else ""


def _read_log_end(lines: list[bytes]) -> tuple[str, int | None]:
    """Read the newest summary and the size of the context, from lines in order."""
    name, context = "", None
    for raw in reversed(lines):
        if not name and raw.startswith(b'{"$set":') and b'"summary":' in raw:
            line = decode_line(LINE, raw)
            name = (line.set.summary or "") if line and line.set else ""
        elif context is None and b'"tokens":' in raw and (line := decode_line(LINE, raw)):
            context = find_context_size(line.tokens)
        if name and context is not None:
            break
    return name, context


def _read_document_end(data: bytes) -> tuple[str, int | None]:
    """Read the same from a document's last bytes."""
    summaries = _SUMMARY.findall(data, max(data.rfind(b"]"), 0))
    totals = [int(t) for t in _TOTAL.findall(data) if int(t)]
    return (decode_line(_TEXT, summaries[-1]) or "") if summaries else "", totals[
        -1
    ] if totals else None


_TEXT = msgspec.json.Decoder(str)
