"""One handoff inside a client's session: from `/handoff` to the new session of the agent.

    thread found → written, by turns in the old session → new session → settings → kept → switched

The switch comes last. Whatever fails or is cancelled before it leaves the old session in
use.
"""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct, field

from tasuki.errors import AgentFailed, AuthorFailed, Cancelled, NothingToHandOff, TasukiError
from tasuki.session.acp.connection import AcpConnection, AcpTurn
from tasuki.session.acp.recorder import find_thread
from tasuki.session.acp.sessions import AcpChain, AcpSession, append_event
from tasuki.session.acp.wire import Json, RpcMessage
from tasuki.session.agent_session.backend import (
    CANCELLED_MESSAGE,
    LEAST_MESSAGES,
    NOTHING_MESSAGE,
    STARTED_MESSAGE,
    TurnEnded,
)
from tasuki.session.futures import run_in_thread, wait_for_first, wait_unless_aborted
from tasuki.text_safety import cut_text

if TYPE_CHECKING:
    from tasuki.harness.protocol import Harness
    from tasuki.session.agent_session.handoff import HandoffOutcome

FAILED_MESSAGE = "Handoff failed: {} This session goes on unchanged."
DIED_MESSAGE = "Handoff failed: {}"
AGAIN_MESSAGE = "\n\n(The agent is asked again for what was missing.)\n\n"
OPENING_SECONDS = 120.0
"""How long the agent may take to open a session."""
STOPPING_SECONDS = 8.0
"""How long the agent may take to stop writing; `HandoffWriter` gives it less."""
T = TypeVar("T")


