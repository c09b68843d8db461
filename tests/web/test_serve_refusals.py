"""`tasuki serve` that cannot start: one message that says what mends it, exit code 1, no traceback."""

import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from databases import Postgres, missing, postgres
from selection import by_default
from serve_command import TASUKI, Server
from test_serve import server

__all__ = ["server"]
AS_ROOT = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="root alone may mount a file system"
)


def refusal(server: Server, *options: str) -> str:
    """The one message with which a server does not start."""
    return one_message(*server.refused("--port", "0", *options))


def one_message(code: int, said: str) -> str:
    """Its words, once they are known to be one line and no more."""
    assert (1, 1) == (code, len(said.strip().splitlines())), said
    assert said.startswith("tasuki: "), said
    assert "hunter2" not in said
    return said


# -- PostgreSQL ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("postgresql://me:hunter2@127.0.0.1:1/x", "Connection refused. It does not answer. Start it"),
        ("postgresql://me:hunter2@host.invalid/x", "failed to resolve host 'host.invalid'"),
        ("postgresql://me:hunter2@/x?host=/nowhere", "It does not answer. Start it"),
        ("postgresql://me:hunter2@h:port/x", "cannot be parsed"),
        ("postgresql://me:hunter2@127.0.0.1:1/x?sslmode=bogus", "Fix the URL: --database-url"),
        ("sqlite:///", "so it needs a file: sqlite:////WHOLE/PATH"),
        ("sqlite:///:memory:", "so it needs a file: sqlite:////WHOLE/PATH"),
        ("sqlite:////tmp/fleet.db?mode=rw", "takes no options: leave ?mode=rw out"),
        ("sqlite:////nowhere/fleet.db", "name another database: tasuki serve --database-url"),
    ],
)  # fmt: skip
def test_a_database_that_is_away(server: Server, url: str, words: str) -> None:
    """Nobody listens there, nobody knows the host, or the URL is none."""
    server.env["TASUKI_DATABASE_URL"] = url

    assert words in refusal(server)


@pytest.mark.parametrize(
    "url", ["postgresql://me:hunter2@127.0.0.1/x", "postgresql://h1,h2/x?user=me&password=hunter2"]
)
def test_a_password_on_the_command_line_is_refused(server: Server, url: str) -> None:
    """Everybody on the machine could read it; the sentence names the variable."""
    code, said = server.refused("--port", "0", "--database-url", url)

    assert (2, False) == (code, "hunter2" in said)
    assert "Put the URL into the variable TASUKI_DATABASE_URL and leave --database-url out" in said


def test_a_file_that_another_program_holds(server: Server) -> None:
    """A file of workflows that is locked: the server says so after some seconds, and does not wait for ever."""
    path = server.data / "fleet" / "workflows.db"
    path.parent.mkdir(parents=True)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("PRAGMA journal_mode=WAL")
    other.execute("CREATE TABLE held (text)")
    other.execute("BEGIN IMMEDIATE")
    said = refusal(server)
    other.close()

    assert f"{path} cannot be used" in said
    assert "Another program holds it" in said


def test_a_file_with_two_names_is_refused(server: Server, tmp_path: Path) -> None:
    """Under its other name a second server would write to it; nothing is left beside a folder either."""
    first, second = tmp_path / "one.db", tmp_path / "two.db"
    first.touch()
    second.hardlink_to(first)
    folder = tmp_path / "folder"
    folder.mkdir()

    assert "hard links" in refusal(server, "--database-url", f"sqlite:///{second}")
    assert "is no file" in refusal(server, "--database-url", f"sqlite:///{folder}")
    assert not (tmp_path / "folder.server").exists()


def test_a_database_that_a_url_names_is_its_owners_alone(server: Server, tmp_path: Path) -> None:
    """The file, and what SQLite keeps beside it, can be read by nobody else."""
    server.start("--database-url", f"sqlite:///{tmp_path / 'mine.db'}")

    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.glob("mine.db*")}
    assert modes == {0o600}


