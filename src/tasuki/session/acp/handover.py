"""One handoff inside a client's session: from `/handoff` to the new session of the agent.

    thread found → written, by turns in the old session → new session → settings → kept → switched

The switch comes last. Whatever fails or is cancelled before it leaves the old session in use.
"""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from tasuki.errors import AgentFailed, AuthorFailed, Cancelled, NothingToHandOff, TasukiError
from tasuki.session.acp.chains import Chain
from tasuki.session.acp.delivery import note
from tasuki.session.acp.keeping import thread_of
from tasuki.session.acp.process import first, in_thread
from tasuki.session.acp.sessions import Session
from tasuki.session.acp.turn import Turn
from tasuki.session.acp.wire import Json, Message

if TYPE_CHECKING:
    from tasuki.harness.protocol import Harness
    from tasuki.session.acp.proxy import Proxy
    from tasuki.session.events import TurnEnded
    from tasuki.session.handing import Handed

NOTHING = "Nothing to hand off (no messages yet)"
CANCELLED = "Handoff cancelled"
FAILED = "Handoff failed: {} This session goes on unchanged."
DIED = "Handoff failed: {}"
STARTED = "New session started with handoff context"
AGAIN = "\n\n(The agent is asked once more, for what was missing.)\n\n"
LEAST_MESSAGES = 2
OPENING_SECONDS = 120.0
"""How long the agent may take to open a session."""
STOPPING_SECONDS = 8.0
"""How long the agent may take to stop writing; `Writing` gives it less."""
T = TypeVar("T")


