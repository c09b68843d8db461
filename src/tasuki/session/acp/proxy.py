"""Routing between a client and an agent: what is `/handoff`'s is taken out, all else passes.

A line goes through to the letter; only a session id that stands for another one is exchanged in it.
Ids of requests stay the client's and the agent's own. Requests of ours have ids `tasuki:N`.
"""

import asyncio
from collections.abc import Callable, Coroutine

from msgspec import Struct

from tasuki.errors import AgentFailed
from tasuki.session.acp import commands, meanwhile, opening
from tasuki.session.acp.chains import Chains, listed
from tasuki.session.acp.delivery import Delivery, trouble
from tasuki.session.acp.handover import Handover
from tasuki.session.acp.keeping import KeptThread
from tasuki.session.acp.replies import INTERNAL, Replies
from tasuki.session.acp.requests import Requests
from tasuki.session.acp.sessions import SETTINGS, Session, Sessions
from tasuki.session.acp.turn import Turn
from tasuki.session.acp.wire import (
    Id,
    Json,
    Message,
    encode,
    line,
    parse,
    with_first_block,
    with_session,
)  # fmt: skip

OPENERS = ("session/new", "session/load", "session/resume", "session/fork")
GONE = "This session was handed off; a new one has taken its place."


class Asked(Struct):
    """A request of the client that the agent has not answered."""

    method: str
    params: Json
    session: Session | None = None
    message: str = ""
    """The handoff's message that went out with it."""
    fresh: bool = False
    """The session was not known before it."""


