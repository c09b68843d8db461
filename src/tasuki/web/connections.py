"""Closes connections that send no whole request, so that other clients are always answered.

Every user of the machine can open connections. One that is silent, or sends its request
byte by byte, costs a file descriptor: it has a time limit, and where many wait the oldest
of them is closed. So is one that does not read its answer. A whole request is under no
limit but its own.
"""

import asyncio
import ipaddress
import logging
import resource
import time
from contextlib import suppress
from typing import Any, ClassVar

from msgspec import Struct
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tasuki.errors import ServerFailed
from tasuki.web.security.proxy import PEER_KEY, ConnectionPeer

HEAD_SECONDS = 10.0
"""Time limit for the head of a request."""
BODY_SECONDS = 30.0
"""Time limit for its body after that."""
READ_SECONDS = 60.0
"""Time limit for a program to read some of an answer that does not fit its socket."""
MOST_HEAD_BYTES = 64 << 10
HEAD_ENDED, BODY_AWAITED = -1, -2
"""Replace a byte count where no head is read: its body may be in the same piece, or follow."""
WANTED_FILES = 2048
"""Open files to request where the system allows this process fewer."""
FEWEST_FILES = 64
"""With fewer open files than these the server starts badly, or not at all."""
SPARE_FILES = 256
"""Open files that are reserved for the database, for tmux and for documents."""
MOST_CONNECTIONS = 1024
LOG_SECONDS = 60.0
_BUSY = b'{"error": "The server has too many connections. Try again.", "kind": "Overloaded"}'
_BUSY_ANSWER = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n"
    b"connection: close\r\ncontent-length: %d\r\n\r\n%b" % (len(_BUSY), _BUSY)
)

logger = logging.getLogger("tasuki.web")


class ConnectionLimits(Struct, frozen=True):
    """Limits: all connections, those without a whole request, and those of one remote peer."""

    most: int = MOST_CONNECTIONS
    most_waiting: int = MOST_CONNECTIONS // 2
    most_of_peer: int = 128


def set_file_limit() -> ConnectionLimits:
    """Ask the system for enough open files; return limits that leave some to spare.

    Raises ServerFailed where so few are allowed that the server cannot even start.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < WANTED_FILES:
        wanted = WANTED_FILES if hard == resource.RLIM_INFINITY else min(WANTED_FILES, hard)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    if soft != resource.RLIM_INFINITY and soft < FEWEST_FILES:
        raise ServerFailed(
            f"At most {soft} files may be open at once here, and the server needs {FEWEST_FILES} to start. "
            "Raise the limit, then start again: ulimit -n 1024"
        )
    files = WANTED_FILES if soft == resource.RLIM_INFINITY else soft
    most = min(MOST_CONNECTIONS, max(files - SPARE_FILES, files // 2))
    return ConnectionLimits(most, most // 2, min(128, most // 4))


class WaitingConnections:
    """The connections of a server that have sent no whole request, oldest first."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.closed_count = 0
        """Connections that were closed since the start."""
        self._waiting: dict[LimitedProtocol, None] = {}
        self._logged_at = float("-inf")

    def __contains__(self, connection: object) -> bool:
        return connection in self._waiting

    def add(self, connection: "LimitedProtocol") -> None:
        """Add a connection that waits for a request from now on."""
        self._waiting.pop(connection, None)
        self._waiting[connection] = None

    def discard(self, connection: "LimitedProtocol") -> None:
        """Discard a connection that has sent a whole request, or is gone."""
        self._waiting.pop(connection, None)

    def admit(self, connection: "LimitedProtocol", count: int) -> bool:
        """Whether there is room for one more of `count` connections.

        The oldest waiting one may be closed to make room.
        """
        peer = connection.peer
        if peer and sum(one.peer == peer for one in self._waiting) >= self.limits.most_of_peer:
            self._close_oldest(peer)
        elif len(self._waiting) >= self.limits.most_waiting or count > self.limits.most:
            if self._waiting:
                self._close_oldest()
            else:
                self.report_closed("There are too many connections.")
                return False
        return True

    def report_closed(self, why: str) -> None:
        """Count a connection that is closed, and log it once a minute."""
        self.closed_count += 1
        if (now := time.monotonic()) - self._logged_at >= LOG_SECONDS:
            self._logged_at = now
            logger.warning(
                "Connections that send no whole request, or do not read, are closed, %d since the start. %s "
                "Which program opens them: ss -tnp, as root.", self.closed_count, why,
            )  # fmt: skip

    def _close_oldest(self, peer: str = "") -> None:
        oldest = next(one for one in self._waiting if not peer or one.peer == peer)
        self.discard(oldest)
        self.report_closed("Too many wait at once.")
        oldest.transport.abort()


