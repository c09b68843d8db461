"""One conversation with a language model, whoever provides it, through pydantic-ai.

Loaded only when it is used: the libraries behind it take a second. Answers are read as text, so
that an endpoint needs no abilities of its own; one that can hold a JSON schema is asked to.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from tasuki.draft.authors.asker import Reply, Turn
from tasuki.draft.authors.providers import Endpoint
from tasuki.draft.redact import Redactor
from tasuki.errors import AuthorFailed, ExtraMissing
from tasuki.extras import install_line
from tasuki.plain import one_line

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model
    from pydantic_ai.usage import RequestUsage

    from tasuki.draft.authors.provider_files import Api

MAX_OUTPUT = 8_000
"""Tokens of an answer, those of thinking included."""
SAID = 300
"""Characters of what an endpoint says of an error."""
BUSY = frozenset((408, 409, 425, 429, 500, 502, 503, 504, 529))
"""Statuses after which the same request may well be answered."""
PAUSES = (0.5, 1.5)
"""Seconds before it is asked again, where the endpoint names none."""
LONGEST_WAIT = 20.0
"""Seconds; an endpoint that asks for more has failed for now."""
_PHASES = {
    "connect": "nothing answers there.",
    "read": "the connection was broken off.",
    "write": "the connection was broken off.",
}
_TOO_LONG = ("context length", "context_length", "context size", "too long", "too many tokens",
             "maximum context", "exceeds the limit", "prompt is too", "exceed_context")  # fmt: skip
_NO_SCHEMA = (
    "response_format",
    "json_schema",
    "output_config",
    "output_format",
    "schema",
    "grammar",
)
_T = TypeVar("_T")


class TooLong(AuthorFailed):
    """The endpoint says that the request does not go into the model's window."""


