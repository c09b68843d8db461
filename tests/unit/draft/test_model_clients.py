"""The model libraries understand what the scripted model says: text, counts, ends and errors.

The libraries are those of pydantic-ai 2.68; each request goes through `pydantic_ai.direct`.
"""

import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from selection import by_default

pytest.importorskip("pydantic_ai")

from fakes.model_server import ModelServer, ModelStep
from pydantic_ai import exceptions
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.messages import ModelRequest, ModelResponse
from pydantic_ai.models import Model
from pydantic_ai.settings import ModelSettings

# The clients are imported where they are made: that takes seconds, which no worker spends to collect.


def _openai(url: str, api: str) -> Model:
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    made = OpenAIChatModel if api == "chat" else OpenAIResponsesModel
    return made("m", provider=OpenAIProvider(**_at(f"{url}/v1")))


def _anthropic(url: str) -> Model:
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    return AnthropicModel("m", provider=AnthropicProvider(**_at(url)))


def _google(url: str) -> Model:
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    return GoogleModel("m", provider=GoogleProvider(**_at(url)))


CLIENTS: dict[str, Callable[[str], Model]] = {
    "chat": lambda url: _openai(url, "chat"),
    "responses": lambda url: _openai(url, "responses"),
    "messages": _anthropic,
    "gemini": _google,
}
WAYS = [(api, stream) for api in CLIENTS for stream in (False, True)]
TEXT = "Zuständig ist `src/login.py` ✓. " * 5
TIMES = {"gemini": 1}
"""How often a library tries; the others try three times where that may help."""


def _at(url: str) -> dict[str, Any]:
    return {"base_url": url, "api_key": "a-key"}


async def ask(url: str, api: str, stream: bool = False, **settings: Any) -> ModelResponse:
    """Ask one question, with a limit on the whole request."""
    said = [ModelRequest.user_text_prompt("hello", instructions="be brief")]
    limits = ModelSettings(**{"request_timeout": 20.0, **settings})
    async with CLIENTS[api](url) as model:
        if not stream:
            return await model_request(model, said, model_settings=limits)
        async with model_request_stream(model, said, model_settings=limits) as events:
            async for _ in events:
                pass
            return events.get()


@pytest.mark.parametrize(("api", "stream"), WAYS)
async def test_text_and_counts(api: str, stream: bool) -> None:
    """Text, tokens and the reason of the end arrive, and the server sees prompt and key."""
    with ModelServer(default=ModelStep(TEXT)) as server:
        answer = await ask(server.url, api, stream)

    request = server.log[0]
    keys = {
        "authorization": "Bearer a-key",
        "x-api-key": "a-key",
        "x-goog-api-key": "a-key",
    }
    assert (answer.text, answer.finish_reason) == (TEXT, "stop")
    assert answer.usage.input_tokens > 10
    assert answer.usage.output_tokens == len(TEXT) // 4 + 1
    assert request.api == api
    assert [(turn.role, turn.text) for turn in request.turns] == [
        ("system", "be brief"),
        ("user", "hello"),
    ]
    assert keys.items() & request.headers.items()


@pytest.mark.parametrize(("api", "stream"), WAYS)
async def test_ends(api: str, stream: bool) -> None:
    """An answer that is empty, cut off, refused or held back is no error; its end is told."""
    found = []
    for step in (
        ModelStep(),
        ModelStep("half", end="length"),
        ModelStep("No.", end="refusal"),
        ModelStep(end="filter"),
    ):
        with ModelServer(default=step) as server:
            answer = await ask(server.url, api, stream)
            found.append((answer.text or "", answer.finish_reason))

    refused = "" if api in ("chat", "responses") else "No."
    assert found == [
        ("", "stop"),
        ("half", "length"),
        (refused, "content_filter"),
        ("", "content_filter"),
    ]


STATUS = {
    400: exceptions.ModelRequestRejectedError,
    401: exceptions.ModelAuthenticationError,
    404: exceptions.ModelNotFoundError,
    429: exceptions.ModelRateLimitError,
    500: exceptions.ModelServerError,
    503: exceptions.ModelUnavailableError,
    529: exceptions.ModelOverloadedError,
}


