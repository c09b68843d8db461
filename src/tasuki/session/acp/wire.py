"""JSON-RPC by the line: read without a change, and changed only in one place.

What passes through keeps its exact bytes, so unknown methods, fields and spellings survive.
The protocol of either side is one JSON message a line, UTF-8. Source:
agentclientprotocol.com.

The command `/handoff` is here too: how it is advertised, and which prompts are one.
"""

import json
import re
import sys
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from tasuki.errors import TasukiError
from tasuki.patterns import compile_pattern

Json = dict[str, Any]
Id = str | int | float | None

INTERNAL_ERROR = -32603
INVALID_REQUEST = -32600
REQUEST_CANCELLED = -32800

MOST_LINE_BYTES = 256 << 20
"""Bytes of the longest line that is passed on."""
HEAD_BYTES = 64 << 10
"""Bytes of a longer line that are kept, to identify its sender."""
_BLANK = compile_pattern(rb"[ \t\r\n]*")
_STRING = compile_pattern(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_TOKEN = compile_pattern(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{}]', re.DOTALL)
_SCALAR = compile_pattern(rb"[^,\]}\s]+")
_OPEN, _CLOSE = b"[{", b"]}"


def get_object(fields: Json, key: str) -> Json:
    """Return the object under a key; empty where there is none."""
    value = fields.get(key)
    return value if isinstance(value, dict) else {}


class RpcMessage(Struct, frozen=True, eq=False):
    """One JSON-RPC message: its exact line, and its content."""

    raw: bytes
    body: Json

    @property
    def method(self) -> str:
        """The method; empty for an answer."""
        method = self.body.get("method")
        return method if isinstance(method, str) else ""

    @property
    def is_request(self) -> bool:
        return "id" in self.body and "method" in self.body

    @property
    def id(self) -> Id:
        """The id; None where there is none that could be answered."""
        id = self.body.get("id")
        return id if isinstance(id, str | int | float) else None

    @property
    def params(self) -> Json:
        """The parameters by name; empty where there are none."""
        return get_object(self.body, "params")

    @property
    def result(self) -> Json:
        """The result of an answer; empty for an error."""
        return get_object(self.body, "result")

    @property
    def failed(self) -> bool:
        return "error" in self.body

    @property
    def error(self) -> str:
        """Why an answer is a refusal, in the other side's words; empty where it does not say."""
        return str(get_object(self.body, "error").get("message") or "")

    @property
    def session(self) -> str:
        """The session of the message; empty where it has none."""
        id = self.params.get("sessionId")
        return id if isinstance(id, str) else ""

    @property
    def opened_session(self) -> str | None:
        """The session in an answer; None where it names none."""
        id = self.result.get("sessionId")
        return id if isinstance(id, str) else None

    @property
    def update(self) -> Json:
        """The update in a `session/update`."""
        return get_object(self.params, "update")


def parse_message(raw: bytes) -> RpcMessage | None:
    """Parse the message of a line; None where it is not a single JSON object.

    That is: batches, blank or broken lines.
    """
    try:
        body = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        try:  # Half a surrogate pair is valid JSON to JavaScript, and so is a number of 30 digits.
            body = json.loads(raw)
        except (ValueError, RecursionError):
            return None
    except RecursionError:
        return None
    return RpcMessage(raw, body) if isinstance(body, dict) else None


def encode(value: object) -> bytes:
    """Encode a value as JSON."""
    try:
        return msgspec.json.encode(value)
    except (UnicodeEncodeError, OverflowError):
        return json.dumps(value, separators=(",", ":")).encode()


def encode_line(body: Json) -> bytes:
    """Encode a message of the proxy's own as a line."""
    return encode({"jsonrpc": "2.0", **body}) + b"\n"


def replace_session(message: RpcMessage, session_id: str, part: str = "params") -> bytes:
    """Return the line with another session id in its `params` or `result`, nothing else changed."""
    fields = get_object(message.body, part)
    if session_id == (old := fields.get("sessionId")):
        return message.raw
    place = find_value(message.raw, part, "sessionId")
    if place is None or not _is_value(message.raw[slice(*place)], old):
        return encode({**message.body, part: {**fields, "sessionId": session_id}}) + b"\n"
    start, end = place
    return b"".join((message.raw[:start], encode(session_id), message.raw[end:]))


def insert_block(message: RpcMessage, session: str, block: Json) -> bytes:
    """Return the line of a prompt for a session, with one more block before the others."""
    raw = replace_session(message, session)
    place = find_value(raw, "params", "prompt")
    blocks = message.params["prompt"]
    if place is None or raw[place[0] : place[0] + 1] != b"[" or not isinstance(blocks, list):
        params = {**message.params, "sessionId": session, "prompt": [block, *blocks]}
        return encode({**message.body, "params": params}) + b"\n"
    position = place[0] + 1
    return b"".join((raw[:position], encode(block), b"," if blocks else b"", raw[position:]))


def find_value(raw: bytes, *path: str) -> tuple[int, int] | None:
    """Find the start and end of the value under a path of keys in a JSON object.

    None where it is missing, or where the line is cut off before its end.
    """
    try:
        position = _skip_blanks(raw, 0)
        for key in path:
            member = _find_member(raw, position, encode(key))
            if member is None:
                return None
            position = member
        return position, _find_end(raw, position)
    except (IndexError, ValueError):
        return None


def _find_member(raw: bytes, position: int, key: bytes) -> int | None:
    """Find where the value of a key begins in the object at `position`."""
    if raw[position] != 0x7B:
        return None
    position += 1
    while True:
        position = _skip_blanks(raw, position)
        if raw[position] != 0x22:
            return None
        end = _find_end(raw, position)
        value = _skip_blanks(raw, _skip_blanks(raw, end) + 1)
        if raw[position:end] == key:
            return value
        position = _skip_blanks(raw, _find_end(raw, value))
        if raw[position] != 0x2C:
            return None
        position += 1


def _find_end(raw: bytes, position: int) -> int:
    """Find the end of the value that begins at `position`.

    Raises ValueError where it is cut off.
    """
    first = raw[position]
    if first not in _OPEN:
        match = (_STRING if first == 0x22 else _SCALAR).match(raw, position)
        if match is None or (first != 0x22 and match.end() == len(raw)):
            raise ValueError("cut off")
        return match.end()
    depth = 0
    for token in _TOKEN.finditer(raw, position):
        mark = raw[token.start()]
        depth += (mark in _OPEN) - (mark in _CLOSE)
        if not depth:
            return token.end()
    raise ValueError("cut off")


def _skip_blanks(raw: bytes, position: int) -> int:
    match = _BLANK.match(raw, position)
    return match.end() if match else position


def _is_value(raw: bytes, value: object) -> bool:
    try:
        return bool(msgspec.json.decode(raw) == value)
    except msgspec.DecodeError:
        return False


def read_head(raw: bytes) -> tuple[Id, str]:
    """Read id and method of a line that is cut off, as far as it has them."""
    values = []
    for key in ("id", "method"):
        place = find_value(raw, key)
        values.append(msgspec.json.decode(raw[slice(*place)]) if place else None)
    id, method = values
    return (
        id if isinstance(id, str | int | float) else None,
        method if isinstance(method, str) else "",
    )


class LineSplitter(Struct, eq=False):
    """Splits incoming bytes into lines.

    A line that is too long is dropped, its beginning reported.
    """

    on_line: Callable[[bytes], None]
    on_oversized: Callable[[bytes], None]
    limit: int = MOST_LINE_BYTES
    _parts: list[bytes] = []
    _size: int = 0
    _is_dropping: bool = False

    def feed(self, data: bytes) -> None:
        """Take bytes; every whole line is passed on with its end."""
        start = 0
        while (end := data.find(b"\n", start) + 1) > 0:
            self._add(data[start:end])
            self.finish()
            start = end
        if start < len(data):
            self._add(data[start:] if start else data)

    def finish(self) -> None:
        """Pass on what is there: a line, or at the end of the stream the rest of one."""
        parts, self._parts, self._size = self._parts, [], 0
        is_oversized, self._is_dropping = self._is_dropping, False
        if parts:
            whole = parts[0] if len(parts) == 1 else b"".join(parts)
            (self.on_oversized if is_oversized else self.on_line)(whole)

    def _add(self, part: bytes) -> None:
        self._size += len(part)
        if self._is_dropping:
            return
        self._parts.append(part)
        if self._size > self.limit:
            beginning = b""
            for part in self._parts:
                beginning += part[: HEAD_BYTES - len(beginning)]
            self._parts, self._is_dropping = [beginning], True


COMMAND_NAME = "handoff"
DESCRIPTION = "Hand the work over to a fresh session of this agent"
HINT = "[focus instructions]"
_HANDOFF = compile_pattern(r"\s*/handoff(?:\s+(.*))?", re.DOTALL)
_COMMAND = compile_pattern(r"\s*/[\w.:-]+(?:\s|$)")


def add_handoff_command(commands: list[Any], version: int) -> list[Any]:
    """Add `/handoff` to the end of a list of commands.

    It replaces an agent's command of that name.
    """
    input: Json = {"hint": HINT} if version < 2 else {"type": "text", "hint": HINT}
    ours = {"name": COMMAND_NAME, "description": DESCRIPTION, "input": input}
    others = [c for c in commands if not (isinstance(c, dict) and c.get("name") == COMMAND_NAME)]
    return [*others, ours]


def find_first_text(prompt: object) -> str:
    """Find the first text block of a prompt; empty if there is none."""
    for block in prompt if isinstance(prompt, list) else ():
        if isinstance(block, dict) and block.get("type") == "text":
            return str(block.get("text") or "")
    return ""


def parse_focus(text: str) -> str | None:
    """Return the words after `/handoff`, empty if there are none; None for every other prompt."""
    match = _HANDOFF.fullmatch(text)
    return (match[1] or "").strip() if match else None


def is_command(text: str) -> bool:
    """Whether a prompt is a slash command; a prompt that is only a path is not."""
    return _COMMAND.match(text) is not None


def print_problem(error: Exception) -> None:
    """Print a problem that did not stop the session; editors show it in their log."""
    text = str(error) if isinstance(error, TasukiError) else repr(error)
    print(f"tasuki acp: {text}", file=sys.stderr, flush=True)
