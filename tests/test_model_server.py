"""The scripted model answers every API alike, by the text of the request alone."""

import gzip
import http.client
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tasuki.testing.model_server import Call, ModelServer, Rule, Step

LONG = "A long answer, streamed in several pieces: grüße ✓. " * 5
RULES = (
    Rule("write it", (Step("Writing.", (Call("write", {"path": "a ✓"}),)), Step("Done."))),
    Rule("long", (Step(LONG),)),
    Rule("slow", (Step("late", delay=0.4),)),
    Rule("fail", (Step(status=529, error="overloaded"),)),
)
PATHS = {"messages": "/v1/messages?beta=true", "chat": "/v1/chat/completions"}
PATHS["responses"] = "/v1/responses"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ModelServer]:
    """A running server with the rules above."""
    with ModelServer(RULES, log_file=tmp_path / "log.jsonl") as made:
        yield made


def post(server: ModelServer, path: str, body: dict[str, Any], packed: bool = False) -> Any:
    """What the server answers: JSON, or the events of a stream."""
    connection = http.client.HTTPConnection("127.0.0.1", int(server.url.rpartition(":")[2]))
    raw = json.dumps(body).encode()
    headers = {"content-encoding": "gzip"} if packed else {}
    connection.request("POST", path, gzip.compress(raw) if packed else raw, headers)
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    if "event-stream" not in (response.getheader("content-type") or ""):
        return {"status": response.status, **json.loads(text)}
    data = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
    return [json.loads(event) for event in data if event != "[DONE]"]


def ask(api: str, *said: tuple[str, str], stream: bool = False) -> dict[str, Any]:
    """A request body of plain messages."""
    key = "input" if api == "responses" else "messages"
    messages = [{"role": role, "content": text} for role, text in said]
    return {"model": "m", key: messages, "stream": stream}


def texts(api: str, answer: Any) -> str:
    """The text of a whole or streamed answer."""
    if isinstance(answer, list):
        return "".join(_piece(event) for event in answer)
    if api == "messages":
        return "".join(block.get("text", "") for block in answer["content"])
    if api == "chat":
        return str(answer["choices"][0]["message"]["content"])
    return "".join(p["text"] for item in answer["output"] for p in item.get("content", []))


def _piece(event: dict[str, Any]) -> str:
    """The text that one event of a stream adds."""
    if "choices" in event:
        return "".join(choice["delta"].get("content") or "" for choice in event["choices"])
    delta = event.get("delta", "")
    if isinstance(delta, dict):
        return str(delta.get("text", ""))
    return str(delta) if event["type"] == "response.output_text.delta" else ""


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", list(PATHS))
def test_text(server: ModelServer, api: str, stream: bool) -> None:
    """A text arrives to the letter, whole or streamed."""
    answer = post(server, PATHS[api], ask(api, ("user", "a long one"), stream=stream))

    assert texts(api, answer) == LONG
    assert server.log[0].prompt == "a long one"


@pytest.mark.parametrize("api", list(PATHS))
def test_the_step_follows_from_the_request(server: ModelServer, api: str) -> None:
    """The assistant messages since the prompt choose the step, and the last one repeats."""
    body = ask(api, ("user", "hello"), ("assistant", "hi"), ("user", "write it"))
    result = {
        "messages": {"role": "user", "content": [{"type": "tool_result", "content": "long"}]},
        "chat": {"role": "tool", "content": "long"},
        "responses": {"type": "function_call_output", "output": "long"},
    }[api]
    for answer in ("Writing.", "Done.", "Done."):
        assert answer == texts(api, post(server, PATHS[api], body))
        messages = body["input" if api == "responses" else "messages"]
        messages += [{"role": "assistant", "content": answer}, result]

    assert [request.step for request in server.log] == [0, 1, 2]


def test_calls(server: ModelServer) -> None:
    """A tool call has its name and arguments in each API, whole and streamed."""
    found = []
    for api, path in PATHS.items():
        for stream in (False, True):
            answer = post(server, path, ask(api, ("user", "write it"), stream=stream))
            found.append(json.dumps(answer, ensure_ascii=False))

    assert all('"write"' in one and r"a \\u2713" in one.replace("✓", r"\\u2713") for one in found)


def test_tool_results_are_no_prompts(server: ModelServer) -> None:
    """Results of tools, and reminders of the harness, do not count as human text."""
    result = {
        "type": "tool_result",
        "tool_use_id": "t",
        "content": [{"type": "text", "text": "slow"}],
    }
    reminder = {"type": "text", "text": "<system-reminder>fail</system-reminder>"}
    call = {"type": "tool_use", "id": "t", "name": "write", "input": {}}
    body = ask("messages", ("user", "write it"))
    body["messages"] += [
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result, reminder]},
    ]
    items = [
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "write it"}],
        },
        {"type": "reasoning", "summary": []},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "W"}]},
        {"type": "function_call", "name": "write", "arguments": "{}", "call_id": "c"},
        {"type": "function_call_output", "call_id": "c", "output": "long"},
    ]

    assert texts("messages", post(server, PATHS["messages"], body)) == "Done."
    assert texts("responses", post(server, PATHS["responses"], {"input": items})) == "Done."
    assert [(request.prompt, request.step) for request in server.log] == [("write it", 1)] * 2


def test_errors_and_delays(server: ModelServer) -> None:
    """A step can be an HTTP error, or come late."""
    failed = post(server, PATHS["messages"], ask("messages", ("user", "fail"), stream=True))
    start = time.monotonic()
    post(server, PATHS["chat"], ask("chat", ("user", "slow")))

    assert failed["status"] == 529
    assert failed["error"]["message"] == "overloaded"
    assert time.monotonic() - start >= 0.4


def test_the_log(server: ModelServer, tmp_path: Path) -> None:
    """Every request is kept to the letter, in memory and in the file."""
    body = {**ask("chat", ("system", "be brief ✓"), ("user", "long")), "extra": {"x": ["long"]}}
    post(server, PATHS["chat"], body, packed=True)
    post(server, "/v1/messages/count_tokens", body)

    assert body == server.log[0].body
    assert server.log[0].count("long") == 2
    assert [turn.role for turn in server.log[0].turns] == ["system", "user"]
    assert [server.log[0]] == server.asked("^long$")
    assert server.other == ["POST /v1/messages/count_tokens"]
    assert body == json.loads((tmp_path / "log.jsonl").read_text())["body"]


def test_other_addresses(server: ModelServer) -> None:
    """Models are listed; anything else is not there; nothing but loopback is bound."""
    connection = http.client.HTTPConnection("127.0.0.1", int(server.url.rpartition(":")[2]))
    connection.request("GET", "/v1/models")
    assert json.loads(connection.getresponse().read())["data"][0]["id"] == "scripted"
    connection.request("POST", "/nowhere", b"not json")
    assert connection.getresponse().status == 404
    connection.close()

    assert server.url.startswith("http://127.0.0.1:")


def test_a_reader_that_goes_away(server: ModelServer) -> None:
    """A program that gives up on an answer does not disturb the next one."""
    connection = http.client.HTTPConnection("127.0.0.1", int(server.url.rpartition(":")[2]))
    connection.request("POST", PATHS["chat"], json.dumps(ask("chat", ("user", "slow"))).encode())
    connection.close()

    assert texts("chat", post(server, PATHS["chat"], ask("chat", ("user", "long")))) == LONG
