"""Futures: waiting for the first of several, for work that can be aborted, for a thread."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


async def wait_for_first(*futures: "asyncio.Future[Any]", timeout: float | None = None) -> None:
    """Wait until one of the futures is done."""
    await asyncio.wait(futures, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)


async def wait_unless_aborted(
    abort: asyncio.Event, work: "asyncio.Future[Any]", timeout: float | None = None
) -> None:
    """Wait until some work is done, the signal comes or the time is over."""
    aborted = asyncio.ensure_future(abort.wait())
    try:
        await wait_for_first(work, aborted, timeout=timeout)
    finally:
        aborted.cancel()


def run_in_thread(work: Callable[[], T]) -> "asyncio.Future[T]":
    """Run blocking work in a thread that does not keep the process alive."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(set_outcome: Callable[[Any], None], outcome: object) -> None:
        if not done.done():
            set_outcome(outcome)

    def run() -> None:
        outcome: tuple[Callable[[Any], None], object]
        try:
            outcome = done.set_result, work()
        except BaseException as error:
            outcome = done.set_exception, error
        with suppress(RuntimeError):  # The loop is closed: nothing waits any more.
            loop.call_soon_threadsafe(settle, *outcome)

    threading.Thread(target=run, daemon=True).start()
    return done
