"""One connection: its sessions, what the agent says, and the proxy's own requests and messages.

    wire ← conversation, recorder ← sessions ← connection ← handoff ← proxy ← serve

The proxy decides where a message goes, a handoff replaces one agent session by another; both
use what is here.
"""

import asyncio
import secrets
import uuid
from collections.abc import Callable, Coroutine

from tasuki.errors import AgentFailed, AuthorFailed
from tasuki.session.acp.conversation import AGENT_UPDATES, USER_UPDATES, collect_message
from tasuki.session.acp.recorder import RecordedThread
from tasuki.session.acp.sessions import AcpSession, AcpSessions, ChainStore, MessageDelivery
from tasuki.session.acp.wire import (
    INTERNAL_ERROR,
    Id,
    Json,
    RpcMessage,
    add_handoff_command,
    encode_line,
    get_object,
    replace_session,
)

ID_PREFIX = f"tasuki:{secrets.token_hex(4)}:"
"""Prefix of their ids; random, because another proxy may be on either side."""


class AgentRequests:
    """The requests under way, by their ids."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self.send = send
        self.end_reason = ""
        """Why there will be no more answers."""
        self._waiting: dict[Id, asyncio.Future[RpcMessage]] = {}
        self._number = 0

    def send_request(self, method: str, params: Json) -> "asyncio.Future[RpcMessage]":
        """Send a request and return its answer. It fails with AgentFailed where the agent ended."""
        answer: asyncio.Future[RpcMessage] = asyncio.get_running_loop().create_future()
        if self.end_reason:
            answer.set_exception(AgentFailed(self.end_reason))
            return answer
        self._number += 1
        id = f"{ID_PREFIX}{self._number}"
        self._waiting[id] = answer
        self.send(encode_line({"id": id, "method": method, "params": params}))
        return answer

    def send_and_forget(self, method: str, params: Json) -> None:
        """Send a request whose answer does not matter."""
        self.send_request(method, params).add_done_callback(
            lambda done: done.cancelled() or done.exception()
        )

    def send_notification(self, method: str, params: Json) -> None:
        """Send a notification."""
        if not self.end_reason:
            self.send(encode_line({"method": method, "params": params}))

    def resolve_answer(self, message: RpcMessage) -> bool:
        """Resolve the request that a message answers; return whether there was one."""
        answer = self._waiting.pop(message.id, None)
        if answer and not answer.done():
            answer.set_result(message)
        return answer is not None

    def fail_all(self, why: str) -> None:
        """Fail all requests: the agent will not answer any more."""
        self.end_reason = why
        waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(AgentFailed(why))


_REFUSED_METHODS = ("fs/write_text_file", "terminal/")
REFUSED_MESSAGE = "Refused: the session is writing a handoff document and does nothing else."


class AcpTurn:
    """One question of the proxy.

    Version 1 ends it with the answer, version 2 when the session is idle.

    The text is that of the agent's messages after its last tool call: earlier ones are talk.
    Gemini CLI reports a refused call only by the question for permission.
    """

    def __init__(self, version: int) -> None:
        self.version = version
        self.stop_reason: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """The reason why the turn stopped."""
        self.stop_reason.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._has_begun = False
        self._texts: dict[str, list[str]] = {}
        self._calls: set[str] = set()

    def on_answer(self, answer: "asyncio.Future[RpcMessage]") -> None:
        """Handle the agent's answer to the question itself."""
        if self.stop_reason.done() or answer.cancelled():
            return
        if error := answer.exception():
            self.stop_reason.set_exception(error)
            return
        message = answer.result()
        if message.failed:
            details = message.body.get("error")
            text = details.get("message") if isinstance(details, dict) else details
            self.stop_reason.set_exception(
                AuthorFailed(f"The agent answered with an error: {text}.")
            )
        elif self.version >= 2:
            self._has_begun = True  # The next idle is its end.
        else:
            self.stop_reason.set_result(str(message.result.get("stopReason") or "end_turn"))

    def fail(self, error: Exception) -> None:
        """Fail the turn: it will not end any more."""
        if not self.stop_reason.done():
            self.stop_reason.set_exception(error)

    @property
    def text(self) -> str:
        return "\n\n".join(filter(None, ("".join(parts) for parts in self._texts.values())))

    def take_update(self, update: Json) -> bool:
        """Take an update; return whether the client should see it too."""
        kind = update.get("sessionUpdate")
        if kind in AGENT_UPDATES:
            collect_message(self._texts, update)
        elif kind in ("tool_call", "tool_call_update"):
            if (id := str(update.get("toolCallId") or "")) not in self._calls:
                self._calls.add(id)
                self._texts.clear()
        elif kind == "state_update":
            state = update.get("state")
            if state == "idle" and self._has_begun and not self.stop_reason.done():
                self.stop_reason.set_result(str(update.get("stopReason") or "end_turn"))
            self._has_begun = self._has_begun or state == "running"
        return kind not in USER_UPDATES and kind != "state_update"

    def refuse_request(self, request: RpcMessage) -> Json | None:
        """Build the answer that refuses the agent's request; None for what it may have.

        A tool is refused this once. The proxy must not choose an option that would refuse it for
        good.
        """
        if request.method == "session/request_permission":
            answer: Json = {"result": {"outcome": _build_refusal(request.params.get("options"))}}
        elif request.method.startswith(_REFUSED_METHODS):
            answer = {"error": {"code": INTERNAL_ERROR, "message": REFUSED_MESSAGE}}
        else:
            return None
        self._texts.clear()
        return answer


