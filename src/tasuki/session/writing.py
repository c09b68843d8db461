"""Ask a running session for its handoff document, under a signal that can break it off at any time."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from tasuki.draft.authors.asker import Reply
from tasuki.draft.dictation import Ask
from tasuki.errors import AgentFailed, AuthorFailed, Cancelled, TasukiError
from tasuki.session.backend import PermissionOption
from tasuki.session.events import TurnEnded

T = TypeVar("T")
CANCEL_SECONDS = 5.0
"""How long an agent that was told to stop may take to say so."""


class Writing:
    """One handoff that is being written: its questions run as turns of the session.

    `turn` puts a question and hears the agent out, `cancel` breaks that off, `seconds` bounds each
    answer. The checks between the questions run in a thread of their own.
    """

    def __init__(
        self,
        turn: Callable[[str], Awaitable[TurnEnded]],
        cancel: Callable[[], Awaitable[None]],
        abort: asyncio.Event,
        seconds: float,
    ) -> None:
        self.turn = turn
        self.cancel = cancel
        self.abort = abort
        self.seconds = seconds
        self.loop = asyncio.get_running_loop()

    async def run(self, work: Callable[[Ask], T]) -> T:
        """What `work` makes; it runs in a thread and is given the way to ask.

        Where the task is cancelled from outside, the signal is set and the agent told to stop first.
        """
        task = asyncio.ensure_future(asyncio.to_thread(work, self.ask))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self.abort.set()
            with suppress(TasukiError):
                await task
            raise

    def reporting(self, report: Callable[[str], None]) -> Callable[[str], None]:
        """A function that may be called in the thread, and tells the phase in the session's own."""

        def tell(phase: str) -> None:
            self.loop.call_soon_threadsafe(report, phase)

        return tell

    def ask(self, question: str) -> Reply:
        """The answer of the session; called in the thread. Raises Cancelled, AuthorFailed, AgentFailed."""
        return asyncio.run_coroutine_threadsafe(self._answer(question), self.loop).result()

    async def _answer(self, question: str) -> Reply:
        if self.abort.is_set():
            raise Cancelled("The handoff was cancelled.")
        turn = asyncio.ensure_future(self.turn(question))
        aborted = asyncio.ensure_future(self.abort.wait())
        await asyncio.wait(
            {turn, aborted}, timeout=self.seconds, return_when=asyncio.FIRST_COMPLETED
        )
        late = not turn.done() and not aborted.done()
        if not turn.done():
            await self._stop(turn)
        aborted.cancel()
        if self.abort.is_set():
            raise Cancelled("The handoff was cancelled.")
        if late:
            raise AuthorFailed(
                f"The agent was not done within {self.seconds:g} s. "
                "Allow more with author_seconds in your settings."
            )
        return _reply(turn.result())

    async def _stop(self, turn: "asyncio.Future[TurnEnded]") -> None:
        """Have the agent stop; one that does not is left to itself."""
        with suppress(AgentFailed, TimeoutError):
            await asyncio.wait_for(self.cancel(), CANCEL_SECONDS)
        with suppress(AgentFailed, TimeoutError):
            await asyncio.wait_for(turn, CANCEL_SECONDS)


async def unless(abort: asyncio.Event, work: Coroutine[Any, Any, T]) -> T:
    """What some work gives, unless the signal comes first: then it is broken off. Raises Cancelled."""
    task, aborted = asyncio.ensure_future(work), asyncio.ensure_future(abort.wait())
    try:
        await asyncio.wait({task, aborted}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
        if task.cancelled():
            raise Cancelled("The handoff was cancelled.")
        return task.result()
    finally:
        task.cancel()
        aborted.cancel()


def _reply(ended: TurnEnded) -> Reply:
    if ended.stop == "cancelled":
        raise Cancelled("The agent broke the turn off.")
    if ended.stop != "end_turn":
        raise AuthorFailed(f"The agent stopped before it was done ({ended.stop}).")
    return Reply(ended.text)


def refusal(options: Sequence[PermissionOption]) -> str | None:
    """The option that refuses, this once if there is the choice; None if there is none."""
    refusing = [option for option in options if option.kind.startswith("reject")]
    once = [option for option in refusing if option.kind == "reject_once"]
    return next((option.id for option in (*once, *refusing)), None)
