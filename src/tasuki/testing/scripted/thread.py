"""The thread file, in the format of Claude Code 2.1.330. Made with the first prompt, mode 600."""

import json
import os
import time
from typing import Any

from .identity import VERSION, new_id

SUMMARY = (
    "This session is being continued from a previous conversation that ran out of context. "
    "The summary below covers the earlier portion of the conversation.\n\nSummary:\n"
)


class ThreadFile:
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

    def prompt(self, text: str, prompt_id: str, source: str) -> None:
        """What the user submitted."""
        self._append("user", promptId=prompt_id, message={"role": "user", "content": text},
                     permissionMode=self.permission, origin={"kind": "human"}, promptSource=source)  # fmt: skip

    def interrupted(self, prompt_id: str) -> None:
        """The turn was broken off."""
        content = [{"type": "text", "text": "[Request interrupted by user]"}]
        self._append("user", promptId=prompt_id, message={"role": "user", "content": content})

    def answered(self, block: dict[str, Any], *, ends: bool) -> None:
        """One block of an answer; each answer is a message of its own."""
        self.message = f"msg_{new_id().replace('-', '')[:22]}"
        usage = {"input_tokens": self.tokens, "cache_creation_input_tokens": 0,
                 "cache_read_input_tokens": 0, "output_tokens": 20}  # fmt: skip
        self._append("assistant", message={
            "id": self.message, "type": "message", "role": "assistant", "model": self.model,
            "content": [block], "stop_reason": "end_turn" if ends else "tool_use",
            "stop_sequence": None, "usage": usage,
        })  # fmt: skip

    def failed(self, text: str) -> None:
        """An error of the model's address."""
        message = {"id": new_id(), "type": "message", "role": "assistant", "model": "<synthetic>",
                   "content": [{"type": "text", "text": text}], "stop_reason": "stop_sequence",
                   "usage": {"input_tokens": 0, "output_tokens": 0}}  # fmt: skip
        self._append("assistant", message=message, error="unknown", isApiErrorMessage=True, apiErrorStatus=400)  # fmt: skip

    def used(
        self, tool: str, given: dict[str, Any], result: str, told: Any, prompt_id: str
    ) -> None:
        """A tool was called and has answered."""
        id = f"toolu_{new_id().replace('-', '')[:22]}"
        self.answered({"type": "tool_use", "id": id, "name": tool, "input": given}, ends=False)
        content = [{"tool_use_id": id, "type": "tool_result", "content": result}]
        self._append("user", promptId=prompt_id, message={"role": "user", "content": content}, toolUseResult=told)  # fmt: skip

    def context(self, event: str, text: str) -> None:
        """What a hook gave the model."""
        attachment = {"type": "hook_additional_context", "content": [text], "hookName": event,
                      "toolUseID": event, "hookEvent": event}  # fmt: skip
        self._append("attachment", attachment=attachment)

    def compacted(self, trigger: str, summary: str, before: int, after: int) -> None:
        """The conversation so far was replaced by a summary."""
        head, self.last = self.last, None
        metadata = {"trigger": trigger, "preTokens": before, "postTokens": after}
        self._append("system", logicalParentUuid=head, subtype="compact_boundary",
                     content="Conversation compacted", level="info", compactMetadata=metadata)  # fmt: skip
        self._append("user", message={"role": "user", "content": SUMMARY + summary},
                     isVisibleInTranscriptOnly=True, isCompactSummary=True)  # fmt: skip

    def queued(self, operation: str, text: str = "") -> None:
        """A prompt was put into the queue, or taken out."""
        self._write({"type": "queue-operation", "operation": operation, "timestamp": _now(),
                     "sessionId": self.session, **({"content": text} if text else {})})  # fmt: skip

    def _append(self, type: str, **more: Any) -> None:
        parent, self.last = self.last, new_id()
        self._write({"parentUuid": parent, "isSidechain": False, "type": type, **more, "uuid": self.last,
                     "timestamp": _now(), "userType": "external", "entrypoint": "cli", "cwd": self.cwd,
                     "sessionId": self.session, "version": VERSION, "gitBranch": ""})  # fmt: skip

    def _write(self, line: dict[str, Any]) -> None:
        if not self.path:
            return
        if self.number < 0:
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self.number = os.open(self.path, flags, 0o600)
        text = json.dumps(line, separators=(",", ":"), ensure_ascii=False)
        os.write(self.number, (text + "\n").encode("utf-8", "replace"))


def _now() -> str:
    now = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1000):03d}Z"
