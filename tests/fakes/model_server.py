"""A scripted model on 127.0.0.1 for tests that drive real programs. No key, no network.

Speaks Anthropic Messages, OpenAI Chat Completions, OpenAI Responses and Gemini, streamed
and whole. It keeps no state: a rule is found by the last human text of the request, and the
number of assistant messages since then selects its step. So side requests (titles,
summaries), retries and forks never disturb a script. A step can also say how a request
fails; one with `reply` is made from the request. Used with Claude Code 2.1.330, pi 1.5.2,
Codex 0.169, Gemini CLI 0.61, opencode 1.18, Copilot CLI 1.0.102, oh-my-pi 18.2.
"""

import gzip
import json
import re
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlparse

from msgspec import Struct, structs

from fakes.model_answers import ANSWER_TYPES, ModelAnswer, ModelApi, ModelStep, ScriptedCall
from fakes.model_requests import ModelTurn, find_position, list_strings, list_turns

__all__ = ["ModelRequest", "ModelRule", "ModelServer", "ModelStep", "ModelTurn", "ScriptedCall"]

_ENDINGS: dict[str, ModelApi] = {
    "/messages": "messages",
    "/chat/completions": "chat",
    "/responses": "responses",
    ":generateContent": "gemini",
    ":streamGenerateContent": "gemini",
}
_COUNT_ENDINGS = {"/count_tokens": "input_tokens", ":countTokens": "totalTokens"}
"""Addresses that count tokens, and the field that holds the number."""


class ModelRule(Struct, frozen=True):
    """Steps for requests whose last human text matches a regular expression."""

    match: str
    steps: tuple[ModelStep, ...]


class ModelRequest(Struct, frozen=True):
    """One request to the model: its body verbatim, and what was parsed from it."""

    api: ModelApi
    path: str
    body: dict[str, Any]
    turns: tuple[ModelTurn, ...]
    prompt: str
    """The last human text, without what the harness put around it."""
    rule: str
    step: int
    number: int = 0
    """How many requests to a model came before it."""
    headers: dict[str, str] = {}
    """Its headers, the names in lower case."""

    def count_text(self, text: str) -> int:
        """Return how often a text occurs in the whole request, with system prompt and tools."""
        return sum(string.count(text) for string in list_strings(self.body))


