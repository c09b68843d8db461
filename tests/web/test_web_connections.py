"""Connections that send no whole request hold nobody up, and cost the server no more than it has."""

import contextlib
import http.client
import resource
import shlex
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn
from serve_command import TASUKI, Server
from waiting import retry_until

import tasuki
from tasuki.web import connections
from tasuki.web.connections import ConnectionLimits, limit_protocol, set_file_limit

FLOOD = 1100
HALF = b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Half: "


class Flooded(Server):
    """A server that may open 1,024 files."""

    def popen(self, *options: str) -> subprocess.Popen[str]:
        """Start it."""
        words = shlex.join([str(TASUKI), "serve", *options])
        made = subprocess.Popen(
            ["sh", "-c", f"ulimit -n 1024; exec {words}"], env=self.env, cwd=self.folder, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.started.append(made)
        return made


@pytest.fixture
def flooded(tmp_path: Path) -> Iterator[Flooded]:
    """A server of the test's own."""
    made = Flooded(tmp_path)
    yield made
    made.end()


@contextlib.contextmanager
def half_sent(port: int, count: int, words: bytes = HALF) -> Iterator[list[socket.socket]]:
    """Connections that sent the beginning of a request."""
    opened = []
    try:
        for _ in range(count):
            one = socket.socket()
            opened.append(one)
            one.settimeout(30)
            one.setsockopt(
                socket.SOL_SOCKET, socket.SO_RCVBUF, 2048
            )  # so that answers wait in the server
            one.connect(("127.0.0.1", port))
            with contextlib.suppress(OSError):
                one.sendall(words)
        yield opened
    finally:
        for one in opened:
            one.close()


def is_closed(connection: socket.socket) -> bool:
    """Whether the server has ended a connection without an answer."""
    connection.settimeout(30)
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.long
def test_half_sent_requests_hold_nobody_up(flooded: Flooded) -> None:
    """A server of 1,024 files answers and opens files while 1,100 connections send half a request, and logs it once."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < FLOOD + 300:
        pytest.skip("this machine allows too few open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, FLOOD + 300), hard))
    running = flooded.start_program()
    port = int(flooded.address.rpartition(":")[2])
    open_files = Path(f"/proc/{running.pid}/fd")
    with half_sent(port, FLOOD) as opened:
        answers = [flooded.health() for _ in range(20)]
        held = len(list(open_files.iterdir())) if open_files.exists() else 0
        still_closed = [is_closed(one) for one in opened]
    running.terminate()
    _, said = running.communicate(timeout=30)
    lines = [line for line in said.splitlines() if "that send no whole request" in line]

    assert answers == ["ok"] * 20
    assert held < 700
    assert all(still_closed)
    assert len(lines) == 1
    assert "Traceback" not in said


@pytest.mark.long
def test_programs_that_do_not_read_hold_nobody_up(flooded: Flooded) -> None:
    """A server answers although 1,100 connections ask for much, in whole requests, and read nothing."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < FLOOD + 300:
        pytest.skip("this machine allows too few open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, FLOOD + 300), hard))
    running = flooded.start_program()
    port = int(flooded.address.rpartition(":")[2])
    vendored = Path(tasuki.__file__).parent / "web" / "static" / "vendor"
    script = next(vendored.glob("htmx-2*.js")).name
    asked = f"GET /static/{script} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() * 60
    with half_sent(port, FLOOD, asked):
        answers = [flooded.health() for _ in range(5)]
    running.terminate()
    _, said = running.communicate(timeout=30)

    assert answers == ["ok"] * 5
    assert "do not read" in said
    assert "Traceback" not in said


class Echo:
    """An application that answers once it has the whole body."""

    async def __call__(self, scope: dict, receive: object, send: object) -> None:  # type: ignore[type-arg]
        if scope["type"] != "http":
            return
        body = b""
        while True:
            message = await receive()  # type: ignore[operator]
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        if scope["path"] == "/large":
            body = b"x" * (32 << 20)
        await send({"type": "http.response.start", "status": 200, "headers": []})  # type: ignore[operator]
        await send({"type": "http.response.body", "body": body})  # type: ignore[operator]


@contextlib.contextmanager
def serving(limits: ConnectionLimits) -> Iterator[int]:
    """The application on a port of its own, with limits."""
    config = uvicorn.Config(
        Echo(), port=0, log_config=None, lifespan="off", http=limit_protocol(limits)
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    retry_until(lambda: server.started)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(10)


@pytest.mark.parametrize(
    "words",
    [b"", b"G", HALF, b"\r\n", b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc",
     b"GET / HTTP/1.1\r\n\r\nGET / HT"],
    ids=["nothing", "a letter", "half a head", "an empty line", "half a body", "half of a second"],
)  # fmt: skip
def test_a_request_that_does_not_come_ends(words: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever part of a request came, the connection is ended after the time limit."""
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.3)
    monkeypatch.setattr(connections, "BODY_SECONDS", 0.3)
    with serving(ConnectionLimits()) as port, half_sent(port, 1, words) as opened:
        opened[0].settimeout(20)
        with contextlib.suppress(ConnectionResetError):
            while opened[0].recv(4096):
                pass


def test_a_head_without_end_is_ended() -> None:
    """A head that grows is ended long before its time, and not kept in memory."""
    with serving(ConnectionLimits()) as port, half_sent(port, 1) as (one,), pytest.raises(OSError):
        for _ in range(10_000):
            one.sendall(b"x" * 1024)


def test_who_does_not_read_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that takes nothing of a large answer is cut off after the time limit."""
    monkeypatch.setattr(connections, "READ_SECONDS", 0.3)
    protocols = []
    made = connections.LimitedProtocol.connection_lost
    monkeypatch.setattr(
        connections.LimitedProtocol, "connection_lost",
        lambda self, error: (protocols.append(self), made(self, error))[1],
    )  # fmt: skip
    request = b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n"
    with serving(ConnectionLimits()) as port, half_sent(port, 1, request):
        retry_until(lambda: protocols, 20)


def test_the_oldest_that_waits_makes_room() -> None:
    """Where too many wait, the oldest goes; one that is being answered stays, and a whole request is answered."""
    with serving(ConnectionLimits(most=8, most_waiting=4)) as port, half_sent(port, 4) as first:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("POST", "/", b"whole")
        answer = connection.getresponse()

        assert answer.read() == b"whole"
        assert is_closed(first[0])
        first[3].sendall(b"x\r\n\r\n")
        assert first[3].recv(12) == b"HTTP/1.1 200"
        connection.close()


def test_two_hundred_requests_at_once_are_answered() -> None:
    """Connections that are kept open and used again, as by agents and browsers, all get their answers."""
    with serving(ConnectionLimits()) as port:
        opened = [http.client.HTTPConnection("127.0.0.1", port, timeout=30) for _ in range(200)]
        got = []
        for _ in range(3):
            for one in opened:
                one.request("POST", "/", b"x" * 5000)
            got += [one.getresponse().read() for one in opened]
        for one in opened:
            one.close()

    assert got == [b"x" * 5000] * 600


def test_files_are_left_to_spare() -> None:
    """However few files the system allows, connections do not take all."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limits = set_file_limit()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    assert limits.most_waiting < limits.most <= 1024
    assert limits.most < max(soft, 2048)
