"""How opencode 1.18 records the events of a thread: rows of its database, and exports."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tasuki_testing.forms import Form, JsonDocument, OpencodeDatabase
from tasuki_testing.thread_formats import Clock, Ended, Record

_STATUS = {"running": "running", "done": "completed", "failed": "error"}
_MODEL = {"providerID": "test", "modelID": "opencode-test"}


class OpencodeFormat:
    """Rows: a session, its messages, and their parts; a call and its result are one part."""

    form: Form = OpencodeDatabase()

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
                "time": {"created": now, "completed": now},
                "path": {"cwd": self.cwd},
                **_MODEL,
            }
        return self._build_rows({**data, **more}, id, now, [*parts])

    def _build_rows(self, data: Record, id: str, now: int, parts: list[Record]) -> list[Record]:
        times = {"time_created": now, "time_updated": now}
        fields = {"session_id": self.session, **times}
        rows: list[Record] = [{"table": "message", "id": id, **fields, "data": data}]
        for part in parts:
            key = self._create_id("prt", self._get_time())
            rows.append({"table": "part", "id": key, "message_id": id, **fields, "data": part})
        return rows

    def _build_call(
        self, tool: str, arguments: Record, status: str, output: str = "", **metadata: Any
    ) -> list[Record]:
        state: Record = {"status": status, "input": arguments, "metadata": metadata}
        if status != "running":
            state["error" if status == "error" else "output"] = output
        id = f"call_{self.clock.number()}"
        part = {"type": "tool", "tool": tool, "callID": id, "state": state}
        return self._build_message("assistant", part, finish="tool-calls")

    def begin(self) -> list[Record]:
        now = self._get_time()
        return [
            {
                "table": "session", "id": self.id, "project_id": "global", "directory": self.cwd,
                "title": "New session - 2026-01-05T09:00:01.000Z", "version": "1.18.33",
                "time_created": now, "time_updated": now,
            }
        ]  # fmt: skip

    def user(self, text: str) -> list[Record]:
        return self._build_message("user", {"type": "text", "text": text})

    def assistant(self, text: str) -> list[Record]:
        step = {"type": "step-start", "snapshot": "0" * 40}
        return self._build_message("assistant", step, {"type": "text", "text": text})

    def shell(self, command: str, output: str, code: int) -> list[Record]:
        return self._build_call("bash", {"command": command}, "completed", output, exit=code)

    def edit(self, path: str, old: str, new: str) -> list[Record]:
        arguments = {"filePath": path, "oldString": old, "newString": new}
        return self._build_call("edit", arguments, "completed", "Edit applied successfully.")

    def write(self, path: str, content: str) -> list[Record]:
        arguments = {"filePath": path, "content": content}
        return self._build_call(
            "write", arguments, "completed", "Wrote file successfully.", exists=False
        )

    def read(self, path: str, content: str) -> list[Record]:
        return self._build_call("read", {"filePath": path}, "completed", content)

    def todos(self, items: Sequence[tuple[str, str]]) -> list[Record]:
        todos = [{"content": text, "status": status, "priority": "high"} for text, status in items]
        return self._build_call("todowrite", {"todos": todos}, "completed", "[]")

    def compaction(self, summary: str) -> list[Record]:
        asked = self._build_message("user", {"type": "compaction", "auto": False})
        text = {"type": "text", "text": summary}
        return [*asked, *self._build_message("assistant", text, summary=True, mode="compaction")]

    def interruption(self) -> list[Record]:
        error = {"name": "MessageAbortedError", "data": {"message": "Aborted"}}
        return self._build_message("assistant", error=error, finish=None)

    def background(self, command: str, ended: Ended) -> list[Record]:
        """Record a running call without result: opencode has no background commands."""
        if ended == "running":
            return self._build_call("bash", {"command": command}, "running")
        return self.shell(command, "finished", 0 if ended == "done" else 1)

    def agent(self, task: str, ended: Ended) -> list[Record]:
        arguments = {"description": task, "prompt": task, "subagent_type": "general"}
        said = {"running": "", "done": "It is done.", "failed": "It failed."}[ended]
        return self._build_call(
            "task", arguments, _STATUS[ended], said, sessionId=f"{self.id[:-1]}z"
        )

    def sidechain(self, text: str) -> list[Record]:
        """Record a sub-agent's words in its own session."""
        (session,), self.session = self.begin(), f"{self.id[:-1]}z"
        session |= {"id": self.session, "parent_id": self.id}
        asked = self.asked
        rows = [session, *self.user(text)]
        self.session, self.asked = self.id, asked
        return rows

    def handoff(self, context: str) -> list[Record]:
        return self.user(f"# Handoff Context\n{context}")


class OpencodeExportFormat(OpencodeFormat):
    """The output of `opencode export`: one document of a session and its messages."""

    form: Form = JsonDocument("messages")

    def file_name(self) -> str:
        return f"{self.id}.json"

    def _build_rows(self, data: Record, id: str, now: int, parts: list[Record]) -> list[Record]:
        held = [
            {
                **part,
                "id": self._create_id("prt", self._get_time()),
                "messageID": id,
                "sessionID": self.id,
            }
            for part in parts
        ]
        return [{"info": {**data, "id": id, "sessionID": self.id}, "parts": held}]

    def begin(self) -> list[Record]:
        now = self._get_time()
        info = {
            "id": self.id, "directory": self.cwd, "title": "New session - 2026-01-05T09:00:01.000Z",
            "version": "1.18.33", "time": {"created": now, "updated": now},
        }  # fmt: skip
        return [{"info": info}]

    def sidechain(self, text: str) -> list[Record]:
        return []
