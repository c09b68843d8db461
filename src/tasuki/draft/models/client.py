"""One conversation with a language model of any provider, through pydantic-ai.

Loaded only on use: its libraries take a second. Answers are read as text, so that an
endpoint needs no special abilities; one that supports a JSON schema is asked to use it.
"""

import asyncio
import time
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from tasuki.draft.authors.author import AuthorReply, AuthorTurn
from tasuki.draft.models.providers import ModelEndpoint
from tasuki.draft.redact.redactor import Redactor
from tasuki.errors import AuthorFailed, ExtraMissing
from tasuki.text_safety import shorten_to_line

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model
    from pydantic_ai.usage import RequestUsage


MAX_OUTPUT_TOKENS = 8_000
"""Tokens of an answer, including those of thinking."""
MAX_ERROR = 300
"""Characters of an endpoint's error message."""
BUSY_STATUSES = frozenset((408, 409, 425, 429, 500, 502, 503, 504, 529))
"""Statuses after which the same request may succeed."""
RETRY_PAUSES = (0.5, 1.5)
"""Seconds before a request is repeated, if the endpoint names none."""
MAX_WAIT = 20.0
"""Seconds; an endpoint that asks for more has failed for now."""
_PHASES = {
    "connect": "nothing answers there.",
    "read": "the connection was interrupted.",
    "write": "the connection was interrupted.",
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


class RequestTooLong(AuthorFailed):
    """The endpoint says that the request does not fit into the model's window."""


class ModelClient:
    """Asks one model. `seconds` limits each answer; `close` ends the connections."""

    def __init__(self, endpoint: ModelEndpoint, seconds: float) -> None:
        self.endpoint = endpoint
        self.seconds = seconds
        self.output = min(MAX_OUTPUT_TOKENS, max(512, endpoint.window // 4))
        """Tokens that an answer may have."""
        self.model = _create_model(endpoint)
        self._supports_schema = endpoint.json_schema
        self._loop = _ConversationLoop()

    def close(self) -> None:
        """End the connections."""
        self._loop.run_coroutine(self._end_connections())
        self._loop.close()

    async def _end_connections(self) -> None:
        """Close what the library opened, and the one client that was passed to it."""
        async with self.model:
            pass
        if self.endpoint.api == "anthropic" and (client := getattr(self.model, "client", None)):
            await client.close()

    def ask(
        self, system: str, turns: Sequence[AuthorTurn], schema: Mapping[str, Any]
    ) -> AuthorReply:
        """Return the answer to the last turn; retry without the schema if that is rejected.

        Raises AuthorFailed with the reason, RequestTooLong if a shorter request may help.
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
            return self._build_reply(self._request_with_retries(messages, schema))
        except _SchemaUnsupported:
            self._supports_schema = False
            return self._build_reply(self._request_with_retries(messages, schema))

    def _request_with_retries(
        self, messages: "list[ModelMessage]", schema: Mapping[str, Any]
    ) -> "ModelResponse":
        """Return an answer; repeat the request if the endpoint says it is busy."""
        for pause in (*RETRY_PAUSES, None):
            try:
                return self._loop.run_coroutine(self._send_request(messages, schema))
            except _EndpointBusy as busy:
                wait = pause if busy.after is None else busy.after
                if pause is None or wait is None or wait > MAX_WAIT:
                    later = f" It asks to wait {wait:.0f} s." if wait and wait > MAX_WAIT else ""
                    raise AuthorFailed(f"{busy.reason}{later}") from busy
                time.sleep(wait)
        raise AssertionError("the last pause is None")

    async def _send_request(
        self, messages: "list[ModelMessage]", schema: Mapping[str, Any]
    ) -> "ModelResponse":
        from pydantic_ai import exceptions
        from pydantic_ai.direct import model_request
        from pydantic_ai.models import ModelRequestParameters
        from pydantic_ai.output import OutputObjectDefinition
        from pydantic_ai.settings import ModelSettings

        parameters = ModelRequestParameters()
        if self._supports_schema:
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
            message = f"{self._describe_model()} did not answer within {seconds}."
            raise AuthorFailed(message) from error
        except exceptions.ModelHTTPError as error:
            is_quota_spent = isinstance(error, exceptions.ModelQuotaExceededError)
            after = None if is_quota_spent else error.retry_after  # Waiting does not help.
            body: Any = error.body
            if isinstance(body, dict):  # An error of any shape.
                inner = body.get("error", body)
                body = (inner.get("message") if isinstance(inner, dict) else inner) or body
            message = str(body or "") or error.message
            may_wait = error.status_code in BUSY_STATUSES and not is_quota_spent
            raise self._build_declined_error(
                error.status_code, message, after=after, may_wait=may_wait
            ) from error
        except exceptions.ContentFilterError as error:
            words = f"refused to answer: {self._redact_message(error)}"
            raise AuthorFailed(f"{self._describe_model()} {words}") from error
        except exceptions.UserError as error:
            if self._supports_schema and "output" in str(error).lower():
                raise _SchemaUnsupported from error
            raise self._build_failure(error) from error
        except exceptions.AgentRunError as error:
            raise self._build_failure(_PHASES.get(getattr(error, "phase", ""), error)) from error
        except Exception as error:  # The libraries have many error types of their own.
            raise self._build_failure(f"{type(error).__name__}: {error}") from error

    def _build_failure(self, problem: object) -> AuthorFailed:
        words = f"could not be asked: {self._redact_message(problem)}"
        return AuthorFailed(f"{self._describe_model()} {words}")

    def _build_declined_error(
        self, status: int, message: str, *, after: float | None, may_wait: bool
    ) -> Exception:
        """Return an error that waiting or another form of the request may avoid, or a failure."""
        said = self._redact_message(message)
        reason = f"{self._describe_model()} answered with status {status}: {said}"
        is_too_long = any(mark in message.lower() for mark in _TOO_LONG)
        if may_wait and not is_too_long:
            return _EndpointBusy(reason, after)
        if status in (400, 413, 422, 500):
            if is_too_long:
                return RequestTooLong(reason)
            if self._supports_schema and any(mark in message.lower() for mark in _NO_SCHEMA):
                return _SchemaUnsupported()
        if status in (401, 403):
            reason += f" The key: {self.endpoint.source}"
        return AuthorFailed(reason)

    def _build_reply(self, response: "ModelResponse") -> AuthorReply:
        from pydantic_ai.messages import TextPart

        text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
        if response.finish_reason == "content_filter":
            why = text or (response.provider_details or {}).get("refusal") or ""
            words = f"refused to answer. {self._redact_message(why)}".rstrip()
            raise AuthorFailed(f"{self._describe_model()} {words}")
        if not text.strip() and response.finish_reason == "length":
            words = f"used up {self.output} tokens and returned no text."
            raise AuthorFailed(f"{self._describe_model()} {words}")
        return AuthorReply(
            text=text,
            model=f"{self.endpoint.provider}/{response.model_name or self.endpoint.model}",
            input_tokens=response.usage.input_tokens,
            output_tokens=response.usage.output_tokens,
            price=_compute_price(response.usage, self.endpoint),
        )

    def _redact_message(self, message: object) -> str:
        """Return an error's message without the key: endpoints and proxies like to repeat it."""
        return _shorten_message(message, self.endpoint.key)

    def _describe_model(self) -> str:
        address = f" at {self.endpoint.base_url}" if self.endpoint.base_url else ""
        return f"The model {self.endpoint.provider}/{self.endpoint.model}{address}"


class _EndpointBusy(Exception):
    """The endpoint cannot answer now; `after` is the wait it asks for in seconds, or None."""

    def __init__(self, reason: str, after: float | None) -> None:
        super().__init__(reason)
        self.reason, self.after = reason, after


class _SchemaUnsupported(Exception):
    """The endpoint does not support a JSON schema."""


def _create_model(endpoint: ModelEndpoint) -> "Model":
    """Return the library's model of an endpoint. Raises ExtraMissing, or AuthorFailed."""
    try:
        from pydantic_ai.exceptions import UserError
        from pydantic_ai.models import infer_model
    except ImportError as error:
        from tasuki.config.installation import build_install_line

        raise ExtraMissing(
            f"The author model needs an extra: {build_install_line('model')}. "
            "Without it: --author offline."
        ) from error
    try:
        if endpoint.api == "pydantic":
            return infer_model(f"{endpoint.provider}:{endpoint.model}")
        return _build_model(endpoint)
    except (UserError, ImportError, ValueError) as error:
        name = f"{endpoint.provider}/{endpoint.model}"
        raise AuthorFailed(
            f"The model {name} cannot be used: {_shorten_message(error, endpoint.key)}"
        ) from error


def _build_model(endpoint: ModelEndpoint) -> "Model":
    key, base_url = endpoint.key or "none", endpoint.base_url or None
    if endpoint.api == "anthropic":
        from anthropic import AsyncAnthropic
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        api_key, token = (None, endpoint.key) if endpoint.bearer else (key, None)
        client = AsyncAnthropic(base_url=base_url, api_key=api_key, auth_token=token)
        return AnthropicModel(endpoint.model, provider=AnthropicProvider(anthropic_client=client))
    if endpoint.api == "google":
        from pydantic_ai.models.google import GoogleModel
        from pydantic_ai.providers.google import GoogleProvider

        google = GoogleProvider(api_key=key, base_url=base_url)
        return GoogleModel(endpoint.model, provider=google)
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    # The library requires a key even if the endpoint does not.
    provider = OpenAIProvider(base_url=base_url, api_key=key)
    kind = OpenAIResponsesModel if endpoint.api == "responses" else OpenAIChatModel
    return kind(endpoint.model, provider=provider)


class _ConversationLoop:
    """One event loop for a whole conversation: the library's connections belong to it.

    In a thread that already runs a loop, as in an MCP server, it gets another thread.
    """

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._pool: ThreadPoolExecutor | None = None
        with suppress(RuntimeError):
            asyncio.get_running_loop()
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="tasuki-model")

    def run_coroutine(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        if self._pool is None:
            return self._runner.run(coroutine)
        return self._pool.submit(self._runner.run, coroutine).result()

    def close(self) -> None:
        if self._pool is None:
            self._runner.close()
            return
        self._pool.submit(self._runner.close)
        self._pool.shutdown()


def _compute_price(usage: "RequestUsage", endpoint: ModelEndpoint) -> float | None:
    """Return US dollars, or None for a model whose price is not known."""
    from genai_prices import calc_price

    try:
        price = calc_price(usage, endpoint.model, provider_id=endpoint.provider)
    except (LookupError, ValueError):
        return None
    return float(price.total_price)


def _shorten_message(message: object, key: str = "") -> str:
    """Return the start of a message, on one line, without secrets and without the key."""
    text = str(message)[: MAX_ERROR * 4]
    text = text.replace(key, "[REDACTED:key]") if key else text
    return shorten_to_line(Redactor().redact(text), MAX_ERROR)
