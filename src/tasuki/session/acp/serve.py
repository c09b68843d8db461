"""The proxy as a process: its two ends, how long it lives, and its exit code.

It runs between a client and an agent, or under a conductor of a proxy chain: client and agent
on one pair of streams. There messages from and to the agent are wrapped:
`proxy/successor {method, params}`, a request where the envelope has an id. The conductor of the
Rust SDK 2 writes `_proxy/…`, the draft of the protocol `proxy/…`; its first message shows which.
Source: RFD "Agent extensions via ACP proxies".
"""

import asyncio
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from tasuki.session.acp.connection import AcpConnection
from tasuki.session.acp.process import (
    GRACE_SECONDS,
    HASTE_SECONDS,
    ClientPipe,
    ProxiedAgent,
    pump,
)
from tasuki.session.acp.proxy import AcpProxy
from tasuki.session.acp.sessions import ChainStore
from tasuki.session.acp.wire import (
    INVALID_REQUEST,
    MOST_LINE_BYTES,
    Id,
    Json,
    LineSplitter,
    RpcMessage,
    encode,
    encode_line,
    find_value,
    get_object,
    parse_message,
    read_head,
)
from tasuki.session.futures import wait_for_first

AGENT_ID_PREFIX = "tasuki:agent:"
"""Prefix of the agent's request ids towards the client: both sides' ids share one pipe."""
NO_AGENT_MESSAGE = (
    "tasuki acp was started without a command, so it waits for a conductor (proxy/initialize), but this "
    "client talks to it as if it were an agent. Give the agent's command: tasuki acp -- gemini --acp"
)


class AcpConductor:
    """Separates the two neighbours of a proxy."""

    def __init__(self, send: Callable[[bytes], None], limit: int = MOST_LINE_BYTES) -> None:
        self.send, self.limit = send, limit
        self.envelope = ""
        """Method of the wrapped messages, once it is known."""
        self.proxy = AcpProxy(AcpConnection(send, self._send_to_agent, ChainStore(())))
        self._open_requests: set[Id] = set()
        """Requests that went to the agent and are not answered."""

    def take_line(self, raw: bytes) -> None:
        """Take a line of the conductor."""
        message = parse_message(raw)
        if message is None:
            print("tasuki acp: skipped a line that is not a JSON object", file=sys.stderr)
        elif not self.envelope:
            self._detect_envelope(message)
        elif message.method == self.envelope:
            self._take_from_agent(message)
        elif message.method:
            self.proxy.take_from_client(raw)
        else:
            self._pass_answer(message)

    def reject_oversized(self, raw: bytes) -> None:
        """Reject a line that is too long.

        It belongs to the client, unless it is wrapped or answers a request of this proxy.
        """
        id, method = read_head(raw)
        if method and method == self.envelope:
            if id is not None:
                text = "The message is too long to pass on."
                error = {"code": INVALID_REQUEST, "message": text}
                self.send(encode_line({"id": id, "error": error}))
        else:
            is_from_client = bool(method) or id not in self._open_requests
            self.proxy.reject_oversized(raw, is_from_client=is_from_client, limit=self.limit)

    def _detect_envelope(self, message: RpcMessage) -> None:
        name, _, step = message.method.rpartition("/")
        if name in ("proxy", "_proxy") and step == "initialize":
            self.envelope = f"{name}/successor"
            place = find_value(message.raw, "method")
            assert place
            start, end = place
            raw = message.raw[:start] + b'"initialize"' + message.raw[end:]
            self.proxy.take_from_client(raw)
        elif message.is_request:
            error = {"code": INVALID_REQUEST, "message": NO_AGENT_MESSAGE}
            self.send(encode_line({"id": message.id, "error": error}))
            print(f"tasuki acp: {NO_AGENT_MESSAGE}", file=sys.stderr)

    def _take_from_agent(self, message: RpcMessage) -> None:
        """Unwrap a message of the agent; a request gets its own id."""
        extra = {k: v for k, v in message.params.items() if k not in ("method", "params")}
        fields: Json = {"jsonrpc": "2.0", **extra}
        fields["method"] = message.params.get("method")
        if message.is_request:
            fields["id"] = AGENT_ID_PREFIX + encode(message.body["id"]).decode()
        elif fields["method"] == "$/cancel_request":
            self._pass_cancellation(message)
            return
        self.proxy.take_from_agent(_join_fields(fields, message.raw, "params", "params"))

    def _pass_cancellation(self, message: RpcMessage) -> None:
        """Pass on that the agent cancels a request, which the client knows by another id."""
        inner = get_object(message.params, "params")
        id = AGENT_ID_PREFIX + encode(inner.get("requestId")).decode()
        self.proxy.take_from_agent(
            encode_line({"method": "$/cancel_request", "params": {**inner, "requestId": id}})
        )

    def _pass_answer(self, message: RpcMessage) -> None:
        """Pass on an answer of the client to the agent, or of the agent."""
        id = message.id
        if isinstance(id, str) and id.startswith(AGENT_ID_PREFIX):
            self.proxy.take_from_client(message.raw)
        else:
            self._open_requests.discard(id)
            self.proxy.take_from_agent(message.raw)

    def _send_to_agent(self, raw: bytes) -> None:
        """Send a line to the agent: wrapped, or as the answer to one of its requests."""
        message = parse_message(raw)
        if message is None:
            self.send(raw)
        elif message.method:
            if message.is_request:
                self._open_requests.add(message.id)
            fields: Json = {"jsonrpc": "2.0"}
            if "id" in message.body:
                fields["id"] = message.body["id"]
            inner = _join_fields({"method": message.method}, raw, "params")
            envelope = encode({**fields, "method": self.envelope})
            self.send(envelope[:-1] + b',"params":' + inner.rstrip(b"\n") + b"}\n")
        else:
            self.send(_restore_id(message))


