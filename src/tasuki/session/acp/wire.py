"""JSON-RPC by the line: read without being changed, and changed in one place alone.

What passes through is kept to the letter, so unknown methods, fields and spellings survive. The
protocol of either side is one JSON message a line, UTF-8. Source: agentclientprotocol.com.
"""

import json
import re
from collections.abc import Callable
from typing import Any

import msgspec

Json = dict[str, Any]
Id = str | int | float | None

LIMIT = 256 << 20
"""Bytes of the longest line that is passed on."""
HEAD = 64 << 10
"""Bytes of a longer one that are kept, to say whose it was."""
_BLANK = re.compile(rb"[ \t\r\n]*")
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{}]', re.DOTALL)
_SCALAR = re.compile(rb"[^,\]}\s]+")
_OPEN, _CLOSE = b"[{", b"]}"


class Message:
    """One JSON-RPC message: its line to the letter, and what it says."""

    __slots__ = ("body", "raw")

    def __init__(self, raw: bytes, body: Json) -> None:
        self.raw, self.body = raw, body

    @property
    def method(self) -> str:
        """Empty for an answer."""
        method = self.body.get("method")
        return method if isinstance(method, str) else ""

    @property
    def is_request(self) -> bool:
        return "id" in self.body and "method" in self.body

    @property
    def id(self) -> Id:
        """The id, None where there is none that could be answered to."""
        id = self.body.get("id")
        return id if isinstance(id, str | int | float) else None

    @property
    def params(self) -> Json:
        """The parameters by name; empty where they are none."""
        params = self.body.get("params")
        return params if isinstance(params, dict) else {}

    @property
    def result(self) -> Json:
        """What an answer gives; empty for an error."""
        result = self.body.get("result")
        return result if isinstance(result, dict) else {}

    @property
    def failed(self) -> bool:
        return "error" in self.body

    @property
    def error(self) -> str:
        """Why an answer is a no, in the other side's words; empty where it does not say."""
        error = self.body.get("error")
        said = error.get("message") if isinstance(error, dict) else None
        return str(said or "")

    @property
    def session(self) -> str:
        """The session that it is about, empty where it is about none."""
        id = self.params.get("sessionId")
        return id if isinstance(id, str) else ""

    @property
    def opened(self) -> str | None:
        """The session that an answer tells of, None where it tells of none."""
        id = self.result.get("sessionId")
        return id if isinstance(id, str) else None

    @property
    def update(self) -> Json:
        """What a `session/update` tells."""
        update = self.params.get("update")
        return update if isinstance(update, dict) else {}


def parse(raw: bytes) -> Message | None:
    """The message of a line; None for what is no single JSON object: batches, blanks, broken lines."""
    try:
        body = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        try:  # Half a character is valid JSON to JavaScript, and so is a number of 30 digits.
            body = json.loads(raw)
        except (ValueError, RecursionError):
            return None
    except RecursionError:
        return None
    return Message(raw, body) if isinstance(body, dict) else None


def encode(value: object) -> bytes:
    """A value as JSON."""
    try:
        return msgspec.json.encode(value)
    except (UnicodeEncodeError, OverflowError):
        return json.dumps(value, separators=(",", ":")).encode()


def line(body: Json) -> bytes:
    """A message of our own as a line."""
    return encode({"jsonrpc": "2.0", **body}) + b"\n"


def with_session(message: Message, id: str) -> bytes:
    """The line with another session id, and nothing else changed."""
    if id == message.session:
        return message.raw
    return _replaced(message, ("params", "sessionId"), id)


def with_result_session(message: Message, id: str) -> bytes:
    """The line of an answer with another session id in its result."""
    return _replaced(message, ("result", "sessionId"), id)


def _replaced(message: Message, path: tuple[str, str], id: str) -> bytes:
    outer, inner = path
    place = find(message.raw, outer, inner)
    if place is None or not _is(message.raw[slice(*place)], message.body[outer][inner]):
        body = {**message.body, outer: {**message.body[outer], inner: id}}
        return encode(body) + b"\n"
    start, end = place
    return b"".join((message.raw[:start], encode(id), message.raw[end:]))


