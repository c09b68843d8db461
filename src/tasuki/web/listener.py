"""The sockets on which the server listens, and the lines of its log."""

import errno
import ipaddress
import logging
import os
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TextIO

from tasuki.draft.redact.redactor import redact
from tasuki.errors import ServerFailed, UsageError
from tasuki.text_safety import clean_for_display
from tasuki.web.security.gate import ANY_ADDRESS

BACKLOG = 512
PORT_TRIES = 20
"""Free ports that are tried until one is free on both loopback addresses."""
_LOOPBACK_PAIR = {"127.0.0.1": "::1", "::1": "127.0.0.1", "localhost": "::1"}
_NO_SUCH_ADDRESS = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT)


@contextmanager
def listen(host: str, port: int) -> Iterator[list[socket.socket]]:
    """Yield sockets that listen on an address of this machine.

    On loopback the same port of the other loopback address is taken too: a browser asks `[::1]`
    first for a name under `localhost`, and would send its cookie to whoever listens there.
    Raises UsageError, ServerFailed with what to do.
    """
    with ExitStack() as opened:
        for tries_left in reversed(range(PORT_TRIES)):
            first = opened.enter_context(_open_socket(host, port))
            sockets = [first]
            other = _LOOPBACK_PAIR.get(host.lower())
            if other is None:
                break
            try:
                second = _open_other_loopback(other, first.getsockname()[1])
            except ServerFailed:
                if port or not tries_left:
                    raise
                continue
            if second:
                sockets.append(opened.enter_context(second))
            break
        yield sockets


def check_address(host: str) -> None:
    """Raise UsageError where a text is neither an address nor a name."""
    if not host:
        raise UsageError("--host is empty. Give an address of this machine, such as 127.0.0.1.")
    try:
        if ":" in host:
            ipaddress.IPv6Address(host)
        elif not host.strip("0123456789."):
            socket.inet_aton(host)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{host} is no address. Give one of this machine, such as 127.0.0.1 or ::1."
        ) from error


def build_address(host: str, listener: socket.socket) -> str:
    """Build the address where programs on this machine reach the socket, as `host:port`."""
    port = listener.getsockname()[1]
    ipv6 = listener.family == socket.AF_INET6
    if host in ANY_ADDRESS:
        host = "::1" if ipv6 else "127.0.0.1"
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _open_socket(host: str, port: int) -> socket.socket:
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, socket_address = addresses[0]
        listener = socket.socket(family, kind, protocol)
    except UnicodeError as error:
        raise UsageError(f"There is no address {host}: it is no name of a host.") from error
    except OSError as error:
        raise UsageError(f"There is no address {host}: {error.strerror}.") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if host.lower() in _LOOPBACK_PAIR and family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(socket_address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise ServerFailed(
            f"Port {port} of {host} cannot be listened on: {os.strerror(error.errno or 0)}. "
            "Take another one: tasuki serve --port 8788, or --port 0 for any."
        ) from error
    return listener


def _open_other_loopback(host: str, port: int) -> socket.socket | None:
    """Open a socket on the other loopback address; None where this machine has none."""
    try:
        return _open_socket(host, port)
    except (ServerFailed, UsageError) as error:
        cause = error.__cause__
        no_address = isinstance(cause, OSError) and cause.errno in _NO_SUCH_ADDRESS
        if no_address or isinstance(cause, socket.gaierror):
            return None
        raise


CONTINUATION = "  | "
"""Begins each further line of an event: those of a traceback."""
_BREAK = re.compile("[\n\u2028\u2029]")


class LineFormatter(logging.Formatter):
    """Formats a message as one line, without secrets, line breaks and control characters.

    A message of the fleet's log is redacted already. A traceback follows, its lines marked.
    """

    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage()
        if not getattr(record, "redacted", False):
            message = redact(message)[0]
        head = f"{self.formatTime(record, self.datefmt)} {record.levelname}"
        one_line = "\\n".join(_BREAK.split(clean_for_display(message)))
        lines = [f"{head} {one_line}"]
        if record.exc_info:
            lines += _mark_lines(self.formatException(record.exc_info))
        if record.stack_info:
            lines += _mark_lines(self.formatStack(record.stack_info))
        return "\n".join(lines)


def _mark_lines(text: str) -> list[str]:
    return [f"{CONTINUATION}{line}" for line in _BREAK.split(clean_for_display(redact(text)[0]))]


def log_to(stream: TextIO) -> None:
    """Send what the server logs to a stream."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LineFormatter(datefmt="%Y-%m-%d %H:%M:%S"))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("tasuki").setLevel(logging.INFO)
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # tasuki logs the same itself