def _join_fields(fields: Json, raw: bytes, *path: str) -> bytes:
    """Join fields and the exact bytes of `params` from a line into one object."""
    place = find_value(raw, *path)
    start_bytes = encode(fields)[:-1]
    if place is None:
        return start_bytes + b"}\n"
    start, end = place
    return b"".join((start_bytes, b',"params":', raw[start:end], b"}\n"))


def _restore_id(message: RpcMessage) -> bytes:
    """Return an answer to the agent, under the id that the agent gave its request."""
    id = message.id
    place = find_value(message.raw, "id")
    if not (isinstance(id, str) and id.startswith(AGENT_ID_PREFIX) and place):
        return message.raw
    start, end = place
    own = id.removeprefix(AGENT_ID_PREFIX).encode()
    return b"".join((message.raw[:start], own, message.raw[end:]))


SETTLING_SECONDS = 5.0
"""Seconds to report running work to the client once the agent is gone."""

FINISHING_SECONDS = 2.0
"""Seconds to finish writing the recorded threads."""


def serve(command: Sequence[str], limit: int = MOST_LINE_BYTES) -> int:
    """Run the proxy between the client on the standard streams and an agent; return the exit code.

    Without a command the agent is reached through a conductor, on the same streams. Raises
    HarnessMissing where there is no such program, UsageError where the streams are no pipes.
    """
    return asyncio.run(_serve(list(command), limit))


async def _serve(command: list[str], limit: int) -> int:
    loop = asyncio.get_running_loop()
    exit_order: asyncio.Future[int] = loop.create_future()

    def note_signal(order: int) -> None:
        if not exit_order.done():
            exit_order.set_result(128 + order)

    for order in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        with suppress(ValueError, RuntimeError):
            loop.add_signal_handler(order, note_signal, order)
    if command:
        return await _run_between(command, limit, exit_order)
    return await _run_conducted(limit, exit_order)


async def _run_between(command: list[str], limit: int, exit_order: "asyncio.Future[int]") -> int:
    """Run between a client at one end and the agent as a child at the other."""
    client = await ClientPipe.open()
    agent = await ProxiedAgent.launch(command)
    proxy = AcpProxy(AcpConnection(client.write, agent.write, ChainStore(command)))
    reject = partial(proxy.reject_oversized, limit=limit)
    upward = LineSplitter(proxy.take_from_client, partial(reject, is_from_client=True), limit)
    downward = LineSplitter(proxy.take_from_agent, partial(reject, is_from_client=False), limit)
    client_gone = asyncio.ensure_future(pump(client.reader, upward, agent.writer))
    agent_gone = asyncio.ensure_future(agent.pump(downward, client))
    try:
        await wait_for_first(client_gone, client.closed, agent_gone, exit_order)
        if agent_gone.done():
            await wait_for_first(agent.exited, timeout=1.0)
            proxy.on_agent_ended(agent.outcome)
            await proxy.connection.await_tasks(SETTLING_SECONDS)
    finally:
        await proxy.connection.finish_threads(FINISHING_SECONDS)
        grace = HASTE_SECONDS if exit_order.done() else GRACE_SECONDS
        code = await agent.end_group(grace)
    await wait_for_first(agent_gone, timeout=grace)
    agent_gone.cancel()
    await client.close()
    return exit_order.result() if exit_order.done() else code


async def _run_conducted(limit: int, exit_order: "asyncio.Future[int]") -> int:
    """Run with a conductor at the only end."""
    client = await ClientPipe.open()
    conductor = AcpConductor(client.write, limit)
    lines = LineSplitter(conductor.take_line, conductor.reject_oversized, limit)
    gone = asyncio.ensure_future(pump(client.reader, lines))
    await wait_for_first(gone, client.closed, exit_order)
    await conductor.proxy.connection.finish_threads(FINISHING_SECONDS)
    await client.close()
    return exit_order.result() if exit_order.done() else 0