def _build_refusal(options: object) -> Json:
    for option in options if isinstance(options, list) else ():
        if isinstance(option, dict) and option.get("kind") == "reject_once":
            return {"outcome": "selected", "optionId": option.get("optionId")}
    return {"outcome": "cancelled"}


AGENT_ENDED = "_agent_ended"
"""tasuki's own stop reason in version 2; the draft leaves such names to implementations."""
GONE_MESSAGE = "This session was handed off; a new one has taken its place."
UNCERTAIN_MESSAGE = (
    "The last handoff may not have reached this session. It is not sent again; if the agent does "
    "not have it, paste it: tasuki show {} --brief"
)
RECOGNIZED_CHARACTERS = 200
"""Characters by which a message is recognized."""


class ClientReplies:
    """Writes to the client.

    In version 1 the answer ends a turn; in version 2 it acknowledges the prompt, and an idle
    state ends the turn.
    """

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self.send = send
        self.version = 1

    def send_update(self, session: AcpSession, kind: str, **fields: object) -> None:
        """Send one `session/update`."""
        params = {"sessionId": session.client, "update": {"sessionUpdate": kind, **fields}}
        self.send(encode_line({"method": "session/update", "params": params}))

    def send_text(self, session: AcpSession, text: str) -> None:
        """Send a text as a separate message."""
        content = {"type": "text", "text": text}
        self.send_update(
            session, "agent_message_chunk", messageId=str(uuid.uuid4()), content=content
        )

    def offer_commands(self, session: AcpSession) -> None:
        """Send the list of commands, including `/handoff`."""
        commands = add_handoff_command(session.commands, self.version)
        self.send_update(session, "available_commands_update", availableCommands=commands)

    def send_result(self, id: Id, result: Json) -> None:
        self.send(encode_line({"id": id, "result": result}))

    def send_error(self, id: Id, text: str, code: int = INTERNAL_ERROR) -> None:
        self.send(encode_line({"id": id, "error": {"code": code, "message": text}}))

    def begin_prompt(self, session: AcpSession, prompt: RpcMessage) -> None:
        """Accept a prompt."""
        if self.version >= 2:
            self.send_result(prompt.id, {})
            content = prompt.params.get("prompt")
            self.send_update(session, "user_message", messageId=str(uuid.uuid4()), content=content)
            self.send_update(session, "state_update", state="running")

    def end_prompt(self, session: AcpSession, prompt: RpcMessage, stop: str, meta: Json) -> None:
        """End the turn of a prompt."""
        outcome = {"stopReason": stop, "_meta": {"tasuki": meta}}
        if self.version >= 2:
            self.send_update(session, "state_update", state="idle", **outcome)
        else:
            self.send_result(prompt.id, outcome)

    def fail_prompt(self, session: AcpSession, prompt: RpcMessage, text: str) -> None:
        """End the turn of a prompt with an error."""
        if self.version >= 2:
            self.send_update(session, "state_update", state="idle", stopReason=AGENT_ENDED)
        else:
            self.send_error(prompt.id, text)

    def refuse_prompt(self, session: AcpSession, prompt: RpcMessage, text: str) -> None:
        """Answer a prompt with a message only, while another turn goes on."""
        if self.version >= 2:
            self.send_result(prompt.id, {})
            self.send_text(session, text)
        else:
            self.send_text(session, text)
            self.send_result(prompt.id, {"stopReason": "end_turn"})