@pytest.fixture(scope="module")
def guarded() -> Iterator[Postgres]:
    """A server of PostgreSQL in which one user needs a password."""
    if reason := missing():
        pytest.skip(reason)
    with postgres() as made:
        made.tell("CREATE ROLE me LOGIN PASSWORD 'right'")
        rules = made.data / "pg_hba.conf"
        rules.write_text("local all me scram-sha-256\n" + rules.read_text())
        made.tell("SELECT pg_reload_conf()")
        yield made


@pytest.mark.parametrize(
    ("user", "name", "words"),
    [
        ("me:hunter2", "postgres", "refuses the user or the password. Fix the URL"),
        ("nobody", "postgres", "refuses the user or the password. Fix the URL"),
        ("postgres", "no_such", "It has no such database. Create it"),
        ("me:right", "postgres", "Give it permission to create tables"),
    ],
)
def test_a_database_that_refuses(
    server: Server, guarded: Postgres, user: str, name: str, words: str
) -> None:
    """A wrong password, an unknown user or database, a user without rights."""
    server.env["TASUKI_DATABASE_URL"] = f"postgresql://{user}@/{name}?host={guarded.folder}"

    assert words in refusal(server)


# -- files -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["fleet.db", "fleet/workflows.db"])
@pytest.mark.parametrize("damage", by_default(["its head", "its middle"], "its head"))
def test_a_damaged_file(server: Server, name: str, damage: str) -> None:
    """It says which file, and how to go on; the file stays as it is."""
    server.start().terminate()
    server.started[-1].communicate(timeout=20)
    path = server.data / name
    with path.open("r+b") as file:
        file.seek(0 if damage == "its head" else path.stat().st_size // 2)
        file.write(os.urandom(8192))
    before = path.read_bytes()
    said = refusal(server)

    assert f"The database {path} cannot be used" in said
    assert "It is damaged." in said
    assert before == path.read_bytes()


@pytest.mark.long
def test_a_damaged_file_of_workflows_can_be_moved_away(server: Server) -> None:
    """What the message says works."""
    server.start().terminate()
    server.started[-1].communicate(timeout=20)
    path = server.fleet / "workflows.db"
    path.write_bytes(os.urandom(8192))
    refusal(server)
    for one in server.fleet.glob("workflows.db*"):
        one.rename(one.with_name(f"old-{one.name}"))
    server.start()

    assert "ok" == server.health()


def mounted(server: Server, options: str, before: str = "true") -> str:
    """The refusal of a server whose data lies on a file system of its own."""
    where = server.folder / "mounted"
    where.mkdir(exist_ok=True)
    script = (
        f"mount -t tmpfs -o {options} tmpfs {where} && cd {where} && {before}; TASUKI_DATA={where}/data "
        f"timeout 30 {TASUKI} serve --port 0"
    )
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script], env=server.env, cwd=server.folder,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return one_message(done.returncode, done.stderr)


@AS_ROOT
@pytest.mark.parametrize("size", by_default(["4k", "16k", "128k", "300k"], "16k", "300k"))
def test_a_full_disk(server: Server, size: str) -> None:
    """Full at the token, at the first table, in the middle of them, and at those of the workflows."""
    said = mounted(server, f"size={size}")

    assert "disk is full" in said
    assert "start again" in said


@AS_ROOT
def test_a_disk_without_a_single_free_byte(server: Server) -> None:
    """The file that could not be written is named; the output is not meant."""
    said = mounted(server, "size=64k", "cat /dev/zero 2> /dev/null > fill")

    assert "The lock " in said
    assert "data/fleet/lock cannot be written: the disk is full. Make room" in said
    assert "output" not in said


@AS_ROOT
def test_a_disk_that_takes_no_writes(server: Server) -> None:
    """It says so, and names the setting for another folder."""
    said = mounted(server, "ro")

    assert (
        "the file system is read-only. Fix that, or name another data folder: TASUKI_DATA" in said
    )