class Proxy:
    """One connection. `to_client` and `to_agent` take whole lines."""

    def __init__(
        self,
        to_client: Callable[[bytes], None],
        to_agent: Callable[[bytes], None],
        chains: Chains,
        agent: str = "the agent",
    ) -> None:
        self.to_client, self.to_agent, self.chains, self.agent = to_client, to_agent, chains, agent
        self.replies = Replies(to_client)
        self.sessions = Sessions()
        self.capabilities: Json = {}
        self.turns: dict[str, Turn] = {}
        """Turns of ours, by the agent's session."""
        self.ended = ""
        """Why the agent does not answer any more."""
        self._asked: dict[Id, Asked] = {}
        self.ours = Requests(to_agent)
        self.delivery = Delivery(chains)
        self._opening = 0
        """Requests under way that open a session, the client's and ours."""
        self._held: dict[str, list[Message]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._kept_threads: set[KeptThread] = set()
        self._finishing: dict[str, asyncio.Task[None]] = {}

    # -- from the client -------------------------------------------------------------------

    def from_client(self, raw: bytes) -> None:
        """Take a line of the client."""
        message = parse(raw)
        if message is None or not message.method:
            self.to_agent(raw)
            return
        try:
            self.route(message)
        except Exception as error:  # what is not understood is passed on
            trouble(error)
            session = self.sessions.of_client(message.session)
            self.to_agent(with_session(message, session.agent) if session else raw)

    def route(self, message: Message) -> None:
        """Do what a message of the client asks for."""
        session = self.sessions.of_client(message.session) or self._kept(message.session)
        method = message.method
        if meanwhile.cancels(self, message, session) or (
            session and meanwhile.waits(self, message, session)
        ):
            return
        if method == "session/prompt" and session:
            self._prompt(message, session)
        elif method in OPENERS and message.is_request:
            self._open(message, session)
        elif session and method == "session/delete" and message.is_request:
            for agent in session.previous:
                self.ours.tell("session/delete", {"sessionId": agent})
            self.forward(message, session)
        else:
            self.forward(message, session)

    def forward(
        self,
        message: Message,
        session: Session | None,
        sent: Asked | None = None,
        raw: bytes = b"",
    ) -> None:
        """Pass a message on, under the agent's name of the session, or `raw` in its place."""
        if message.is_request:
            asked = sent or Asked(message.method, message.params, session)
            self._asked[message.id] = asked
            if self.ended:
                self._unanswered(message.id, asked)
                return
        self.to_agent(raw or (with_session(message, session.agent) if session else message.raw))

    def _prompt(self, message: Message, session: Session) -> None:
        prompt = message.params.get("prompt")
        text = commands.first_text(prompt)
        focus = commands.focus_of(text)
        if focus is not None and message.is_request:
            self._hand_over(message, session, focus)
            return
        self._keep(session)
        asked = Asked(message.method, message.params, session)
        if message.is_request:
            session.turns.add(message.id)
        held_back = session.sending or commands.is_command(text)
        if not session.message or held_back or not isinstance(prompt, list):
            session.conversation.ask(prompt)
            self.forward(message, session, asked)
            return
        asked.message = session.message
        session.conversation.hand_on(session.message)
        session.conversation.ask(prompt)
        self.delivery.begins(session)
        # Some agents put the blocks of a prompt together as they are.
        block = {"type": "text", "text": f"{session.message}\n\n"}
        self.forward(message, session, asked, with_first_block(message, session.agent, block))

    def _keep(self, session: Session) -> None:
        """Have a session kept as a thread from its first prompt on."""
        if session.kept is None:
            session.kept = KeptThread(
                session.agent, str(session.setup.get("cwd") or ""), session.conversation, loaded=session.loaded,
                parent=session.parent_thread, own=session.has_own_thread, after=self._finishing.pop(session.agent, None),
            )  # fmt: skip
            self._kept_threads.add(session.kept)

    def put_away(self, session: Session) -> None:
        """A session is out of use: its thread is whole."""
        if session.kept:
            self._kept_threads.discard(session.kept)
            session.kept.hear_no_more()
            self._finishing[session.agent] = self.start(session.kept.finish())
            session.kept = None

    async def finish_threads(self, seconds: float) -> None:
        """Write what is not written yet of the threads that are kept."""
        if tasks := {asyncio.ensure_future(kept.finish()) for kept in self._kept_threads}:
            await asyncio.wait(tasks, timeout=seconds)

    def _hand_over(self, message: Message, session: Session, focus: str) -> None:
        if session.turns:
            self.replies.refuse(session, message, meanwhile.BUSY)
            return
        session.handover = Handover(self, session, message, focus)
        self.start(session.handover.run())

    def release(self, session: Session) -> None:
        """A handover is over: do what waited for that."""
        session.handover = None
        waiting, session.waiting = session.waiting, []
        for message in waiting:
            self.from_client(message.raw)

    def _kept(self, client: str) -> Session | None:
        """A session that was handed off before the client opened it here."""
        chain = self.chains.get(client) if client else None
        return self.sessions.add(Session.restored(chain)) if chain else None

    def _open(self, message: Message, session: Session | None) -> None:
        """A request that opens a session. What is loaded is mapped before: its replay comes first."""
        asked = Asked(message.method, message.params, session)
        if message.method in ("session/load", "session/resume") and message.session:
            session = session or self.sessions.add(Session(message.session, message.session))
            asked.session, asked.fresh = session, not session.setup
            session.open, session.loaded = False, True
            self.put_away(session)  # it is told again
        self._opening += 1
        self.forward(message, session, asked)

    # -- from the agent --------------------------------------------------------------------

    def from_agent(self, raw: bytes) -> None:
        """Take a line of the agent."""
        message = parse(raw)
        if message is None:
            self.to_client(raw)
            return
        try:
            if not message.method:
                self._answered(message)
            elif message.session:
                self._told(message, message.session)
            else:
                self.to_client(raw)
        except Exception as error:  # what is not understood is passed on
            trouble(error)
            session = self.sessions.of_agent(message.session)
            self.to_client(with_session(message, session.client) if session else raw)

    def _told(self, message: Message, agent: str) -> None:
        """A request or a notification of the agent about one of its sessions."""
        if (turn := self.turns.get(agent)) and self._taken(message, turn):
            return
        session = self.sessions.of_agent(agent)
        if session:
            self._pass(message, session)
        elif self.sessions.is_retired(agent):
            self._answer_agent(message, {"error": {"code": INTERNAL, "message": GONE}})
        elif self._opening and not message.is_request:
            self._held.setdefault(agent, []).append(message)
        else:
            self.to_client(message.raw)

    def _taken(self, message: Message, turn: Turn) -> bool:
        """Whether a message belongs to a turn of ours alone."""
        if not message.is_request:
            return not turn.hear(message.update)
        refusal = turn.refuse(message)
        if refusal:
            self._answer_agent(message, refusal)
        return refusal is not None

    def _pass(self, message: Message, session: Session) -> None:
        update = message.update
        kind = update.get("sessionUpdate")
        if kind == "available_commands_update":
            session.commands = update.get("availableCommands") or []
            if session.open:
                self.replies.offer(session)
            return
        if kind == "current_mode_update":
            session.set("session/set_mode", {"modeId": update.get("currentModeId")})
        elif kind == "state_update":
            self._state(session, update)
        elif kind and message.session not in self.turns:
            session.conversation.tell(update)
        self.to_client(with_session(message, session.client))

    def _state(self, session: Session, update: Json) -> None:
        if update.get("state") == "idle":
            session.turns.clear()
            session.end_turn(str(update.get("stopReason") or "end_turn"))

    def _answer_agent(self, message: Message, answer: Json) -> None:
        if message.is_request:
            self.to_agent(line({"id": message.id, **answer}))

    def _answered(self, message: Message) -> None:
        """An answer of the agent: to us, or to the client."""
        id = message.id
        if self.ours.answered(message):
            return
        asked = self._asked.pop(id, None)
        if asked is None:
            self.to_client(message.raw)
        elif asked.method in OPENERS:
            self._opening -= 1
            opening.answered(self, message, asked)
            self.let_go()
        elif asked.method == "session/list" and not message.failed:
            self._listed(message)
        else:
            self._after(message, asked)
            self.to_client(message.raw)

    def _after(self, message: Message, asked: Asked) -> None:
        """What an answer means for what is known, before it goes to the client."""
        session = asked.session
        if asked.method.endswith("initialize") and not message.failed:
            self.started(message.result)
        elif session and asked.method == "session/prompt":
            self._prompted(message, asked, session)
        elif session and asked.method in SETTINGS and not message.failed:
            session.set(asked.method, asked.params)
        elif session and asked.method in meanwhile.ENDERS and not message.failed:
            self.sessions.remove(session)
            self.put_away(session)
            if asked.method == "session/delete":
                self.chains.drop(session.client)

    def started(self, result: Json) -> None:
        """The agent told its version and what it can."""
        version = result.get("protocolVersion")
        self.replies.version = version if isinstance(version, int) else 1
        told = result.get("agentCapabilities") or result.get("capabilities")
        self.capabilities = told if isinstance(told, dict) else {}

    def _prompted(self, message: Message, asked: Asked, session: Session) -> None:
        """A prompt was answered: in version 1 its turn is over, in version 2 it is accepted."""
        stop = str(message.result.get("stopReason") or "end_turn")
        if message.failed or self.replies.version < 2:
            session.turns.discard(message.id)
            session.end_turn("refusal" if message.failed else stop)
        if not asked.message or session.message != asked.message:
            return
        if message.failed or stop == "refusal":  # The agent does not keep such a prompt.
            self.delivery.failed(session, f"the prompt ended with {_why(message, stop)}")
        else:
            self.delivery.arrived(session)

    def _listed(self, message: Message) -> None:
        """A list of sessions shows one for each chain."""
        chains = list(self.chains.all())
        sessions = message.result.get("sessions")
        if not chains or not isinstance(sessions, list):
            self.to_client(message.raw)
            return
        shown = listed(sessions, chains)
        if shown == sessions:
            self.to_client(message.raw)
        else:
            body = {**message.body, "result": {**message.result, "sessions": shown}}
            self.to_client(encode(body) + b"\n")

    # -- sessions that are being opened ----------------------------------------------------

    def hold(self, more: int) -> None:
        """A request of ours opens a session, or has been answered."""
        self._opening += more
        self.let_go()

    def hear_no_more(self, agent: str, turn: Turn) -> None:
        """A turn of ours is over."""
        if self.turns.get(agent) is turn:
            del self.turns[agent]

    def let_go(self, agent: str = "") -> None:
        """Pass on what the agent told of a session before anybody knew of it; once no session is
        being opened, of all."""
        ready = [agent] if self._opening else list(self._held)
        for id in ready:
            for message in self._held.pop(id, []):
                self._told(message, id)

    def forget(self, agent: str) -> None:
        """An agent session that came to nothing: whatever it still tells is for nobody."""
        self.sessions.retire(agent)
        self._held.pop(agent, None)
        if self.can("close"):
            self.ours.tell("session/close", {"sessionId": agent})

    def can(self, what: str) -> bool:
        """Whether the agent offers a method of sessions, by its name."""
        if self.replies.version >= 2:
            told = self.capabilities.get("session")
            return isinstance(told, dict) and (what == "close" or told.get(what) is not None)
        told = self.capabilities.get("sessionCapabilities")
        return isinstance(told, dict) and told.get(what) is not None

    # -- the rest --------------------------------------------------------------------------

    def start(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Do something beside the routing."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def settled(self, seconds: float) -> None:
        """Wait until what was begun is over."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=seconds)

    def agent_ended(self, fate: str) -> None:
        """The agent is gone: answer everything that it will not answer any more."""
        self.ended = f"The agent {fate}. Start it again by opening a new session in your editor."
        self.ours.end(f"The agent {fate}.")
        for id, asked in list(self._asked.items()):
            self._unanswered(id, asked)
        for turn in list(self.turns.values()):
            turn.fail(AgentFailed(f"The agent {fate}."))

    def _unanswered(self, id: Id, asked: Asked) -> None:
        self._asked.pop(id, None)
        self.replies.error(id, f"{self.ended} It was asked for {asked.method}.")


def _why(message: Message, stop: str) -> str:
    return message.error[:200] or f"the stop reason {stop}"
