"""Runs the fleet and its HTTP application in one process, until it is stopped.

Here are the sockets on which it listens, and the lines of its log.
"""

import errno
import gc
import ipaddress
import logging
import os
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TextIO

import uvicorn
from litestar import Litestar
from litestar.concurrency import set_asyncio_executor

from tasuki.config.settings import LoadedSettings
from tasuki.draft.redact.redactor import redact
from tasuki.errors import ServerFailed, UsageError
from tasuki.fleet.service import open_fleet
from tasuki.fleet.store.start_errors import describe_os_error
from tasuki.patterns import compile_pattern
from tasuki.text_safety import clean_for_display
from tasuki.web.application import create_application, name_hosts
from tasuki.web.connections import limit_protocol, set_file_limit
from tasuki.web.live import LogStreams
from tasuki.web.page_news import PageStreams
from tasuki.web.security import single_server
from tasuki.web.security.access import ANY_ADDRESS, TOKEN_FILE, is_loopback, load_tokens
from tasuki.web.security.proxy import open_proxy
from tasuki.web.security.sessions import build_sign_in_link

GRACE_SECONDS = 2
"""How long to wait at the end for answers under way."""
CLOSING_SECONDS = 2.0
IDLE_SECONDS, PROXY_IDLE_SECONDS = 5, 150
"""How long a connection may wait for its next request. Proxies use theirs again for 90 or 120 s."""
WORKER_THREADS = 32
"""Requests that can wait for a database, or for tmux, at once."""
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

logger = logging.getLogger("tasuki.web")
PrintLine = Callable[[str], None]


def serve(
    folder: Path,
    loaded: LoadedSettings,
    *,
    host: str,
    port: int,
    database_url: str,
    print_line: PrintLine,
    allow_remote: bool = False,
    moved: bool = False,
    shows_link: bool = False,
) -> None:
    """Serve the fleet whose own files are in `folder`; return once it was stopped.

    `port` 0 takes a free one. `print_line` prints the address once the server answers; with
    `shows_link`, which is for a terminal alone, also a link that signs a browser in. `moved`:
    agents of other machines that used the folder belong to this one. Raises ServerRuns,
    ServerFailed, StoreFailed, UsageError for an address that does not exist.
    """
    if not allow_remote and not is_loopback(host):
        check_address(host)
        raise UsageError(
            f"{host} can be reached from other machines, and what is sent is not encrypted. "
            "Listen on 127.0.0.1, or say --allow-remote if you mean that."
        )
    open_proxy(loaded.settings)  # a wrong one is told before anything starts
    public_url = loaded.settings.public_url
    limits = set_file_limit()
    log_to(sys.stderr)
    set_asyncio_executor(ThreadPoolExecutor(WORKER_THREADS, thread_name_prefix="api"))
    with single_server.hold_lock(folder) as lock, listen(host, port) as listeners:
        address = build_address(host, listeners[0])
        with _convert_os_errors():
            single_server.write_holder(lock, single_server.format_holder(address, public_url))
            secrets = load_tokens(folder)
            fleet = open_fleet(folder, database_url, loaded, moved=moved)
            names = name_hosts(loaded.settings, secrets, host)
            fleet.notifier.origin = names.build_page_origin(address)
        try:
            fleet.launch()
            if not shutil.which("tmux"):
                print_line(
                    "tmux is not installed: agents cannot be started, typed to or viewed. Install it (3.2 or newer) and restart the server."
                )
            app = create_application(fleet, secrets, host)
            config = uvicorn.Config(
                app, access_log=False, log_config=None, lifespan="on", ws="none", backlog=BACKLOG,
                server_header=False, proxy_headers=False, timeout_graceful_shutdown=GRACE_SECONDS,
                http=limit_protocol(limits), timeout_keep_alive=PROXY_IDLE_SECONDS if public_url else IDLE_SECONDS,
            )  # fmt: skip
            address_file = single_server.publish_address(folder, address, secrets.proof)

            def print_address() -> None:
                print_line(
                    f"The fleet is served at http://{address}. Its token: {folder / TOKEN_FILE}"
                )
                print_line(_describe_dashboard(app, address, shows_link=shows_link))

            server = _FleetServer(config, app, address_file, print_address, fleet.changes.close)
            fleet.on_lost(server.stop)
            server.run(sockets=listeners)
        finally:
            fleet.close(CLOSING_SECONDS)
    if fleet.lost:
        logger.error(fleet.lost)
    logger.info("Stopped.")
    _exit(int(bool(fleet.lost)))


@contextmanager
def _convert_os_errors() -> Iterator[None]:
    """Raise ServerFailed where a file of the server cannot be created or read."""
    try:
        yield
    except OSError as error:
        raise ServerFailed(describe_os_error(error)) from error


def _describe_dashboard(app: Litestar, address: str, *, shows_link: bool) -> str:
    """Describe the dashboard in a line.

    Others may read what a service prints, so that has no link.
    """
    if not shows_link:
        return "Its dashboard: tasuki dashboard --open"
    key = app.state.sessions.keys.make_key().key
    link = build_sign_in_link(app.state.hosts.build_page_origin(address), key)
    return f"Its dashboard, in a browser: {link}\nThe link is valid once, for a minute; a new one: tasuki dashboard"


class _FleetServer(uvicorn.Server):
    """Reports when it answers, and ends the streams of live events when it stops."""

    def __init__(
        self,
        config: uvicorn.Config,
        app: Litestar,
        address_file: AbstractContextManager[None],
        on_started: Callable[[], None],
        wake: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self.wake = wake
        self.live: LogStreams = app.state.live
        self.live_pages: PageStreams = app.state.live_pages
        self.address_file = address_file
        self.on_started = on_started

    def stop(self) -> None:
        """Stop it, from any thread."""
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        gc.collect()
        gc.freeze()  # loaded objects stay: checking them again would delay hooks
        self.address_file.__enter__()
        logger.info("Started.")
        self.on_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        logger.info("Stopping.")
        self.address_file.__exit__(None, None, None)  # from here on hooks spool their events
        self.wake()  # steps that wait for a pane return now, before the time for answers is over
        self.live_pages.close()
        await self.live.close()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle an order to stop here, and nowhere else."""
        handlers = {number: signal.signal(number, self.handle_exit) for number in STOP_SIGNALS}
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)


def _exit(code: int) -> None:
    """Exit now with a code, even if a thread still waits for tmux: its work can be repeated."""
    stuck = [t for t in threading.enumerate() if not t.daemon and t is not threading.main_thread()]
    if stuck:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
    if code:
        sys.exit(code)


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
            f"{host} is not an address. Give one of this machine, such as 127.0.0.1 or ::1."
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
        raise UsageError(f"There is no address {host}: it is not a host name.") from error
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
            "Use another one: tasuki serve --port 8788, or --port 0 for any."
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
_BREAK = compile_pattern("[\n\u2028\u2029]")


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
