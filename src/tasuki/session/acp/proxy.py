"""Routes between a client and an agent: messages for `/handoff` are taken out, all else passes.

A line passes unchanged; only a session id that represents another one is replaced in it.
Ids of requests stay the client's and the agent's own. The proxy's own requests have ids
`tasuki:N`.
"""

import sys

from msgspec import Struct
from msgspec.structs import astuple

from tasuki.errors import AgentFailed
from tasuki.session.acp.connection import AcpConnection
from tasuki.session.acp.handoff import AcpHandoff
from tasuki.session.acp.sessions import (
    SETTING_METHODS,
    AcpSession,
    build_setup,
    merge_chains,
)
from tasuki.session.acp.wire import (
    INVALID_REQUEST,
    REQUEST_CANCELLED,
    Id,
    Json,
    RpcMessage,
    encode,
    encode_line,
    find_first_text,
    insert_block,
    is_command,
    parse_focus,
    parse_message,
    print_problem,
    read_head,
    replace_session,
)
from tasuki.text_safety import cut_text

OPENING_METHODS = ("session/new", "session/load", "session/resume", "session/fork")
ENDING_METHODS = ("session/close", "session/delete")
BUSY_MESSAGE = "Handoff not started: a turn is still running. Wait until it ends, or cancel it."
UNDER_WAY_MESSAGE = "Handoff not started: another one is in progress."


class ClientRequest(Struct):
    """A request of the client that the agent has not answered."""

    method: str
    params: Json
    session: AcpSession | None = None
    message: str = ""
    """The handoff's message that went out with it."""
    fresh: bool = False
    """The session was not known before the request."""


