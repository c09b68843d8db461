"""A small server that takes hooks' events in, and says how it saw them come."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from msgspec import Struct

PROOF = "proof-3c8"
"""By which its answers are known, in what is written of its address."""


class Seen(Struct):
    """One request: its path, headers and body, and the command lines of all processes meanwhile."""

    path: str
    headers: Message
    body: bytes
    commands: list[bytes]


class HookServer(ThreadingHTTPServer):
    """Answers every post with `status` and `says`, once `free` is set."""

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.status, self.says = 200, b""
        self.proof = PROOF
        self.seen: list[Seen] = []
        self.free = threading.Event()
        self.free.set()

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: object, client_address: object) -> None:
        """A hook that has gone is no error."""


class _Handler(BaseHTTPRequestHandler):
    server: HookServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append(Seen(self.path, self.headers, body, _commands()))
        self.server.free.wait()
        self.send_response(self.server.status)
        if self.server.proof:
            self.send_header("X-Tasuki", self.server.proof)
        self.end_headers()
        self.wfile.write(self.server.says)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing on standard error."""


@contextmanager
def hook_server(port: int = 0) -> Iterator[HookServer]:
    """One that runs, and ends with whatever hangs in it."""
    server = HookServer(port)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.free.set()
        server.shutdown()
        server.server_close()
        thread.join()


def _commands() -> list[bytes]:
    """The command lines of all processes that can be seen."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            found.append(Path(f"/proc/{name}/cmdline").read_bytes())
        except OSError:
            continue
    return found
