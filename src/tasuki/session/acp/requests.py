"""The proxy's own requests to the agent, and the turns that it runs in the agent's sessions."""

import asyncio
import secrets
from collections.abc import Callable

from tasuki.errors import AgentFailed, AuthorFailed
from tasuki.session.acp.conversation import AGENT_UPDATES, USER_UPDATES, collect_message
from tasuki.session.acp.wire import INTERNAL_ERROR, Id, Json, RpcMessage, encode_line

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
REFUSED_MESSAGE = "Refused: the session writes a handoff document, and nothing else meanwhile."


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
        """Fail the turn: it will not end by itself any more."""
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
            self._note_call(str(update.get("toolCallId") or ""))
        elif kind == "state_update":
            self._apply_state(update)
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

    def _note_call(self, id: str) -> None:
        if id not in self._calls:
            self._calls.add(id)
            self._texts.clear()

    def _apply_state(self, update: Json) -> None:
        state = update.get("state")
        if state == "running":
            self._has_begun = True
        elif state == "idle" and self._has_begun and not self.stop_reason.done():
            self.stop_reason.set_result(str(update.get("stopReason") or "end_turn"))


def _build_refusal(options: object) -> Json:
    for option in options if isinstance(options, list) else ():
        if isinstance(option, dict) and option.get("kind") == "reject_once":
            return {"outcome": "selected", "optionId": option.get("optionId")}
    return {"outcome": "cancelled"}
