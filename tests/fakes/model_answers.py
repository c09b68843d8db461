"""A scripted step in the format of each API: whole, or as the events of a stream."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from msgspec import Struct

if TYPE_CHECKING:
    from fakes.model_server import ModelRequest

ModelApi = Literal["messages", "chat", "responses", "gemini"]
AnswerEnd = Literal["stop", "length", "refusal", "filter"]
"""Why an answer ends: done, cut off, refused in the model's own words, blocked by the
provider.
"""
PIECE_LENGTH = 24
"""Characters of one streamed piece of text, unless that makes more than `MAX_PIECES`."""
MAX_PIECES = 1000

StreamEvents = Iterator[tuple[str, dict[str, Any] | str]]


class ScriptedCall(Struct, frozen=True):
    """A tool call of the model."""

    name: str
    arguments: dict[str, Any] = {}
    namespace: str = ""
    """Where the Responses API looks for the tool, as of an MCP server's; empty for its own tools."""


class ModelStep(Struct, frozen=True):
    """One answer: text and tool calls, or what goes wrong instead. The default is an empty one."""

    text: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    delay: float = 0.0
    """Seconds before the answer."""
    status: int = 0
    """An HTTP error instead of an answer."""
    error: str = "scripted error"
    """What the HTTP error says."""
    code: str = ""
    """Its name for programs, such as `context_length_exceeded`; empty for the usual one of `status`."""
    late: bool = False
    """In a stream, the error comes inside it, after half of the answer. Whole answers stay as they are."""
    end: AnswerEnd = "stop"
    read: int | None = None
    """Tokens that it says it read; None for the size of the request."""
    headers: dict[str, str] = {}
    """More headers of the response, such as `retry-after`; they win over the server's own."""
    raw: bytes | None = None
    """The body to the letter, instead of what the API would say."""
    cut: int | None = None
    """Bytes of the body after which the connection closes; 0: before the headers."""
    beat: float = 0.0
    """Seconds between signs of life during `delay`, as OpenRouter and DeepSeek send them: empty lines,
    in a stream comments. A time limit on each read does not end such a wait."""
    reply: Callable[[ModelRequest], ModelStep | str] | None = None
    """Makes the step, or its text, from the request."""