class AcpHandoff(Struct, eq=False):
    """One `/handoff` of a client: `prompt` is its request, `on_end` is called at its end."""

    connection: AcpConnection
    session: AcpSession
    prompt: RpcMessage
    focus: str
    on_end: Callable[[AcpSession], None]
    abort: asyncio.Event = field(default_factory=asyncio.Event)
    switching: bool = False
    """The new session is being opened: nothing may change the old one."""
    _written_file: Path | None = None
    """A thread file that was written for this handoff."""
    _has_own_thread: bool = False
    """The agent keeps a thread of the session that tasuki can read."""
    _answers: list[str] = []

    def cancel(self) -> None:
        """Cancel the handoff; without effect once the new session is in use."""
        self.abort.set()

    async def run(self) -> None:
        """Run the handoff, and tell the client how it ended."""
        connection, session = self.connection, self.session
        connection.replies.begin_prompt(session, self.prompt)
        try:
            session_handoff = await self._write_handoff()
            await self._switch_session(session_handoff)
        except NothingToHandOff:
            self._end_prompt("nothing", NOTHING_MESSAGE)
        except Cancelled:
            self._end_prompt("cancelled", CANCELLED_MESSAGE, stop="cancelled")
        except AgentFailed as error:
            text = DIED_MESSAGE.format(error)
            connection.replies.send_text(session, f"\n\n{text}")
            connection.replies.fail_prompt(session, self.prompt, text)
        except TasukiError as error:
            empty = bool(self._answers) and not any(map(str.strip, self._answers))
            self._end_prompt("empty" if empty else "failed", FAILED_MESSAGE.format(error))
        except Exception as error:  # a defect of tasuki must not end the session
            self._end_prompt("failed", FAILED_MESSAGE.format(f"{error!r}."))
        finally:
            self.on_end(session)

    # -- writing ---------------------------------------------------------------------------

    async def _write_handoff(self) -> "HandoffOutcome":
        """Write the handoff and keep it in the vault."""
        from tasuki.config import settings
        from tasuki.session.agent_session.handoff import HandoffWriter, write_handoff

        loaded = await self._run_abortable(lambda: settings.load_with_sources(Path(self._cwd)))
        agent = self.session.agent
        own_thread = await self._run_abortable(lambda: find_thread(agent))
        self._has_own_thread = own_thread is not None
        if own_thread and self.session.recorded_thread:
            self.session.recorded_thread.discard()
        harness, path = own_thread or await self._write_passed_thread()
        seconds = float(loaded.settings.author_seconds)
        writing = HandoffWriter(self._run_turn, self._cancel_turn, self.abort, seconds)
        try:
            return await self._run_abortable(
                lambda: write_handoff(harness, path, writing.ask, loaded=loaded, focus=self.focus)
            )
        except TasukiError:
            if self._written_file:
                with suppress(OSError):
                    self._written_file.unlink(missing_ok=True)
            raise

    async def _run_abortable(self, work: Callable[[], T]) -> T:
        """Run blocking work in a thread that can be aborted.

        Raises Cancelled, and then waits for the work no longer than the agent may take to stop.
        """
        done = run_in_thread(work)
        await wait_unless_aborted(self.abort, done)
        if not done.done() and self.session.agent in self.connection.own_turns:
            await wait_for_first(done, timeout=STOPPING_SECONDS)
        if self.abort.is_set():
            done.add_done_callback(lambda late: late.cancelled() or late.exception())
            raise Cancelled(CANCELLED_MESSAGE)
        return done.result()

    @property
    def _cwd(self) -> str:
        return str(self.session.setup.get("cwd") or os.getcwd())

    async def _write_passed_thread(self) -> "tuple[Harness, Path]":
        """Write what passed through the proxy as a thread file; the agent has no thread to read."""
        from tasuki.harness import registry as harnesses

        session = self.session
        if session.conversation.message_count < LEAST_MESSAGES:
            raise NothingToHandOff(NOTHING_MESSAGE)
        if session.message:
            session.conversation.record_handoff(session.message)
        if session.recorded_thread and (path := await session.recorded_thread.write_all()):
            return harnesses.get_harness(harnesses.SESSION_FORMAT), path
        self._written_file = session.conversation.write_session_file(self._cwd)
        return harnesses.get_harness(harnesses.SESSION_FORMAT), self._written_file

    async def _run_turn(self, question: str) -> TurnEnded:
        """Run one turn in the old session, which only the proxy takes part in."""
        connection, session = self.connection, self.session
        if self._answers:
            connection.replies.send_text(session, AGAIN_MESSAGE)
        turn = connection.own_turns[session.agent] = AcpTurn(connection.replies.version)
        turn.stop_reason.add_done_callback(
            lambda done: connection.end_own_turn(session.agent, turn)
        )
        # A message that the session has not received yet is a part of what it hands on.
        texts = [question] if session.sending else [*filter(None, [session.message]), question]
        blocks: Json = {"prompt": [{"type": "text", "text": text} for text in texts]}
        answer = connection.requests.send_request(
            "session/prompt", {"sessionId": session.agent, **blocks}
        )
        answer.add_done_callback(turn.on_answer)
        stop = await asyncio.shield(turn.stop_reason)
        self._answers.append(turn.text)
        if len(texts) > 1:
            session.conversation.record_handoff(session.message)
            connection.delivery.settle(session, "delivered")
        return TurnEnded(stop, turn.text, internal=True)  # type: ignore[arg-type]

    async def _cancel_turn(self) -> None:
        self.connection.requests.send_notification(
            "session/cancel", {"sessionId": self.session.agent}
        )

    # -- switching -------------------------------------------------------------------------

    async def _switch_session(self, session_handoff: "HandoffOutcome") -> None:
        """Replace the old session by a new session of the agent."""
        self.switching = True
        self.connection.opening += 1
        try:
            agent = await self._open_session()
            try:
                refused = await self._copy_settings(agent)
                self._activate_session(session_handoff, agent)
                self.connection.release_held(agent)
            except BaseException:
                if self.session.agent != agent:
                    self.connection.forget_session(agent)
                raise
        finally:
            self.connection.end_opening()
        self.connection.replies.offer_commands(self.session)
        self._report_success(session_handoff, refused)

    async def _open_session(self) -> str:
        """Open a new session as the client opened its own; return the agent's id."""
        request = self.connection.requests.send_request("session/new", self.session.setup)
        try:
            answer = await self._await_answer(request, "session/new")
        except TasukiError:
            request.add_done_callback(self._discard_session)
            raise
        agent = answer.opened_session
        if agent is None:
            raise AuthorFailed(f"The agent did not open a new session: {format_reason(answer)}.")
        return agent

    async def _copy_settings(self, agent: str) -> list[str]:
        """Copy the settings of the old session; return sentences about those that were refused."""
        refused: list[str] = []
        copied: dict[tuple[str, object], Json] = {}
        while remaining := [
            (k, p) for k, p in self.session.settings.items() if copied.get(k) is not p
        ]:
            (method, option), params = remaining[0]
            copied[method, option] = params
            request = self.connection.requests.send_request(method, {**params, "sessionId": agent})
            answer = await self._await_answer(request, method)
            if answer.failed and "sessionId" in params:  # the client set it, not the agent
                subject = f"{method} {option}" if option else method
                refused.append(
                    f"The new session did not accept {subject}: {format_reason(answer)}."
                )
        return refused

    async def _await_answer(self, request: "asyncio.Future[RpcMessage]", method: str) -> RpcMessage:
        """Wait for an answer of the agent.

        Raises Cancelled, AgentFailed; AuthorFailed if the answer is late.
        """
        await wait_unless_aborted(self.abort, request, OPENING_SECONDS)
        if self.abort.is_set():
            raise Cancelled(CANCELLED_MESSAGE)
        if not request.done():
            raise AuthorFailed(f"The agent did not answer {method} in {OPENING_SECONDS:.0f} s.")
        return request.result()

    def _discard_session(self, request: "asyncio.Future[RpcMessage]") -> None:
        """Close a session that was opened too late."""
        if not request.cancelled() and request.exception() is None:
            agent = request.result().opened_session
            if agent is not None:
                self.connection.forget_session(agent)

    def _activate_session(self, session_handoff: "HandoffOutcome", agent: str) -> None:
        """Put the new session in use. Raises StoreFailed, and then it is not in use."""
        connection, session, old = self.connection, self.session, self.session.agent
        previous = (*session.previous, old)
        connection.chains.save_chain(
            AcpChain(
                session.client, agent, previous, session_handoff.message, session_handoff.handoff.id
            )
        )
        connection.sessions.switch_agent(session, agent)
        connection.close_thread(session)
        session.has_own_thread = self._has_own_thread
        session.parent_thread = (
            "" if self._has_own_thread else session_handoff.handoff.predecessor.path
        )
        session.begin_agent_session(session_handoff.message, session_handoff.handoff.id)
        append_event(session, "started", target=agent)
        if connection.supports("close"):
            connection.requests.send_and_forget("session/close", {"sessionId": old})

    # -- outcomes --------------------------------------------------------------------------

    def _report_success(self, session_handoff: "HandoffOutcome", refused: list[str]) -> None:
        tokens = len(session_handoff.message) // 4
        id, focus = session_handoff.handoff.id, f", focus: {self.focus}" if self.focus else ""
        head = f"{STARTED_MESSAGE}\n\nHandoff {id[:8]}, {tokens:,} tokens{focus}"
        notes = "".join(f"\n- {sentence}" for sentence in (*refused, *session_handoff.notes))
        meta = {"id": id, "from": self.session.previous[-1], "to": self.session.agent}
        self._end_prompt("started", f"{head}\n{notes}", **meta, tokens=tokens)

    def _end_prompt(self, outcome: str, text: str, stop: str = "end_turn", **meta: object) -> None:
        separator = (
            "\n\n" if self._answers or self.session.agent in self.connection.own_turns else ""
        )
        from tasuki.draft.redact.redactor import redact

        self.connection.replies.send_text(self.session, separator + redact(text)[0])
        outcome_meta = {"handoff": {"outcome": outcome, **meta}}
        self.connection.replies.end_prompt(self.session, self.prompt, stop, outcome_meta)


def format_reason(answer: RpcMessage) -> str:
    """Format why the agent refused, in its own words."""
    return cut_text(answer.error or "it gave no reason", 300).rstrip(".")
