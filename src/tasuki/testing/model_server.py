"""A scripted model on 127.0.0.1 for tests that drive real programs. No key, no network.

Speaks Anthropic Messages, OpenAI Chat Completions and OpenAI Responses, streamed and whole.
It keeps no state: a rule is found by the last human text of the request, and the assistant
messages since choose its step. So side requests (titles, summaries), retries and forks never
put a script out of step. Used with Claude Code 2.1.330, pi 1.5.2, Codex 0.169.
"""

import gzip
import json
import re
import threading
import time
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self
from urllib.parse import urlparse

from msgspec import Struct, structs

from tasuki.testing.model_answers import ANSWERS, Api, Call, Step

Role = Literal["system", "user", "assistant", "tool"]
__all__ = ["Call", "ModelServer", "Request", "Rule", "Step", "Turn"]

_ENDINGS: dict[str, Api] = {
    "/messages": "messages",
    "/chat/completions": "chat",
    "/responses": "responses",
}
_REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>\s*", re.DOTALL)


class Rule(Struct, frozen=True):
    """Steps for requests whose last human text matches a regular expression."""

    match: str
    steps: tuple[Step, ...]


class Turn(Struct, frozen=True):
    """One message of a request, its text alone."""

    role: Role
    text: str


class Request(Struct, frozen=True):
    """One request to the model: its body to the letter, and what was made of it."""

    api: Api
    path: str
    body: dict[str, Any]
    turns: tuple[Turn, ...]
    prompt: str
    """The last human text, without reminders that the harness put in."""
    rule: str
    step: int

    def count(self, text: str) -> int:
        """How often a text occurs in the whole request, system prompt and tools included."""
        return sum(string.count(text) for string in _strings(self.body))


class ModelServer:
    """The server, as a context manager. `log` holds every request to a model, in order."""

    def __init__(
        self,
        rules: Sequence[Rule] = (),
        default: Step | None = None,
        log_file: Path | None = None,
    ) -> None:
        self.rules = tuple(rules)
        self.default = Rule("", (default or Step("OK."),))
        self.log_file = log_file
        self.log: list[Request] = []
        self.other: list[str] = []
        """Method and path of every other request."""
        self._lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"model": self})
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

    def asked(self, pattern: str) -> list[Request]:
        """The requests whose last human text matches."""
        wanted = re.compile(pattern, re.DOTALL)
        return [request for request in list(self.log) if wanted.search(request.prompt)]

    def answer(self, api: Api, path: str, body: dict[str, Any]) -> Step:
        """Choose the step for a request, and log it."""
        turns = tuple(_turns(api, body))
        prompt, step = _position(turns)
        found = (rule for rule in self.rules if re.search(rule.match, prompt, re.DOTALL))
        rule = next(found, self.default)
        request = Request(api, path, body, turns, prompt, rule.match, step)
        with self._lock:
            self.log.append(request)
            if self.log_file:
                with self.log_file.open("a") as file:
                    file.write(json.dumps(structs.asdict(request), default=structs.asdict) + "\n")
        return rule.steps[min(step, len(rule.steps) - 1)]


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _strings(part)
    elif isinstance(value, list):
        for part in value:
            yield from _strings(part)


def _text(content: object) -> str:
    """The text of a message's content: a string, or the text parts of a list."""
    if not isinstance(content, list):
        return content if isinstance(content, str) else ""
    parts = (part.get("text") for part in content if isinstance(part, dict))
    return "\n".join(part for part in parts if isinstance(part, str))


def _turns(api: Api, body: dict[str, Any]) -> Iterator[Turn]:
    if system := body.get("system") or body.get("instructions"):
        yield Turn("system", _text(system))
    messages = body.get("input" if api == "responses" else "messages") or []
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    for message in messages:
        if api == "responses" and message.get("type", "message") != "message":
            yield from _item(message)
        else:
            yield from _message(message)


def _item(item: dict[str, Any]) -> Iterator[Turn]:
    """What stands between the messages of a Responses request: calls and their results."""
    kind = item.get("type", "")
    if kind.endswith("_output"):
        yield Turn("tool", _text(item.get("output")) or str(item.get("output")))
    elif kind.endswith("_call"):
        yield Turn("assistant", "")


def _message(message: dict[str, Any]) -> Iterator[Turn]:
    content, role = message.get("content"), message.get("role")
    parts = content if isinstance(content, list) else []
    results = [part for part in parts if part.get("type") == "tool_result"]
    if role in ("system", "developer"):
        yield Turn("system", _text(content))
    elif role == "assistant":
        yield Turn("assistant", _text(content))
    elif role == "tool" or results:
        yield Turn(
            "tool", "\n".join(_text(part.get("content")) for part in results) or _text(parts)
        )
        if results and _human(_text(content)):
            yield Turn("user", _text(content))
    else:
        yield Turn("user", _text(content))


def _human(text: str) -> str:
    return _REMINDER.sub("", text).strip()


def _position(turns: Sequence[Turn]) -> tuple[str, int]:
    """The last human text, and how many assistant messages came after it.

    Items that follow each other (a text, then its calls) are one message.
    """
    prompt, step, open_message = "", 0, False
    for turn in turns:
        if turn.role == "user" and (human := _human(turn.text)):
            prompt, step = human, 0
        step += turn.role == "assistant" and not open_message
        open_message = turn.role == "assistant"
    return prompt, step


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: ModelServer

    def log_message(self, format: str, *args: object) -> None:
        """Nothing goes to standard error."""

    def do_HEAD(self) -> None:
        self._other()

    def do_GET(self) -> None:
        self._other()

    def do_POST(self) -> None:
        body = self._body()
        path = urlparse(self.path).path
        api = next((api for end, api in _ENDINGS.items() if path.endswith(end)), None)
        if path.endswith("/count_tokens"):
            self.model.other.append(f"POST {path}")
            self._json({"input_tokens": len(json.dumps(body)) // 4})
        elif api is None:
            self._other()
        else:
            try:
                self._reply(api, self.model.answer(api, self.path, body), body)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True  # the program gave up on the answer

    def _reply(self, api: Api, step: Step, body: dict[str, Any]) -> None:
        time.sleep(step.delay)
        if step.status:
            error = {"type": "api_error", "code": "api_error", "message": step.error}
            self._json({"type": "error", "error": error}, step.status)
            return
        answer = ANSWERS[api](step, body)
        if not body.get("stream"):
            self._json(answer.whole())
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        for name, event in answer.events():
            data = event if isinstance(event, str) else json.dumps(event)
            line = f"event: {name}\n" if name else ""
            self.wfile.write(f"{line}data: {data}\n\n".encode())
            self.wfile.flush()

    def _other(self) -> None:
        self.model.other.append(f"{self.command} {self.path}")
        if urlparse(self.path).path.rstrip("/").endswith("/models"):
            model = {
                "id": "scripted",
                "object": "model",
                "type": "model",
                "display_name": "Scripted",
            }
            self._json({"object": "list", "data": [model], "has_more": False})
        else:
            self._json({"type": "error", "error": {"type": "not_found", "message": "none"}}, 404)

    def _body(self) -> dict[str, Any]:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.headers.get("content-encoding") == "gzip":
            raw = gzip.decompress(raw)
        try:
            body = json.loads(raw or b"{}")
        except ValueError:
            return {}
        return body if isinstance(body, dict) else {}

    def _json(self, value: object, status: int = 200) -> None:
        raw = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(raw)
