"""A scripted step as each API says it: whole, or as the events of a stream."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from msgspec import Struct

if TYPE_CHECKING:
    from tasuki.testing.model_server import Request

Api = Literal["messages", "chat", "responses", "gemini"]
End = Literal["stop", "length", "refusal", "filter"]
"""Why an answer ends: done, cut off, refused in the model's own words, held back by the provider."""
PIECE = 24
"""Characters of one streamed piece of text, unless that makes more than `PIECES`."""
PIECES = 1000

Events = Iterator[tuple[str, dict[str, Any] | str]]


class Call(Struct, frozen=True):
    """A tool call of the model."""

    name: str
    arguments: dict[str, Any] = {}
    namespace: str = ""
    """Where the Responses API looks for the tool, as of an MCP server's; empty for its own tools."""


class Step(Struct, frozen=True):
    """One answer: text and tool calls, or what goes wrong instead. The default is an empty one."""

    text: str = ""
    calls: tuple[Call, ...] = ()
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
    end: End = "stop"
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
    reply: Callable[[Request], Step | str] | None = None
    """Makes the step, or its text, from the request."""


class Answer:
    """A step as one API says it: whole, or as the events of a stream."""

    ends: ClassVar[dict[End, str]]
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

    def __init__(self, step: Step, body: dict[str, Any]) -> None:
        self.step = step
        self.model = body.get("model", "scripted")
        self.read = len(json.dumps(body)) // 4 if step.read is None else step.read
        self.written = len(step.text) // 4 + 20 * len(step.calls) + 1
        self.id = uuid.uuid4().hex[:20]
        self.calls = [(f"call_{self.id}_{n}", call) for n, call in enumerate(step.calls)]

    def pieces(self) -> list[str]:
        text = self.step.text
        size = max(PIECE, len(text) // PIECES)
        return [text[start : start + size] for start in range(0, len(text), size)]

    def whole(self) -> dict[str, Any]:
        raise NotImplementedError

    def events(self) -> Events:
        raise NotImplementedError

    def error(self) -> dict[str, Any]:
        """The body of an HTTP error."""
        return {"error": {"message": self.step.error, "type": self.code(), "code": self.code()}}

    def late_error(self) -> tuple[str, dict[str, Any]]:
        """The same error inside a stream that is open already."""
        return "", self.error()

    def code(self) -> str:
        return self.step.code or self.errors.get(self.step.status, "api_error")


class Messages(Answer):
    """Anthropic Messages."""

    ends: ClassVar[dict[End, str]] = {
        "stop": "end_turn",
        "length": "max_tokens",
        "refusal": "refusal",
        "filter": "refusal",
    }

    def whole(self) -> dict[str, Any]:
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

    def events(self) -> Events:
        whole = self.whole()
        started = {**whole, "content": [], "stop_reason": None}
        yield self._event("message_start", message=started)
        for index, block in enumerate(whole["content"]):
            yield from self._block(index, block)
        ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        yield self._event("message_delta", delta=ended, usage={"output_tokens": self.written})
        yield self._event("message_stop")

    def error(self) -> dict[str, Any]:
        said = {"type": self.code(), "message": self.step.error}
        return {"type": "error", "error": said, "request_id": f"req_{self.id}"}

    def late_error(self) -> tuple[str, dict[str, Any]]:
        return "error", self.error()

    def _block(self, index: int, block: dict[str, Any]) -> Events:
        empty: dict[str, object] = {"text": ""} if block["type"] == "text" else {"input": {}}
        yield self._event("content_block_start", index=index, content_block={**block, **empty})
        if block["type"] == "text":
            deltas = [{"type": "text_delta", "text": piece} for piece in self.pieces()]
        else:
            arguments = json.dumps(block["input"])
            deltas = [{"type": "input_json_delta", "partial_json": arguments}]
        for delta in deltas:
            yield self._event("content_block_delta", index=index, delta=delta)
        yield self._event("content_block_stop", index=index)

    def _event(self, name: str, **more: object) -> tuple[str, dict[str, Any]]:
        return name, {"type": name, **more}


class Chat(Answer):
    """OpenAI Chat Completions."""

    ends: ClassVar[dict[End, str]] = {
        "stop": "stop",
        "length": "length",
        "refusal": "stop",
        "filter": "content_filter",
    }

    def whole(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": self.step.text, "refusal": None}
        if self.calls:
            message["content"] = self.step.text or None
            message["tool_calls"] = [self._call(n) for n in range(len(self.calls))]
        if self.step.end == "refusal":
            message |= {"content": None, "refusal": self.step.text}
        choice = {"index": 0, "message": message, "finish_reason": self._finish()}
        return {**self._frame("chat.completion"), "choices": [choice], "usage": self._usage()}

    def events(self) -> Events:
        yield self._chunk({"role": "assistant", "content": ""})
        for piece in self.pieces():
            yield self._chunk({"refusal" if self.step.end == "refusal" else "content": piece})
        for n in range(len(self.calls)):
            yield self._chunk({"tool_calls": [{"index": n, **self._call(n)}]})
        yield self._chunk({}, self._finish())
        frame = self._frame("chat.completion.chunk")
        yield "", {**frame, "choices": [], "usage": self._usage()}
        yield "", "[DONE]"

    def _chunk(
        self, delta: dict[str, Any], finish: str | None = None
    ) -> tuple[str, dict[str, Any]]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return "", {**self._frame("chat.completion.chunk"), "choices": [choice]}

    def _frame(self, kind: str) -> dict[str, Any]:
        frame = {"id": f"chatcmpl-{self.id}", "object": kind, "model": self.model}
        return {**frame, "created": int(time.time())}

    def _finish(self) -> str:
        return "tool_calls" if self.calls else self.ends[self.step.end]

    def _call(self, n: int) -> dict[str, Any]:
        id, call = self.calls[n]
        function = {"name": call.name, "arguments": json.dumps(call.arguments)}
        return {"id": id, "type": "function", "function": function}

    def _usage(self) -> dict[str, int]:
        total = self.read + self.written
        return {
            "prompt_tokens": self.read,
            "completion_tokens": self.written,
            "total_tokens": total,
        }


class Responses(Answer):
    """OpenAI Responses."""

    ends: ClassVar[dict[End, str]] = {
        "stop": "completed",
        "length": "incomplete",
        "refusal": "completed",
        "filter": "incomplete",
    }

    def whole(self) -> dict[str, Any]:
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
            "incomplete_details": self._details(),
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

    def events(self) -> Events:
        whole = self.whole()
        begun = {**whole, "status": "in_progress", "output": [], "usage": None}
        begun["incomplete_details"] = None
        yield self._event("response.created", response=begun)
        for index, item in enumerate(whole["output"]):
            yield from self._item(index, item)
        yield self._event(f"response.{whole['status']}", response=whole)

    def late_error(self) -> tuple[str, dict[str, Any]]:
        return self._event("error", code=self.code(), message=self.step.error, param=None)

    def _details(self) -> dict[str, str] | None:
        reasons = {"length": "max_output_tokens", "filter": "content_filter"}
        reason = reasons.get(self.step.end)
        return {"reason": reason} if reason else None

    def _item(self, index: int, item: dict[str, Any]) -> Events:
        place = {"output_index": index, "item_id": item["id"]}
        empty: dict[str, object] = (
            {"content": []} if item["type"] == "message" else {"arguments": ""}
        )
        added = {**item, **empty, "status": "in_progress"}
        yield self._event("response.output_item.added", output_index=index, item=added)
        if item["type"] == "message":
            kind = "refusal" if self.step.end == "refusal" else "output_text"
            for piece in self.pieces():
                delta = {**place, "content_index": 0, "delta": piece}
                yield self._event(f"response.{kind}.delta", **delta)
        else:
            delta = {**place, "delta": item["arguments"]}
            yield self._event("response.function_call_arguments.delta", **delta)
        yield self._event("response.output_item.done", output_index=index, item=item)

    def _event(self, name: str, **more: object) -> tuple[str, dict[str, Any]]:
        return name, {"type": name, **more}


class Gemini(Answer):
    """Gemini `generateContent` and `streamGenerateContent`."""

    ends: ClassVar[dict[End, str]] = {
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

    def whole(self) -> dict[str, Any]:
        text = [{"text": self.step.text}] if self.step.text else []
        return self._part([*text, *self._calls()], self.ends[self.step.end])

    def events(self) -> Events:
        for piece in self.pieces() if self.step.end != "filter" else []:
            yield "", self._part([{"text": piece}])
        yield "", self._part(self._calls() or [{"text": ""}], self.ends[self.step.end])

    def error(self) -> dict[str, Any]:
        name = self.step.code or self.errors.get(self.step.status, "UNKNOWN")
        said = {"code": self.step.status, "message": self.step.error, "status": name}
        return {"error": said}

    def _calls(self) -> list[dict[str, Any]]:
        return [
            {"functionCall": {"id": id, "name": call.name, "args": call.arguments}}
            for id, call in self.calls
        ]

    def _part(self, parts: list[dict[str, Any]], finish: str = "") -> dict[str, Any]:
        """One piece of an answer. A prompt that was held back has no candidate, and says why."""
        frame = {"responseId": self.id, "modelVersion": self.model, "usageMetadata": self._usage()}
        if self.step.end == "filter":
            return {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, **frame}
        content: dict[str, Any] = {"role": "model", "parts": parts} if parts else {"role": "model"}
        candidate: dict[str, Any] = {"content": content, "index": 0}
        if finish:
            candidate["finishReason"] = finish
        return {"candidates": [candidate], **frame}

    def _usage(self) -> dict[str, int]:
        written = 0 if self.step.end == "filter" else self.written
        return {
            "promptTokenCount": self.read,
            "candidatesTokenCount": written,
            "totalTokenCount": self.read + written,
        }


ANSWERS: dict[Api, type[Answer]] = {
    "messages": Messages,
    "chat": Chat,
    "responses": Responses,
    "gemini": Gemini,
}
