"""Asks a running session for its handoff document, with a signal that can cancel it at any time."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from tasuki.draft.authors.author import AuthorReply
from tasuki.draft.authors.session_document import AskSession
from tasuki.errors import AgentFailed, AuthorFailed, Cancelled, TasukiError
from tasuki.session.agent_session.backend import PermissionOption, TurnEnded

T = TypeVar("T")
CANCEL_SECONDS = 5.0
"""How long an agent that was ordered to stop may take to confirm it."""


class HandoffWriter:
    """Writes one handoff: its questions run as turns of the session.

    `run_turn` sends a question and waits for the whole answer, `cancel` breaks that off,
    `seconds` limits each answer. The checks between the questions run in a thread of their own.
    """

    def __init__(
        self,
        run_turn: Callable[[str], Awaitable[TurnEnded]],
        cancel: Callable[[], Awaitable[None]],
        abort: asyncio.Event,
        seconds: float,
    ) -> None:
        self.run_turn = run_turn
        self.cancel = cancel
        self.abort = abort
        self.seconds = seconds
        self.loop = asyncio.get_running_loop()

    async def run(self, work: Callable[[AskSession], T]) -> T:
        """Run `work` in a thread, with a function that asks the session; return its result.

        Where the task is cancelled from outside, the signal is set and the agent stopped first.
        """
        task = asyncio.ensure_future(asyncio.to_thread(work, self.ask))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self.abort.set()
            with suppress(TasukiError):
                await task
            raise

    def build_reporter(self, report: Callable[[str], None]) -> Callable[[str], None]:
        """Build a function that reports a phase from the thread to the session's event loop."""

        def report_phase(phase: str) -> None:
            self.loop.call_soon_threadsafe(report, phase)

        return report_phase

    def ask(self, question: str) -> AuthorReply:
        """Return the answer of the session; called in the thread.

        Raises Cancelled, AuthorFailed, AgentFailed.
        """
        return asyncio.run_coroutine_threadsafe(self._get_answer(question), self.loop).result()

    async def _get_answer(self, question: str) -> AuthorReply:
        if self.abort.is_set():
            raise Cancelled("The handoff was cancelled.")
        turn_task = asyncio.ensure_future(self.run_turn(question))
        aborted = asyncio.ensure_future(self.abort.wait())
        await asyncio.wait(
            {turn_task, aborted}, timeout=self.seconds, return_when=asyncio.FIRST_COMPLETED
        )
        is_late = not turn_task.done() and not aborted.done()
        if not turn_task.done():
            await self._stop_turn(turn_task)
        aborted.cancel()
        if self.abort.is_set():
            raise Cancelled("The handoff was cancelled.")
        if is_late:
            raise AuthorFailed(
                f"The agent was not done within {self.seconds:g} s. "
                "Allow more with author_seconds in your settings."
            )
        return _build_reply(turn_task.result())

    async def _stop_turn(self, turn: "asyncio.Future[TurnEnded]") -> None:
        """Stop the agent; one that does not stop is left alone."""
        with suppress(AgentFailed, TimeoutError):
            await asyncio.wait_for(self.cancel(), CANCEL_SECONDS)
        with suppress(AgentFailed, TimeoutError):
            await asyncio.wait_for(turn, CANCEL_SECONDS)


async def run_unless_aborted(abort: asyncio.Event, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of some work, unless the signal comes first and cancels it.

    Raises Cancelled.
    """
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


def _build_reply(turn_ended: TurnEnded) -> AuthorReply:
    if turn_ended.stop == "cancelled":
        raise Cancelled("The agent broke the turn off.")
    if turn_ended.stop != "end_turn":
        raise AuthorFailed(f"The agent stopped before it was done ({turn_ended.stop}).")
    return AuthorReply(turn_ended.text)


def choose_refusal(options: Sequence[PermissionOption]) -> str | None:
    """Choose the option that refuses, this once if possible; None if there is none."""
    refusing = [option for option in options if option.kind.startswith("reject")]
    once = [option for option in refusing if option.kind == "reject_once"]
    return next((option.id for option in (*once, *refusing)), None)
