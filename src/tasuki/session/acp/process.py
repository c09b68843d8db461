"""The two ends of the proxy: the client on its standard streams, the agent as a child."""

import asyncio
import selectors
import sys
from collections.abc import Sequence
from contextlib import suppress

from tasuki.errors import HarnessMissing, UsageError
from tasuki.session.acp.wire import LineSplitter
from tasuki.session.child import ChildProcess
from tasuki.session.futures import wait_for_first

GRACE_SECONDS = 3.0
"""Seconds for an agent to end once its input is closed."""
READ_AHEAD_SECONDS = 0.05
"""The time for what an agent that has ended left to read."""
HASTE_SECONDS = 0.3
"""The same where the proxy itself is ordered to end."""
HIGH_WATER_BYTES = 4 << 20
"""Bytes waiting for one side at which the other side is no longer read."""
CHUNK_BYTES = 256 << 10
"""Most bytes that are taken from one side at once."""


class ClientPipe:
    """The client, on standard input and output."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.closed = asyncio.ensure_future(_await_close(writer))
        """Done when the client no longer reads."""

    @classmethod
    async def open(cls) -> "ClientPipe":
        """Open standard input and output. Raises UsageError where one of them is no pipe."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(CHUNK_BYTES)
        try:
            transport, protocol = await loop.connect_write_pipe(
                lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), sys.stdout.buffer
            )
            with selectors.DefaultSelector() as selector:
                # asyncio takes `/dev/null` for a pipe, and cannot poll it.
                selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
            await loop.connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer
            )
        except (ValueError, OSError) as error:
            raise UsageError(
                "tasuki acp is started by an editor, which talks to it over pipes; here standard input "
                "or output is a file or a device. How to set it up: tasuki docs editors"
            ) from error
        transport.set_write_buffer_limits(high=HIGH_WATER_BYTES)
        return cls(reader, asyncio.StreamWriter(transport, protocol, None, loop))

    def write(self, raw: bytes) -> None:
        if not self.writer.is_closing():
            self.writer.write(raw)

    async def close(self) -> None:
        """Write out everything that the client still reads, and close."""
        self.writer.close()
        await wait_for_first(self.closed, timeout=GRACE_SECONDS)


async def _await_close(writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        await writer.wait_closed()


class ProxiedAgent(ChildProcess):
    """The agent, as a child whose standard error is that of the proxy."""

    @classmethod
    async def launch(cls, command: Sequence[str]) -> "ProxiedAgent":
        """Start an agent. Raises HarnessMissing where there is no such program."""
        try:
            agent = await cls.start(command, CHUNK_BYTES, stderr=None)
        except OSError as error:
            raise HarnessMissing(
                f"{command[0]} could not be started: {error.strerror}. Give the agent's command after --, "
                "as you would run it: tasuki acp -- gemini --acp"
            ) from error
        agent.writer.transport.set_write_buffer_limits(high=HIGH_WATER_BYTES)
        return agent

    def write(self, raw: bytes) -> None:
        if not self.writer.is_closing():
            self.writer.write(raw)

    async def pump(self, lines: LineSplitter, client: ClientPipe) -> None:
        """Take all that the agent writes; a child of it may hold its output open for ever."""
        output = asyncio.ensure_future(pump(self.output, lines, client.writer))
        await wait_for_first(output, self.exited)
        await wait_for_first(output, timeout=GRACE_SECONDS)
        if not output.done():
            output.cancel()
            await asyncio.wait({output})
            with suppress(TimeoutError):  # What was read ahead, however slowly the client reads.
                async with asyncio.timeout(READ_AHEAD_SECONDS):
                    await pump(self.output, lines)

    @property
    def outcome(self) -> str:
        """How the agent ended, for a sentence."""
        if self.code is None:
            return "closed its output"
        return (
            f"ended with status {self.code}"
            if self.code >= 0
            else f"was ended by signal {-self.code}"
        )


async def pump(
    reader: asyncio.StreamReader,
    lines: LineSplitter,
    other_side: asyncio.StreamWriter | None = None,
) -> None:
    """Take all that one side writes, no faster than the other side reads where there is one."""
    with suppress(OSError):
        while data := await reader.read(CHUNK_BYTES):
            lines.feed(data)
            with suppress(ConnectionError):
                if other_side:
                    await other_side.drain()
    lines.finish()
