"""One server for a database and a host: a lock that ends with the process ensures it.

SQLite: a locked file next to the database file, so there is one server for it. PostgreSQL:
an advisory lock by the host's id, held by a separate connection; each host has one
server.
"""

import fcntl
import logging
import os
import secrets
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError

from tasuki.errors import ServerRuns, StoreFailed
from tasuki.files import explain_error
from tasuki.fleet.background import LifeSign
from tasuki.fleet.hosts import HOSTS_FILE, FleetHost
from tasuki.fleet.store.connections import create_postgres_engine
from tasuki.fleet.store.start_errors import is_role_gone
from tasuki.text_safety import shorten_to_line

LOCK_SUFFIX = ".server"
"""Added to the path of SQLite's file to name the file that is locked."""
LOOK_SECONDS = 1.0
"""How often the connection that holds PostgreSQL's lock is looked at."""
START_SECONDS = 0.1
"""How often a starting server looks whether another one has started."""
PATIENCE = 3.0
"""Seconds for which a lock is retried: a killed server frees it a moment later."""
LOCK_CLASS = 0x7A51
"""The first two bytes of the number of an advisory lock; the other six are the host's id."""
START_LOCK = LOCK_CLASS << 48
"""The advisory lock under which servers start one after the other: tables are made once."""
_HOLDER = sa.text(
    "SELECT a.pid, a.usename, a.application_name, a.client_addr, a.backend_start FROM pg_locks l "
    "JOIN pg_stat_activity a USING (pid) WHERE l.locktype = 'advisory' AND l.granted "
    "AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
    "AND l.classid = :high AND l.objid = :low AND l.objsubid = 1"
)

_LOCK_FLAGS = os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC

log = logging.getLogger("tasuki.fleet")
LostCallback = Callable[[str], None]


class ServerClaim:
    """The right to be the server of a host on a database; here of one that a single server uses."""

    sign: LifeSign

    def take(self) -> None:
        """Take the claim. Raises ServerRuns where another server has it, StoreFailed."""
        raise NotImplementedError

    def watch(self, on_lost: LostCallback) -> None:
        """Start watching; call `on_lost` with a sentence once another server has the claim."""

    @contextmanager
    def hold_start_lock(self) -> Iterator[None]:
        """Let no other host's server start meanwhile."""
        yield

    def is_running(self, host: str) -> bool:
        """Whether a server of another host runs on the same database."""
        return False

    def release(self) -> None:
        """Give the claim back."""
        raise NotImplementedError


def build_claim(url: str, host: FleetHost) -> ServerClaim:
    """Build the claim of a host on the database of a URL."""
    if url.startswith("sqlite"):
        return FileClaim(Path(make_url(url).database or ""), host)
    return AdvisoryClaim(url, host)