class Client:
    """Asks one model. `seconds` bounds each answer; `close` ends the connections."""

    def __init__(self, endpoint: Endpoint, seconds: float) -> None:
        self.endpoint = endpoint
        self.seconds = seconds
        self.output = min(MAX_OUTPUT, max(512, endpoint.window // 4))
        """Tokens that an answer may have."""
        self.model = _model(endpoint)
        self._holds_schema = endpoint.json_schema
        self._loop = _Loop()

    def close(self) -> None:
        """End the connections."""
        self._loop.run(self._end())
        self._loop.close()

    async def _end(self) -> None:
        """Close what the library opened, and the one client that was given to it."""
        async with self.model:
            pass
        if self.endpoint.api == "anthropic" and (client := getattr(self.model, "client", None)):
            await client.close()

    def ask(self, system: str, turns: Sequence[Turn], schema: Mapping[str, Any]) -> Reply:
        """The answer to the last turn; once more without the schema where that is turned down.

        Raises AuthorFailed with the reason, TooLong where a shorter request may help.
        """
        from pydantic_ai.messages import ModelRequest, ModelResponse, SystemPromptPart, TextPart
        from pydantic_ai.messages import UserPromptPart as Prompt

        messages: list[ModelMessage] = []
        for number, turn in enumerate(turns):
            if turn.role == "assistant":
                messages.append(ModelResponse(parts=[TextPart(turn.text)]))
            else:
                first = [] if number else [SystemPromptPart(system)]
                messages.append(ModelRequest(parts=[*first, Prompt(turn.text)]))
        try:
            return self._reply(self._patiently(messages, schema))
        except _NoSchema:
            self._holds_schema = False
            return self._reply(self._patiently(messages, schema))

    def _patiently(
        self, messages: "list[ModelMessage]", schema: Mapping[str, Any]
    ) -> "ModelResponse":
        """An answer, asked for again where the endpoint is busy and says so."""
        for pause in (*PAUSES, None):
            try:
                return self._loop.run(self._request(messages, schema))
            except _Busy as busy:
                wait = pause if busy.after is None else busy.after
                if pause is None or wait is None or wait > LONGEST_WAIT:
                    later = (
                        f" It asks to wait {wait:.0f} s." if wait and wait > LONGEST_WAIT else ""
                    )
                    raise AuthorFailed(f"{busy.reason}{later}") from busy
                time.sleep(wait)
        raise AssertionError("the last pause is None")

    async def _request(
        self, messages: "list[ModelMessage]", schema: Mapping[str, Any]
    ) -> "ModelResponse":
        from pydantic_ai import exceptions
        from pydantic_ai.direct import model_request
        from pydantic_ai.models import ModelRequestParameters
        from pydantic_ai.output import OutputObjectDefinition
        from pydantic_ai.settings import ModelSettings

        parameters = ModelRequestParameters()
        if self._holds_schema:
            form = OutputObjectDefinition(json_schema=dict(schema), name="answer", strict=True)
            parameters = ModelRequestParameters(output_mode="native", output_object=form)
        try:
            async with asyncio.timeout(self.seconds):
                return await model_request(
                    self.model,
                    messages,
                    model_settings=ModelSettings(
                        max_tokens=self.output, timeout=self.seconds, max_retries=0
                    ),
                    model_request_parameters=parameters,
                )
        except TimeoutError as error:
            seconds = f"{self.seconds:g} s (author_seconds)"
            raise AuthorFailed(f"{self._where()} did not answer within {seconds}.") from error
        except exceptions.ModelHTTPError as error:
            said = _words(error.body) or error.message
            spent = isinstance(error, exceptions.ModelQuotaExceededError)  # Waiting does not help.
            if error.status_code in BUSY and not spent and not _is_too_long(said):
                raise _Busy(self._status(error.status_code, said), error.retry_after) from error
            raise self._declined(error.status_code, said) from error
        except exceptions.ContentFilterError as error:
            raise AuthorFailed(f"{self._where()} refused to answer: {self._said(error)}") from error
        except exceptions.UserError as error:
            if self._holds_schema and "output" in str(error).lower():
                raise _NoSchema from error
            raise self._failed(error) from error
        except exceptions.AgentRunError as error:
            raise self._failed(_PHASES.get(getattr(error, "phase", ""), error)) from error
        except Exception as error:  # The libraries' own errors, of which there are many.
            raise self._failed(f"{type(error).__name__}: {error}") from error

    def _failed(self, said: object) -> AuthorFailed:
        return AuthorFailed(f"{self._where()} could not be asked: {self._said(said)}")

    def _status(self, status: int, said: str) -> str:
        return f"{self._where()} answered with status {status}: {self._said(said)}"

    def _declined(self, status: int, said: str) -> Exception:
        """An error of the endpoint: one that another form of the request may cure, or a failure."""
        reason = self._status(status, said)
        if status in (400, 413, 422, 500):
            if _is_too_long(said):
                return TooLong(reason)
            if self._holds_schema and any(mark in said.lower() for mark in _NO_SCHEMA):
                return _NoSchema()
        if status in (401, 403):
            reason += f" The key: {self.endpoint.source}"
        return AuthorFailed(reason)

    def _reply(self, response: "ModelResponse") -> Reply:
        from pydantic_ai.messages import TextPart

        text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
        if response.finish_reason == "content_filter":
            why = text or (response.provider_details or {}).get("refusal") or ""
            raise AuthorFailed(f"{self._where()} refused to answer. {self._said(why)}".rstrip())
        if not text.strip() and response.finish_reason == "length":
            raise AuthorFailed(f"{self._where()} used up {self.output} tokens and said nothing.")
        return Reply(
            text=text,
            model=f"{self.endpoint.provider}/{response.model_name or self.endpoint.model}",
            input_tokens=response.usage.input_tokens,
            output_tokens=response.usage.output_tokens,
            price=_price(response.usage, self.endpoint),
        )

    def _said(self, said: object) -> str:
        """What an error says: endpoints and proxies like to repeat the key that they turned down."""
        return _short(said, self.endpoint.key)

    def _where(self) -> str:
        at = f" at {self.endpoint.base_url}" if self.endpoint.base_url else ""
        return f"The model {self.endpoint.provider}/{self.endpoint.model}{at}"


def _is_too_long(said: str) -> bool:
    return any(mark in said.lower() for mark in _TOO_LONG)


class _Busy(Exception):
    """The endpoint cannot answer now; `after` are the seconds it asks to wait, None if it says none."""

    def __init__(self, reason: str, after: float | None) -> None:
        super().__init__(reason)
        self.reason, self.after = reason, after


class _NoSchema(Exception):
    """The endpoint cannot hold a JSON schema."""


def _model(endpoint: Endpoint) -> "Model":
    """The library's model of an endpoint. Raises ExtraMissing, or AuthorFailed."""
    try:
        from pydantic_ai.exceptions import UserError
        from pydantic_ai.models import infer_model
    except ImportError as error:
        raise ExtraMissing(
            f"The author model needs an extra: {install_line('model')}. "
            "Without it: --author offline."
        ) from error
    try:
        if endpoint.api == "pydantic":
            return infer_model(f"{endpoint.provider}:{endpoint.model}")
        return _MODELS[endpoint.api](endpoint)
    except (UserError, ImportError, ValueError) as error:
        name = f"{endpoint.provider}/{endpoint.model}"
        raise AuthorFailed(
            f"The model {name} cannot be used: {_short(error, endpoint.key)}"
        ) from error


def _openai(endpoint: Endpoint) -> "Model":
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    key = endpoint.key or "none"  # The library asks for one, also where the endpoint does not.
    provider = OpenAIProvider(base_url=endpoint.base_url or None, api_key=key)
    return OpenAIChatModel(endpoint.model, provider=provider)


def _responses(endpoint: Endpoint) -> "Model":
    from pydantic_ai.models.openai import OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(base_url=endpoint.base_url or None, api_key=endpoint.key or "none")
    return OpenAIResponsesModel(endpoint.model, provider=provider)


def _anthropic(endpoint: Endpoint) -> "Model":
    from anthropic import AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    client = AsyncAnthropic(
        base_url=endpoint.base_url or None,
        api_key=None if endpoint.bearer else endpoint.key or "none",
        auth_token=endpoint.key if endpoint.bearer else None,
    )
    return AnthropicModel(endpoint.model, provider=AnthropicProvider(anthropic_client=client))


def _google(endpoint: Endpoint) -> "Model":
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    provider = GoogleProvider(api_key=endpoint.key or "none", base_url=endpoint.base_url or None)
    return GoogleModel(endpoint.model, provider=provider)


_MODELS: "dict[Api, Callable[[Endpoint], Model]]" = {
    "openai": _openai,
    "responses": _responses,
    "anthropic": _anthropic,
    "google": _google,
}


class _Loop:
    """One event loop for a whole conversation: the library's connections belong to it.

    In a thread that runs a loop of its own, as an MCP server does, it gets another thread.
    """

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._pool: ThreadPoolExecutor | None = None
        with suppress(RuntimeError):
            asyncio.get_running_loop()
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="tasuki-model")

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        if self._pool is None:
            return self._runner.run(work)
        return self._pool.submit(self._runner.run, work).result()

    def close(self) -> None:
        if self._pool is None:
            self._runner.close()
            return
        self._pool.submit(self._runner.close)
        self._pool.shutdown()


def _price(usage: "RequestUsage", endpoint: Endpoint) -> float | None:
    """US dollars, None for a model whose price nobody knows."""
    from genai_prices import calc_price

    try:
        price = calc_price(usage, endpoint.model, provider_id=endpoint.provider)
    except (LookupError, ValueError):
        return None
    return float(price.total_price)


def _words(body: object) -> str:
    """What the body of an error says, whatever its shape."""
    if isinstance(body, dict):
        inner = body.get("error", body)
        message = inner.get("message") if isinstance(inner, dict) else inner
        return str(message or body)
    return str(body or "")


def _short(said: object, key: str = "") -> str:
    """The first words of a message, on one line, without secrets and without the key."""
    text = str(said)[: SAID * 4]
    text = text.replace(key, "[REDACTED:key]") if key else text
    return one_line(Redactor().redact(text), SAID)