class AcpConnection:
    """The state of one connection. `to_client` and `to_agent` take whole lines."""

    def __init__(
        self,
        to_client: Callable[[bytes], None],
        to_agent: Callable[[bytes], None],
        chains: ChainStore,
    ) -> None:
        self.to_client, self.to_agent, self.chains = to_client, to_agent, chains
        self.replies = ClientReplies(to_client)
        self.requests = AgentRequests(to_agent)
        self.sessions = AcpSessions()
        self.delivery = MessageDelivery(chains)
        self.capabilities: Json = {}
        self.own_turns: dict[str, AcpTurn] = {}
        """Turns of the proxy itself, by the agent's session."""
        self.opening = 0
        """Requests under way that open a session, the client's and the proxy's."""
        self._held_messages: dict[str, list[RpcMessage]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._recorded_threads: set[RecordedThread] = set()
        self._finishing: dict[str, asyncio.Task[None]] = {}

    def on_initialized(self, result: Json) -> None:
        """Store the agent's version and capabilities."""
        version = result.get("protocolVersion")
        self.replies.version = version if isinstance(version, int) else 1
        capabilities = get_object(result, "agentCapabilities")
        self.capabilities = capabilities or get_object(result, "capabilities")

    def supports(self, method: str) -> bool:
        """Whether the agent offers a method of sessions, by its name."""
        if self.replies.version >= 2:
            capabilities = self.capabilities.get("session")
            return isinstance(capabilities, dict) and (
                method == "close" or capabilities.get(method) is not None
            )
        return get_object(self.capabilities, "sessionCapabilities").get(method) is not None

    # -- messages of the agent about its sessions ------------------------------------------

    def take_agent_message(self, message: RpcMessage, agent: str) -> None:
        """Take a request or a notification of the agent about one of its sessions."""
        if turn := self.own_turns.get(agent):
            refusal = turn.refuse_request(message) if message.is_request else None
            if refusal:
                self._answer_agent(message, refusal)
            if refusal or not (message.is_request or turn.take_update(message.update)):
                return
        session = self.sessions.by_agent.get(agent)
        if session:
            self._pass_update(message, session)
        elif agent in self.sessions.retired:
            self._answer_agent(
                message, {"error": {"code": INTERNAL_ERROR, "message": GONE_MESSAGE}}
            )
        elif self.opening and not message.is_request:
            self._held_messages.setdefault(agent, []).append(message)
        else:
            self.to_client(message.raw)

    def _pass_update(self, message: RpcMessage, session: AcpSession) -> None:
        update = message.update
        kind = update.get("sessionUpdate")
        if kind == "available_commands_update":
            session.commands = update.get("availableCommands") or []
            if session.is_open:
                self.replies.offer_commands(session)
            return
        if kind == "current_mode_update":
            session.remember_setting("session/set_mode", {"modeId": update.get("currentModeId")})
        elif kind == "state_update":
            if update.get("state") == "idle":
                session.turns.clear()
                session.end_turn(str(update.get("stopReason") or "end_turn"))
        elif kind and message.session not in self.own_turns:
            session.conversation.record_update(update)
        self.to_client(replace_session(message, session.client))

    def _answer_agent(self, message: RpcMessage, answer: Json) -> None:
        if message.is_request:
            self.to_agent(encode_line({"id": message.id, **answer}))

    def end_own_turn(self, agent: str, turn: AcpTurn) -> None:
        """End a turn of the proxy itself."""
        if self.own_turns.get(agent) is turn:
            del self.own_turns[agent]

    # -- sessions that are being opened ----------------------------------------------------

    def end_opening(self) -> None:
        """Note the end of a request of the proxy that opened a session."""
        self.opening -= 1
        self.release_held()

    def release_held(self, agent: str = "") -> None:
        """Pass on the agent's messages about a session that came before it was known.

        Once no session is being opened, pass on those of all sessions.
        """
        ready = [agent] if self.opening else list(self._held_messages)
        for id in ready:
            for message in self._held_messages.pop(id, []):
                self.take_agent_message(message, id)

    def show_session(self, session: AcpSession, answer: bytes) -> None:
        """Give the client the answer, then the agent's updates of the session, then the commands.

        A message that was being sent when the proxy ended may have arrived: the replay shows it,
        or it stays unknown.
        """
        self.to_client(answer)
        self.release_held(session.agent)
        session.is_open = True
        self.replies.offer_commands(session)
        if not session.sending:
            return
        if session.message[:RECOGNIZED_CHARACTERS] in session.conversation.collect_user_text():
            self.delivery.settle(session, "delivered")
        else:
            self.replies.send_text(session, UNCERTAIN_MESSAGE.format(session.handoff_id[:8]))
            self.delivery.settle(session, "uncertain")

    def forget_session(self, agent: str) -> None:
        """Forget an agent session that came to nothing: its later messages are dropped."""
        self.sessions.retire_agent(agent)
        self._held_messages.pop(agent, None)
        if self.supports("close"):
            self.requests.send_and_forget("session/close", {"sessionId": agent})

    # -- recorded threads, and other tasks -------------------------------------------------

    def record_session(self, session: AcpSession) -> None:
        """Record a session as a thread from its first prompt on."""
        if session.recorded_thread is None:
            session.recorded_thread = RecordedThread(
                session.agent,
                str(session.setup.get("cwd") or ""),
                session.conversation,
                loaded=session.is_loaded,
                parent=session.parent_thread,
                has_own_thread=session.has_own_thread,
                previous_task=self._finishing.pop(session.agent, None),
            )
            self._recorded_threads.add(session.recorded_thread)

    def close_thread(self, session: AcpSession) -> None:
        """Close the thread of a session that is out of use."""
        if session.recorded_thread:
            self._recorded_threads.discard(session.recorded_thread)
            session.recorded_thread.stop_listening()
            self._finishing[session.agent] = self.start_task(session.recorded_thread.finish())
            session.recorded_thread = None

    async def finish_threads(self, seconds: float) -> None:
        """Write what is not written yet of the recorded threads."""
        if tasks := {asyncio.ensure_future(thread.finish()) for thread in self._recorded_threads}:
            await asyncio.wait(tasks, timeout=seconds)

    def start_task(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Run a coroutine in a task, apart from the routing."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def await_tasks(self, seconds: float) -> None:
        """Wait until the started tasks are over."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=seconds)