class Handover:
    """One `/handoff` of a client: `prompt` is its request."""

    def __init__(self, proxy: "Proxy", session: Session, prompt: Message, focus: str) -> None:
        self.proxy, self.session, self.prompt, self.focus = proxy, session, prompt, focus
        self.abort = asyncio.Event()
        self.switching = False
        """The new session is being opened: nothing may change the old one."""
        self._file: Path | None = None
        """A thread file that was written for this."""
        self._has_own_thread = False
        """The agent keeps a thread of the session that tasuki can read."""
        self._answers: list[str] = []

    def cancel(self) -> None:
        """Break it off; without effect once the new session is in use."""
        self.abort.set()

    async def run(self) -> None:
        """Do it, and tell the client how it ended."""
        proxy, session = self.proxy, self.session
        proxy.replies.begin(session, self.prompt)
        try:
            handed = await self._written()
            await self._switched(handed)
        except NothingToHandOff:
            self._end("nothing", NOTHING)
        except Cancelled:
            self._end("cancelled", CANCELLED, stop="cancelled")
        except AgentFailed as error:
            self._died(DIED.format(error))
        except TasukiError as error:
            empty = bool(self._answers) and not any(map(str.strip, self._answers))
            self._end("empty" if empty else "failed", FAILED.format(error))
        except Exception as error:  # a defect of ours must not end the session
            self._end("failed", FAILED.format(f"{error!r}."))
        finally:
            proxy.release(session)

    # -- writing ---------------------------------------------------------------------------

    async def _written(self) -> "Handed":
        """The handoff, kept in the vault."""
        from tasuki import config
        from tasuki.session.handing import handed
        from tasuki.session.writing import Writing

        loaded = await self._away(lambda: config.loaded(Path(self._cwd)))
        agent = self.session.agent
        found = await self._away(lambda: thread_of(agent))
        self._has_own_thread = found is not None
        if found and self.session.kept:
            self.session.kept.discard()
        harness, path = found or await self._passed()
        seconds = float(loaded.settings.author_seconds)
        writing = Writing(self._turn, self._stop, self.abort, seconds)
        try:
            return await self._away(
                lambda: handed(harness, path, writing.ask, loaded=loaded, focus=self.focus)
            )
        except TasukiError:
            if self._file:
                with suppress(OSError):
                    self._file.unlink(missing_ok=True)
            raise

    async def _away(self, work: Callable[[], T]) -> T:
        """Do blocking work in a thread. Raises Cancelled, and then waits for it no longer than the
        agent may take to stop."""
        done = in_thread(work)
        aborted = asyncio.ensure_future(self.abort.wait())
        await first(done, aborted)
        if not done.done() and self.session.agent in self.proxy.turns:
            await first(done, timeout=STOPPING_SECONDS)
        aborted.cancel()
        if self.abort.is_set():
            done.add_done_callback(lambda late: late.cancelled() or late.exception())
            raise Cancelled(CANCELLED)
        return cast("T", done.result())

    @property
    def _cwd(self) -> str:
        return str(self.session.setup.get("cwd") or os.getcwd())

    async def _passed(self) -> "tuple[Harness, Path]":
        """What passed through the proxy, as a thread file, where tasuki finds none of the agent's."""
        from tasuki import harness as harnesses

        session = self.session
        if session.conversation.count < LEAST_MESSAGES:
            raise NothingToHandOff(NOTHING)
        if session.message:
            session.conversation.hand_on(session.message)
        if session.kept and (path := await session.kept.written()):
            return harnesses.get("pi"), path
        self._file = session.conversation.write(self._cwd)
        return harnesses.get("pi"), self._file

    async def _turn(self, question: str) -> "TurnEnded":
        """One turn in the old session, which only the proxy takes part in."""
        from tasuki.session.events import TurnEnded

        proxy, session = self.proxy, self.session
        if self._answers:
            proxy.replies.say(session, AGAIN)
        turn = proxy.turns[session.agent] = Turn(proxy.replies.version)
        turn.over.add_done_callback(lambda done: proxy.hear_no_more(session.agent, turn))
        # What the session was to begin with and has not got yet is a part of what it hands on.
        texts = [question] if session.sending else [*filter(None, [session.message]), question]
        blocks: Json = {"prompt": [{"type": "text", "text": text} for text in texts]}
        answer = proxy.ours.ask("session/prompt", {"sessionId": session.agent, **blocks})
        answer.add_done_callback(turn.answered)
        stop = await asyncio.shield(turn.over)
        self._answers.append(turn.text)
        if len(texts) > 1:
            session.conversation.hand_on(session.message)
            proxy.delivery.arrived(session)
        return TurnEnded(stop, turn.text, internal=True)  # type: ignore[arg-type]

    async def _stop(self) -> None:
        self.proxy.ours.notify("session/cancel", {"sessionId": self.session.agent})

    # -- switching -------------------------------------------------------------------------

    async def _switched(self, handed: "Handed") -> None:
        """Put a new session of the agent in the old one's place."""
        self.switching = True
        self.proxy.hold(+1)
        try:
            agent = await self._new_session()
            try:
                refused = await self._settings(agent)
                self._switch(handed, agent)
                self.proxy.let_go(agent)
            except BaseException:
                if self.session.agent != agent:
                    self.proxy.forget(agent)
                raise
        finally:
            self.proxy.hold(-1)
        self.proxy.replies.offer(self.session)
        self._tell(handed, refused)

    async def _new_session(self) -> str:
        """A new session, opened as the client opened its own; the agent's id."""
        asked = self.proxy.ours.ask("session/new", self.session.setup)
        try:
            opened = await self._soon(asked, "session/new")
        except TasukiError:
            asked.add_done_callback(self._discard)
            raise
        agent = opened.opened
        if agent is None:
            raise AuthorFailed(f"The agent opened no new session: {reason(opened)}.")
        return agent

    async def _settings(self, agent: str) -> list[str]:
        """Set what was set in the old session; sentences about what the new one did not take."""
        refused: list[str] = []
        done: dict[tuple[str, object], Json] = {}
        while left := [(k, p) for k, p in self.session.settings.items() if done.get(k) is not p]:
            (method, option), params = left[0]
            done[method, option] = params
            asked = self.proxy.ours.ask(method, {**params, "sessionId": agent})
            answer = await self._soon(asked, method)
            if answer.failed and "sessionId" in params:  # the client set it, not the agent
                what = f"{method} {option}" if option else method
                refused.append(f"The new session did not take {what}: {reason(answer)}.")
        return refused

    async def _soon(self, asked: "asyncio.Future[Message]", what: str) -> Message:
        """An answer of the agent. Raises Cancelled, AgentFailed, AuthorFailed if it is late."""
        aborted = asyncio.ensure_future(self.abort.wait())
        await first(asked, aborted, timeout=OPENING_SECONDS)
        aborted.cancel()
        if self.abort.is_set():
            raise Cancelled(CANCELLED)
        if not asked.done():
            raise AuthorFailed(f"The agent did not answer {what} in {OPENING_SECONDS:.0f} s.")
        return asked.result()

    def _discard(self, asked: "asyncio.Future[Message]") -> None:
        """A session that came too late."""
        if not asked.cancelled() and asked.exception() is None:
            agent = asked.result().opened
            if agent is not None:
                self.proxy.forget(agent)

    def _switch(self, handed: "Handed", agent: str) -> None:
        """From here on the new session is in use. Raises StoreFailed, and then it is not."""
        proxy, session, old = self.proxy, self.session, self.session.agent
        previous = (*session.previous, old)
        proxy.chains.put(Chain(session.client, agent, previous, handed.message, handed.handoff.id))
        proxy.sessions.switch(session, agent)
        proxy.put_away(session)
        session.has_own_thread = self._has_own_thread
        session.parent_thread = "" if self._has_own_thread else handed.handoff.predecessor.path
        session.begin(handed.message, handed.handoff.id)
        note(session, "started", target=agent)
        if proxy.can("close"):
            proxy.ours.tell("session/close", {"sessionId": old})

    # -- outcomes --------------------------------------------------------------------------

    def _tell(self, handed: "Handed", refused: list[str]) -> None:
        tokens = len(handed.message) // 4
        id, focus = handed.handoff.id, f", focus: {self.focus}" if self.focus else ""
        head = f"{STARTED}\n\nHandoff {id[:8]}, {tokens:,} tokens{focus}"
        told = "".join(f"\n- {sentence}" for sentence in (*refused, *handed.told))
        meta = {"id": id, "from": self.session.previous[-1], "to": self.session.agent}
        self._end("started", f"{head}\n{told}", **meta, tokens=tokens)

    def _end(self, outcome: str, text: str, stop: str = "end_turn", **meta: object) -> None:
        apart = "\n\n" if self._answers or self.session.agent in self.proxy.turns else ""
        self.proxy.replies.say(self.session, f"{apart}{text}")
        told = {"handoff": {"outcome": outcome, **meta}}
        self.proxy.replies.end(self.session, self.prompt, stop, told)

    def _died(self, text: str) -> None:
        self.proxy.replies.say(self.session, f"\n\n{text}")
        self.proxy.replies.fail(self.session, self.prompt, text)


def reason(answer: Message) -> str:
    """Why the agent said no, in its own words."""
    return (answer.error or "it gave no reason")[:300].rstrip(".")
