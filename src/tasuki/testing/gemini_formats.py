"""How Gemini CLI writes down what happens in a thread, for `ThreadBuilder`."""

import hashlib
from collections.abc import Sequence
from typing import Any

from tasuki.testing.forms import Form, JsonDocument, JsonLines
from tasuki.testing.thread_formats import Clock, Ended, Record


class GeminiFormat:
    """Gemini CLI 0.61: a log in which a message comes again when its calls have results."""

    form: Form = JsonLines()

    def __init__(self, cwd: str, clock: Clock) -> None:
        self.cwd, self.clock = cwd, clock
        self.id = clock.uuid()

    def file_name(self) -> str:
        return f"session-2026-01-05T09-00-{self.id[-8:]}.jsonl"

    def _fields(self, **more: Any) -> Record:
        hashed = hashlib.sha256(self.cwd.encode("utf-8", "replace")).hexdigest()
        at = self.clock.time()
        fields = {"sessionId": self.id, "projectHash": hashed, "startTime": at, "lastUpdated": at}
        return {**fields, "kind": "main", **more}

    def _message(self, type: str, content: object, **more: Any) -> Record:
        known = {"id": self.clock.uuid(), "timestamp": self.clock.time()}
        return {**known, "type": type, "content": content, **more}

    def _replied(self, text: str, **more: Any) -> Record:
        tokens = {"input": 1000, "output": 20, "cached": 0, "total": 1020}
        return self._message("gemini", text, thoughts=[], tokens=tokens, model="fake", **more)

    def _context(self) -> Record:
        text = (
            "<session_context>\nThis is the Gemini CLI.\n- **Workspace Directories:**\n"
            f"  - {self.cwd}\n- **Directory Structure:**\n</session_context>"
        )
        return {**self._message("user", [{"text": text}]), "id": "c0ffee00" * 4}

    def _call(
        self, name: str, given: Record, result: str | None, status: str = "success", **more: Any
    ) -> list[Record]:
        call, response = self._called(name, given, result, status, **more)
        reply = self._replied("")
        records = [reply, {**reply, "toolCalls": [call]}]
        return [*records, self._message("user", [response])] if result is not None else records

    def _called(
        self, name: str, given: Record, result: str | None, status: str, **more: Any
    ) -> tuple[Record, Record]:
        id = f"{name}_{self.clock.number()}"
        key = "output" if status == "success" else "error"
        told = {"id": id, "name": name, "response": {key: result}}
        response: Record = {"functionResponse": told}
        call: Record = {
            "id": id,
            "name": name,
            "args": given,
            "status": status,
            "timestamp": self.clock.time(),
        }
        if result is not None:
            call["result"] = [response]
        return {**call, **more}, response

    def begin(self) -> list[Record]:
        start = self._context()
        return [self._fields(), {"$set": {"messages": [start], "lastUpdated": start["timestamp"]}}]

    def user(self, text: str) -> list[Record]:
        return [self._message("user", [{"text": text}])]

    def assistant(self, text: str) -> list[Record]:
        reply = self._replied(text)
        return [reply, {"$set": {"lastUpdated": reply["timestamp"]}}]

    def shell(self, command: str, output: str, code: int) -> list[Record]:
        lines = [f"Output: {output}", *([f"Exit Code: {code}"] if code else [])]
        text = "\n".join((*lines, "Process Group PGID: 4711"))
        fenced = f"<untrusted_context>\n{text}\n</untrusted_context>"
        return self._call("run_shell_command", {"command": command}, fenced)

    def edit(self, path: str, old: str, new: str) -> list[Record]:
        given = {
            "file_path": path,
            "old_string": old,
            "new_string": new,
            "instruction": "Change it",
        }
        return self._call("replace", given, f"Successfully modified file: {path} (1 replacements).")

    def write(self, path: str, content: str) -> list[Record]:
        given = {"file_path": path, "content": content}
        result = f"Successfully created and wrote to new file: {path}."
        return self._call("write_file", given, result, resultDisplay={"isNewFile": True})

    def read(self, path: str, content: str) -> list[Record]:
        return self._call("read_file", {"file_path": path}, content)

    def todos(self, items: Sequence[tuple[str, str]]) -> list[Record]:
        todos = [{"description": text, "status": status} for text, status in items]
        return self._call("write_todos", {"todos": todos}, "Successfully updated the todo list.")

    def compaction(self, summary: str) -> list[Record]:
        text = f"<state_snapshot>{summary}</state_snapshot>"
        snapshot = self._message("user", [{"text": text}])
        reply = [{"text": "Got it. Thanks for the additional context!"}]
        messages = [self._context(), snapshot, self._message("gemini", reply)]
        return [{"$set": {"messages": messages}}, self._message("info", "")]

    def interrupted(self) -> list[Record]:
        return [self._message("info", "Request cancelled.")]

    def background(self, command: str, ended: Ended) -> list[Record]:
        process = self.clock.number()
        given = {"command": command, "is_background": True}
        moved = (
            f"Command moved to background (PID: {process}). Output hidden. Press Ctrl+B to view."
        )
        records = self._call("run_shell_command", given, moved)
        if ended != "running":
            code = int(ended == "failed")
            listed = f"- [PID {process}] EXITED: `{command}` (Exit Code: {code})"
            records += self._call("list_background_processes", {}, listed)
        return records

    def agent(self, task: str, ended: Ended) -> list[Record]:
        given = {"agent_name": "generalist", "prompt": task}
        if ended == "running":
            return self._call("invoke_agent", given, None, "executing")
        reason = "GOAL" if ended == "done" else "TIMEOUT"
        result = (
            f"Subagent 'generalist' finished.\nTermination Reason: {reason}\nResult:\nIt is over."
        )
        return self._call("invoke_agent", given, result, agentId=self.clock.uuid())

    def sidechain(self, text: str) -> list[Record]:
        """A sub-agent's words stand in a file of their own."""
        return []

    def handoff(self, context: str) -> list[Record]:
        return self.user(f"# Handoff Context\n{context}")


class GeminiDocumentFormat(GeminiFormat):
    """Gemini CLI before it had logs: one document, written anew each time."""

    form: Form = JsonDocument()

    def file_name(self) -> str:
        return f"session-2026-01-05T09-00-{self.id[-8:]}.json"

    def begin(self) -> list[Record]:
        return [self._fields(directories=[self.cwd])]

    def assistant(self, text: str) -> list[Record]:
        return [self._replied(text)]

    def _call(
        self, name: str, given: Record, result: str | None, status: str = "success", **more: Any
    ) -> list[Record]:
        call, _ = self._called(name, given, result, status, **more)
        return [self._replied("", toolCalls=[call])]

    def compaction(self, summary: str) -> list[Record]:
        """All that is left of it is a remark without words."""
        return [self._message("info", "")]
