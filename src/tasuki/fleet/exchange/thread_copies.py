"""Threads of agents in the database: stored on the agent's host, restored on another one.

A thread is stored in its parts, as kept copies are (`tasuki.threads.kept`), each in blocks that are
compressed by Zstandard. A log only grows: what is new of it becomes one more block. A part that was
changed otherwise is stored anew. A restored thread is a kept copy under its old path, so all that
reads threads finds it there.
"""

import hashlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import msgspec
import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy.exc import DBAPIError

from tasuki.errors import KeptCopyDamaged, TasukiError, ThreadNotFound, ThreadUnreadable
from tasuki.fleet.background import BackgroundWork
from tasuki.fleet.store import queries, tables
from tasuki.fleet.store.database import FleetDatabase, store_row
from tasuki.fleet.store.models import FleetAgent
from tasuki.harness.optional import find_file, list_parts
from tasuki.threads import catalog
from tasuki.threads.kept.copies import KeptPart, KeptRecord, OpenedPart, open_parts
from tasuki.threads.kept.store import KeptStore

BLOCK_BYTES = 4 << 20
"""Bytes of a thread in one block, before they are compressed."""
TAIL_BYTES = 4096
"""Bytes before the end of what is stored by which a log that only grew is recognized."""
LEVEL = 3
THREAD_LOCK = 0x7A5C
"""PostgreSQL's advisory lock, with the id of the agent whose thread is stored."""


class StoredThread(Struct, frozen=True):
    """What the database has of a thread: the record of the copy, and of each part how it ends."""

    record: KeptRecord
    tails: tuple[str, ...]
    blocks: tuple[int, ...]
    """Blocks of each part."""


def store_thread(database: FleetDatabase, agent: FleetAgent) -> int:
    """Store what is new of an agent's thread; return how many bytes, before compression.

    Nothing happens where there is no conversation yet. What is stored stays where the file is cut
    meanwhile. Raises TasukiError, OSError.
    """
    path = Path(agent.thread)
    harness = catalog.get_reader(agent.harness, path)
    original = find_file(harness, path)
    if original is None:
        raise ThreadNotFound(f"{path} no longer exists.")
    known = load_stored(database, agent.id)
    if known and (known.record.modified, known.record.bytes) == (original.modified, original.bytes):
        return 0
    head = catalog.read_head(harness, original)
    parts = list_parts(harness, path, head.cwd) if head else ()
    if head is None or not parts:
        return 0
    with open_parts(parts) as opened:
        record = KeptRecord(
            harness=agent.harness, path=str(path), head=head, modified=original.modified,
            bytes=original.bytes, kept=time.time(),
            parts=tuple(KeptPart(part.name, part.length) for part in opened),
        )  # fmt: skip
        return _store_parts(database, agent.id, record, opened)


def _store_parts(
    database: FleetDatabase, agent_id: int, record: KeptRecord, opened: list[OpenedPart]
) -> int:
    import zstandard

    compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True)
    blocks = tables.thread_blocks
    counts, stored = [], 0
    with database.open_transaction() as connection:
        # One at a time for an agent: a turn's end and a move may store it at once.
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(THREAD_LOCK, agent_id)))
        known = load_stored(connection, agent_id)
        own = (blocks.c.agent_id == agent_id) & (blocks.c.part >= len(opened))
        connection.execute(sa.delete(blocks).where(own))
        for number, part in enumerate(opened):
            start, count = _find_start(known, number, part)
            if not start:
                same = (blocks.c.agent_id == agent_id) & (blocks.c.part == number)
                connection.execute(sa.delete(blocks).where(same))
            for block in _read_from(part, start):
                values = {
                    "agent_id": agent_id, "part": number, "number": count,
                    "content": compressor.compress(block),
                }  # fmt: skip
                connection.execute(sa.insert(blocks).values(values))
                count, stored = count + 1, stored + len(block)
            counts.append(count)
        tails = tuple(_read_tail(part, part.length) for part in opened)
        row = msgspec.to_builtins(StoredThread(record, tails, tuple(counts)))
        values = {"record": row, "stored_at": time.time()}
        store_row(connection, tables.thread_copies, {"agent_id": agent_id}, values)
    return stored


def _find_start(known: StoredThread | None, number: int, part: OpenedPart) -> tuple[int, int]:
    """Return how many bytes of a part are stored and still the same, and in how many blocks."""
    if known is None or number >= len(known.record.parts):
        return 0, 0
    old = known.record.parts[number]
    if old.name != part.name or not 0 < old.bytes <= part.length:
        return 0, 0
    if _read_tail(part, old.bytes) != known.tails[number]:
        return 0, 0
    return old.bytes, known.blocks[number]


def _read_tail(part: OpenedPart, end: int) -> str:
    """Return a digest of the bytes before an offset, and of the beginning."""
    start = max(0, end - TAIL_BYTES)
    content = _read_piece(part, start, end - start) + _read_piece(part, 0, min(TAIL_BYTES, end))
    return hashlib.sha256(content).hexdigest()


