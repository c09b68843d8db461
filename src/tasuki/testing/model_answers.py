"""A scripted step as each API says it: whole, or as the events of a stream."""

import json
import time
import uuid
from collections.abc import Iterator
from typing import Any, Literal

from msgspec import Struct

Api = Literal["messages", "chat", "responses", "gemini"]
PIECE = 24
"""Characters of one streamed piece of text."""

Events = Iterator[tuple[str, dict[str, Any] | str]]


class Call(Struct, frozen=True):
    """A tool call of the model."""

    name: str
    arguments: dict[str, Any] = {}


class Step(Struct, frozen=True):
    """One answer: text and tool calls, after `delay` seconds; or an HTTP error `status`."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    delay: float = 0.0
    status: int = 0
    error: str = "scripted error"


class Answer:
    """A step as one API says it: whole, or as the events of a stream."""

    def __init__(self, step: Step, body: dict[str, Any]) -> None:
        self.step = step
        self.model = body.get("model", "scripted")
        self.read = len(json.dumps(body)) // 4
        self.written = len(step.text) // 4 + 20 * len(step.calls) + 1
        self.id = uuid.uuid4().hex[:20]
        self.calls = [(f"call_{self.id}_{n}", call) for n, call in enumerate(step.calls)]

    def pieces(self) -> list[str]:
        text = self.step.text
        return [text[start : start + PIECE] for start in range(0, len(text), PIECE)]

    def whole(self) -> dict[str, Any]:
        raise NotImplementedError

    def events(self) -> Events:
        raise NotImplementedError


class Messages(Answer):
    """Anthropic Messages."""

    def whole(self) -> dict[str, Any]:
        blocks: list[dict[str, Any]] = []
        if self.step.text or not self.calls:
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
            "stop_reason": "tool_use" if self.calls else "end_turn",
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

    def whole(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": self.step.text or None}
        if self.calls:
            message["tool_calls"] = [self._call(n) for n in range(len(self.calls))]
        choice = {"index": 0, "message": message, "finish_reason": self._finish()}
        return {**self._frame("chat.completion"), "choices": [choice], "usage": self._usage()}

    def events(self) -> Events:
        yield self._chunk({"role": "assistant", "content": ""})
        for piece in self.pieces():
            yield self._chunk({"content": piece})
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
        return "tool_calls" if self.calls else "stop"

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

    def whole(self) -> dict[str, Any]:
        items: list[dict[str, Any]] = []
        if self.step.text or not self.calls:
            part = {"type": "output_text", "text": self.step.text, "annotations": []}
            item = {"type": "message", "role": "assistant", "status": "completed"}
            items.append({"id": f"msg_{self.id}", **item, "content": [part]})
        for id, call in self.calls:
            arguments = json.dumps(call.arguments)
            item = {"type": "function_call", "name": call.name, "arguments": arguments}
            items.append({"id": f"fc_{id}", "call_id": id, "status": "completed", **item})
        return {
            "id": f"resp_{self.id}",
            "object": "response",
            "status": "completed",
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
        yield self._event("response.created", response=begun)
        for index, item in enumerate(whole["output"]):
            yield from self._item(index, item)
        yield self._event("response.completed", response=whole)

    def _item(self, index: int, item: dict[str, Any]) -> Events:
        place = {"output_index": index, "item_id": item["id"]}
        empty: dict[str, object] = (
            {"content": []} if item["type"] == "message" else {"arguments": ""}
        )
        added = {**item, **empty, "status": "in_progress"}
        yield self._event("response.output_item.added", output_index=index, item=added)
        if item["type"] == "message":
            for piece in self.pieces():
                delta = {**place, "content_index": 0, "delta": piece}
                yield self._event("response.output_text.delta", **delta)
        else:
            delta = {**place, "delta": item["arguments"]}
            yield self._event("response.function_call_arguments.delta", **delta)
        yield self._event("response.output_item.done", output_index=index, item=item)

    def _event(self, name: str, **more: object) -> tuple[str, dict[str, Any]]:
        return name, {"type": name, **more}


class Gemini(Answer):
    """Gemini `generateContent` and `streamGenerateContent`."""

    def whole(self) -> dict[str, Any]:
        text = [{"text": self.step.text}] if self.step.text or not self.calls else []
        return self._part([*text, *self._calls()], "STOP")

    def events(self) -> Events:
        for piece in self.pieces():
            yield "", self._part([{"text": piece}])
        yield "", self._part(self._calls() or [{"text": ""}], "STOP")

    def _calls(self) -> list[dict[str, Any]]:
        return [
            {"functionCall": {"id": id, "name": call.name, "args": call.arguments}}
            for id, call in self.calls
        ]

    def _part(self, parts: list[dict[str, Any]], finish: str = "") -> dict[str, Any]:
        candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
        if finish:
            candidate["finishReason"] = finish
        usage = {
            "promptTokenCount": self.read,
            "candidatesTokenCount": self.written,
            "totalTokenCount": self.read + self.written,
        }
        return {"responseId": self.id, "candidates": [candidate], "usageMetadata": usage}


ANSWERS: dict[Api, type[Answer]] = {
    "messages": Messages,
    "chat": Chat,
    "responses": Responses,
    "gemini": Gemini,
}