class FileClaim(ServerClaim):
    """A locked file next to a SQLite database; links to the database lead to the same lock."""

    def __init__(self, database: Path, host: FleetHost) -> None:
        self.host = host
        self.sign = LifeSign("The lock")
        real = Path(os.path.realpath(database))
        self.database = real
        self.path = real.with_name(real.name + LOCK_SUFFIX)
        self._descriptor: int | None = None
        self._host_lock: tuple[int, Path] | None = None

    def take(self) -> None:
        """Lock the file; create a missing database, private. Raises ServerRuns, StoreFailed."""
        if self.host.original:  # its server would type into the agents of the original
            raise StoreFailed(
                f"This data folder is a copy of {self.host.original}, whose agents are the same. To use the copy "
                f"instead, move the original away. To make it a separate host, remove {HOSTS_FILE} from the copy's "
                "folder `fleet`."
            )
        self._take_host()
        self._check_database()
        try:
            number = os.open(self.path, _LOCK_FLAGS, 0o600)
        except OSError as error:
            raise StoreFailed(
                f"The lock {self.path} cannot be created: {explain_error(error)}. Fix that, or name another database: "
                "tasuki serve --database-url"
            ) from error
        if holder := _lock_file(number, f"process {os.getpid()}"):
            pid = holder.removeprefix("process ")
            end = f", or end it first: kill {pid}" if pid.isdigit() else ""
            raise ServerRuns(
                f"A server has the database {self.database} already ({shorten_to_line(holder, 80)}), "
                f"with another data folder. Use that one{end}."
            )
        self._descriptor = number

    def _take_host(self) -> None:
        """Lock the host's id for this user.

        The lock is outside of the data folder, which may have been copied whole. Where no lock can
        be created, none is taken. Raises ServerRuns where a copy of this data folder has its
        server.
        """
        folder = Path(tempfile.gettempdir()) / f"tasuki-{os.getuid()}"
        path = folder / f"{self.host.id}.server"
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            status = folder.lstat()
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
                return  # somebody else's
            number = os.open(path, _LOCK_FLAGS, 0o600)
            holder = _lock_file(number, f"process {os.getpid()}, {self.database}")
        except OSError:
            return
        if holder:
            raise ServerRuns(
                f"This data folder and another one are copies of each other, and the other one has its server already "
                f"({holder}): both have the same agents. Use that one, or end it first. To make "
                f"this one a separate host, remove {HOSTS_FILE} from its folder `fleet`."
            )
        if os.fstat(number).st_nlink == 0:  # its last holder has just removed the file
            os.close(number)
            self._take_host()
            return
        self._host_lock = (number, path)

    def _check_database(self) -> None:
        """Raise StoreFailed where the path is no file, or the file has a second name."""
        try:
            status = os.stat(self.database)
        except FileNotFoundError:
            status = None
        except OSError as error:
            raise StoreFailed(
                f"The database {self.database} cannot be used: {explain_error(error)}."
            ) from error
        if status and not stat.S_ISREG(status.st_mode):
            raise StoreFailed(f"{self.database} is no file. Name one: tasuki serve --database-url")
        if status and status.st_nlink > 1:
            raise StoreFailed(
                f"The database {self.database} has {status.st_nlink} names (hard links): under another one a second "
                "server would damage it. Remove the others."
            )
        if status is None:
            with suppress(OSError):  # opening it later reports why it cannot be created
                os.close(os.open(self.database, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))

    def release(self) -> None:
        """Unlock the file."""
        if self._descriptor is not None:
            with suppress(OSError):
                os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = None
        if self._host_lock is not None:
            number, path = self._host_lock
            with suppress(OSError):
                path.unlink()
                path.parent.rmdir()  # where it was the last
            os.close(number)
            self._host_lock = None


def _lock_file(number: int, holder: str) -> str:
    """Lock an open file and write its holder into it; else close it, and return who has it."""
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        known = os.pread(number, 500, 0).decode("utf-8", "replace")
        os.close(number)
        if not isinstance(error, BlockingIOError):
            raise
        return shorten_to_line(known, 300) or "it is starting"
    with suppress(OSError):  # a full disk: the lock holds, only its holder is not named
        os.ftruncate(number, 0)
        os.pwrite(number, holder.encode(), 0)
    return ""


