"""Find sessions of opencode, and read what a list of them shows."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tasuki.errors import ThreadUnreadable
from tasuki.files import find_program_folder
from tasuki.harness.opencode import format as record
from tasuki.harness.opencode import store
from tasuki.harness.protocol import ThreadFile
from tasuki.harness.reading.jsonl import decode_line, decode_lines, scan_folder
from tasuki.harness.reading.speakers import extract_first_words
from tasuki.model import ThreadHead
from tasuki.patterns import compile_pattern

if TYPE_CHECKING:
    from sqlite3 import Connection

_EXPORT = compile_pattern(rb'\A\s*\{\s*"info"\s*:\s*\{[^{}]*?"id"\s*:\s*"ses_')
_NAME = compile_pattern(r"(?:opencode|kilo)(?:-[\w.-]+)?\.db")

_COUNT = (
    "SELECT EXISTS (SELECT 1 FROM message WHERE session_id = ?), (SELECT count(DISTINCT p.message_id) FROM part p"
    ' JOIN message m ON m.id = p.message_id WHERE m.session_id = ? AND substr(p.data, 1, 40) LIKE \'%"type":"text"%\')'
)
"""Whether there is a message, and how many have a text."""
MESSAGE = 8000
"""Bytes that a message takes with its parts, roughly."""


def get_config_folder() -> Path:
    """Return the folder of opencode's configuration; `XDG_CONFIG_HOME` moves it."""
    return find_program_folder("XDG_CONFIG_HOME", ".config") / "opencode"


def get_data_folder() -> Path:
    """Return the folder of opencode's data; `XDG_DATA_HOME` moves it."""
    return find_program_folder("XDG_DATA_HOME", ".local/share") / "opencode"


def list_databases() -> list[Path]:
    """List the databases of opencode and of its preview channels; `OPENCODE_DB` names one instead."""
    folder = get_data_folder()
    if name := os.environ.get("OPENCODE_DB", ""):
        return [folder / name] if name != ":memory:" else []
    return sorted(Path(e.path) for e in scan_folder(folder) if _NAME.fullmatch(e.name))


def list_session_files() -> Iterator[ThreadFile]:
    """Yield sessions except those of sub-agents; the size is estimated from their messages.

    Those of Kilo, which is made from opencode, are among them.
    """
    kilo = scan_folder(get_data_folder().with_name("kilo"))
    for path in (*list_databases(), *(Path(e.path) for e in kilo if _NAME.fullmatch(e.name))):
        try:
            sessions = store.list_sessions(path)
        except ThreadUnreadable:
            continue
        for id, modified, messages in sessions:
            if id:
                yield ThreadFile(path=path / id, modified=modified, bytes=messages * MESSAGE)


def find_session(database: Path, id: str) -> ThreadFile | None:
    """Find one session, also a sub-agent's, with the size that lists estimate."""
    query = f"{store.SESSIONS} WHERE id = ?"
    path, key = database / id, id.encode("utf-8", "replace").decode()
    row = store.query_database(database, path, lambda db: db.execute(query, (key,)).fetchone())
    if row is None:
        return None
    updated, messages = map(store.parse_number, row[1:])
    return ThreadFile(path, updated / 1000, messages * MESSAGE)


def is_session(path: Path, first: bytes) -> bool:
    """Tell whether a file is an export of opencode, or one of its databases."""
    if not first.startswith(store.MAGIC):
        return bool(_EXPORT.match(first))
    database = path.parent if path.parent.is_file() else path
    if _NAME.fullmatch(database.name):
        return True
    try:
        return store.has_session_tables(database)
    except ThreadUnreadable:
        return False


def build_session_head(db: "Connection", id: str, file: ThreadFile) -> ThreadHead | None:
    """Build the head of a session; None without a message."""
    stored = store.load_session(db, id)
    if stored is None:
        return None
    ((is_begun, count),) = db.execute(_COUNT, (id, id))
    if not is_begun:
        return None
    return ThreadHead(
        harness="opencode",
        id=id,
        path=str(file.path),
        cwd=stored.session.directory,
        name=record.choose_name(stored.session.title),
        first_words=_find_first_words(db, id),
        modified=file.modified,
        bytes=file.bytes,
        messages=count,
        context_tokens=_find_context_tokens(db, id),
    )


def _find_first_words(db: "Connection", id: str) -> str:
    query = (
        "SELECT p.data, m.data FROM message m JOIN part p ON p.message_id = m.id WHERE m.session_id = ?"
        " ORDER BY m.time_created, m.id, p.id LIMIT 20"
    )
    for data, message in db.execute(query, (id,)):
        part = decode_line(record.PART, store.encode_data(data))
        sent = decode_line(record.MESSAGE, store.encode_data(message))
        if part and sent and sent.role == "user" and part.type == "text" and not part.synthetic:
            words = record.restore_skill_call(part.text or "")[0]
            if shown := extract_first_words(words):
                return shown
    return ""


def _find_context_tokens(db: "Connection", id: str) -> int | None:
    query = (
        "SELECT data FROM message WHERE session_id = ? ORDER BY time_created DESC, id DESC LIMIT 9"
    )
    rows = (store.encode_data(data) for (data,) in db.execute(query, (id,)))
    used = (message.tokens.context for message in decode_lines(rows, record.MESSAGE))
    return next(filter(None, used), None)
