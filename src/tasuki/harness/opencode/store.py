"""Where opencode keeps its threads: one SQLite database, opened so that no file changes; exports.

opencode 1.18 leaves its write-ahead log behind. Opening a database read-only writes to the shared
memory file beside it, or makes both anew, unless SQLite is told that nothing changes (`immutable`,
which does not look into the log) or that this file is not to be written (`readonly_shm`).
"""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from tasuki.errors import ThreadUnreadable
from tasuki.harness.jsonl import BYTE_ORDER_MARK, UNDECODABLE, nested, repaired
from tasuki.harness.opencode import format as record

if TYPE_CHECKING:
    from sqlite3 import Connection

T = TypeVar("T")
MAGIC = b"SQLite format 3\0"
TABLES = frozenset({b"session", b"message", b"part"})
PATIENCE = 2.0
"""Seconds to wait for a lock."""
TRIES = 3
_ID = re.compile(r"(?:msg|prt)_([0-9a-f]{12})")
_CYCLE = 1 << 48
_MONTH = 30 * 86_400_000 << 12


class Session(Struct):
    """A session without what was said in it. Times are milliseconds since the epoch."""

    id: str
    parent: str = ""
    directory: str = ""
    title: str = ""
    version: str = ""
    created: int = 0
    updated: int = 0
    revert: record.Revert | None = None
    children: tuple[tuple[str, str], ...] = ()
    """Ids and titles of the sessions of its sub-agents."""


class Row(Struct, gc=False):
    """A message or a part of one, not decoded yet."""

    id: str
    data: bytes
    message: str = ""
    """Of a part: the id of its message."""
    moment: int = 0
    """When it came to be: milliseconds since the epoch, times 4096, plus a counter."""
    deleted: bool = False
    """opencode deleted it when the conversation went on after `/undo`."""


class Found(Struct):
    """A session and its rows, in the order they came to be."""

    session: Session
    rows: list[Row]


def is_database(path: Path) -> bool:
    """Whether a file is a SQLite database. Raises ThreadUnreadable if it cannot be opened."""
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except FileNotFoundError as exc:
        raise ThreadUnreadable(f"{path} vanished while it was read.") from exc
    except OSError as exc:
        raise ThreadUnreadable(f"Cannot read {path}: {exc.strerror}.") from exc


def ask(path: Path, name: Path, question: Callable[["Connection"], T]) -> T:
    """What a question to a database gives; texts come as bytes.

    Asked again if the database changed meanwhile. Raises ThreadUnreadable that names `name`.
    """
    import sqlite3

    real = Path(os.path.realpath(path))
    problem: sqlite3.Error | None = None
    for _ in range(TRIES):
        before = _stamp(real)
        try:
            with _opened(real) as db:
                answer = question(db)
            if _log_size(real) or _stamp(real) == before:
                return answer
        except sqlite3.Error as exc:
            problem = exc
            if _stamp(real) == before:
                break
        except OSError as exc:
            raise ThreadUnreadable(f"Cannot read {name}: {exc.strerror}.") from exc
    raise ThreadUnreadable(_why(name, str(problem or "it changes all the time"))) from problem


def _why(name: Path, problem: str) -> str:
    if "no such" in problem:
        return f"{name}: the database holds no threads of an opencode known here ({problem})."
    if "locked" in problem or "changes" in problem:
        return f"{name}: the database is in use ({problem}). Try again."
    return (
        f"{name}: the database cannot be read ({problem}). If opencode can still open it, hand off "
        "an export: opencode export SESSION > thread.json"
    )


@contextmanager
def _opened(path: Path) -> Iterator["Connection"]:
    """A connection in which every read sees the same state."""
    shared = path.with_name(path.name + "-shm")
    if not _log_size(path):
        opened = _connected(path, "mode=ro&immutable=1")
    elif shared.exists():
        opened = _connected(path, "mode=ro&readonly_shm=1")
    else:
        opened = _copied(path)
    with opened as db:
        db.text_factory = bytes
        db.execute("BEGIN")
        yield db


@contextmanager
def _connected(path: Path, how: str) -> Iterator["Connection"]:
    import sqlite3

    uri = f"{path.as_uri()}?{how}"
    with closing(sqlite3.connect(uri, PATIENCE, uri=True, isolation_level=None)) as db:
        yield db