def with_first_block(message: Message, session: str, block: Json) -> bytes:
    """The line of a prompt for a session, with one more block before the others."""
    raw = with_session(message, session)
    place = find(raw, "params", "prompt")
    blocks = message.params["prompt"]
    if place is None or raw[place[0] : place[0] + 1] != b"[" or not isinstance(blocks, list):
        params = {**message.params, "sessionId": session, "prompt": [block, *blocks]}
        return encode({**message.body, "params": params}) + b"\n"
    at = place[0] + 1
    return b"".join((raw[:at], encode(block), b"," if blocks else b"", raw[at:]))


def find(raw: bytes, *path: str) -> tuple[int, int] | None:
    """Where the value under a path of keys stands in a JSON object: start and end.

    None where it is not there, or where the line is cut off before its end.
    """
    try:
        at = _after_blanks(raw, 0)
        for key in path:
            found = _member(raw, at, encode(key))
            if found is None:
                return None
            at = found
        return at, _end(raw, at)
    except (IndexError, ValueError):
        return None


def _member(raw: bytes, at: int, key: bytes) -> int | None:
    """Where the value of a key begins in the object at `at`."""
    if raw[at] != 0x7B:
        return None
    at += 1
    while True:
        at = _after_blanks(raw, at)
        if raw[at] != 0x22:
            return None
        end = _end(raw, at)
        value = _after_blanks(raw, _after_blanks(raw, end) + 1)
        if raw[at:end] == key:
            return value
        at = _after_blanks(raw, _end(raw, value))
        if raw[at] != 0x2C:
            return None
        at += 1


def _end(raw: bytes, at: int) -> int:
    """The end of the value that begins at `at`. Raises ValueError where it is cut off."""
    first = raw[at]
    if first not in _OPEN:
        found = (_STRING if first == 0x22 else _SCALAR).match(raw, at)
        if found is None or (first != 0x22 and found.end() == len(raw)):
            raise ValueError("cut off")
        return found.end()
    depth = 0
    for token in _TOKEN.finditer(raw, at):
        mark = raw[token.start()]
        depth += (mark in _OPEN) - (mark in _CLOSE)
        if not depth:
            return token.end()
    raise ValueError("cut off")


def _after_blanks(raw: bytes, at: int) -> int:
    found = _BLANK.match(raw, at)
    return found.end() if found else at


def _is(raw: bytes, value: object) -> bool:
    try:
        return bool(msgspec.json.decode(raw) == value)
    except msgspec.DecodeError:
        return False


def head(raw: bytes) -> tuple[Id, str]:
    """Id and method of a line of which only the beginning is there, as far as it tells."""
    told = []
    for key in ("id", "method"):
        place = find(raw, key)
        told.append(msgspec.json.decode(raw[slice(*place)]) if place else None)
    id, method = told
    return (
        id if isinstance(id, str | int | float) else None,
        method if isinstance(method, str) else "",
    )


class Lines:
    """Cuts what arrives into lines. One that is too long is dropped, and its beginning told."""

    def __init__(
        self,
        take: Callable[[bytes], None],
        too_long: Callable[[bytes], None],
        limit: int = LIMIT,
    ) -> None:
        self.take, self.too_long, self.limit = take, too_long, limit
        self._parts: list[bytes] = []
        self._size = 0
        self._dropping = False

    def feed(self, data: bytes) -> None:
        """Take in bytes; every whole line is handed on with its end."""
        start = 0
        while (end := data.find(b"\n", start) + 1) > 0:
            self._add(data[start:end])
            self.finish()
            start = end
        if start < len(data):
            self._add(data[start:] if start else data)

    def finish(self) -> None:
        """Hand on what there is: a line, or at the end of the stream what is left of one."""
        parts, self._parts, self._size = self._parts, [], 0
        dropped, self._dropping = self._dropping, False
        if parts:
            whole = parts[0] if len(parts) == 1 else b"".join(parts)
            (self.too_long if dropped else self.take)(whole)

    def _add(self, part: bytes) -> None:
        self._size += len(part)
        if self._dropping:
            return
        self._parts.append(part)
        if self._size > self.limit:
            kept = b""
            for part in self._parts:
                kept += part[: HEAD - len(kept)]
            self._parts, self._dropping = [kept], True
