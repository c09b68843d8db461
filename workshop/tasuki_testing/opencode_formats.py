"""How opencode 1.18 records the events of a thread: rows of its database, and exports."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar

from tasuki_testing.format_base import BaseFormat, Clock, Ended, FileTools, Record
from tasuki_testing.forms import Form, JsonDocument, OpencodeDatabase

_MODEL = {"providerID": "test", "modelID": "opencode-test"}
_SESSION = {"title": "New session - 2026-01-05T09:00:01.000Z", "version": "1.18.33"}


class OpencodeFormat(BaseFormat):
    """Rows: a session, its messages, and their parts; a call and its result are one part."""

    form: Form = OpencodeDatabase()
    file_tools: ClassVar[FileTools] = {
        "edit": (
            "edit", {"filePath": "path", "oldString": "old", "newString": "new"},
            "Edit applied successfully.",
        ),
        "read": ("read", {"filePath": "path"}, "{content}"),
    }  # fmt: skip

    def __init__(self, cwd: str, clock: Clock) -> None:
        self.cwd, self.clock = cwd, clock
        self.id = f"ses_{clock.number():012x}AbCdEfGhIjKlMn"
        self.session = self.id
        self.asked = ""

    def file_name(self) -> str:
        return f"opencode.db/{self.id}"

    def _get_time(self) -> int:
        return int(datetime.fromisoformat(self.clock.time()).timestamp() * 1000)

    def _create_id(self, prefix: str, now: int) -> str:
        moment = (now << 12) & ((1 << 48) - 1)
        return f"{prefix}_{moment:012x}{self.clock.number():014}"

    def _build_message(self, role: str, *parts: Record, **more: Any) -> list[Record]:
        now = self._get_time()
        id = self._create_id("msg", now)
        if role == "user":
            self.asked = id
            data: Record = {"role": role, "time": {"created": now}, "model": _MODEL}
        else:
            tokens = {"input": 1000, "output": 20, "reasoning": 0, "cache": {"read": 0, "write": 0}}
            data = {"role": role, "parentID": self.asked, "tokens": tokens, "finish": "stop"}
            data |= {
                "time": {"created": now, "completed": now}, "path": {"cwd": self.cwd}, **_MODEL,
            }  # fmt: skip
        return self._build_rows({**data, **more}, id, now, [*parts])

    def _build_rows(self, data: Record, id: str, now: int, parts: list[Record]) -> list[Record]:
        fields = {"session_id": self.session, "time_created": now, "time_updated": now}
        rows: list[Record] = [{"table": "message", "id": id, **fields, "data": data}]
        for part in parts:
            key = self._create_id("prt", self._get_time())
            rows.append({"table": "part", "id": key, "message_id": id, **fields, "data": part})
        return rows

    def build_call(
        self, name: str, arguments: Record, result: str | None, failed: bool = False, **more: Any
    ) -> list[Record]:
        status = "running" if result is None else "error" if failed else "completed"
        state: Record = {"status": status, "input": arguments, "metadata": more}
        if result is not None:
            state["error" if failed else "output"] = result
        id = f"call_{self.clock.number()}"
        part = {"type": "tool", "tool": name, "callID": id, "state": state}
        return self._build_message("assistant", part, finish="tool-calls")

    def begin(self) -> list[Record]:
        now = self._get_time()
        start = {"table": "session", "id": self.id, "project_id": "global", "directory": self.cwd}
        return [{**start, **_SESSION, "time_created": now, "time_updated": now}]

    def user(self, text: str) -> list[Record]:
        return self._build_message("user", {"type": "text", "text": text})

    def assistant(self, text: str) -> list[Record]:
        step = {"type": "step-start", "snapshot": "0" * 40}
        return self._build_message("assistant", step, {"type": "text", "text": text})

    def shell(self, command: str, output: str, code: int) -> list[Record]:
        return self.build_call("bash", {"command": command}, output, exit=code)

    def write(self, path: str, content: str) -> list[Record]:
        arguments = {"filePath": path, "content": content}
        return self.build_call("write", arguments, "Wrote file successfully.", exists=False)

    def todos(self, items: Sequence[tuple[str, str]]) -> list[Record]:
        todos = [{"content": text, "status": status, "priority": "high"} for text, status in items]
        return self.build_call("todowrite", {"todos": todos}, "[]")

    def compaction(self, summary: str) -> list[Record]:
        asked = self._build_message("user", {"type": "compaction", "auto": False})
        text = {"type": "text", "text": summary}
        return [*asked, *self._build_message("assistant", text, summary=True, mode="compaction")]

    def interruption(self) -> list[Record]:
        error = {"name": "MessageAbortedError", "data": {"message": "Aborted"}}
        return self._build_message("assistant", error=error, finish=None)

    def background(self, command: str, ended: Ended) -> list[Record]:
        if ended != "running":
            return super().background(command, ended)
        return self.build_call("bash", {"command": command}, None)

    def agent(self, task: str, ended: Ended) -> list[Record]:
        arguments = {"description": task, "prompt": task, "subagent_type": "general"}
        result, session = self.get_agent_result(ended), f"{self.id[:-1]}z"
        return self.build_call("task", arguments, result, ended == "failed", sessionId=session)

    def sidechain(self, text: str) -> list[Record]:
        """Record a sub-agent's words in its own session."""
        (session,), self.session = self.begin(), f"{self.id[:-1]}z"
        session |= {"id": self.session, "parent_id": self.id}
        asked = self.asked
        rows = [session, *self.user(text)]
        self.session, self.asked = self.id, asked
        return rows


class OpencodeExportFormat(OpencodeFormat):
    """The output of `opencode export`: one document of a session and its messages."""

    form: Form = JsonDocument("messages")

    def file_name(self) -> str:
        return f"{self.id}.json"

    def _build_rows(self, data: Record, id: str, now: int, parts: list[Record]) -> list[Record]:
        fields = {"messageID": id, "sessionID": self.id}
        held = [{**p, "id": self._create_id("prt", self._get_time()), **fields} for p in parts]
        return [{"info": {**data, "id": id, "sessionID": self.id}, "parts": held}]

    def begin(self) -> list[Record]:
        now = self._get_time()
        info = {"id": self.id, "directory": self.cwd, **_SESSION}
        return [{"info": {**info, "time": {"created": now, "updated": now}}}]

    def sidechain(self, text: str) -> list[Record]:
        return []