@contextmanager
def _copied(path: Path) -> Iterator["Connection"]:
    """A copy of a database that was itself copied with its log, but without the file beside it."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        copy = Path(folder, path.name)
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{path}{suffix}", f"{copy}{suffix}")
        with _connected(copy, "mode=ro") as db:
            yield db


def _log_size(path: Path) -> int:
    try:
        return os.stat(f"{path}-wal").st_size
    except OSError:
        return 0


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        stat = path.stat()
    except OSError:
        return 0, 0, 0
    return stat.st_mtime_ns, stat.st_size, _log_size(path)


# -- sessions ------------------------------------------------------------------------------


def holds_sessions(path: Path) -> bool:
    """Whether a database has the tables of opencode."""

    def question(db: "Connection") -> bool:
        names = {row[0] for row in db.execute("SELECT name FROM sqlite_master")}
        return names >= TABLES

    return ask(path, path, question)


def listed(path: Path) -> list[tuple[str, str, float, int]]:
    """Id, folder, time of the last change in seconds, and messages of all sessions but sub-agents'.

    The messages are counted in an index: the sum of their lengths would read the whole database.
    """
    query = (
        "SELECT id, directory, time_updated, (SELECT count(*) FROM message WHERE session_id = s.id)"
        " FROM session s WHERE parent_id IS NULL"
    )
    rows = ask(path, path, lambda db: db.execute(query).fetchall())
    return [(text(id), text(at), _number(when) / 1000, _number(n)) for id, at, when, n in rows]


def is_listed(path: Path, id: str) -> bool:
    """Whether a database holds a session that is none of a sub-agent's."""
    query = "SELECT 1 FROM session WHERE id = ? AND parent_id IS NULL"
    key = id.encode("utf-8", "replace").decode()  # half a pair is no character
    return ask(path, path, lambda db: db.execute(query, (key,)).fetchone()) is not None


def session(db: "Connection", id: str) -> Session | None:
    """One session by its id, without its rows."""
    cursor = db.execute("SELECT * FROM session WHERE id = ?", (id,))
    names = [column[0] for column in cursor.description]
    found = cursor.fetchone()
    if found is None:
        return None
    row: dict[str, Any] = dict(zip(names, found, strict=True))
    children = db.execute(
        "SELECT id, title FROM session WHERE parent_id = ? ORDER BY time_created, id", (id,)
    )
    return Session(
        id=id,
        parent=text(row.get("parent_id")),
        directory=text(row.get("directory")),
        title=text(row.get("title")),
        version=text(row.get("version")),
        created=_number(row.get("time_created")),
        updated=_number(row.get("time_updated")),
        revert=_reverted(row.get("revert")),
        children=tuple((text(child), text(title)) for child, title in children),
    )


def _reverted(raw: object) -> record.Revert | None:
    if not isinstance(raw, bytes):
        return None
    try:
        return record.REVERT.decode(repaired(raw))
    except UNDECODABLE:
        return None


