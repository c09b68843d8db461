"""Hooks past the framework: an agent waits for each, and the framework costs more than the event does.

Only what is as it should be takes the shortcut. Everything else goes the long way, which refuses
it, and describes the route: `hooks.py` has both.
"""

from collections.abc import Mapping
from typing import Any, cast

from litestar import Litestar
from litestar.enums import ScopeType
from litestar.types import (
    HTTPReceiveMessage,
    HTTPResponseBodyEvent,
    HTTPResponseStartEvent,
    HTTPScope,
    LifeSpanScope,
    Receive,
    Scope,
    Send,
)

from tasuki import harness as harnesses
from tasuki.web.auth import is_bearer
from tasuki.web.gate import HOOKS, Hosts
from tasuki.web.hooks import MOST_BYTES, taken_in

_DIGITS = len(str(MOST_BYTES))


class Application(Litestar):
    """The framework's application, with the shortcut before it. `hosts` are its own names."""

    hosts: Hosts

    async def __call__(self, scope: Scope | LifeSpanScope, receive: Any, send: Any) -> None:
        """Answer a request."""
        http = cast("HTTPScope", scope)
        if http["type"] == ScopeType.HTTP and (harness := self._harness_of(http)):
            await self._hook(harness, http, receive, send)
        else:
            await super().__call__(scope, receive, send)

    def _harness_of(self, scope: HTTPScope) -> str:
        """Whose hook this request is; empty where it must go the long way."""
        path = scope["path"]
        if not path.startswith(HOOKS) or scope["method"] != "POST":
            return ""
        headers = dict(scope["headers"])
        length = headers.get(b"content-length", b"")
        good = (
            length.isdigit()
            and len(length) <= _DIGITS
            and int(length) <= MOST_BYTES
            and b"transfer-encoding" not in headers
            and b"origin" not in headers
            and self.hosts.has(headers.get(b"host", b"").decode("latin-1"))
            and is_bearer(headers.get(b"authorization", b""), self.state.tokens.hook)
        )
        harness = path[len(HOOKS) :]
        return harness if good and harness in harnesses.names() else ""

    async def _hook(self, harness: str, scope: HTTPScope, receive: Receive, send: Send) -> None:
        body = b""
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return  # it went away
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        try:
            said, more = await taken_in(self.state, harness, scope["headers"], body)
        except Exception:
            await super().__call__(scope, _again(body, receive), send)  # which tells what is wrong
            return
        await _answer(send, said.encode("utf-8", "replace"), more)


def _again(body: bytes, receive: Receive) -> Receive:
    """The same body once more, then what comes behind it."""
    whole: HTTPReceiveMessage = {"type": "http.request", "body": body, "more_body": False}
    messages = [whole]

    async def received() -> HTTPReceiveMessage:
        return messages.pop() if messages else cast("HTTPReceiveMessage", await receive())

    return received


async def _answer(send: Send, body: bytes, more: Mapping[str, str]) -> None:
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", b"%d" % len(body)),
        *((name.lower().encode(), value.encode()) for name, value in more.items()),
    ]
    start: HTTPResponseStartEvent = {
        "type": "http.response.start", "status": 200, "headers": headers,
    }  # fmt: skip
    await send(start)
    whole: HTTPResponseBodyEvent = {
        "type": "http.response.body", "body": body, "more_body": False,
    }  # fmt: skip
    await send(whole)