class AcpProxy:
    """The routing of one connection."""

    def __init__(self, connection: AcpConnection) -> None:
        self.connection, self.chains = connection, connection.chains
        self.to_client, self.to_agent = connection.to_client, connection.to_agent
        self.replies, self.sessions = connection.replies, connection.sessions
        self.end_reason = ""
        """Why the agent does not answer any more."""
        self._client_requests: dict[Id, ClientRequest] = {}
        self._handoffs: dict[AcpSession, AcpHandoff] = {}
        """The handoffs under way."""

    def reject_oversized(self, raw: bytes, *, is_from_client: bool, limit: int) -> None:
        """Reject a dropped line, of which `raw` is the beginning: it is longer than `limit` bytes.

        Whoever waits for it gets an error: a request is refused, an answer becomes an error.
        """
        id, method = read_head(raw)
        side = "client" if is_from_client else "agent"
        size = f"{limit >> 20} MB" if limit >= 1 << 20 else f"{limit} bytes"
        problem = (
            f"A message of the {side} ({method or 'an answer'}) is longer than {size} and was not "
            "passed on."
        )
        print(f"tasuki acp: {problem}", file=sys.stderr, flush=True)
        if id is None:
            return
        error = encode_line({"id": id, "error": {"code": INVALID_REQUEST, "message": problem}})
        if not is_from_client and not method:
            self.take_from_agent(error)
        elif is_from_client and method:
            self.to_client(error)
        else:
            self.to_agent(error)

    # -- from the client -------------------------------------------------------------------

    def take_from_client(self, raw: bytes) -> None:
        """Take a line of the client."""
        message = parse_message(raw)
        if message is None or not message.method:
            self.to_agent(raw)
            return
        try:
            self.route(message)
        # What is not understood is passed on.
        except Exception as error:
            print_problem(error)
            session = self.sessions.by_client.get(message.session)
            self.to_agent(replace_session(message, session.agent) if session else raw)

    def route(self, message: RpcMessage) -> None:
        """Do what a message of the client asks for."""
        session = self.sessions.by_client.get(message.session)
        if not session and message.session and (chain := self.chains.load_chain(message.session)):
            # It was handed off before the client opened it here.
            session = self.sessions.add_session(AcpSession(*astuple(chain)))
        if self._handle_cancellation(message, session) or (
            session and self.queue_during_handoff(message, session)
        ):
            return
        if message.method == "session/prompt" and session:
            self._handle_prompt(message, session)
        elif message.method in OPENING_METHODS and message.is_request:
            self._open_session(message, session)
        else:
            if session and message.method == "session/delete" and message.is_request:
                for agent in session.previous:
                    self.connection.requests.send_and_forget(message.method, {"sessionId": agent})
            self.forward(message, session)

    def forward(
        self,
        message: RpcMessage,
        session: AcpSession | None,
        request: ClientRequest | None = None,
        raw: bytes = b"",
    ) -> None:
        """Pass a message on, under the agent's id of the session, or `raw` in its place."""
        if message.is_request:
            pending = request or ClientRequest(message.method, message.params, session)
            self._client_requests[message.id] = pending
            if self.end_reason:
                self._answer_ended(message.id, pending)
                return
        self.to_agent(raw or (replace_session(message, session.agent) if session else message.raw))

    def _handle_prompt(self, message: RpcMessage, session: AcpSession) -> None:
        prompt = message.params.get("prompt")
        text = find_first_text(prompt)
        focus = parse_focus(text)
        if focus is not None and message.is_request:
            self._begin_handoff(message, session, focus)
            return
        self.connection.record_session(session)
        request = ClientRequest(message.method, message.params, session)
        if message.is_request:
            session.turns.add(message.id)
        is_held_back = session.sending or is_command(text)
        if not session.message or is_held_back or not isinstance(prompt, list):
            session.conversation.record_prompt(prompt)
            self.forward(message, session, request)
            return
        request.message = session.message
        session.conversation.record_handoff(session.message)
        session.conversation.record_prompt(prompt)
        self.connection.delivery.note_sending(session)
        # Some agents put the blocks of a prompt together as they are.
        block = {"type": "text", "text": f"{session.message}\n\n"}
        self.forward(message, session, request, insert_block(message, session.agent, block))

    def _open_session(self, message: RpcMessage, session: AcpSession | None) -> None:
        """Pass on a request that opens a session.

        A loaded session is mapped first, because its replay comes before the answer.
        """
        request = ClientRequest(message.method, message.params, session)
        if message.method in ("session/load", "session/resume") and message.session:
            session = session or self.sessions.add_session(
                AcpSession(message.session, message.session)
            )
            request.session, request.fresh = session, not session.setup
            session.is_open, session.is_loaded = False, True
            # It is replayed.
            self.connection.close_thread(session)
        self.connection.opening += 1
        self.forward(message, session, request)

    # -- during a handoff ------------------------------------------------------------------

    def _begin_handoff(self, message: RpcMessage, session: AcpSession, focus: str) -> None:
        if session.turns:
            self.replies.refuse_prompt(session, message, BUSY_MESSAGE)
            return
        handoff = AcpHandoff(self.connection, session, message, focus, self._on_handoff_ended)
        self._handoffs[session] = handoff
        self.connection.start_task(handoff.run())

    def _on_handoff_ended(self, session: AcpSession) -> None:
        """Handle the messages that waited for the end of a handoff."""
        del self._handoffs[session]
        waiting, session.waiting = session.waiting, []
        for message in waiting:
            self.take_from_client(message.raw)

    def queue_during_handoff(self, message: RpcMessage, session: AcpSession) -> bool:
        """Queue a message until the end of the handoff, or refuse it; return whether either is done.

        Prompts wait, and once the new session opens everything that could change the old one. A
        message that ends the session ends the handoff first.
        """
        active = self._handoffs.get(session)
        if not active:
            return False
        is_prompt, is_end = message.method == "session/prompt", message.method in ENDING_METHODS
        if is_prompt and parse_focus(find_first_text(message.params.get("prompt"))) is not None:
            self.replies.refuse_prompt(session, message, UNDER_WAY_MESSAGE)
            return True
        if is_end:
            active.cancel()
        if is_end or is_prompt or active.switching:
            session.waiting.append(message)
            return True
        return False

    def _handle_cancellation(self, message: RpcMessage, session: AcpSession | None) -> bool:
        """Cancel what the proxy does itself, if a message asks for that; return whether it did."""
        active = self._handoffs.get(session) if session else None
        if message.method == "session/cancel" and active:
            active.cancel()
            if message.is_request:
                self.replies.send_result(message.id, {})
            return True
        if message.method == "$/cancel_request":
            request_id = message.params.get("requestId")
            return any(
                self._cancel_request(one, request_id) for one in self.sessions.by_client.values()
            )
        return False

    def _cancel_request(self, session: AcpSession, request_id: Id) -> bool:
        """Cancel a request that was a session's `/handoff`, or waited for its end.

        Return whether it was one of these.
        """
        active = self._handoffs.get(session)
        if active and active.prompt.id == request_id:
            active.cancel()
            return True
        for waiting in session.waiting:
            if waiting.is_request and waiting.id == request_id:
                session.waiting.remove(waiting)
                self.replies.send_error(
                    waiting.id, "Cancelled before it was sent.", REQUEST_CANCELLED
                )
                return True
        return False

    # -- from the agent --------------------------------------------------------------------

    def take_from_agent(self, raw: bytes) -> None:
        """Take a line of the agent."""
        message = parse_message(raw)
        if message is None:
            self.to_client(raw)
            return
        try:
            if not message.method:
                self._handle_answer(message)
            elif message.session:
                self.connection.take_agent_message(message, message.session)
            else:
                self.to_client(raw)
        # What is not understood is passed on.
        except Exception as error:
            print_problem(error)
            session = self.sessions.by_agent.get(message.session)
            self.to_client(replace_session(message, session.client) if session else raw)

    def _handle_answer(self, answer: RpcMessage) -> None:
        """Handle an answer of the agent: to the proxy, or to the client."""
        if self.connection.requests.resolve_answer(answer):
            return
        request = self._client_requests.pop(answer.id, None)
        if request is None:
            self.to_client(answer.raw)
        elif request.method in OPENING_METHODS:
            self.connection.opening -= 1
            self.on_session_opened(answer, request)
            self.connection.release_held()
        elif request.method == "session/list" and not answer.failed:
            self._answer_list(answer)
        else:
            self._apply_answer(answer, request)
            self.to_client(answer.raw)

    def _apply_answer(self, answer: RpcMessage, request: ClientRequest) -> None:
        """Apply an answer to the known state, before it goes to the client."""
        session, method = request.session, request.method
        if session and method == "session/prompt":
            self._handle_prompt_answer(answer, request, session)
        elif answer.failed:
            return
        elif method.endswith("initialize"):
            self.connection.on_initialized(answer.result)
        elif session and method in SETTING_METHODS:
            session.remember_setting(method, request.params)
        elif session and method in ENDING_METHODS:
            self.sessions.remove_session(session)
            self.connection.close_thread(session)
            if method == "session/delete":
                self.chains.delete_chain(session.client)

    def _handle_prompt_answer(
        self, answer: RpcMessage, request: ClientRequest, session: AcpSession
    ) -> None:
        """Handle the answer to a prompt.

        In version 1 its turn is over, in version 2 it is accepted.
        """
        stop = str(answer.result.get("stopReason") or "end_turn")
        if answer.failed or self.replies.version < 2:
            session.turns.discard(answer.id)
            session.end_turn("refusal" if answer.failed else stop)
        if not request.message or session.message != request.message:
            return
        # The agent does not keep a prompt that failed.
        if answer.failed or stop == "refusal":
            reason = cut_text(answer.error, 200) or f"the stop reason {stop}"
            self.connection.delivery.note_failure(session, f"the prompt ended with {reason}")
        else:
            self.connection.delivery.settle(session, "delivered")

    def _answer_list(self, answer: RpcMessage) -> None:
        """Answer a list of sessions with one entry for each chain."""
        chains = list(self.chains.list_chains())
        sessions = answer.result.get("sessions")
        merged = merge_chains(sessions, chains) if isinstance(sessions, list) else sessions
        if merged == sessions:
            self.to_client(answer.raw)
        else:
            body = {**answer.body, "result": {**answer.result, "sessions": merged}}
            self.to_client(encode(body) + b"\n")

    # -- the opening of a session ----------------------------------------------------------

    def on_session_opened(self, answer: RpcMessage, request: ClientRequest) -> None:
        """Handle the agent's answer to a request that opens a session."""
        session = request.session
        if answer.failed:
            self._handle_opening_failure(answer, request)
        elif request.method in ("session/new", "session/fork"):
            self._add_opened(answer, request)
        else:
            assert session
            session.setup = build_setup(request.method, request.params, session.setup)
            has_id = "sessionId" in answer.result
            raw = replace_session(answer, session.client, "result") if has_id else answer.raw
            self.connection.show_session(session, raw)

    def _handle_opening_failure(self, answer: RpcMessage, request: ClientRequest) -> None:
        session = request.session
        if request.fresh and session and session.message and not session.sending:
            self.connection.start_task(self._open_again(answer, request, session))
            return
        if request.fresh and session:
            self.sessions.remove_session(session)
        elif session:
            session.is_open = True
        self.to_client(answer.raw)

    async def _open_again(
        self, failure: RpcMessage, request: ClientRequest, session: AcpSession
    ) -> None:
        """Open another session where the newest cannot be loaded: it has had no prompt yet.

        Agents write a session down with its first prompt; the message that it should begin with
        is kept here.
        """
        setup = build_setup(request.method, request.params, session.setup)
        self.connection.opening += 1
        try:
            answer = await self.connection.requests.send_request("session/new", setup)
        except AgentFailed:
            answer = failure
        finally:
            self.connection.end_opening()
        agent = answer.opened_session
        if agent is None:
            self.sessions.remove_session(session)
            self.to_client(failure.raw)
            return
        session.setup = setup
        self.sessions.switch_agent(session, agent)
        self.connection.delivery.save_chain(session)
        result: Json = {k: v for k, v in answer.result.items() if k != "sessionId"}
        self.connection.show_session(session, encode_line({"id": failure.id, "result": result}))

    def _add_opened(self, answer: RpcMessage, request: ClientRequest) -> None:
        """Add a new session, or a fork.

        A fork has the history of its origin, and begins with its undelivered message.
        """
        agent = answer.opened_session
        origin = request.session if request.method == "session/fork" else None
        if agent is None:
            self.to_client(answer.raw)
            return
        session = self.sessions.add_session(AcpSession(agent, agent))
        session.setup = build_setup(request.method, request.params, origin.setup if origin else {})
        if origin:
            session.settings = dict(origin.settings)
            session.conversation = origin.conversation.copy()
            if origin.message and not origin.sending:
                session.message, session.handoff_id = origin.message, origin.handoff_id
                self.connection.delivery.save_chain(session)
        self.connection.show_session(session, answer.raw)

    # -- the end of the agent --------------------------------------------------------------

    def on_agent_ended(self, outcome: str) -> None:
        """Answer everything that the agent will no longer answer: it ended."""
        self.end_reason = (
            f"The agent {outcome}. Start it again by opening a new session in your editor."
        )
        self.connection.requests.fail_all(f"The agent {outcome}.")
        for id, request in list(self._client_requests.items()):
            self._answer_ended(id, request)
        for turn in list(self.connection.own_turns.values()):
            turn.fail(AgentFailed(f"The agent {outcome}."))

    def _answer_ended(self, id: Id, request: ClientRequest) -> None:
        self._client_requests.pop(id, None)
        self.replies.send_error(id, f"{self.end_reason} The request was {request.method}.")
