"""The two ends of the proxy: the client on its standard streams, the agent as a child.

The agent runs in its own process group, which is ended as a whole: a child of the
agent may outlive it (codex-acp's native child does). Its standard error is that of the
proxy.
"""

import asyncio
import os
import selectors
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from tasuki.errors import HarnessMissing, UsageError
from tasuki.session.acp.wire import LineSplitter

GRACE_SECONDS = 3.0
"""Seconds for an agent to end once its input is closed."""
HASTE_SECONDS = 0.3
"""The same where the proxy itself is ordered to end."""
TERMINATION_SECONDS = 2.0
"""Seconds between the order to end and the end by force."""
HIGH_WATER_BYTES = 4 << 20
"""Bytes waiting for one side at which the other side is no longer read."""


class PausableSource(Protocol):
    """A source that is read, and can be paused."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...


def _check_pollable(number: int) -> None:
    """Raise ValueError for what asyncio takes for a pipe and cannot poll, such as `/dev/null`."""
    with selectors.DefaultSelector() as selector:
        try:
            selector.register(number, selectors.EVENT_READ)
        except OSError as error:
            raise ValueError(f"cannot wait for standard input: {error.strerror}") from error


@contextmanager
def _require_pipes() -> Iterator[None]:
    try:
        yield
    except (ValueError, OSError) as error:
        raise UsageError(
            "tasuki acp is started by an editor, which talks to it over pipes; here standard input "
            "or output is a file or a device. How to set it up: tasuki docs editors"
        ) from error


class ClientPipe(asyncio.Protocol):
    """The client, on standard input and output. `gone` is done when its side is closed."""

    def __init__(self, lines: LineSplitter) -> None:
        self.lines = lines
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.flushed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.peer: PausableSource | None = None
        self._in: asyncio.ReadTransport | None = None
        self._out: asyncio.WriteTransport | None = None

    async def open_output(self) -> None:
        """Open standard output for writing. Raises UsageError where it is no pipe."""
        loop = asyncio.get_running_loop()
        with _require_pipes():
            self._out, _ = await loop.connect_write_pipe(
                lambda: _ClientOutput(self), sys.stdout.buffer
            )
            self._out.set_write_buffer_limits(high=HIGH_WATER_BYTES)

    async def start_reading(self) -> None:
        """Start reading standard input. Raises UsageError where it is no pipe."""
        with _require_pipes():
            loop = asyncio.get_running_loop()
            _check_pollable(sys.stdin.fileno())
            self._in, _ = await loop.connect_read_pipe(lambda: self, sys.stdin.buffer)

    def data_received(self, data: bytes) -> None:
        self.lines.feed(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lines.finish()
        if not self.gone.done():
            self.gone.set_result(None)

    def write(self, raw: bytes) -> None:
        if self._out and not self._out.is_closing():
            self._out.write(raw)

    def pause(self) -> None:
        if self._in and not self._in.is_closing():
            self._in.pause_reading()

    def resume(self) -> None:
        if self._in and not self._in.is_closing():
            self._in.resume_reading()

    async def close(self) -> None:
        """Write out everything that the client still reads, and close."""
        if self._out:
            self._out.close()
            await asyncio.wait({self.flushed}, timeout=GRACE_SECONDS)


class _ClientOutput(asyncio.BaseProtocol):
    """Reports the state of the client's output: when it is full, and when it is closed."""

    def __init__(self, client: ClientPipe) -> None:
        self.client = client

    def pause_writing(self) -> None:
        if self.client.peer:
            self.client.peer.pause()

    def resume_writing(self) -> None:
        if self.client.peer:
            self.client.peer.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.client.flushed.done():
            self.client.flushed.set_result(None)
        if not self.client.gone.done():
            self.client.gone.set_result(None)


