"""The agent as a child process, which ends with everything that it started."""

import asyncio
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Self

from tasuki.session.futures import wait_for_first

TERMINATION_SECONDS = 2.0
"""Seconds between the order to end and the end by force."""


class _ChildProtocol(asyncio.subprocess.SubprocessStreamProtocol):
    """The child's streams, and a future for its end: `Process.wait` also waits for its pipes."""

    def __init__(self, limit: int) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(limit, loop)
        self.exited: asyncio.Future[None] = loop.create_future()

    def process_exited(self) -> None:
        super().process_exited()
        if not self.exited.done():
            self.exited.set_result(None)


class ChildProcess:
    """A child that leads its own process group.

    The group is ended as a whole, because a child of an agent may outlive it (codex-acp's native
    child does). A Ctrl-C of the terminal does not reach it. `exited` is done when it ended; its
    output may still be held open by its children.
    """

    def __init__(self, transport: asyncio.SubprocessTransport, streams: _ChildProtocol) -> None:
        assert streams.stdin
        assert streams.stdout
        self._transport, self.exited = transport, streams.exited
        self.writer, self.output = streams.stdin, streams.stdout

    @classmethod
    async def start(cls, command: Sequence[str], limit: int = 64 << 10, **options: Any) -> Self:
        """Start a command. Raises OSError; `limit` is how many bytes of output are read ahead."""
        transport, streams = await asyncio.get_running_loop().subprocess_exec(
            lambda: _ChildProtocol(limit), *command, start_new_session=True, **options
        )
        return cls(transport, streams)

    @property
    def code(self) -> int | None:
        """Its exit code; negative where a signal ended it, None while it runs."""
        return self._transport.get_returncode()

    async def end_group(self, grace: float) -> int:
        """Close its input, then end whatever of its group is left after `grace` seconds.

        Return its exit code as a shell gives it, 0 where it had to be ended.
        """
        with suppress(OSError, RuntimeError):
            self.writer.close()
        await wait_for_first(self.exited, timeout=grace)
        code = self.code or 0
        for order in (signal.SIGTERM, signal.SIGKILL):
            if not self._send_signal(order):
                break
            end = asyncio.get_running_loop().time() + TERMINATION_SECONDS
            while self._send_signal(0) and asyncio.get_running_loop().time() < end:
                await asyncio.sleep(0.02)
        # A program that never stops writing leaves its pipe open, and asyncio would warn at the end.
        self._transport.close()
        return code if code >= 0 else 128 - code

    def _send_signal(self, order: int) -> bool:
        """Send a signal to the group; return whether any process was left to get it."""
        try:
            os.killpg(self._transport.get_pid(), order)
        except (ProcessLookupError, PermissionError):
            return False
        return True
