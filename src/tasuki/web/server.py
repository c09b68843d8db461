"""Runs the fleet and its HTTP application in one process, until it is told to stop."""

import gc
import logging
import os
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import uvicorn
from litestar import Litestar
from litestar.concurrency import set_asyncio_executor

from tasuki.config import Loaded
from tasuki.errors import ServerFailed, UsageError
from tasuki.fleet.service import open_fleet
from tasuki.fleet.start_errors import describe_os
from tasuki.web import single
from tasuki.web.application import application
from tasuki.web.auth import TOKEN, tokens
from tasuki.web.connections import limit_protocol, set_file_limit
from tasuki.web.gate import is_loopback
from tasuki.web.listener import BACKLOG, address_of, check_address, listen
from tasuki.web.live import Live
from tasuki.web.live_pages import LivePages
from tasuki.web.log_lines import log_to
from tasuki.web.sessions import sign_in_link

GRACE_SECONDS = 2
"""How long answers that are under way at the end are waited for."""
CLOSING_SECONDS = 2.0
THREADS = 32
"""Requests that can wait for a database, or for tmux, at once."""
STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

logger = logging.getLogger("tasuki.web")
Say = Callable[[str], None]


def serve(
    folder: Path,
    loaded: Loaded,
    *,
    host: str,
    port: int,
    database_url: str,
    say: Say,
    allow_remote: bool = False,
    moved: bool = False,
    shows_link: bool = False,
) -> None:
    """Serve the fleet whose own files are in `folder`; returns once it was told to stop.

    `port` 0 takes a free one. `say` is told the address once it answers; with `shows_link`, which
    is for a terminal alone, also a link that signs a browser in. `moved`: agents of other machines
    that used the folder are this one's. Raises ServerRuns, ServerFailed, StoreFailed, UsageError
    for an address that there is not.
    """
    if not allow_remote and not is_loopback(host):
        check_address(host)
        raise UsageError(
            f"{host} can be reached from other machines, and what is sent is not encrypted. "
            "Listen on 127.0.0.1, or say --allow-remote if you mean that."
        )
    limits = set_file_limit()
    log_to(sys.stderr)
    set_asyncio_executor(ThreadPoolExecutor(THREADS, thread_name_prefix="api"))
    with single.alone(folder) as lock, listen(host, port) as listeners:
        address = address_of(host, listeners[0])
        with _files():
            single.say(lock, f"process {os.getpid()}, http://{address}")
            secrets = tokens(folder)
            fleet = open_fleet(folder, database_url, loaded, moved=moved)
        try:
            fleet.launch()
            if not shutil.which("tmux"):
                say(
                    "tmux is not there: agents cannot be started, typed to or looked at. Install it (3.2 or newer) and start the server again."
                )
            app = application(fleet, secrets, host)
            config = uvicorn.Config(
                app, access_log=False, log_config=None, lifespan="on", ws="none", backlog=BACKLOG,
                server_header=False, proxy_headers=False, timeout_graceful_shutdown=GRACE_SECONDS,
                http=limit_protocol(limits),
            )  # fmt: skip
            known = single.known_at(folder, address, secrets.proof)

            def tell_address() -> None:
                say(f"The fleet is served at http://{address}. Its token: {folder / TOKEN}")
                say(_tell_dashboard(app, address, shows_link=shows_link))

            server = _Server(config, app, known, tell_address, fleet.changes.close)
            fleet.on_lost(server.stop)
            server.run(sockets=listeners)
        finally:
            fleet.close(CLOSING_SECONDS)
    if fleet.lost:
        logger.error(fleet.lost)
    logger.info("Stopped.")
    _leave(int(bool(fleet.lost)))


@contextmanager
def _files() -> Iterator[None]:
    """Raise ServerFailed where a file of the server cannot be made or read."""
    try:
        yield
    except OSError as error:
        raise ServerFailed(describe_os(error)) from error


def _tell_dashboard(app: Litestar, address: str, *, shows_link: bool) -> str:
    """The line about the dashboard. Others may read what a service prints, so that has no link."""
    if not shows_link:
        return "Its dashboard: tasuki dashboard --open"
    key = app.state.sessions.keys.make_key().key
    link = sign_in_link(app.state.hosts, address, key)
    return f"Its dashboard, in a browser: {link}\nThe link is valid once, for a minute; a new one: tasuki dashboard"


class _Server(uvicorn.Server):
    """Says when it answers, and ends the streams of live events when it is to stop."""

    def __init__(
        self,
        config: uvicorn.Config,
        app: Litestar,
        known: AbstractContextManager[None],
        answers: Callable[[], None],
        wake: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self.wake = wake
        self.live: Live = app.state.live
        self.live_pages: LivePages = app.state.live_pages
        self.known = known
        self.answers = answers

    def stop(self) -> None:
        """End it, from any thread."""
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        gc.collect()
        gc.freeze()  # what is loaded stays: to look through it again would hold hooks up
        self.known.__enter__()
        logger.info("Started.")
        self.answers()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        logger.info("Stopping.")
        self.known.__exit__(None, None, None)  # from here on hooks keep their events themselves
        self.wake()  # who waits for a pane answers now, before the time for answers is over
        self.live_pages.close()
        await self.live.close()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """An order to stop is carried out here, and is nobody else's."""
        before = {number: signal.signal(number, self.handle_exit) for number in STOPS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _leave(code: int) -> None:
    """End now with an exit code, even if a thread still waits for tmux: all that it does can be done anew."""
    stuck = [t for t in threading.enumerate() if not t.daemon and t is not threading.main_thread()]
    if stuck:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
    if code:
        sys.exit(code)