class AdvisoryClaim(ServerClaim):
    """An advisory lock of PostgreSQL, held by a connection for the life of the server."""

    def __init__(self, url: str, host: FleetHost) -> None:
        self.host, self._url = host, url
        self.name = f"tasuki {host.id} {secrets.token_hex(8)}"
        """What the connection calls itself: by it a server knows its own one that broke."""
        self._engine = create_postgres_engine(
            url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT",
            connect_args={"application_name": self.name},
        )  # fmt: skip
        self.sign = LifeSign("The connection that holds this host's lock")
        self._number = compute_lock_number(host.id) or 0
        self._connection: sa.Connection | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def take(self) -> None:
        """Take the lock. Raises ServerRuns; DBAPIError where the database does not answer."""
        deadline = time.monotonic() + PATIENCE
        while not self._is_taken():
            if time.monotonic() > deadline:
                raise ServerRuns(self._format_refusal())
            time.sleep(0.1)

    def watch(self, on_lost: LostCallback) -> None:
        """Start watching the connection in a thread."""
        self.sign.note_work()
        self._thread = threading.Thread(
            target=self._watch_connection, args=(on_lost,), name="claim", daemon=True
        )
        self._thread.start()

    @contextmanager
    def hold_start_lock(self) -> Iterator[None]:
        """Let no other host's server start meanwhile.

        It is asked for again and again: a statement that waits keeps an old snapshot, and the server
        that has the lock may be building an index concurrently, which waits for old snapshots.
        """
        assert self._connection
        parameters = {"number": START_LOCK}
        query = sa.text("SELECT pg_try_advisory_lock(:number)")
        while not self._connection.execute(query, parameters).scalar_one():
            time.sleep(START_SECONDS)
        try:
            yield
        finally:
            with suppress(DBAPIError):
                self._connection.execute(sa.text("SELECT pg_advisory_unlock(:number)"), parameters)

    def is_running(self, host: str) -> bool:
        """Whether a server of another host holds its lock."""
        assert self._connection
        number = compute_lock_number(host)
        return number is not None and self._find_holder(self._connection, number) is not None

    def release(self) -> None:
        """Give the lock back, by closing the connection."""
        self._stop.set()
        if self._thread:
            self._thread.join(LOOK_SECONDS)
        self._drop()

    def _is_taken(self) -> bool:
        """Try to take the lock with a new connection, and keep that connection on success."""
        connection = self._engine.connect()
        try:
            query = sa.text("SELECT pg_try_advisory_lock(:number)")
            if connection.execute(query, {"number": self._number}).scalar_one():
                self._connection = connection
                return True
            holder = self._find_holder(connection, self._number)
            if holder and holder.application_name == self.name:  # its own connection, which broke
                end = sa.text("SELECT pg_terminate_backend(:pid)")
                connection.execute(end, {"pid": holder.pid})
        finally:
            if connection is not self._connection:
                connection.close()
        return False

    def _find_holder(self, connection: sa.Connection, number: int) -> Any:
        halves = {"high": number >> 32, "low": number & 0xFFFFFFFF}
        return connection.execute(_HOLDER, halves).first()

    def _format_refusal(self) -> str:
        details = ""
        with suppress(DBAPIError), self._engine.connect() as connection:
            holder = self._find_holder(connection, self._number)
            if holder and holder.backend_start is None:  # PostgreSQL hides this of other roles
                details = f", with the role {holder.usename}"
            elif holder:
                place = f"from {holder.client_addr}" if holder.client_addr else "from this machine"
                details = f", {place}, since {holder.backend_start:%Y-%m-%d %H:%M}"
        return (
            f"A server of this host ({self.host.id}) has this database already{details}. Use that one, or end "
            f"it first. If this data folder is a copy of another one that is in use: remove {HOSTS_FILE} from "
            "the copy's folder `fleet`, and it becomes a separate host."
        )

    def _watch_connection(self, on_lost: LostCallback) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            try:
                if self._connection:
                    self._connection.exec_driver_sql("SELECT 1")
                    self.sign.note_work()
                    continue
            except DBAPIError:
                self.sign.note_failure()
                self._drop()
            try:
                if self._is_taken():
                    log.info("The lock on the database is held again.")
                    continue
                with self._engine.connect() as connection:
                    holder = self._find_holder(connection, self._number)
            except DBAPIError as error:
                if is_role_gone(error, self._url):
                    on_lost("PostgreSQL lets this host in no more: it was retired, or joined again elsewhere. This server ends.")  # fmt: skip
                    return
                continue  # the database is away: no server can take the lock
            if holder and holder.application_name != self.name:
                on_lost(
                    "While the connection to the database was broken, another server of this host took "
                    "its place. This one ends."
                )
                return

    def _drop(self) -> None:
        if self._connection:
            with suppress(DBAPIError):
                self._connection.invalidate()
                self._connection.close()
            self._connection = None


def compute_lock_number(host: str) -> int | None:
    """Return the number of a host's advisory lock; None for a host that an older tasuki named."""
    digits = host[1:]
    if host[:1] != "h" or len(digits) != 12 or set(digits) - set("0123456789abcdef"):
        return None
    return (LOCK_CLASS << 48) | int(digits, 16)
