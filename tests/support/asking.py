"""Plain requests to a scripted model in tests, one for each API, and what the answers say."""

import gzip
import http.client
import json
from contextlib import closing
from typing import Any

from fakes.model_server import ModelServer

PATHS = {"messages": "/v1/messages?beta=true", "chat": "/v1/chat/completions"}
PATHS["responses"] = "/v1/responses"
PATHS["gemini"] = "/v1beta/models/m:generateContent"
STREAMED = {**PATHS, "gemini": "/v1beta/models/m:streamGenerateContent?alt=sse"}
KEYS = {"messages": "messages", "chat": "messages", "responses": "input", "gemini": "contents"}


def sent(
    server: ModelServer, path: str, body: dict[str, Any], packed: bool = False
) -> tuple[int, dict[str, str], str]:
    """Status, headers and body of what the server answers."""
    port = int(server.url.rpartition(":")[2])
    with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
        raw = json.dumps(body).encode()
        headers = {"content-encoding": "gzip"} if packed else {}
        connection.request("POST", path, gzip.compress(raw) if packed else raw, headers)
        response = connection.getresponse()
        found = {name.lower(): value for name, value in response.getheaders()}
        return response.status, found, response.read().decode()


def post(server: ModelServer, path: str, body: dict[str, Any], packed: bool = False) -> Any:
    """What the server answers: JSON, or the events of a stream."""
    status, headers, text = sent(server, path, body, packed)
    if "event-stream" not in headers["content-type"]:
        return {"status": status, **json.loads(text)}
    data = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
    return [json.loads(event) for event in data if event != "[DONE]"]


def ask(api: str, *said: tuple[str, str], stream: bool = False) -> dict[str, Any]:
    """A request body of plain messages."""
    if api == "gemini":
        return {"contents": [content(role, text) for role, text in said]}
    messages = [{"role": role, "content": text} for role, text in said]
    return {"model": "m", KEYS[api]: messages, "stream": stream}


def content(role: str, *texts: str) -> dict[str, Any]:
    """A message of a Gemini request."""
    parts = [{"text": text} for text in texts]
    return {"role": "model" if role == "assistant" else role, "parts": parts}


def texts(api: str, answer: Any) -> str:
    """The text of a whole or streamed answer."""
    if isinstance(answer, list):
        return "".join(_piece(event) for event in answer)
    if api == "gemini":
        return _piece(answer)
    if api == "messages":
        return "".join(block.get("text", "") for block in answer["content"])
    if api == "chat":
        return str(answer["choices"][0]["message"]["content"])
    return "".join(p["text"] for item in answer["output"] for p in item.get("content", []))


def _piece(event: dict[str, Any]) -> str:
    """The text that one event of a stream adds."""
    if "candidates" in event:
        parts = event["candidates"][0]["content"].get("parts", [])
        return "".join(part.get("text", "") for part in parts)
    if "choices" in event:
        return "".join(choice["delta"].get("content") or "" for choice in event["choices"])
    delta = event.get("delta", "")
    if isinstance(delta, dict):
        return str(delta.get("text", ""))
    return str(delta) if event["type"] == "response.output_text.delta" else ""


def asked(api: str, stream: bool = False) -> dict[str, Any]:
    """A request of one word."""
    return ask(api, ("user", "hello"), stream=stream)
