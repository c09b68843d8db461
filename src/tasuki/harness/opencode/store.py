"""The store of opencode's threads: exports, and one database, opened so that no file changes.

The database is SQLite. opencode 1.18 leaves its write-ahead log in place. Opening a database
read-only writes to the shared memory file next to it, or creates both again, unless SQLite is
opened with the promise that nothing changes (`immutable`, which does not read the log) or that this
file must not be written (`readonly_shm`).
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from tasuki.errors import ThreadUnreadable
from tasuki.harness.opencode import format as record
from tasuki.harness.reading import jsonl
from tasuki.patterns import compile_pattern

if TYPE_CHECKING:
    from sqlite3 import Connection

T = TypeVar("T")
MAGIC = b"SQLite format 3\0"
TABLES = frozenset({b"session", b"message", b"part"})
PATIENCE = 2.0
"""Seconds to wait for a lock."""
TRIES = 3
CHANGES = "it changes all the time"
_ID = compile_pattern(r"(?:msg|prt)_([0-9a-f]{12})")
_CYCLE = 1 << 48
_MONTH = 30 * 86_400_000 << 12


class OpencodeRow(Struct, gc=False):
    """A message or a part of one, not decoded yet."""

    id: str
    data: bytes
    message: str = ""
    """Of a part: the id of its message."""
    moment: int = 0
    """When it was created: milliseconds since the epoch, times 4096, plus a counter."""
    deleted: bool = False
    """opencode deleted it when the conversation went on after `/undo`."""


class StoredSession(Struct):
    """A session and its rows, in the order of their creation."""

    session: record.OpencodeSessionInfo
    rows: list[OpencodeRow] = []
    children: tuple[tuple[str, str], ...] = ()
    """Ids and titles of the sessions of its sub-agents."""
    goes_on: bool = False
    """opencode 2 went on with it, in tables of its own."""


def is_database(path: Path) -> bool:
    """Tell whether a file is a SQLite database. Raises ThreadUnreadable if it cannot open."""
    with jsonl.explain_errors(path), path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def query_database(path: Path, name: Path, query: Callable[["Connection"], T]) -> T:
    """Run a query on a database and return its result; texts come as bytes.

    It is run again if the database changed meanwhile. Raises ThreadUnreadable that names
    `name`.
    """
    import sqlite3

    real = Path(os.path.realpath(path))
    problem: sqlite3.Error | None = None
    for _ in range(TRIES):
        before = _read_stamp(real)
        try:
            with _open_database(real) as db:
                answer = query(db)
            if _get_log_size(real) or _read_stamp(real) == before:
                return answer
        except sqlite3.Error as exc:
            problem = exc
            if _read_stamp(real) == before:
                break
        except OSError as exc:
            raise ThreadUnreadable(f"Cannot read {name}: {exc.strerror}.") from exc
    why = str(problem or CHANGES)
    if "no such" in why:
        what = f"holds no threads of an opencode known here ({why})."
    elif "locked" in why or "changes" in why:
        what = f"is in use ({why}). Try again."
    else:
        what = (
            f"cannot be read ({why}). If opencode can still open it, hand off an export: "
            "opencode export SESSION > thread.json"
        )
    raise ThreadUnreadable(f"{name}: the database {what}") from problem


@contextmanager
def _open_database(path: Path) -> Iterator["Connection"]:
    """Open a connection in which every read sees the same state."""
    shared = path.with_name(path.name + "-shm")
    if not _get_log_size(path):
        connection = _connect(path, "mode=ro&immutable=1")
    elif shared.exists():
        connection = _connect(path, "mode=ro&readonly_shm=1")
    else:
        connection = _open_copy(path)
    with connection as db:
        db.text_factory = bytes
        db.execute("BEGIN")
        yield db


def _connect(path: Path, mode: str) -> AbstractContextManager["Connection"]:
    import sqlite3

    uri = f"{path.as_uri()}?{mode}"
    return closing(sqlite3.connect(uri, PATIENCE, uri=True, isolation_level=None))


@contextmanager
def _open_copy(path: Path) -> Iterator["Connection"]:
    """Open a copy of a database that has a log, but no shared memory file.

    It was itself copied so, or its program closes it just now: then the copy may be torn, and
    OperationalError is raised.
    """
    import sqlite3
    from tempfile import TemporaryDirectory

    before = _read_stamp(path)
    with TemporaryDirectory() as folder:
        copy = Path(folder, path.name)
        try:
            for suffix in ("", "-wal"):
                shutil.copyfile(f"{path}{suffix}", f"{copy}{suffix}")
        except FileNotFoundError:
            if _read_stamp(path) == before:
                raise
        if _read_stamp(path) != before:
            raise sqlite3.OperationalError(CHANGES)
        with _connect(copy, "mode=ro") as db:
            yield db


def _get_log_size(path: Path) -> int:
    try:
        return os.stat(f"{path}-wal").st_size
    except OSError:
        return 0


def _read_stamp(path: Path) -> tuple[int, int, int]:
    try:
        stat = path.stat()
    except OSError:
        return 0, 0, 0
    return stat.st_mtime_ns, stat.st_size, _get_log_size(path)


# -- sessions ------------------------------------------------------------------------------


def has_session_tables(path: Path) -> bool:
    """Tell whether a database has the tables of opencode."""

    def has_tables(db: "Connection") -> bool:
        names = {row[0] for row in db.execute("SELECT name FROM sqlite_master")}
        _note_newer_sessions(db, path)
        return names >= TABLES

    return query_database(path, path, has_tables)


def _note_newer_sessions(db: "Connection", path: Path) -> None:
    """Note the sessions of opencode 2, which has tables of its own."""
    if count := _count_newer(db, "SELECT count(*) FROM session_v2"):
        threads = "a thread" if count == 1 else f"{count} threads"
        jsonl.note_unread(f"{path} holds {threads} of opencode 2, whose tables are not read.")


def _count_newer(db: "Connection", query: str, *values: str) -> int:
    import sqlite3

    try:
        return parse_number(db.execute(query, values).fetchone()[0])
    except sqlite3.OperationalError:  # There is no such table.
        return 0


SESSIONS = (
    "SELECT id, time_updated, (SELECT count(*) FROM message WHERE session_id = s.id) FROM session s"
)


def list_sessions(path: Path) -> list[tuple[str, float, int]]:
    """List id, time of the last change in seconds, and message count of all sessions.

    Sessions of sub-agents are left out. The messages are counted in an index: the sum of their
    lengths would read the whole database.
    """

    def list_rows(db: "Connection") -> list[Any]:
        _note_newer_sessions(db, path)
        return db.execute(f"{SESSIONS} WHERE parent_id IS NULL").fetchall()

    rows = query_database(path, path, list_rows)
    read = parse_number
    return [(decode_text(id), read(updated) / 1000, read(count)) for id, updated, count in rows]


def is_listed(path: Path, id: str) -> bool:
    """Tell whether a database holds a session that is none of a sub-agent's."""
    query = "SELECT 1 FROM session WHERE id = ? AND parent_id IS NULL"
    key = id.encode("utf-8", "replace").decode()  # Half a surrogate pair is no character.
    return query_database(path, path, lambda db: db.execute(query, (key,)).fetchone()) is not None


