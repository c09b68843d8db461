"""How Copilot CLI 1.0 records the events of a thread, for `ThreadBuilder`."""

from collections.abc import Sequence
from typing import Any, ClassVar

from tasuki_testing.format_base import BaseFormat, Ended, FileTools, Record


class CopilotFormat(BaseFormat):
    """Events, each the child of the one before it; todos are rows of a table."""

    file_tools: ClassVar[FileTools] = {
        "edit": (
            "edit", {"path": "path", "old_str": "old", "new_str": "new"},
            "File {path} updated with changes.",
        ),
        "read": ("view", {"path": "path"}, "{content}"),
    }  # fmt: skip

    def file_name(self) -> str:
        return "events.jsonl"

    def _build_event(self, type: str, agent: str = "", **data: Any) -> Record:
        record: Record = {"type": type, "data": data}
        if agent:
            record["agentId"] = agent
        record |= {"id": self.clock.uuid(), "timestamp": self.clock.time()}
        record["parentId"], self.parent = self.parent, record["id"]
        return record

    def _build_message(self, text: str, agent: str = "", requests: Sequence[Record] = ()) -> Record:
        data: Record = {"model": "fake", "content": text, "toolRequests": [*requests]}
        return self._build_event("assistant.message", agent, **data)

    def build_call(
        self, name: str, arguments: Record, result: str | None, failed: bool = False, **more: Any
    ) -> list[Record]:
        id = f"call_{self.clock.number()}"
        request = {"toolCallId": id, "name": name, "arguments": arguments, "type": "function"}
        started: Record = {"toolCallId": id, "toolName": name, "arguments": arguments}
        message = self._build_message("", requests=[request])
        events = [message, self._build_event("tool.execution_start", **started)]
        if result is not None:
            error = {"error": {"message": result, "code": "failure"}}
            said = error if failed else {"result": {"content": result}}
            data: Record = {"toolCallId": id, "success": not failed, **said, **more}
            events.append(self._build_event("tool.execution_complete", **data))
        return events

    def begin(self) -> list[Record]:
        context = {
            "cwd": self.cwd, "gitRoot": self.cwd, "branch": "main", "headCommit": self.commit,
        }  # fmt: skip
        data: Record = {
            "sessionId": self.id, "version": 1, "producer": "copilot-agent",
            "copilotVersion": "1.0.102", "startTime": self.clock.time(),
            "selectedModel": "fake", "context": context,
        }  # fmt: skip
        return [self._build_event("session.start", **data)]

    def user(self, text: str) -> list[Record]:
        return [self._build_event("user.message", content=text, delivery="idle")]

    def assistant(self, text: str) -> list[Record]:
        usage = {
            "model": "fake", "inputTokens": 1000, "outputTokens": 20, "maxPromptTokens": 128000,
        }  # fmt: skip
        said = self._build_message(text)
        return [self._build_event("session.usage_record", usage=usage), said]

    def shell(self, command: str, output: str, code: int) -> list[Record]:
        text = f"{output}\n<shellId: 0 completed with exit code {code}>"
        arguments = {"command": command, "description": "Run it"}
        return self.build_call("bash", arguments, text, shellExecution={"exitCode": code})

    def write(self, path: str, content: str) -> list[Record]:
        result = f"Created file {path} with {len(content)} characters"
        return self.build_call("create", {"path": path, "file_text": content}, result)

    def todos(self, items: Sequence[tuple[str, str]]) -> list[Record]:
        states = {"completed": "done"}
        rows = ", ".join(
            f"('t{n}', '{text.replace(chr(39), chr(39) * 2)}', '{states.get(state, state)}')"
            for n, (text, state) in enumerate(items)
        )
        query = f"DELETE FROM todos; INSERT INTO todos (id, title, status) VALUES {rows};"
        arguments = {"description": "Plan the work", "query": query}
        return self.build_call("sql", arguments, f"{len(items)} row(s) inserted.")

    def compaction(self, summary: str) -> list[Record]:
        done: Record = {"success": True, "messagesRemoved": 4, "summaryContent": summary}
        return [
            self._build_event("session.compaction_start", trigger="manual"),
            self._build_event("session.compaction_complete", **done),
        ]

    def interruption(self) -> list[Record]:
        return [self._build_event("abort", reason="user_initiated")]

    def background(self, command: str, ended: Ended) -> list[Record]:
        shell = str(self.clock.number())
        arguments = {"command": command, "description": "Run it", "mode": "async"}
        started = f"<command started in background with shellId: {shell}>"
        events = self.build_call("bash", arguments, started)
        if ended != "running":
            kind = {"type": "shell_completed", "shellId": shell, "exitCode": int(ended == "failed")}
            data: Record = {"content": "It is over.", "kind": kind}
            events.append(self._build_event("system.notification", **data))
        return events

    def agent(self, task: str, ended: Ended) -> list[Record]:
        arguments = {"description": task, "prompt": task, "agent_type": "general-purpose"}
        return self.build_call("task", arguments, self.get_agent_result(ended), ended == "failed")

    def sidechain(self, text: str) -> list[Record]:
        return [self._build_message(text, self.clock.uuid())]
