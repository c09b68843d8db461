"""The thread file, in the format of Claude Code 2.1.330. Created with the first prompt,
mode 600.
"""

import json
import os
import time
from typing import Any

from fakes.scripted.identity import VERSION, create_id

SUMMARY = (
    "This session is being continued from a previous conversation that ran out of context. "
    "The summary below covers the earlier portion of the conversation.\n\nSummary:\n"
)


class ScriptedThreadFile:
    """One thread. With an empty path nothing is written: a child session keeps no thread."""

    def __init__(self, path: str, session: str, cwd: str, model: str, permission: str) -> None:
        self.path = path
        self.session = session
        self.cwd = cwd
        self.model = model
        self.permission = permission
        self.tokens = 0
        """In the context window, as the next answer tells it."""
        self.number = -1
        self.last: str | None = None
        self.message = ""

    def record_prompt(self, text: str, prompt_id: str, source: str) -> None:
        """Record what the user submitted."""
        self._append_entry("user", promptId=prompt_id, message={"role": "user", "content": text},
                     permissionMode=self.permission, origin={"kind": "human"}, promptSource=source)  # fmt: skip

    def record_interruption(self, prompt_id: str) -> None:
        """Record that the turn was interrupted."""
        content = [{"type": "text", "text": "[Request interrupted by user]"}]
        self._append_entry("user", promptId=prompt_id, message={"role": "user", "content": content})

    def record_block(self, block: dict[str, Any], *, ends: bool) -> None:
        """Record one block of an answer; each is a separate message."""
        self.message = f"msg_{create_id().replace('-', '')[:22]}"
        usage = {"input_tokens": self.tokens, "cache_creation_input_tokens": 0,
                 "cache_read_input_tokens": 0, "output_tokens": 20}  # fmt: skip
        self._append_entry("assistant", message={
            "id": self.message, "type": "message", "role": "assistant", "model": self.model,
            "content": [block], "stop_reason": "end_turn" if ends else "tool_use",
            "stop_sequence": None, "usage": usage,
        })  # fmt: skip

    def record_limit(self, text: str, resets_at: int | None) -> None:
        """Record that the account is at its usage limit."""
        quota = {"status": "rejected", "rateLimitType": "five_hour", "isUsingOverage": False}
        more = {"quotaLimits": {**quota, **({"resetsAt": resets_at} if resets_at else {})}}
        self.record_failure(
            text, error="rate_limit", apiError="usage_limit_reached", apiErrorStatus=429, **more
        )

    def record_failure(self, text: str, **fields: Any) -> None:
        """Record an error of the model's address; `fields` replace those of an unknown one."""
        message = {"id": create_id(), "type": "message", "role": "assistant", "model": "<synthetic>",
                   "content": [{"type": "text", "text": text}], "stop_reason": "stop_sequence",
                   "usage": {"input_tokens": 0, "output_tokens": 0}}  # fmt: skip
        self._append_entry("assistant", message=message, **{"error": "unknown", "isApiErrorMessage": True, "apiErrorStatus": 400, **fields})  # fmt: skip

    def record_tool(
        self, tool: str, arguments: dict[str, Any], result: str, tool_result: Any, prompt_id: str
    ) -> None:
        """Record that a tool was called and has answered."""
        id = f"toolu_{create_id().replace('-', '')[:22]}"
        self.record_block(
            {"type": "tool_use", "id": id, "name": tool, "input": arguments}, ends=False
        )
        content = [{"tool_use_id": id, "type": "tool_result", "content": result}]
        self._append_entry("user", promptId=prompt_id, message={"role": "user", "content": content}, toolUseResult=tool_result)  # fmt: skip

    def record_context(self, event: str, text: str) -> None:
        """Record what a hook gave the model."""
        attachment = {"type": "hook_additional_context", "content": [text], "hookName": event,
                      "toolUseID": event, "hookEvent": event}  # fmt: skip
        self._append_entry("attachment", attachment=attachment)

    def record_compaction(self, trigger: str, summary: str, before: int, after: int) -> None:
        """Record that the conversation was replaced by a summary."""
        head, self.last = self.last, None
        metadata = {"trigger": trigger, "preTokens": before, "postTokens": after}
        self._append_entry("system", logicalParentUuid=head, subtype="compact_boundary",
                     content="Conversation compacted", level="info", compactMetadata=metadata)  # fmt: skip
        self._append_entry("user", message={"role": "user", "content": SUMMARY + summary},
                     isVisibleInTranscriptOnly=True, isCompactSummary=True)  # fmt: skip

    def record_queue(self, operation: str, text: str = "") -> None:
        """Record that a prompt was put into the queue, or taken out."""
        self._write_line({"type": "queue-operation", "operation": operation, "timestamp": _format_now(),
                     "sessionId": self.session, **({"content": text} if text else {})})  # fmt: skip

    def _append_entry(self, type: str, **more: Any) -> None:
        parent, self.last = self.last, create_id()
        self._write_line({"parentUuid": parent, "isSidechain": False, "type": type, **more, "uuid": self.last,
                     "timestamp": _format_now(), "userType": "external", "entrypoint": "cli", "cwd": self.cwd,
                     "sessionId": self.session, "version": VERSION, "gitBranch": ""})  # fmt: skip

    def _write_line(self, line: dict[str, Any]) -> None:
        if not self.path:
            return
        if self.number < 0:
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self.number = os.open(self.path, flags, 0o600)
        text = json.dumps(line, separators=(",", ":"), ensure_ascii=False)
        os.write(self.number, (text + "\n").encode("utf-8", "replace"))


def _format_now() -> str:
    now = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1000):03d}Z"