def text(value: object) -> str:
    """A text of the database, whatever stands in its place."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return "" if value is None else str(value)


def _number(value: object) -> int:
    return int(value) if isinstance(value, int | float) and abs(value) < 1 << 52 else 0


def _data(value: object) -> bytes:
    return value if isinstance(value, bytes) else text(value).encode("utf-8", "replace")


# -- rows ----------------------------------------------------------------------------------


def rows(db: "Connection", id: str) -> list[Row]:
    """Messages and parts of a session in the order they came to be, deleted ones included."""
    moments: dict[str, int] = {}
    found: list[Row] = []
    _add_deleted(db, id, found, moments)
    query = "SELECT id, time_created, data FROM message WHERE session_id = ?"
    for key, at, data in db.execute(f"{query} ORDER BY time_created, id", (id,)):
        moments[text(key)] = moment = _moment(text(key), _number(at))
        found.append(Row(id=text(key), data=_data(data), moment=moment))
    query = "SELECT id, message_id, data FROM part WHERE session_id = ? ORDER BY message_id, id"
    for key, message, data in db.execute(query, (id,)):
        found.append(_part(text(key), text(message), _data(data), moments))
    return in_order(found)


def _add_deleted(db: "Connection", id: str, found: list[Row], moments: dict[str, int]) -> None:
    """Rows of deleted messages, from the log of events that opencode 1.18 keeps."""
    import sqlite3

    query = "SELECT data FROM event WHERE aggregate_id = ? AND type = ? ORDER BY seq"
    try:
        deleted = {
            event.messageID
            for (raw,) in db.execute(query, (id, "message.removed.1"))
            if (event := _event(raw)) and event.messageID
        }
        if not deleted:
            return
        for kind in ("message.updated.1", "message.part.updated.1"):
            last: dict[str, Row] = {}
            for (raw,) in db.execute(query, (id, kind)):
                event = _event(raw)
                row = _deleted(event, moments) if event else None
                if row and (row.message or row.id) in deleted:
                    last[row.id] = row
            moments |= {row.id: row.moment for row in last.values() if not row.message}
            found += last.values()
    except sqlite3.OperationalError:
        return


class _Event(Struct, gc=False):
    messageID: str = ""
    info: Raw = Raw(b"")
    part: Raw = Raw(b"")


class _EventPart(Struct, gc=False):
    id: str = ""
    messageID: str = ""


_EVENT = msgspec.json.Decoder(_Event)
_EVENT_PART = msgspec.json.Decoder(_EventPart)


def _event(raw: object) -> _Event | None:
    try:
        return nested(_EVENT, _data(raw))
    except UNDECODABLE:
        return None


def _deleted(event: _Event, moments: dict[str, int]) -> Row | None:
    try:
        if event.part:
            part = nested(_EVENT_PART, event.part)
            row = _part(part.id, part.messageID, bytes(event.part), moments)
        else:
            row = _exported_message(bytes(event.info))
    except UNDECODABLE:
        return None
    row.deleted = True
    return row


def in_order(found: list[Row]) -> list[Row]:
    """Rows as they came to be; a message stands before its parts."""
    return sorted(found, key=lambda row: (row.moment, bool(row.message)))


def _part(id: str, message: str, data: bytes, moments: dict[str, int]) -> Row:
    begun = moments.get(message, 0)
    return Row(id, data, message, max(_moment(id, begun >> 12), begun))


def _moment(id: str, near: int) -> int:
    """When an id was made. It holds 48 bits of that, so `near` (ms) tells the rest.

    An id that was made up, or lies a month from there, counts as made just there.
    """
    guess = near << 12
    if match := _ID.match(id):
        ahead = (int(match[1], 16) - guess + _CYCLE // 2) % _CYCLE - _CYCLE // 2
        return guess + ahead if abs(ahead) < _MONTH else guess
    return guess


# -- exports -------------------------------------------------------------------------------


def exported(path: Path) -> Found:
    """The session of an export. Raises ThreadUnreadable if the file is none."""
    try:
        raw = path.read_bytes().removeprefix(BYTE_ORDER_MARK)
    except OSError as exc:
        raise ThreadUnreadable(f"Cannot read {path}: {exc.strerror}.") from exc
    try:
        export = nested(record.EXPORT, raw)
    except UNDECODABLE as exc:
        raise ThreadUnreadable(
            f"{path} is no whole export of opencode ({exc}). Make it again: "
            "opencode export SESSION > thread.json"
        ) from exc
    info = export.info
    return Found(
        session=Session(
            id=info.id,
            parent=info.parentID or "",
            directory=info.directory,
            title=info.title,
            version=info.version,
            created=_number(info.time.created),
            updated=_number(info.time.updated),
            revert=info.revert,
        ),
        rows=in_order(list(_exported_rows(export))),
    )


def _exported_rows(export: record.Export) -> Iterator[Row]:
    moments: dict[str, int] = {}
    for raw in export.messages:
        try:
            whole = nested(record.EXPORTED, raw)
            message = _exported_message(bytes(whole.info))
        except UNDECODABLE:
            yield Row(id="", data=bytes(raw), moment=max(moments.values(), default=0))
            continue
        moments[message.id] = message.moment
        yield message
        for part in whole.parts:
            yield _part(_name(bytes(part)), message.id, bytes(part), moments)


def _exported_message(data: bytes) -> Row:
    named = nested(record.NAMED, data)
    return Row(named.id, data, moment=_moment(named.id, _number(_time(named.time).created)))


def _name(data: bytes) -> str:
    try:
        return nested(record.NAMED, data).id
    except UNDECODABLE:
        return ""


def _time(raw: Raw) -> record.Time:
    try:
        return nested(record.TIME, raw)
    except UNDECODABLE:
        return record.Time()