class ModelAnswer:
    """A step in the format of one API: whole, or as the events of a stream."""

    ends: ClassVar[dict[AnswerEnd, str]]
    """The API's word for each end."""
    errors: ClassVar[dict[int, str]] = {
        400: "invalid_request_error",
        401: "authentication_error",
        403: "permission_error",
        404: "not_found_error",
        413: "request_too_large",
        429: "rate_limit_error",
        529: "overloaded_error",
    }
    """The API's word for each HTTP error."""

    def __init__(self, step: ModelStep, body: dict[str, Any]) -> None:
        self.step = step
        self.model = body.get("model", "scripted")
        self.read = len(json.dumps(body)) // 4 if step.read is None else step.read
        self.written = len(step.text) // 4 + 20 * len(step.calls) + 1
        self.id = uuid.uuid4().hex[:20]
        self.calls = [(f"call_{self.id}_{n}", call) for n, call in enumerate(step.calls)]

    def split_pieces(self) -> list[str]:
        text = self.step.text
        size = max(PIECE_LENGTH, len(text) // MAX_PIECES)
        return [text[start : start + size] for start in range(0, len(text), size)]

    def build_whole(self) -> dict[str, Any]:
        raise NotImplementedError

    def build_events(self) -> StreamEvents:
        raise NotImplementedError

    def build_error(self) -> dict[str, Any]:
        """Return the body of an HTTP error."""
        return {
            "error": {"message": self.step.error, "type": self.get_code(), "code": self.get_code()}
        }

    def build_late_error(self) -> tuple[str, dict[str, Any]]:
        """Return the same error inside a stream that is already open."""
        return "", self.build_error()

    def get_code(self) -> str:
        return self.step.code or self.errors.get(self.step.status, "api_error")


class MessagesAnswer(ModelAnswer):
    """Anthropic Messages."""

    ends: ClassVar[dict[AnswerEnd, str]] = {
        "stop": "end_turn",
        "length": "max_tokens",
        "refusal": "refusal",
        "filter": "refusal",
    }

    def build_whole(self) -> dict[str, Any]:
        blocks: list[dict[str, Any]] = []
        if self.step.text:
            blocks.append({"type": "text", "text": self.step.text})
        for id, call in self.calls:
            block = {"type": "tool_use", "id": f"toolu_{id}", "name": call.name}
            blocks.append({**block, "input": call.arguments})
        return {
            "id": f"msg_{self.id}",
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": blocks,
            "stop_reason": "tool_use" if self.calls else self.ends[self.step.end],
            "stop_sequence": None,
            "usage": {
                "input_tokens": self.read,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0,
                "output_tokens": self.written,
            },
        }

    def build_events(self) -> StreamEvents:
        whole = self.build_whole()
        started = {**whole, "content": [], "stop_reason": None}
        yield self._build_event("message_start", message=started)
        for index, block in enumerate(whole["content"]):
            yield from self._build_block_events(index, block)
        ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        yield self._build_event("message_delta", delta=ended, usage={"output_tokens": self.written})
        yield self._build_event("message_stop")

    def build_error(self) -> dict[str, Any]:
        said = {"type": self.get_code(), "message": self.step.error}
        return {"type": "error", "error": said, "request_id": f"req_{self.id}"}

    def build_late_error(self) -> tuple[str, dict[str, Any]]:
        return "error", self.build_error()

    def _build_block_events(self, index: int, block: dict[str, Any]) -> StreamEvents:
        empty: dict[str, object] = {"text": ""} if block["type"] == "text" else {"input": {}}
        yield self._build_event(
            "content_block_start", index=index, content_block={**block, **empty}
        )
        if block["type"] == "text":
            deltas = [{"type": "text_delta", "text": piece} for piece in self.split_pieces()]
        else:
            arguments = json.dumps(block["input"])
            deltas = [{"type": "input_json_delta", "partial_json": arguments}]
        for delta in deltas:
            yield self._build_event("content_block_delta", index=index, delta=delta)
        yield self._build_event("content_block_stop", index=index)

    def _build_event(self, name: str, **more: object) -> tuple[str, dict[str, Any]]:
        return name, {"type": name, **more}


class ChatAnswer(ModelAnswer):
    """OpenAI Chat Completions."""

    ends: ClassVar[dict[AnswerEnd, str]] = {
        "stop": "stop",
        "length": "length",
        "refusal": "stop",
        "filter": "content_filter",
    }

    def build_whole(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": self.step.text, "refusal": None}
        if self.calls:
            message["content"] = self.step.text or None
            message["tool_calls"] = [self._build_call(n) for n in range(len(self.calls))]
        if self.step.end == "refusal":
            message |= {"content": None, "refusal": self.step.text}
        choice = {"index": 0, "message": message, "finish_reason": self._get_finish_reason()}
        return {
            **self._build_frame("chat.completion"),
            "choices": [choice],
            "usage": self._build_usage(),
        }

    def build_events(self) -> StreamEvents:
        yield self._build_chunk({"role": "assistant", "content": ""})
        for piece in self.split_pieces():
            yield self._build_chunk({"refusal" if self.step.end == "refusal" else "content": piece})
        for n in range(len(self.calls)):
            yield self._build_chunk({"tool_calls": [{"index": n, **self._build_call(n)}]})
        yield self._build_chunk({}, self._get_finish_reason())
        frame = self._build_frame("chat.completion.chunk")
        yield "", {**frame, "choices": [], "usage": self._build_usage()}
        yield "", "[DONE]"

    def _build_chunk(
        self, delta: dict[str, Any], finish: str | None = None
    ) -> tuple[str, dict[str, Any]]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return "", {**self._build_frame("chat.completion.chunk"), "choices": [choice]}

    def _build_frame(self, kind: str) -> dict[str, Any]:
        frame = {"id": f"chatcmpl-{self.id}", "object": kind, "model": self.model}
        return {**frame, "created": int(time.time())}

    def _get_finish_reason(self) -> str:
        return "tool_calls" if self.calls else self.ends[self.step.end]

    def _build_call(self, n: int) -> dict[str, Any]:
        id, call = self.calls[n]
        function = {"name": call.name, "arguments": json.dumps(call.arguments)}
        return {"id": id, "type": "function", "function": function}

    def _build_usage(self) -> dict[str, int]:
        total = self.read + self.written
        return {
            "prompt_tokens": self.read,
            "completion_tokens": self.written,
            "total_tokens": total,
        }


class ResponsesAnswer(ModelAnswer):
    """OpenAI Responses."""

    ends: ClassVar[dict[AnswerEnd, str]] = {
        "stop": "completed",
        "length": "incomplete",
        "refusal": "completed",
        "filter": "incomplete",
    }

    def build_whole(self) -> dict[str, Any]:
        items: list[dict[str, Any]] = []
        status = self.ends[self.step.end]
        if self.step.text or not (self.calls or self.step.end == "filter"):
            part: dict[str, Any] = {
                "type": "output_text",
                "text": self.step.text,
                "annotations": [],
            }
            if self.step.end == "refusal":
                part = {"type": "refusal", "refusal": self.step.text}
            item = {"type": "message", "role": "assistant", "status": status}
            items.append({"id": f"msg_{self.id}", **item, "content": [part]})
        for id, call in self.calls:
            arguments = json.dumps(call.arguments)
            item = {"type": "function_call", "name": call.name, "arguments": arguments}
            item |= {"namespace": call.namespace} if call.namespace else {}
            items.append({"id": f"fc_{id}", "call_id": id, "status": "completed", **item})
        return {
            "id": f"resp_{self.id}",
            "object": "response",
            "created_at": int(time.time()),
            "status": status,
            "incomplete_details": self._build_details(),
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "model": self.model,
            "output": items,
            "usage": {
                "input_tokens": self.read,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": self.written,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": self.read + self.written,
            },
        }

    def build_events(self) -> StreamEvents:
        whole = self.build_whole()
        begun = {**whole, "status": "in_progress", "output": [], "usage": None}
        begun["incomplete_details"] = None
        yield self._build_event("response.created", response=begun)
        for index, item in enumerate(whole["output"]):
            yield from self._build_item_events(index, item)
        yield self._build_event(f"response.{whole['status']}", response=whole)

    def build_late_error(self) -> tuple[str, dict[str, Any]]:
        return self._build_event("error", code=self.get_code(), message=self.step.error, param=None)

    def _build_details(self) -> dict[str, str] | None:
        reasons = {"length": "max_output_tokens", "filter": "content_filter"}
        reason = reasons.get(self.step.end)
        return {"reason": reason} if reason else None

    def _build_item_events(self, index: int, item: dict[str, Any]) -> StreamEvents:
        place = {"output_index": index, "item_id": item["id"]}
        empty: dict[str, object] = (
            {"content": []} if item["type"] == "message" else {"arguments": ""}
        )
        added = {**item, **empty, "status": "in_progress"}
        yield self._build_event("response.output_item.added", output_index=index, item=added)
        if item["type"] == "message":
            kind = "refusal" if self.step.end == "refusal" else "output_text"
            for piece in self.split_pieces():
                delta = {**place, "content_index": 0, "delta": piece}
                yield self._build_event(f"response.{kind}.delta", **delta)
        else:
            delta = {**place, "delta": item["arguments"]}
            yield self._build_event("response.function_call_arguments.delta", **delta)
        yield self._build_event("response.output_item.done", output_index=index, item=item)

    def _build_event(self, name: str, **more: object) -> tuple[str, dict[str, Any]]:
        return name, {"type": name, **more}


class GeminiAnswer(ModelAnswer):
    """Gemini `generateContent` and `streamGenerateContent`."""

    ends: ClassVar[dict[AnswerEnd, str]] = {
        "stop": "STOP",
        "length": "MAX_TOKENS",
        "refusal": "SAFETY",
        "filter": "",
    }
    errors: ClassVar[dict[int, str]] = {
        400: "INVALID_ARGUMENT",
        401: "UNAUTHENTICATED",
        403: "PERMISSION_DENIED",
        404: "NOT_FOUND",
        429: "RESOURCE_EXHAUSTED",
        500: "INTERNAL",
        503: "UNAVAILABLE",
        504: "DEADLINE_EXCEEDED",
    }

    def build_whole(self) -> dict[str, Any]:
        text = [{"text": self.step.text}] if self.step.text else []
        return self._build_part([*text, *self._build_calls()], self.ends[self.step.end])

    def build_events(self) -> StreamEvents:
        for piece in self.split_pieces() if self.step.end != "filter" else []:
            yield "", self._build_part([{"text": piece}])
        yield "", self._build_part(self._build_calls() or [{"text": ""}], self.ends[self.step.end])

    def build_error(self) -> dict[str, Any]:
        name = self.step.code or self.errors.get(self.step.status, "UNKNOWN")
        said = {"code": self.step.status, "message": self.step.error, "status": name}
        return {"error": said}

    def _build_calls(self) -> list[dict[str, Any]]:
        return [
            {"functionCall": {"id": id, "name": call.name, "args": call.arguments}}
            for id, call in self.calls
        ]

    def _build_part(self, parts: list[dict[str, Any]], finish: str = "") -> dict[str, Any]:
        """Return one piece of an answer.

        A prompt that was blocked has no candidate; the piece gives the reason.
        """
        frame = {
            "responseId": self.id,
            "modelVersion": self.model,
            "usageMetadata": self._build_usage(),
        }
        if self.step.end == "filter":
            return {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, **frame}
        content: dict[str, Any] = {"role": "model", "parts": parts} if parts else {"role": "model"}
        candidate: dict[str, Any] = {"content": content, "index": 0}
        if finish:
            candidate["finishReason"] = finish
        return {"candidates": [candidate], **frame}

    def _build_usage(self) -> dict[str, int]:
        written = 0 if self.step.end == "filter" else self.written
        return {
            "promptTokenCount": self.read,
            "candidatesTokenCount": written,
            "totalTokenCount": self.read + written,
        }


ANSWER_TYPES: dict[ModelApi, type[ModelAnswer]] = {
    "messages": MessagesAnswer,
    "chat": ChatAnswer,
    "responses": ResponsesAnswer,
    "gemini": GeminiAnswer,
}