class ProxiedAgent(asyncio.SubprocessProtocol):
    """The agent, as a child. `gone` is done when it ended and all its output was read."""

    def __init__(self, lines: LineSplitter) -> None:
        self.lines = lines
        loop = asyncio.get_running_loop()
        self.gone: asyncio.Future[None] = loop.create_future()
        self.exited: asyncio.Future[None] = loop.create_future()
        self.peer: PausableSource | None = None
        self._transport: asyncio.SubprocessTransport | None = None

    @classmethod
    async def start(cls, command: Sequence[str], lines: LineSplitter) -> "ProxiedAgent":
        """Start an agent. Raises HarnessMissing where there is no such program."""
        try:
            transport, agent = await asyncio.get_running_loop().subprocess_exec(
                lambda: cls(lines), *command, stderr=None, start_new_session=True
            )
        except OSError as error:
            raise HarnessMissing(
                f"{command[0]} could not be started: {error.strerror}. Give the agent's command after --, "
                "as you would run it: tasuki acp -- gemini --acp"
            ) from error
        agent._transport = transport
        with suppress(AttributeError):
            agent._get_input().set_write_buffer_limits(high=HIGH_WATER_BYTES)
        return agent

    def _get_input(self) -> asyncio.WriteTransport:
        pipe = self._transport.get_pipe_transport(0) if self._transport else None
        assert isinstance(pipe, asyncio.WriteTransport)
        return pipe

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.lines.feed(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 1:
            self.lines.finish()
            self._mark_gone()

    def process_exited(self) -> None:
        if not self.exited.done():
            self.exited.set_result(None)
        # A child of the agent may hold its output open for ever.
        asyncio.get_running_loop().call_later(GRACE_SECONDS, self._mark_gone)

    def connection_lost(self, exc: Exception | None) -> None:
        self._mark_gone()

    def _mark_gone(self) -> None:
        if not self.gone.done():
            self.gone.set_result(None)

    def pause_writing(self) -> None:
        if self.peer:
            self.peer.pause()

    def resume_writing(self) -> None:
        if self.peer:
            self.peer.resume()

    def write(self, raw: bytes) -> None:
        if not self._get_input().is_closing():
            self._get_input().write(raw)

    def pause(self) -> None:
        if reader := self._get_reader():
            reader.pause_reading()

    def resume(self) -> None:
        if reader := self._get_reader():
            reader.resume_reading()

    def _get_reader(self) -> asyncio.ReadTransport | None:
        """Return the agent's output; None where it is closed."""
        pipe = self._transport.get_pipe_transport(1) if self._transport else None
        return pipe if isinstance(pipe, asyncio.ReadTransport) and not pipe.is_closing() else None

    async def end_group(self, grace: float = GRACE_SECONDS) -> int:
        """End the agent and all of its group; return its exit code, 0 where it had to be ended."""
        assert self._transport
        self._get_input().close()
        await wait_for_first(self.exited, timeout=grace)
        code = self._transport.get_returncode()
        for order, seconds in (
            (signal.SIGTERM, TERMINATION_SECONDS),
            (signal.SIGKILL, TERMINATION_SECONDS),
        ):
            if not self._send_signal(order):
                break
            await self._await_group_end(seconds)
        self._transport.close()
        return compute_exit_code(code or 0)

    def _send_signal(self, order: int) -> bool:
        """Send a signal to the group; return whether any process was left to get it."""
        assert self._transport
        try:
            os.killpg(self._transport.get_pid(), order)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    async def _await_group_end(self, seconds: float) -> None:
        end = asyncio.get_running_loop().time() + seconds
        while self._send_signal(0) and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(0.02)

    @property
    def outcome(self) -> str:
        """How the agent ended, for a sentence."""
        code = self._transport.get_returncode() if self._transport else None
        if code is None:
            return "closed its output"
        return f"ended with status {code}" if code >= 0 else f"was ended by signal {-code}"


def compute_exit_code(code: int) -> int:
    """Return the code that a shell gives for a child that ended."""
    return code if code >= 0 else 128 - code


async def wait_for_first(*futures: "asyncio.Future[Any]", timeout: float | None = None) -> None:
    """Wait until one of the futures is done."""
    await asyncio.wait(futures, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)


def run_in_thread(work: Callable[[], object]) -> "asyncio.Future[object]":
    """Run blocking work in a thread that does not keep the process alive."""
    import threading

    loop = asyncio.get_running_loop()
    done: asyncio.Future[object] = loop.create_future()

    def settle(result: object, error: BaseException | None) -> None:
        if done.cancelled() or done.done():
            return
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(error)

    def run() -> None:
        result: object = None
        failure: BaseException | None = None
        try:
            result = work()
        except BaseException as error:
            failure = error
        with suppress(RuntimeError):  # The loop is closed: nothing waits any more.
            loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=run, daemon=True).start()
    return done
