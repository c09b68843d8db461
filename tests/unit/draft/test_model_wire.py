"""Everything that goes wrong on the wire can be scripted, in the words of each API."""

import http.client
import json
import urllib.request
from typing import Any

import pytest
from asking import PATHS, STREAMED, ask, asked, post, sent, texts
from fakes.model_server import ModelRequest, ModelRule, ModelServer, ModelStep
from selection import by_default

LONG = "A long answer, streamed in several pieces: grüße ✓. " * 5


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", list(PATHS))
def test_how_an_answer_ends(api: str, stream: bool) -> None:
    """Each API has its own word for an answer that is done, cut off, refused or held back."""
    words = {
        "messages": ('"end_turn"', '"max_tokens"', '"refusal"', '"refusal"'),
        "chat": ('"stop"', '"length"', '"refusal": "Some', '"content_filter"'),
        "responses": ('"completed"', '"max_output_tokens"', '"refusal": "Some', '"content_filter"'),
        "gemini": ('"STOP"', '"MAX_TOKENS"', '"SAFETY"', '"blockReason"'),
    }[api]
    found = []
    for end in ("stop", "length", "refusal", "filter"):
        with ModelServer(default=ModelStep("Some words.", end=end)) as server:
            answer = sent(server, (STREAMED if stream else PATHS)[api], asked(api, stream))[2]
            found.append(answer)

    assert all(word in answer for word, answer in zip(words, found, strict=True))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", list(PATHS))
def test_an_empty_answer(api: str, stream: bool) -> None:
    """Without words and calls an answer is a valid one that says nothing."""
    with ModelServer(default=ModelStep()) as server:
        answer = post(server, (STREAMED if stream else PATHS)[api], asked(api, stream))

    assert texts(api, answer) == ""


@pytest.mark.parametrize(
    ("api", "body"),
    [
        ("messages", {"type": "rate_limit_error", "message": "slow down"}),
        ("chat", {"message": "slow down", "type": "rate_limit_error", "code": "rate_limit_error"}),
        ("gemini", {"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED"}),
    ],
)
def test_an_error_has_the_form_of_its_api(api: str, body: dict[str, Any]) -> None:
    """An HTTP error says what each API says, with the headers that a step names."""
    step = ModelStep(status=429, error="slow down", headers={"retry-after": "7"})
    with ModelServer(default=step) as server:
        status, headers, text = sent(server, STREAMED[api], asked(api, True))

    assert (status, headers["retry-after"]) == (429, "7")
    assert json.loads(text)["error"] == body


def test_a_named_error() -> None:
    """A step can name its error as a program knows it."""
    step = ModelStep(status=400, error="too long", code="context_length_exceeded")
    with ModelServer(default=step) as server:
        answer = post(server, PATHS["responses"], asked("responses"))

    assert answer["error"]["code"] == "context_length_exceeded"


@pytest.mark.parametrize("api", list(PATHS))
def test_an_error_inside_a_stream(api: str) -> None:
    """A late error comes after a part of the answer, in a stream that began well."""
    step = ModelStep(LONG, status=529, error="overloaded", late=True)
    with ModelServer(default=step) as server:
        status, _, text = sent(server, STREAMED[api], asked(api, True))
        whole = post(server, PATHS[api], asked(api))

    assert status == 200
    assert "overloaded" in text.strip().split("\n\n")[-1]
    assert 0 < text.count("data: ") < 15
    assert texts(api, whole) == LONG


@pytest.mark.parametrize("stream", [False, True])
def test_a_body_to_the_letter(stream: bool) -> None:
    """A raw body goes out as it is, with a status and a type of its own."""
    page = ModelStep(raw=b"<html>busy</html>", status=502, headers={"content-type": "text/html"})
    with ModelServer([ModelRule("page", (page,))], ModelStep(raw=b"")) as server:
        status, headers, text = sent(server, PATHS["chat"], ask("chat", ("user", "page")))
        nothing = sent(server, PATHS["chat"], asked("chat", stream))

    assert (status, headers["content-type"], text) == (502, "text/html", "<html>busy</html>")
    assert (nothing[0], nothing[2]) == (200, "")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", list(PATHS))
def test_a_connection_that_breaks(api: str, stream: bool) -> None:
    """A step that is cut off ends in the middle of its body, or before it said anything."""
    path = (STREAMED if stream else PATHS)[api]
    with ModelServer([ModelRule("none", (ModelStep(cut=0),))], ModelStep(LONG, cut=70)) as server:
        with pytest.raises(http.client.IncompleteRead) as broken:
            sent(server, path, asked(api, stream))
        with pytest.raises(http.client.RemoteDisconnected):
            sent(server, path, ask(api, ("user", "none"), stream=stream))

    assert stream or len(broken.value.partial) == 70


def test_signs_of_life() -> None:
    """While a step waits, it can send what keeps a connection open: blanks, or comments."""
    with ModelServer(default=ModelStep("late", delay=0.3, beat=0.1)) as server:
        whole = sent(server, PATHS["chat"], asked("chat"))[2]
        stream = sent(server, PATHS["chat"], asked("chat", True))[2]

    assert whole.startswith("\n\n")
    assert json.loads(whole)["choices"][0]["message"]["content"] == "late"
    assert stream.count(": keep-alive\n\n") >= 2
    assert stream.endswith("data: [DONE]\n\n")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", by_default(PATHS, "chat"))
def test_a_huge_answer(api: str, stream: bool) -> None:
    """20 MB arrive whole, a stream of them in few pieces."""
    with ModelServer(default=ModelStep("ä" * 10_000_000)) as server:
        answer = post(server, (STREAMED if stream else PATHS)[api], asked(api, stream))

    assert len(texts(api, answer)) == 10_000_000
    assert not isinstance(answer, list) or len(answer) < 1100


def test_an_answer_made_from_the_request() -> None:
    """A step can be made from what was asked: its text alone, or all of it."""

    def made(request: ModelRequest) -> ModelStep | str:
        if request.number == 0:
            return ModelStep(status=529)
        return f"{request.turns[0].text} by {request.headers['authorization']}"

    with ModelServer(default=ModelStep(reply=made)) as server:
        body = {**asked("chat"), "messages": [{"role": "system", "content": "Sorted"}]}
        first = post(server, PATHS["chat"], body)
        headers = {"Authorization": "Bearer k"}
        request = urllib.request.Request(
            server.url + PATHS["chat"], json.dumps(body).encode(), headers
        )
        with urllib.request.urlopen(request, timeout=10) as second:
            said = json.loads(second.read())

    assert first["status"] == 529
    assert texts("chat", said) == "Sorted by Bearer k"
