"""Requests that the proxy itself sends to the agent."""

import asyncio
import secrets
from collections.abc import Callable

from tasuki.errors import AgentFailed
from tasuki.session.acp.wire import Id, Json, Message, line

OWN = f"tasuki:{secrets.token_hex(4)}:"
"""What their ids begin with; another proxy may stand on either side."""


class Requests:
    """Those under way, by their ids."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self.send = send
        self.ended = ""
        """Why there will be no more answers."""
        self._waiting: dict[Id, asyncio.Future[Message]] = {}
        self._number = 0

    def ask(self, method: str, params: Json) -> "asyncio.Future[Message]":
        """Ask the agent something; its answer. Fails with AgentFailed where the agent ended."""
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        if self.ended:
            answer.set_exception(AgentFailed(self.ended))
            return answer
        self._number += 1
        id = f"{OWN}{self._number}"
        self._waiting[id] = answer
        self.send(line({"id": id, "method": method, "params": params}))
        return answer

    def tell(self, method: str, params: Json) -> None:
        """Ask the agent something whose answer does not matter."""
        self.ask(method, params).add_done_callback(
            lambda done: done.cancelled() or done.exception()
        )

    def notify(self, method: str, params: Json) -> None:
        """Send a notification."""
        if not self.ended:
            self.send(line({"method": method, "params": params}))

    def answered(self, message: Message) -> bool:
        """Whether an answer is to one of them."""
        answer = self._waiting.pop(message.id, None)
        if answer and not answer.done():
            answer.set_result(message)
        return answer is not None

    def end(self, why: str) -> None:
        """The agent will not answer any more."""
        self.ended = why
        waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(AgentFailed(why))
