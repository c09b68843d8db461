"""The scripted model answers every API alike, by the text of the request alone."""

import http.client
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from asking import KEYS, PATHS, STREAMED, ask, content, post, texts
from fakes.model_server import ModelRule, ModelServer, ModelStep, ScriptedCall

LONG = "A long answer, streamed in several pieces: grüße ✓. " * 5
RULES = (
    ModelRule(
        "write it",
        (ModelStep("Writing.", (ScriptedCall("write", {"path": "a ✓"}),)), ModelStep("Done.")),
    ),
    ModelRule("long", (ModelStep(LONG),)),
    ModelRule("slow", (ModelStep("late", delay=0.4),)),
    ModelRule("fail", (ModelStep(status=529, error="overloaded"),)),
)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ModelServer]:
    """A running server with the rules above."""
    with ModelServer(RULES, log_file=tmp_path / "log.jsonl") as made:
        yield made


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", list(PATHS))
def test_text(server: ModelServer, api: str, stream: bool) -> None:
    """A text arrives to the letter, whole or streamed."""
    path = (STREAMED if stream else PATHS)[api]
    answer = post(server, path, ask(api, ("user", "a long one"), stream=stream))

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
        "gemini": {"role": "user", "parts": [{"functionResponse": {"response": {"o": "long"}}}]},
    }[api]
    for answer in ("Writing.", "Done.", "Done."):
        assert answer == texts(api, post(server, PATHS[api], body))
        (said,) = ask(api, ("assistant", answer))[KEYS[api]]
        body[KEYS[api]] += [said, result]

    assert [request.step for request in server.log] == [0, 1, 2]


def test_calls(server: ModelServer) -> None:
    """A tool call has its name and arguments in each API, whole and streamed."""
    found = []
    for api in PATHS:
        for stream in (False, True):
            path = (STREAMED if stream else PATHS)[api]
            answer = post(server, path, ask(api, ("user", "write it"), stream=stream))
            found.append(json.dumps(answer, ensure_ascii=False))

    assert len(found) == 8
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


def test_a_gemini_exchange(server: ModelServer) -> None:
    """The session context and the results of tools are no prompts; calls and usage are told."""
    context = "<session_context>\nslow\n</session_context>"
    result = {"functionResponse": {"id": "c", "name": "write", "response": {"output": "long ✓"}}}
    call = {"functionCall": {"id": "c", "name": "write", "args": {}}}
    body = {
        "systemInstruction": {"parts": [{"text": "be brief"}]},
        "contents": [content("user", context, "write it")],
    }
    first = post(server, STREAMED["gemini"], body)
    body["contents"] += [
        {"role": "model", "parts": [{"text": "Writing."}, call]},
        {"role": "user", "parts": [result, {"text": "fail"}]},
    ]
    second = post(server, PATHS["gemini"], body)

    called = first[-1]["candidates"][0]["content"]["parts"][0]["functionCall"]
    assert (called["name"], called["args"]) == ("write", {"path": "a ✓"})
    assert called["id"]
    assert first[-1]["usageMetadata"]["totalTokenCount"] > 0
    assert first[-1]["candidates"][0]["finishReason"] == "STOP"
    assert texts("gemini", second) == "Done."
    request = server.log[1]
    assert [turn.role for turn in request.turns] == ["system", "user", "assistant", "tool"]
    assert "long ✓" in request.turns[-1].text
    assert (request.prompt, request.step) == ("write it", 1)


@pytest.mark.parametrize(
    "said",
    [
        "write it",
        '"write it"',
        "<session_context>\nslow\n</session_context>\nwrite it",
        "<current_datetime>2025-11-02</current_datetime>\n\nwrite it",
        "write it\n<system-reminder>fail</system-reminder>",
    ],
)
@pytest.mark.parametrize("api", list(PATHS))
def test_the_prompt_is_what_the_human_wrote(server: ModelServer, api: str, said: str) -> None:
    """Quotes, dates and contexts that a harness puts around a prompt do not belong to it."""
    answer = post(server, PATHS[api], ask(api, ("user", said)))

    assert texts(api, answer) == "Writing."
    assert server.log[0].prompt == "write it"


def test_a_quotation_stays(server: ModelServer) -> None:
    """Quotes that a human wrote belong to the prompt."""
    for said in ('"long"', '"a" and "b"'):
        post(server, PATHS["chat"], ask("chat", ("user", said)))

    assert [request.prompt for request in server.log] == ['"long"', '"a" and "b"']


def test_errors_and_delays(server: ModelServer) -> None:
    """A step can be an HTTP error, or come late."""
    failed = post(server, PATHS["messages"], ask("messages", ("user", "fail"), stream=True))
    gemini = post(server, STREAMED["gemini"], ask("gemini", ("user", "fail")))
    start = time.monotonic()
    post(server, PATHS["chat"], ask("chat", ("user", "slow")))

    assert failed["status"] == 529
    assert failed["error"]["message"] == "overloaded"
    assert gemini["error"]["code"] == 529
    assert time.monotonic() - start >= 0.4


def test_the_log(server: ModelServer, tmp_path: Path) -> None:
    """Every request is kept to the letter, in memory and in the file."""
    body = {**ask("chat", ("system", "be brief ✓"), ("user", "long")), "extra": {"x": ["long"]}}
    post(server, PATHS["chat"], body, packed=True)
    assert post(server, "/v1/messages/count_tokens", body)["input_tokens"] > 0
    assert post(server, "/v1beta/models/m:countTokens", body)["totalTokens"] > 0

    assert body == server.log[0].body
    assert server.log[0].count_text("long") == 2
    assert [turn.role for turn in server.log[0].turns] == ["system", "user"]
    assert [server.log[0]] == server.find_requests("^long$")
    counts = ["POST /v1/messages/count_tokens", "POST /v1beta/models/m:countTokens"]
    assert server.other == counts
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
