"""`tasuki serve`: one server for a folder, known by its address, ended cleanly, killed without harm."""

import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from selection import by_default
from serve_command import TASUKI, Server
from waiting import retry_until, runs

from tasuki.config.installation import build_install_line


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server of the test's own."""
    made = Server(tmp_path)
    yield made
    made.end()


@pytest.mark.parametrize(
    "number", by_default([signal.SIGTERM, signal.SIGINT, signal.SIGHUP], signal.SIGTERM)
)
def test_it_begins_and_ends_cleanly(server: Server, number: int) -> None:
    """It says where it answers and where its token is; told to stop, it takes its address back."""
    running = server.start_program()
    address = server.address

    assert (
        f"The fleet is served at http://{address}. Its token: {server.fleet / 'token'}\n"
        == server.said
    )
    assert "ok" == server.health()
    assert [0o600] * 4 == [
        stat.S_IMODE((server.fleet / name).stat().st_mode)
        for name in ("address", "token", "hook-token", "lock")
    ]
    running.send_signal(number)
    _, said = running.communicate(timeout=20)
    assert (0, False) == (running.returncode, (server.fleet / "address").exists())
    assert ["Started.", "Stopping.", "Stopped."] == [
        line.split("INFO ")[1] for line in said.splitlines()
    ]


def test_open_streams_do_not_hold_it_up(server: Server) -> None:
    """Those who listen to live events are told good-bye."""
    running = server.start()
    host, port = server.address.split(":")
    token = (server.fleet / "token").read_text().strip()
    with socket.create_connection((host, int(port)), timeout=20) as reader:
        reader.sendall(
            f"GET /api/events HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
        )
        assert b"200 OK" in reader.recv(4096)
        running.terminate()
        running.communicate(timeout=20)
        while reader.recv(4096):
            pass

    assert 0 == running.returncode


def test_one_server_for_one_folder(server: Server) -> None:
    """The second says which process has it, and where."""
    running = server.start()

    code, said = server.refused("--port", "0")

    assert 1 == code
    assert (
        f"A server has the data folder {server.data} already (process {running.pid}, http://{server.address})."
        in said
    )
    assert f"end it first: kill {running.pid}" in said
    assert "ok" == server.health()


def test_a_killed_server_leaves_nothing_in_the_way(server: Server) -> None:
    """The lock goes with its process; the next one has the same tokens and another address."""
    first = server.start()
    token, old = (server.fleet / "token").read_text(), server.address
    first.kill()
    first.wait(10)
    assert old == server.address

    server.start()

    assert "ok" == server.health()
    assert token == (server.fleet / "token").read_text()


def test_a_port_that_is_taken(server: Server) -> None:
    """A sentence with another port, and nothing is left behind."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, said = server.refused("--port", str(port))

    assert 1 == code
    assert (
        f"Port {port} of 127.0.0.1 cannot be listened on: Address already in use. Use another one"
        in said
    )
    assert not (server.fleet / "address").exists()
    assert "" == (server.fleet / "lock").read_text()


@pytest.mark.parametrize(
    ("host", "words"),
    [("999.1.1.1", "999.1.1.1 is not an address."), ("::zz", "::zz is not an address."), ("", "--host is empty.")],
)  # fmt: skip
def test_what_is_no_address_is_told_as_that(server: Server, host: str, words: str) -> None:
    """It is not called one that other machines can reach."""
    code, said = server.refused("--host", host)

    assert (2, True) == (code, f"{words} Give" in said)


def test_too_few_open_files_are_told(server: Server) -> None:
    """The limit is named, not the database that happened to meet it."""
    done = subprocess.run(
        ["sh", "-c", f"ulimit -n 20; exec {TASUKI} serve --port 0"], env=server.env, cwd=server.folder,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert 1 == done.returncode
    assert "At most 20 files may be open at once here" in done.stderr
    assert "ulimit -n 1024" in done.stderr


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_other_machines_are_let_in_on_purpose_alone(server: Server, host: str) -> None:
    """Without a word it listens on this machine."""
    code, said = server.refused("--host", host)

    assert (2, True) == (code, f"{host} can be reached from other machines" in said)
    assert not server.data.exists()


def test_it_can_listen_everywhere(server: Server) -> None:
    """Then it is found on this machine by its loopback address."""
    server.start("--host", "0.0.0.0", "--allow-remote")

    assert server.address.startswith("127.0.0.1:")
    assert "ok" == server.health()


def test_a_database_that_is_none(server: Server) -> None:
    """A sentence, without the password that was in it."""
    server.env["TASUKI_DATABASE_URL"] = "mysql://me:hunter2secret@h/x"
    code, said = server.refused("--port", "0")

    assert (1, True) == (code, "'mysql' is not a kind of database that tasuki supports" in said)
    assert "hunter2secret" not in said


def test_postgresql_by_its_url(server: Server, request: pytest.FixtureRequest) -> None:
    """The same server on PostgreSQL; nothing lies in a file of SQLite then."""
    server.start("--database-url", request.getfixturevalue("postgres").make(template="template1"))

    assert "ok" == server.health()
    assert [] == list(server.data.rglob("*.db"))


def test_data_that_cannot_be_written(server: Server) -> None:
    """A sentence."""
    server.data.write_text("a file")

    code, said = server.refused("--port", "0")

    assert (1, True) == (code, "which TASUKI_DATA names, cannot be used: it is a file." in said)


def test_a_stuck_request_does_not_keep_it(server: Server) -> None:
    """A client that never ends its request is left."""
    running = server.start()
    host, port = server.address.split(":")
    with socket.create_connection((host, int(port))) as slow:
        slow.sendall(
            b"POST /api/hooks/claude HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"
        )
        assert "ok" == server.health()
        running.terminate()
        retry_until(lambda: not runs(running.pid) or running.poll() is not None, 20)
        running.communicate()

    assert 0 == running.returncode


def test_without_the_extra_it_says_what_to_install(server: Server) -> None:
    """One line to run."""
    program = (
        "import sys; sys.modules['litestar'] = None; sys.argv = ['tasuki', 'serve']\n"
        "from tasuki.cli.main import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=server.env, capture_output=True, text=True, timeout=60
    )

    assert (1, f"tasuki: The server needs the extra `server`. Install it: {build_install_line('server')}\n") == (
        done.returncode, done.stderr,
    )  # fmt: skip


def test_a_machine_without_tmux_is_told(server: Server, tmp_path: Path) -> None:
    """The server starts, and says once what cannot be done without tmux."""
    lonely = tmp_path / "lonely"
    lonely.mkdir()
    for name in ("sh", "env"):
        (lonely / name).symlink_to(str(shutil.which(name)))
    server.env["PATH"] = str(lonely)
    server.start()

    assert "tmux is not installed" in server.said