def load_session(db: "Connection", id: str) -> StoredSession | None:
    """Load one session by its id, without its rows."""
    cursor = db.execute("SELECT * FROM session WHERE id = ?", (id,))
    names = [column[0] for column in cursor.description]
    values = cursor.fetchone()
    if values is None:
        return None
    row: dict[str, Any] = dict(zip(names, values, strict=True))
    children = db.execute(
        "SELECT id, title FROM session WHERE parent_id = ? ORDER BY time_created, id", (id,)
    )
    revert = row.get("revert")
    created, updated = (parse_number(row.get(f"time_{name}")) for name in ("created", "updated"))
    session = record.OpencodeSessionInfo(
        id=id,
        parentID=decode_text(row.get("parent_id")),
        directory=decode_text(row.get("directory")),
        title=decode_text(row.get("title")),
        version=decode_text(row.get("version")),
        revert=jsonl.decode_part(record.REVERT, revert, None)
        if isinstance(revert, bytes)
        else None,
        time=record.OpencodeTime(created, updated),
    )
    return StoredSession(
        session,
        children=tuple((decode_text(child), decode_text(title)) for child, title in children),
        goes_on=_count_newer(db, "SELECT count(*) FROM session_v2 WHERE id = ?", id) > 0,
    )


def decode_text(value: object) -> str:
    """Decode a text of the database, or whatever is in its place."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return "" if value is None else str(value)


def parse_number(value: object) -> int:
    """Return a number of the database; 0 for whatever else is in its place."""
    return int(value) if isinstance(value, int | float) and abs(value) < 1 << 52 else 0


def encode_data(value: object) -> bytes:
    """Return what a column holds as JSON, or whatever is in its place."""
    return value if isinstance(value, bytes) else decode_text(value).encode("utf-8", "replace")


# -- rows ----------------------------------------------------------------------------------


def load_whole_session(db: "Connection", id: str) -> StoredSession | None:
    """Load one session by its id, with its rows."""
    if stored := load_session(db, id):
        stored.rows = load_rows(db, id)
    return stored


def load_rows(db: "Connection", id: str) -> list[OpencodeRow]:
    """Load messages and parts of a session in the order of their creation, deleted ones too."""
    moments: dict[str, int] = {}
    loaded: list[OpencodeRow] = []
    _add_deleted_rows(db, id, loaded, moments)
    query = "SELECT id, time_created, data FROM message WHERE session_id = ?"
    for key, created, data in db.execute(f"{query} ORDER BY time_created, id", (id,)):
        moments[decode_text(key)] = moment = _find_moment(decode_text(key), parse_number(created))
        loaded.append(OpencodeRow(id=decode_text(key), data=encode_data(data), moment=moment))
    query = "SELECT id, message_id, data FROM part WHERE session_id = ? ORDER BY message_id, id"
    for key, message, data in db.execute(query, (id,)):
        names = decode_text(key), decode_text(message)
        loaded.append(_build_part_row(*names, encode_data(data), moments))
    return sort_rows(loaded)


def _add_deleted_rows(
    db: "Connection", id: str, rows: list[OpencodeRow], moments: dict[str, int]
) -> None:
    """Add rows of deleted messages, from the log of events that opencode 1.18 keeps."""
    import sqlite3

    query = "SELECT data FROM event WHERE aggregate_id = ? AND type = ? ORDER BY seq"
    try:
        deleted = {
            event.messageID
            for (raw,) in db.execute(query, (id, "message.removed.1"))
            if (event := jsonl.decode_part(_EVENT, encode_data(raw), None)) and event.messageID
        }
        if not deleted:
            return
        for kind in ("message.updated.1", "message.part.updated.1"):
            last: dict[str, OpencodeRow] = {}
            for (raw,) in db.execute(query, (id, kind)):
                event = jsonl.decode_part(_EVENT, encode_data(raw), None)
                row = _build_deleted_row(event, moments) if event else None
                if row and (row.message or row.id) in deleted:
                    last[row.id] = row
            moments |= {row.id: row.moment for row in last.values() if not row.message}
            rows += last.values()
    except sqlite3.OperationalError:
        return


class _OpencodeLogEvent(Struct, gc=False):
    messageID: str = ""
    info: Raw = Raw(b"")
    part: Raw = Raw(b"")


_EVENT = msgspec.json.Decoder(_OpencodeLogEvent)


def _build_deleted_row(event: _OpencodeLogEvent, moments: dict[str, int]) -> OpencodeRow | None:
    try:
        if event.part:
            part = jsonl.decode_nested(record.NAMED, event.part)
            row = _build_part_row(part.id, part.messageID, bytes(event.part), moments)
        else:
            row = _build_message_row(bytes(event.info))
    except jsonl.UNDECODABLE:
        return None
    row.deleted = True
    return row


def sort_rows(rows: list[OpencodeRow]) -> list[OpencodeRow]:
    """Sort rows by their creation; a message comes before its parts."""
    return sorted(rows, key=lambda row: (row.moment, bool(row.message)))


def _build_part_row(id: str, message: str, data: bytes, moments: dict[str, int]) -> OpencodeRow:
    begun = moments.get(message, 0)
    return OpencodeRow(id, data, message, max(_find_moment(id, begun >> 12), begun))


def _find_moment(id: str, reference: int) -> int:
    """Find when an id was made. It holds 48 bits of that, so `reference` (ms) gives the rest.

    An id that was made up, or is a month from there, counts as made just then.
    """
    guess = reference << 12
    if match := _ID.match(id):
        ahead = (int(match[1], 16) - guess + _CYCLE // 2) % _CYCLE - _CYCLE // 2
        return guess + ahead if abs(ahead) < _MONTH else guess
    return guess


# -- exports -------------------------------------------------------------------------------


def load_export(path: Path) -> StoredSession:
    """Load the session of an export. Raises ThreadUnreadable if the file is none."""
    with jsonl.explain_errors(path):
        raw = path.read_bytes().removeprefix(jsonl.BYTE_ORDER_MARK)
    try:
        export = jsonl.decode_nested(record.EXPORT, raw)
    except jsonl.UNDECODABLE as exc:
        raise ThreadUnreadable(
            f"{path} is not a complete export of opencode ({exc}). Export it again: opencode "
            "export SESSION > thread.json"
        ) from exc
    if bytes(export.info.location):
        raise ThreadUnreadable(
            f"{path} is an export of opencode 2: it is not a thread of a known harness."
        )
    return StoredSession(export.info, sort_rows(list(_list_export_rows(export))))


def _list_export_rows(export: record.OpencodeExport) -> Iterator[OpencodeRow]:
    moments: dict[str, int] = {}
    for raw in export.messages:
        try:
            whole = jsonl.decode_nested(record.EXPORTED, raw)
            message = _build_message_row(bytes(whole.info))
        except jsonl.UNDECODABLE:
            yield OpencodeRow(id="", data=bytes(raw), moment=max(moments.values(), default=0))
            continue
        moments[message.id] = message.moment
        yield message
        for part in whole.parts:
            identity = jsonl.decode_part(record.NAMED, part, record.OpencodeIdentity())
            yield _build_part_row(identity.id, message.id, bytes(part), moments)


def _build_message_row(data: bytes) -> OpencodeRow:
    identity = jsonl.decode_nested(record.NAMED, data)
    created = jsonl.decode_part(record.TIME, identity.time, record.OpencodeTime()).created
    return OpencodeRow(identity.id, data, moment=_find_moment(identity.id, parse_number(created)))
