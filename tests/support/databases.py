"""The databases under test: a file of SQLite, and a PostgreSQL server of the tests' own."""

import atexit
import os
import pwd
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import psycopg
import sqlalchemy as sa
from dbos._sys_db_sqlite import SQLiteSystemDatabase
from waiting import retry_until

from tasuki.fleet.store import schema
from tasuki.fleet.store.database import FleetDatabase, create_engine

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

    def __init__(self, folder: Path, port: int = 0, namespace: str = "") -> None:
        self.folder = folder
        self.namespace = namespace
        """The path of a namespace of the network in which it listens everywhere; empty for nowhere."""
        self.data = folder / "data"
        self.port = port
        """Where it listens on loopback, with TLS and passwords; 0 for nowhere."""
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, name: str) -> str:
        """The URL of one of its databases."""
        port = f"&port={self.port}" if self.port else ""
        return f"postgresql://postgres@/{name}?host={self.folder}{port}"

    def make_owned(self, rights: str = "CREATEROLE") -> str:
        """Make an empty database that a role of its own owns; the role's URL, on loopback."""
        name, password = f"t_{secrets.token_hex(6)}", secrets.token_hex(8)
        self.tell(f"CREATE ROLE {name}_owner LOGIN {rights} PASSWORD '{password}'")
        self.tell(f"CREATE DATABASE {name} OWNER {name}_owner")
        return f"postgresql://{name}_owner:{password}@127.0.0.1:{self.port}/{name}"

    def make(self, name: str = "", template: str = TEMPLATE) -> str:
        """Make a database; its URL."""
        name = name or f"t_{secrets.token_hex(6)}"
        self.tell(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return self.url(name)

    def drop(self, url: str) -> None:
        """Take a database away, with whoever is connected to it."""
        name = sa.make_url(url).database
        self.tell(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def start(self) -> None:
        """Start it, and wait until it answers."""
        given = [*FAST, f"unix_socket_directories={self.folder}"]
        if self.port:
            given += ["listen_addresses=127.0.0.1", f"port={self.port}", "ssl=on", "log_statement=all",
                      f"ssl_cert_file={self.folder}/server.pem", f"ssl_key_file={self.folder}/server.key"]  # fmt: skip
        prefix = ["nsenter", f"--net={self.namespace}"] if self.namespace else []
        given += ["listen_addresses=*"] if self.namespace else []
        settings = [word for setting in given for word in ("-c", setting)]
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [*prefix, *_as_nobody(), _program("postgres"), "-D", str(self.data), *settings],
                stdout=subprocess.DEVNULL, stderr=log, cwd="/",
                start_new_session=True,  # Ctrl-C in the terminal is not meant for it
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
            self.tell("SELECT 1")
        except psycopg.OperationalError:
            assert self._process, "it was not started"
            assert self._process.poll() is None, (self.folder / "log").read_text()
            return False
        return True

    def tell(self, statement: str, database: str = "postgres") -> None:
        """Execute a statement as superuser."""
        with psycopg.connect(
            dbname=database, user="postgres", host=str(self.folder), port=self.port or None, autocommit=True,
        ) as connection:  # fmt: skip
            connection.execute(statement.encode())


def make_tables(url: str) -> None:
    """Make the fleet's tables in an empty database: a template, since that takes longer than a copy."""
    database = FleetDatabase(url)
    schema.create_tables(database)
    database.close()


@cache
def _make_templates() -> Path:
    """A folder with a file of SQLite that holds the fleet's tables, and one with DBOS's; once for each process."""
    folder = Path(tempfile.mkdtemp(prefix="tasuki-template-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    make_tables(f"sqlite:///{folder / 'fleet.db'}")
    workflows = SQLiteSystemDatabase.__new__(SQLiteSystemDatabase)
    workflows.engine = create_engine(f"sqlite:///{folder / 'workflows.db'}", synced=False)
    workflows.run_migrations()
    workflows.engine.dispose()
    return folder


def copy_tables(path: Path) -> Path:
    """Make a new file of SQLite with the tables of its name, `fleet.db` or `workflows.db`, for its owner alone; its path."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    shutil.copyfile(_make_templates() / path.name, path)
    path.chmod(0o600)
    return path


GUARD = """\
local   all postgres                 trust
local   all all                      scram-sha-256
host    all all 127.0.0.1/32         scram-sha-256
"""
"""pg_hba.conf of a server with passwords."""


def make_certificates(folder: Path) -> None:
    """An authority of the test's own, `ca.pem`, and a certificate of it for `localhost`."""
    new = ["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    (folder / "names").write_text("subjectAltName=DNS:localhost")
    for words in (
        [*new, "-x509", "-days", "2", "-subj", "/CN=tests", "-keyout", "ca.key", "-out", "ca.pem"],
        [*new, "-subj", "/CN=localhost", "-keyout", "server.key", "-out", "server.csr"],
        ["openssl", "x509", "-req", "-days", "2", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
         "-CAcreateserial", "-extfile", "names", "-out", "server.pem"],
    ):  # fmt: skip
        subprocess.run(words, cwd=folder, check=True, capture_output=True, timeout=60)
    (folder / "server.key").chmod(0o600)
    if os.geteuid() == 0:
        os.chown(folder / "server.key", _user().pw_uid, -1)


def _find_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def postgres(*, guarded: bool = False, namespace: str = "") -> Iterator[Postgres]:
    """A server, with a template that holds the fleet's tables; ended and taken away behind it.

    `guarded`: it listens on loopback too, with TLS, and lets in by passwords alone. `namespace`: it
    listens in a network of the test's own, and lets everybody in.
    """
    folder = Path(tempfile.mkdtemp(prefix="tasuki-pg-", dir="/tmp"))  # a socket's path is short
    server = Postgres(folder, _find_port() if guarded else 0, namespace)
    try:
        if os.geteuid() == 0:
            os.chown(folder, _user().pw_uid, -1)
        subprocess.run(
            [*_as_nobody(), _program("initdb"), "-D", str(server.data), "-U", "postgres",
             "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"],
            stdout=subprocess.DEVNULL, cwd="/", check=True, timeout=120,
        )  # fmt: skip
        if guarded:
            make_certificates(folder)
            (server.data / "pg_hba.conf").write_text(GUARD)
        if namespace:
            with (server.data / "pg_hba.conf").open("a") as rules:
                rules.write("host all all 0.0.0.0/0 trust\n")
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
