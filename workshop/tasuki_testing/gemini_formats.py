"""How Gemini CLI records the events of a thread, for `ThreadBuilder`."""

import hashlib
from collections.abc import Sequence
from typing import Any, ClassVar

from tasuki_testing.format_base import BaseFormat, Ended, FileTools, Record
from tasuki_testing.forms import Form, JsonDocument


class GeminiFormat(BaseFormat):
    """Gemini CLI 0.61: a log in which a message is repeated when its calls have results."""

    file_tools: ClassVar[FileTools] = {
        "edit": (
            "replace",
            {"file_path": "path", "old_string": "old", "new_string": "new", "instruction": "Change it"},
            "Successfully modified file: {path} (1 replacements).",
        ),
        "read": ("read_file", {"file_path": "path"}, "{content}"),
    }  # fmt: skip

    def file_name(self) -> str:
        return f"session-2026-01-05T09-00-{self.id[-8:]}.jsonl"

    def _build_fields(self, **more: Any) -> Record:
        hashed = hashlib.sha256(self.cwd.encode("utf-8", "replace")).hexdigest()
        fields = {"sessionId": self.id, "projectHash": hashed}
        moment = self.clock.time()
        return {**fields, "startTime": moment, "lastUpdated": moment, "kind": "main", **more}

    def _build_message(self, type: str, content: object, **more: Any) -> Record:
        fields = {"id": self.clock.uuid(), "timestamp": self.clock.time()}
        return {**fields, "type": type, "content": content, **more}

    def _build_reply(self, text: str, **more: Any) -> Record:
        tokens = {"input": 1000, "output": 20, "cached": 0, "total": 1020}
        return self._build_message("gemini", text, thoughts=[], tokens=tokens, model="fake", **more)

    def _build_context(self) -> Record:
        text = (
            "<session_context>\nThis is the Gemini CLI.\n- **Workspace Directories:**\n"
            f"  - {self.cwd}\n- **Directory Structure:**\n</session_context>"
        )
        return {**self._build_message("user", [{"text": text}]), "id": "c0ffee00" * 4}

    def build_call(
        self, name: str, arguments: Record, result: str | None, status: str = "success", **more: Any
    ) -> list[Record]:
        id = f"{name}_{self.clock.number()}"
        key = "output" if status == "success" else "error"
        response = {"functionResponse": {"id": id, "name": name, "response": {key: result}}}
        call: Record = {"id": id, "name": name, "args": arguments, "status": status}
        call["timestamp"] = self.clock.time()
        if result is not None:
            call["result"] = [response]
        return self._record_call({**call, **more}, [] if result is None else [response])

    def _record_call(self, call: Record, responses: list[Record]) -> list[Record]:
        reply = self._build_reply("")
        records = [reply, {**reply, "toolCalls": [call]}]
        return [*records, self._build_message("user", responses)] if responses else records

    def begin(self) -> list[Record]:
        start = self._build_context()
        update = {"$set": {"messages": [start], "lastUpdated": start["timestamp"]}}
        return [self._build_fields(), update]

    def user(self, text: str) -> list[Record]:
        return [self._build_message("user", [{"text": text}])]

    def assistant(self, text: str) -> list[Record]:
        reply = self._build_reply(text)
        return [reply, {"$set": {"lastUpdated": reply["timestamp"]}}]

    def shell(self, command: str, output: str, code: int) -> list[Record]:
        lines = [f"Output: {output}", *([f"Exit Code: {code}"] if code else [])]
        text = "\n".join((*lines, "Process Group PGID: 4711"))
        fenced = f"<untrusted_context>\n{text}\n</untrusted_context>"
        return self.build_call("run_shell_command", {"command": command}, fenced)

    def write(self, path: str, content: str) -> list[Record]:
        arguments = {"file_path": path, "content": content}
        result = f"Successfully created and wrote to new file: {path}."
        return self.build_call("write_file", arguments, result, resultDisplay={"isNewFile": True})

    def todos(self, items: Sequence[tuple[str, str]]) -> list[Record]:
        todos = [{"description": text, "status": status} for text, status in items]
        result = "Successfully updated the todo list."
        return self.build_call("write_todos", {"todos": todos}, result)

    def compaction(self, summary: str) -> list[Record]:
        text = f"<state_snapshot>{summary}</state_snapshot>"
        snapshot = self._build_message("user", [{"text": text}])
        reply = [{"text": "Got it. Thanks for the additional context!"}]
        messages = [self._build_context(), snapshot, self._build_message("gemini", reply)]
        return [{"$set": {"messages": messages}}, self._build_message("info", "")]

    def interruption(self) -> list[Record]:
        return [self._build_message("info", "Request cancelled.")]

    def background(self, command: str, ended: Ended) -> list[Record]:
        process = self.clock.number()
        arguments = {"command": command, "is_background": True}
        moved = f"Command moved to background (PID: {process})."
        moved += " Output hidden. Press Ctrl+B to view."
        records = self.build_call("run_shell_command", arguments, moved)
        if ended != "running":
            code = int(ended == "failed")
            listed = f"- [PID {process}] EXITED: `{command}` (Exit Code: {code})"
            records += self.build_call("list_background_processes", {}, listed)
        return records

    def agent(self, task: str, ended: Ended) -> list[Record]:
        arguments = {"agent_name": "generalist", "prompt": task}
        if ended == "running":
            return self.build_call("invoke_agent", arguments, None, "executing")
        reason = "GOAL" if ended == "done" else "TIMEOUT"
        result = f"Subagent 'generalist' finished.\nTermination Reason: {reason}"
        result += "\nResult:\nIt is over."
        return self.build_call("invoke_agent", arguments, result, agentId=self.clock.uuid())


class GeminiDocumentFormat(GeminiFormat):
    """Gemini CLI before it had logs: one document, rewritten each time."""

    form: Form = JsonDocument()

    def file_name(self) -> str:
        return super().file_name().removesuffix("l")

    def begin(self) -> list[Record]:
        return [self._build_fields(directories=[self.cwd])]

    def assistant(self, text: str) -> list[Record]:
        return [self._build_reply(text)]

    def _record_call(self, call: Record, responses: list[Record]) -> list[Record]:
        return [self._build_reply("", toolCalls=[call])]

    def compaction(self, summary: str) -> list[Record]:
        """Return a remark without words: nothing else is left of it."""
        return [self._build_message("info", "")]
