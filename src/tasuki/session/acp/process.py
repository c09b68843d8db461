"""The two ends of the proxy: the client on our own standard streams, the agent as a child.

The agent runs in a process group of its own, which is ended as a whole: what an agent starts may
outlive it (codex-acp's native child does). Its standard error is ours.
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
from tasuki.session.acp.wire import Lines

GRACE = 3.0
"""Seconds for an agent to end by itself once its input is closed."""
HASTE = 0.3
"""The same where the proxy itself is told to end."""
TERMINATION = 2.0
"""Seconds between the order to end and the end by force."""
HIGH_WATER = 4 << 20
"""Bytes waiting for one side before the other side is not read any more."""


class Source(Protocol):
    """Something that is read, and can be made to wait."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...


def _can_be_waited_for(number: int) -> None:
    """Raises ValueError for what asyncio takes for a pipe and then cannot wait for: `/dev/null`."""
    with selectors.DefaultSelector() as selector:
        try:
            selector.register(number, selectors.EVENT_READ)
        except OSError as error:
            raise ValueError(f"standard input cannot be waited for: {error.strerror}") from error


@contextmanager
def _only_pipes() -> Iterator[None]:
    try:
        yield
    except (ValueError, OSError) as error:
        raise UsageError(
            "tasuki acp is started by an editor, which speaks to it over pipes; standard input "
            "or output is a file or a device here. How to set it up: tasuki docs acp"
        ) from error


class Client(asyncio.Protocol):
    """The client, on standard input and output. `gone` is done when its side is closed."""

    def __init__(self, lines: Lines) -> None:
        self.lines = lines
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.flushed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.other: Source | None = None
        self._in: asyncio.ReadTransport | None = None
        self._out: asyncio.WriteTransport | None = None

    async def open(self) -> None:
        """Be ready to write. Raises UsageError where standard output is no pipe."""
        loop = asyncio.get_running_loop()
        with _only_pipes():
            self._out, _ = await loop.connect_write_pipe(lambda: _Output(self), sys.stdout.buffer)
            self._out.set_write_buffer_limits(high=HIGH_WATER)

    async def read(self) -> None:
        """Begin to read. Raises UsageError where standard input is no pipe."""
        with _only_pipes():
            loop = asyncio.get_running_loop()
            _can_be_waited_for(sys.stdin.fileno())
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
        """Have everything written that the client still reads."""
        if self._out:
            self._out.close()
            await asyncio.wait({self.flushed}, timeout=GRACE)


class _Output(asyncio.BaseProtocol):
    """Tells of the client's output: when it is full, and when it is closed."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def pause_writing(self) -> None:
        if self.client.other:
            self.client.other.pause()

    def resume_writing(self) -> None:
        if self.client.other:
            self.client.other.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.client.flushed.done():
            self.client.flushed.set_result(None)
        if not self.client.gone.done():
            self.client.gone.set_result(None)


class Agent(asyncio.SubprocessProtocol):
    """The agent, as a child. `gone` is done when it ended and all it said was read."""

    def __init__(self, lines: Lines) -> None:
        self.lines = lines
        loop = asyncio.get_running_loop()
        self.gone: asyncio.Future[None] = loop.create_future()
        self.exited: asyncio.Future[None] = loop.create_future()
        self.other: Source | None = None
        self._transport: asyncio.SubprocessTransport | None = None

    @classmethod
    async def start(cls, command: Sequence[str], lines: Lines) -> "Agent":
        """Start an agent. Raises HarnessMissing where there is no such program."""
        try:
            transport, agent = await asyncio.get_running_loop().subprocess_exec(
                lambda: cls(lines), *command, stderr=None, start_new_session=True
            )
        except OSError as error:
            raise HarnessMissing(
                f"{command[0]} could not be started: {error.strerror}. Name the agent's own command "
                "behind --, as you would run it: tasuki acp -- gemini --acp"
            ) from error
        agent._transport = transport
        with suppress(AttributeError):
            agent._input().set_write_buffer_limits(high=HIGH_WATER)
        return agent

    def _input(self) -> asyncio.WriteTransport:
        pipe = self._transport.get_pipe_transport(0) if self._transport else None
        assert isinstance(pipe, asyncio.WriteTransport)
        return pipe

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.lines.feed(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 1:
            self.lines.finish()
            self._finished()

    def process_exited(self) -> None:
        if not self.exited.done():
            self.exited.set_result(None)
        # A child of the agent may hold its output open for ever.
        asyncio.get_running_loop().call_later(GRACE, self._finished)

    def connection_lost(self, exc: Exception | None) -> None:
        self._finished()

    def _finished(self) -> None:
        if not self.gone.done():
            self.gone.set_result(None)

    def pause_writing(self) -> None:
        if self.other:
            self.other.pause()

    def resume_writing(self) -> None:
        if self.other:
            self.other.resume()

    def write(self, raw: bytes) -> None:
        if not self._input().is_closing():
            self._input().write(raw)

    def pause(self) -> None:
        self._reading("pause_reading")

    def resume(self) -> None:
        self._reading("resume_reading")

    def _reading(self, what: str) -> None:
        pipe = self._transport.get_pipe_transport(1) if self._transport else None
        if isinstance(pipe, asyncio.ReadTransport) and not pipe.is_closing():
            getattr(pipe, what)()

    async def end(self, grace: float = GRACE) -> int:
        """End the agent and all of its group; its exit code, 0 where it had to be ended."""
        assert self._transport
        self._input().close()
        await first(self.exited, timeout=grace)
        code = self._transport.get_returncode()
        for order, seconds in ((signal.SIGTERM, TERMINATION), (signal.SIGKILL, TERMINATION)):
            if not self._signal(order):
                break
            await self._group_ended(seconds)
        self._transport.close()
        return exit_code(code or 0)

    def _signal(self, order: int) -> bool:
        """Whether there was somebody in the group to get a signal."""
        assert self._transport
        try:
            os.killpg(self._transport.get_pid(), order)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    async def _group_ended(self, seconds: float) -> None:
        end = asyncio.get_running_loop().time() + seconds
        while self._signal(0) and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(0.02)

    @property
    def fate(self) -> str:
        """How it ended, for a sentence."""
        code = self._transport.get_returncode() if self._transport else None
        if code is None:
            return "closed its output"
        return f"ended with status {code}" if code >= 0 else f"was ended by signal {-code}"


def exit_code(code: int) -> int:
    """The code that a shell gives for a child that ended."""
    return code if code >= 0 else 128 - code


async def first(*futures: "asyncio.Future[Any]", timeout: float | None = None) -> None:
    """Wait until one of them is done."""
    await asyncio.wait(futures, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)


def in_thread(work: Callable[[], object]) -> "asyncio.Future[object]":
    """Do blocking work in a thread that keeps nobody from leaving."""
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
        failed: BaseException | None = None
        try:
            result = work()
        except BaseException as error:
            failed = error
        with suppress(RuntimeError):  # The loop is closed: nobody waits any more.
            loop.call_soon_threadsafe(settle, result, failed)

    threading.Thread(target=run, daemon=True).start()
    return done