class LimitedProtocol(HttpToolsProtocol):
    """HTTP with limits for incomplete requests. Use a subclass of `limit_protocol`."""

    waiting: ClassVar[WaitingConnections]
    peer = ""
    """Address of a program on another machine; empty on this one, whose programs share one."""
    _timer: asyncio.TimerHandle | None = None
    _reader_timer: asyncio.TimerHandle | None = None
    _head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.other_end = ConnectionPeer(transport)
        self.peer = _get_remote_peer(self.client)
        if not self.waiting.admit(self, len(self.connections)):
            transport.write(_BUSY_ANSWER)
            transport.close()
            return
        self.waiting.add(self)
        self._set_timer(HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self.waiting.discard(self)
        self._clear_timer()
        self._clear_reader_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._timer is None and self in self.waiting:
            self._set_timer(HEAD_SECONDS)  # not even an empty line is a reason to wait longer
        if self._head_bytes >= 0:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes > MOST_HEAD_BYTES:
            self._close("A head was too large.")
        elif self._head_bytes == HEAD_ENDED:
            self._head_bytes = BODY_AWAITED
            self._set_timer(BODY_SECONDS)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["state"][PEER_KEY] = self.other_end

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._head_bytes = HEAD_ENDED

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._head_bytes = 0
        self._clear_timer()
        if not self.cycle.response_complete:
            self.waiting.discard(self)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._timer is None and not self.transport.is_closing() and not self.pipeline:
            self.waiting.add(self)  # it may be closed first; uvicorn ends it after some seconds
        if self.transport.is_closing() and self.transport.get_write_buffer_size():
            self._await_reader()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._await_reader()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.waiting.add(self)  # a client that does not read its answer is closed to make room, too
        self._await_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._clear_reader_timer()
        if self.cycle and not self.cycle.response_complete:
            self.waiting.discard(self)

    def _await_reader(self) -> None:
        """End the connection unless its reader takes what was written in time."""
        if self._reader_timer is None:
            self._reader_timer = self.loop.call_later(READ_SECONDS, self.transport.abort)

    def _clear_reader_timer(self) -> None:
        if self._reader_timer:
            self._reader_timer.cancel()
            self._reader_timer = None

    def _set_timer(self, seconds: float) -> None:
        self._clear_timer()
        self._timer = self.loop.call_later(seconds, self._close, "One took too long.")

    def _clear_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _close(self, why: str) -> None:
        self._timer = None
        if not self.transport.is_closing():
            self.waiting.report_closed(why)
            self.transport.abort()


def limit_protocol(limits: ConnectionLimits) -> type[LimitedProtocol]:
    """Build the protocol of one server, which counts its connections."""
    attributes: dict[str, Any] = {"waiting": WaitingConnections(limits)}
    return type("CountedProtocol", (LimitedProtocol,), attributes)


def _get_remote_peer(client: tuple[str, int] | None) -> str:
    address = client[0] if client else ""
    if address == "127.0.0.1":
        return ""
    with suppress(ValueError):
        return "" if ipaddress.ip_address(address).is_loopback else address
    return ""
