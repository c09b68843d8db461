"""The databases under test: a file of SQLite, and a PostgreSQL server of the tests' own."""

import os
import pwd
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from waiting import retry_until

from tasuki.fleet.store import schema
from tasuki.fleet.store.database import FleetDatabase

TEMPLATE = "tasuki_template"
FAST = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "shared_buffers=16MB",
        "max_connections=200", "listen_addresses=")  # fmt: skip


def missing() -> str:
    """Why no PostgreSQL can be started here, as a sentence; empty where one can."""
    if _program("initdb"):
        return ""
    return "PostgreSQL is not installed (apt install postgresql, brew install postgresql)."


class Postgres:
    """A PostgreSQL server that listens on a socket in its own folder alone, and syncs nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, name: str) -> str:
        """The URL of one of its databases."""
        return f"postgresql://postgres@/{name}?host={self.folder}"

    def make(self, name: str = "", template: str = TEMPLATE) -> str:
        """Make a database; its URL."""
        name = name or f"t_{secrets.token_hex(6)}"
        self._tell(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return self.url(name)

    def drop(self, url: str) -> None:
        """Take a database away, with whoever is connected to it."""
        name = url.partition("@/")[2].partition("?")[0]
        self._tell(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = [word for setting in (*FAST, f"unix_socket_directories={self.folder}") for word in ("-c", setting)]  # fmt: skip
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [*_as_nobody(), _program("postgres"), "-D", str(self.data), *settings],
                stdout=subprocess.DEVNULL, stderr=log, cwd="/",
            )  # fmt: skip
        retry_until(self._answers, 30)

    def stop(self, mode: str = "immediate") -> None:
        """End it at once; whoever is connected is cut off. It syncs nothing: only a `fast` end loses nothing."""
        if self._process:
            subprocess.run(
                [*_as_nobody(), _program("pg_ctl"), "stop", "-D", str(self.data), "-m", mode],
                stdout=subprocess.DEVNULL, cwd="/", check=True, timeout=30,
            )  # fmt: skip
            self._process.wait(10)
            self._process = None

    def _answers(self) -> bool:
        try:
            self._tell("SELECT 1")
        except psycopg.OperationalError:
            assert self._process, "it was not started"
            assert self._process.poll() is None, (self.folder / "log").read_text()
            return False
        return True

    def _tell(self, statement: str) -> None:
        with psycopg.connect(
            dbname="postgres", user="postgres", host=str(self.folder), autocommit=True
        ) as connection:
            connection.execute(statement.encode())


def make_tables(url: str) -> None:
    """Make the fleet's tables in an empty database: a template, since that takes longer than a copy."""
    database = FleetDatabase(url)
    schema.upgrade_tables(database)
    database.close()


@contextmanager
def postgres() -> Iterator[Postgres]:
    """A server, with a template that holds the fleet's tables; ended and taken away behind it."""
    folder = Path(tempfile.mkdtemp(prefix="tasuki-pg-", dir="/tmp"))  # a socket's path is short
    server = Postgres(folder)
    try:
        if os.geteuid() == 0:
            os.chown(folder, _user().pw_uid, -1)
        subprocess.run(
            [*_as_nobody(), _program("initdb"), "-D", str(server.data), "-U", "postgres",
             "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"],
            stdout=subprocess.DEVNULL, cwd="/", check=True, timeout=120,
        )  # fmt: skip
        server.start()
        make_tables(server.make(TEMPLATE, "template1"))
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _program(name: str) -> str:
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    path = os.pathsep.join((*map(str, folders), os.environ.get("PATH", "")))
    return shutil.which(name, path=path) or ""


def _as_nobody() -> list[str]:
    """The words before a command: it ends with this process, and is not root, which it refuses."""
    if sys.platform != "linux":
        return []
    words = ["setpriv", "--pdeathsig", "INT"]
    if os.geteuid() == 0:
        words += [f"--reuid={_user().pw_uid}", f"--regid={_user().pw_gid}", "--clear-groups"]
    return words


def _user() -> pwd.struct_passwd:
    known = {user.pw_name: user for user in pwd.getpwall()}
    return known.get("postgres") or known["nobody"]