@pytest.mark.parametrize("status", list(STATUS))
@pytest.mark.parametrize("api", list(CLIENTS))
async def test_http_errors(api: str, status: int) -> None:
    """Each status has its class, with what the server said and how long to wait."""
    step = ModelStep(status=status, error="not now", headers={"retry-after-ms": "20"})
    with ModelServer(default=step) as server, pytest.raises(STATUS[status]) as raised:
        await ask(server.url, api)

    error = raised.value
    assert isinstance(error, exceptions.ModelHTTPError)
    assert (error.status_code, error.retry_after) == (status, 0.02)
    assert "not now" in str(error)
    assert len(server.log) == (TIMES.get(api, 3) if status >= 429 else 1)


@pytest.mark.parametrize(
    ("api", "said", "code"),
    [
        ("chat", "Too many tokens.", "context_length_exceeded"),
        ("responses", "Too many tokens.", "context_length_exceeded"),
        ("messages", "prompt is too long: 210000 tokens > 200000 maximum", ""),
        (
            "gemini",
            "The input token count (9) exceeds the maximum number of tokens allowed (8).",
            "",
        ),
    ],
)
async def test_a_request_that_is_too_long(api: str, said: str, code: str) -> None:
    """A request over the model's window is told apart from others that are refused."""
    with (
        ModelServer(default=ModelStep(status=400, error=said, code=code)) as server,
        pytest.raises(exceptions.ModelContextWindowExceededError),
    ):
        await ask(server.url, api)

    assert len(server.log) == 1


@pytest.mark.parametrize(("api", "stream"), by_default(WAYS, *WAYS[:2]))
async def test_a_connection_that_breaks(api: str, stream: bool) -> None:
    """A connection that ends in the middle of an answer, or before it, is an error of its own."""
    for cut in (0, 80):
        with (
            ModelServer(default=ModelStep(TEXT, cut=cut)) as server,
            pytest.raises(exceptions.ModelConnectionError) as raised,
        ):
            await ask(server.url, api, stream)

        assert raised.value.phase == "read"


@pytest.mark.parametrize("api", by_default(CLIENTS, "chat"))
async def test_nobody_listens(api: str) -> None:
    """A server that is down is an error of the connection, not of the reading."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(exceptions.ModelConnectionError) as raised:
        await ask(url, api)

    assert raised.value.phase == "connect"


@pytest.mark.parametrize("api", list(CLIENTS))
async def test_a_late_error(api: str) -> None:
    """An error inside a stream is the same error, marked as such."""
    step = ModelStep(TEXT, status=529, error="Overloaded", late=True)
    with ModelServer(default=step) as server, pytest.raises(exceptions.ModelOverloadedError) as e:
        await ask(server.url, api, stream=True)

    assert e.value.in_stream


@pytest.mark.parametrize("raw", [b"<html>busy</html>", b"", b'{"hello": 1}', b"[]"])
@pytest.mark.parametrize("api", list(CLIENTS))
async def test_a_body_that_is_no_answer(api: str, raw: bytes) -> None:
    """A body that is none of the API is an error, of any class, or an answer without words."""
    answer = None
    with ModelServer(default=ModelStep(raw=raw)) as server, suppress(Exception):
        answer = await ask(server.url, api)

    assert len(server.log) == 1
    assert answer is None or (answer.text or "", answer.finish_reason) == ("", None)
    assert answer is None or api == "gemini"


@pytest.mark.parametrize("beat", [0.0, 0.1])
@pytest.mark.parametrize("api", list(CLIENTS))
async def test_an_answer_that_does_not_come(api: str, beat: float) -> None:
    """The limit on a request holds also where the server keeps the connection alive."""
    with (
        ModelServer(default=ModelStep("late", delay=30, beat=beat)) as server,
        pytest.raises(exceptions.ModelRequestTimeout),
    ):
        await ask(server.url, api, request_timeout=0.5)


@pytest.mark.parametrize("api", by_default(CLIENTS, "chat"))
async def test_a_huge_answer(api: str) -> None:
    """20 MB arrive whole: nothing but the asker bounds an answer."""
    with ModelServer(default=ModelStep("ä" * 10_000_000)) as server:
        answer = await ask(server.url, api)

    assert len(answer.text or "") == 10_000_000