def _read_piece(part: OpenedPart, start: int, length: int) -> bytes:
    if part.file is None:
        return part.data[start : start + length]
    part.file.seek(start)
    content = b""
    while len(content) < length and (block := part.file.read(length - len(content))):
        content += block
    return content


def _read_from(part: OpenedPart, start: int) -> Iterator[bytes]:
    for offset in range(start, part.length, BLOCK_BYTES):
        length = min(BLOCK_BYTES, part.length - offset)
        piece = _read_piece(part, offset, length)
        if len(piece) < length:
            raise ThreadUnreadable(f"{part.name} was cut while it was read. What is stored of it stays.")  # fmt: skip
        yield piece


def load_stored(source: queries.QuerySource, agent_id: int) -> StoredThread | None:
    """Load what is stored of an agent's thread; None where nothing is."""
    copies = tables.thread_copies.c
    query = sa.select(copies.record).where(copies.agent_id == agent_id)
    row = queries.fetch(source, query).scalar_one_or_none()
    with suppress(msgspec.ValidationError):
        return msgspec.convert(row, StoredThread | None)
    return None


def describe_unstored(agent_id: int) -> str:
    """Describe in a sentence that the database has no thread of an agent."""
    return f"The thread of agent {agent_id} is not in the database: its host stored none (setting keep_threads)."


def restore_thread(database: FleetDatabase, agent: FleetAgent) -> str:
    """Write an agent's thread into the kept copies of this host.

    Return a note. Raises ThreadNotFound where the database has none, KeptCopyDamaged, OSError.
    """
    stored = load_stored(database, agent.id)
    if stored is None:
        raise ThreadNotFound(describe_unstored(agent.id))
    with database.read() as connection:
        parts = [
            _open_stored(connection, agent.id, number, part)
            for number, part in enumerate(stored.record.parts)
        ]
    try:
        KeptStore().write(stored.record, parts)
    finally:
        for part in parts:
            if part.file:
                part.file.close()
    return f"thread as of {time.strftime('%Y-%m-%d %H:%M', time.localtime(stored.record.kept))}"


def _open_stored(
    connection: sa.Connection, agent_id: int, number: int, part: KeptPart
) -> OpenedPart:
    """Unpack the blocks of a part into a file without a name. Raises KeptCopyDamaged."""
    import tempfile

    import zstandard

    blocks = tables.thread_blocks.c
    query = sa.select(blocks.content).order_by(blocks.number)
    query = query.where(blocks.agent_id == agent_id, blocks.part == number)
    decompressor = zstandard.ZstdDecompressor()
    file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 closed by the caller
    try:
        for content in connection.execute(query).scalars():
            file.write(decompressor.decompress(content, max_output_size=BLOCK_BYTES))
    except zstandard.ZstdError as error:
        file.close()
        raise KeptCopyDamaged(f"The thread of agent {agent_id} in the database is damaged: {error}.") from error  # fmt: skip
    if file.tell() != part.bytes:
        file.close()
        raise KeptCopyDamaged(
            f"The thread of agent {agent_id} in the database is damaged: {part.name} lacks its end."
        )
    file.flush()
    return OpenedPart(part.name, part.bytes, file=file)


QUIET_SECONDS = 1.0
"""Agents write an answer a moment after the hook of its turn's end."""
AWAY_SECONDS = 5.0

logger = logging.getLogger("tasuki.fleet")


@dataclass(eq=False, repr=False)
class ThreadKeeper(BackgroundWork):
    """Stores what is new of a thread soon after its agent's turn ended, where `is_wanted` says so."""

    database: FleetDatabase
    is_wanted: Callable[[], bool]
    name, pause = "threads", QUIET_SECONDS / 2

    def __post_init__(self) -> None:
        self._due: dict[int, float] = {}
        self._lock = threading.Lock()
        self._failed: set[int] = set()
        super().__post_init__()

    def start(self) -> None:
        """Start storing; SQLite has one host, and needs no copies."""
        if not self.database.is_sqlite:
            super().start()

    def queue(self, agents: Iterable[int]) -> None:
        """Queue agents whose turn ended; callable from any thread."""
        if self.database.is_sqlite or not self.is_wanted():
            return
        due = time.monotonic() + QUIET_SECONDS
        with self._lock:
            for id in agents:
                self._due[id] = due

    def _work(self) -> None:
        now = time.monotonic()
        with self._lock:
            due = [id for id, moment in self._due.items() if moment <= now]
            for id in due:
                del self._due[id]
        for id in due:
            self._store(id)

    def _store(self, agent_id: int) -> None:
        try:
            agent = queries.load_agent(self.database, agent_id)
            if agent.thread:
                store_thread(self.database, agent)
            self._failed.discard(agent_id)
        except DBAPIError:  # the database is away: again later
            with self._lock:
                self._due.setdefault(agent_id, time.monotonic() + AWAY_SECONDS)
        except (TasukiError, OSError) as error:
            if agent_id not in self._failed:  # once: the log does not repeat it
                logger.warning("The thread of agent %s is not stored: %s", agent_id, error)
            self._failed.add(agent_id)
        except Exception:
            logger.exception("The thread of agent %s", agent_id)
