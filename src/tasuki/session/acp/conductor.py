"""Under a conductor of a proxy chain: client and agent on one pair of streams.

What comes from and goes to the agent is wrapped: `proxy/successor {method, params}`, a request where
the envelope has an id. The conductor of the Rust SDK 2 writes `_proxy/…`, the draft of the protocol
`proxy/…`; its first message tells which. Source: RFD "Agent extensions via ACP proxies".
"""

import sys
from collections.abc import Callable

from tasuki.session.acp import oversize
from tasuki.session.acp.chains import Chains
from tasuki.session.acp.proxy import Proxy
from tasuki.session.acp.replies import INVALID
from tasuki.session.acp.wire import LIMIT, Id, Json, Message, encode, find, head, line, parse

FROM_AGENT = "tasuki:agent:"
"""What ids of the agent's requests begin with on their way to the client: the ids of both
neighbours would meet on one pipe."""
NO_AGENT = (
    "tasuki acp was started without a command, so it waits for a conductor (proxy/initialize), and "
    "this client speaks to it as to an agent. Name the agent's command: tasuki acp -- gemini --acp"
)


class Conductor:
    """Tells the two neighbours of a proxy apart."""

    def __init__(self, send: Callable[[bytes], None], limit: int = LIMIT) -> None:
        self.send, self.limit = send, limit
        self.envelope = ""
        """Method of what is wrapped, once it is known."""
        self.proxy = Proxy(send, self._to_agent, Chains(()))
        self._ours: set[Id] = set()
        """Requests that went to the agent and are not answered."""

    def take(self, raw: bytes) -> None:
        """Take a line of the conductor."""
        message = parse(raw)
        if message is None:
            print("tasuki acp: a line is no JSON object and was left out", file=sys.stderr)
        elif not self.envelope:
            self._first(message)
        elif message.method == self.envelope:
            self._from_agent(message)
        elif message.method:
            self.proxy.from_client(raw)
        else:
            self._answer(message)

    def too_long(self, raw: bytes) -> None:
        """A line is too long: it belongs to the client, unless it is wrapped or answers us."""
        id, method = head(raw)
        if method and method == self.envelope:
            if id is not None:
                text = "The message is too long to be passed on."
                self.send(line({"id": id, "error": {"code": INVALID, "message": text}}))
        else:
            of_client = bool(method) or id not in self._ours
            oversize.dropped(self.proxy, raw, of_client=of_client, limit=self.limit)

    def _first(self, message: Message) -> None:
        name, _, step = message.method.rpartition("/")
        if name in ("proxy", "_proxy") and step == "initialize":
            self.envelope = f"{name}/successor"
            place = find(message.raw, "method")
            assert place
            start, end = place
            raw = message.raw[:start] + b'"initialize"' + message.raw[end:]
            self.proxy.from_client(raw)
        elif message.is_request:
            self.send(line({"id": message.id, "error": {"code": INVALID, "message": NO_AGENT}}))
            print(f"tasuki acp: {NO_AGENT}", file=sys.stderr)

    def _from_agent(self, message: Message) -> None:
        """What is in the envelope, with an id of its own where it is a request."""
        extra = {k: v for k, v in message.params.items() if k not in ("method", "params")}
        fields: Json = {"jsonrpc": "2.0", **extra}
        fields["method"] = message.params.get("method")
        if message.is_request:
            fields["id"] = FROM_AGENT + encode(message.body["id"]).decode()
        elif fields["method"] == "$/cancel_request":
            self._cancelled(message)
            return
        self.proxy.from_agent(_joined(fields, message.raw, "params", "params"))

    def _cancelled(self, message: Message) -> None:
        """The agent takes back a request, which the client knows by another id."""
        params = message.params.get("params")
        given = params if isinstance(params, dict) else {}
        id = FROM_AGENT + encode(given.get("requestId")).decode()
        self.proxy.from_agent(
            line({"method": "$/cancel_request", "params": {**given, "requestId": id}})
        )

    def _answer(self, message: Message) -> None:
        """An answer of the client to the agent, or of the agent."""
        id = message.id
        if isinstance(id, str) and id.startswith(FROM_AGENT):
            self.proxy.from_client(message.raw)
        else:
            self._ours.discard(id)
            self.proxy.from_agent(message.raw)

    def _to_agent(self, raw: bytes) -> None:
        """A line for the agent: wrapped, or as the answer to one of its requests."""
        message = parse(raw)
        if message is None:
            self.send(raw)
        elif message.method:
            if message.is_request:
                self._ours.add(message.id)
            fields: Json = {"jsonrpc": "2.0"}
            if "id" in message.body:
                fields["id"] = message.body["id"]
            inner = _joined({"method": message.method}, raw, "params")
            envelope = encode({**fields, "method": self.envelope})
            self.send(envelope[:-1] + b',"params":' + inner.rstrip(b"\n") + b"}\n")
        else:
            self.send(_with_id(message))


def _joined(fields: Json, raw: bytes, *path: str) -> bytes:
    """An object of fields, with `params` as they stand in a line, to the letter."""
    place = find(raw, *path)
    begun = encode(fields)[:-1]
    if place is None:
        return begun + b"}\n"
    start, end = place
    return b"".join((begun, b',"params":', raw[start:end], b"}\n"))


def _with_id(message: Message) -> bytes:
    """An answer to the agent, under the id that the agent gave its request."""
    id = message.id
    place = find(message.raw, "id")
    if not (isinstance(id, str) and id.startswith(FROM_AGENT) and place):
        return message.raw
    start, end = place
    own = id.removeprefix(FROM_AGENT).encode()
    return b"".join((message.raw[:start], own, message.raw[end:]))