class ModelServer:
    """The server, as a context manager. `log` holds every request to a model, in order."""

    def __init__(
        self,
        rules: Sequence[ModelRule] = (),
        default: ModelStep | None = None,
        log_file: Path | None = None,
    ) -> None:
        self.rules = tuple(rules)
        self.default = ModelRule("", (default or ModelStep("OK."),))
        self.log_file = log_file
        self.log: list[ModelRequest] = []
        self.other: list[str] = []
        """Method and path of every other request."""
        self._lock = threading.Lock()
        handler = type("Handler", (_ModelHandler,), {"model": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        """Address without a path: `http://127.0.0.1:PORT`."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def find_requests(self, pattern: str) -> list[ModelRequest]:
        """Return the requests whose last human text matches."""
        wanted = re.compile(pattern, re.DOTALL)
        return [request for request in list(self.log) if wanted.search(request.prompt)]

    def choose_step(
        self, api: ModelApi, path: str, body: dict[str, Any], headers: dict[str, str]
    ) -> ModelStep:
        """Choose the step for a request, and log the request."""
        turns = tuple(list_turns(api, body))
        prompt, step = find_position(turns)
        found = (rule for rule in self.rules if re.search(rule.match, prompt, re.DOTALL))
        rule = next(found, self.default)
        with self._lock:
            number = len(self.log)
            request = ModelRequest(
                api, path, body, turns, prompt, rule.match, step, number, headers
            )
            self.log.append(request)
            if self.log_file:
                with self.log_file.open("a") as file:
                    file.write(json.dumps(structs.asdict(request), default=structs.asdict) + "\n")
        return _resolve_step(rule.steps[min(step, len(rule.steps) - 1)], request)


def _resolve_step(step: ModelStep, request: ModelRequest) -> ModelStep:
    """Return a step, or what its `reply` makes of the request."""
    if step.reply is None:
        return step
    result = step.reply(request)
    return structs.replace(step, text=result, reply=None) if isinstance(result, str) else result


class _ModelHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: ModelServer

    def handle(self) -> None:
        with suppress(ConnectionError):  # the program gave up on the answer
            super().handle()

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing to standard error."""

    def do_HEAD(self) -> None:
        self._answer_other()

    def do_GET(self) -> None:
        self._answer_other()

    def do_POST(self) -> None:
        body = self._read_body()
        path = urlparse(self.path).path
        api = next((api for end, api in _ENDINGS.items() if path.endswith(end)), None)
        count = next((field for end, field in _COUNT_ENDINGS.items() if path.endswith(end)), None)
        if count:
            self.model.other.append(f"POST {path}")
            self._send_json({count: len(json.dumps(body)) // 4})
        elif api is None:
            self._answer_other()
        else:
            headers = {name.lower(): value for name, value in self.headers.items()}
            self._send_reply(self.model.choose_step(api, self.path, body, headers), api, body)

    def _send_reply(self, step: ModelStep, api: ModelApi, body: dict[str, Any]) -> None:
        """Send a step's answer; one that is cut off ends with the connection."""
        path = urlparse(self.path).path
        streamed = bool(body.get("stream") or path.endswith(":streamGenerateContent"))
        answer = ANSWER_TYPES[api](step, body)
        if step.cut == 0:
            time.sleep(step.delay)
            self.close_connection = True
        elif step.beat:
            comment = b": keep-alive\n\n" if streamed else b"\n"
            self._send_stream(
                step,
                _add_heartbeats(step, comment, _list_body_parts(step, answer, streamed)),
                streamed,
            )
        elif streamed and not (step.status and not step.late):
            time.sleep(step.delay)
            self._send_stream(step, _list_body_parts(step, answer, streamed), streamed)
        else:
            time.sleep(step.delay)
            self._send_whole(step, b"".join(_list_body_parts(step, answer, streamed)))

    def _send_whole(self, step: ModelStep, raw: bytes) -> None:
        """Send a response of known length, of which a cut-off step sends only the beginning."""
        length = {"content-type": "application/json", "content-length": str(len(raw))}
        self._send_head(200 if step.late else step.status or 200, length | step.headers)
        self.wfile.write(raw[: step.cut])
        if step.cut is not None:
            self.close_connection = True

    def _send_stream(self, step: ModelStep, parts: Iterable[bytes], events: bool) -> None:
        """Send a response in chunks; without the last chunk it is a broken one."""
        kind = "text/event-stream; charset=utf-8" if events else "application/json"
        head = {"content-type": kind, "transfer-encoding": "chunked", "connection": "close"}
        self._send_head(200, head | step.headers)
        self.close_connection = True
        left = step.cut
        for part in filter(None, parts):
            sent = part[:left]
            self.wfile.write(b"%x\r\n%b\r\n" % (len(sent), sent))
            self.wfile.flush()
            left = None if left is None else left - len(sent)
            if left == 0:
                return
        self.wfile.write(b"0\r\n\r\n")

    def _send_head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _answer_other(self) -> None:
        self.model.other.append(f"{self.command} {self.path}")
        if urlparse(self.path).path.rstrip("/").endswith("/models"):
            model = {
                "id": "scripted",
                "object": "model",
                "type": "model",
                "display_name": "Scripted",
            }
            self._send_json({"object": "list", "data": [model], "has_more": False})
        else:
            self._send_json(
                {"type": "error", "error": {"type": "not_found", "message": "none"}}, 404
            )

    def _read_body(self) -> dict[str, Any]:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.headers.get("content-encoding") == "gzip":
            raw = gzip.decompress(raw)
        try:
            body = json.loads(raw or b"{}")
        except ValueError:
            return {}
        return body if isinstance(body, dict) else {}

    def _send_json(self, value: object, status: int = 200) -> None:
        raw = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(raw)


def _list_body_parts(step: ModelStep, answer: ModelAnswer, streamed: bool) -> Iterator[bytes]:
    """Yield the body of a response, in the parts in which it is sent."""
    if step.raw is not None:
        yield step.raw
    elif step.status and not step.late:
        yield json.dumps(answer.build_error()).encode()
    elif not streamed:
        yield json.dumps(answer.build_whole()).encode()
    else:
        events = list(answer.build_events())
        if step.late:
            events = [*events[: len(events) // 2], answer.build_late_error()]
        for name, event in events:
            data = event if isinstance(event, str) else json.dumps(event)
            line = f"event: {name}\n" if name else ""
            yield f"{line}data: {data}\n\n".encode()


def _add_heartbeats(step: ModelStep, sign: bytes, parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield signs of life until the delay is over, then the parts."""
    end = time.monotonic() + step.delay
    while time.monotonic() < end:
        yield sign
        time.sleep(step.beat)
    yield from parts
