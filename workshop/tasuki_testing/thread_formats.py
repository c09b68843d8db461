"""How each harness records the events of a thread, for `ThreadBuilder`."""

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

from tasuki_testing.copilot_formats import CopilotFormat
from tasuki_testing.format_base import BaseFormat, Clock, Ended, FileTools, Format, Record
from tasuki_testing.gemini_formats import GeminiDocumentFormat, GeminiFormat
from tasuki_testing.markdown_formats import AiderFormat, SpecStoryFormat
from tasuki_testing.opencode_formats import OpencodeExportFormat, OpencodeFormat


class ClaudeFormat(BaseFormat):
    """Claude Code 2.1: a tree of lines, results inside user messages."""

    file_tools: ClassVar[FileTools] = {
        "edit": (
            "Edit", {"file_path": "path", "old_string": "old", "new_string": "new"},
            "The file {path} has been updated.",
        ),
        "write": (
            "Write", {"file_path": "path", "content": "content"},
            "File created successfully at: {path}",
        ),
        "read": ("Read", {"file_path": "path"}, "{content}"),
    }  # fmt: skip

    def file_name(self) -> str:
        return f"{self.id}.jsonl"

    def _build_line(self, type: str, **more: Any) -> Record:
        uuid = self.clock.uuid()
        line: Record = {
            "parentUuid": self.parent, "isSidechain": False, "userType": "external",
            "cwd": self.cwd, "sessionId": self.id, "version": "2.1.330", "gitBranch": "main",
            "type": type, "uuid": uuid, "timestamp": self.clock.time(), **more,
        }  # fmt: skip
        if not line["isSidechain"]:
            self.parent = uuid
        return line

    def _build_user_line(self, content: object, **more: Any) -> Record:
        return self._build_line("user", message={"role": "user", "content": content}, **more)

    def _build_reply(self, block: Record, **more: Any) -> Record:
        message = {
            "id": f"msg_{self.clock.number()}", "type": "message", "role": "assistant",
            "model": "claude-test", "content": [block],
            "usage": {"input_tokens": 1000, "output_tokens": 20},
        }  # fmt: skip
        return self._build_line("assistant", message=message, **more)

    def build_call(
        self, name: str, arguments: Record, result: str | None, failed: bool = False
    ) -> list[Record]:
        id = f"toolu_{self.clock.number()}"
        call = {"type": "tool_use", "id": id, "name": name, "input": arguments}
        lines = [self._build_reply(call)]
        if result is not None:
            block = {"type": "tool_result", "tool_use_id": id, "content": result}
            lines.append(self._build_user_line([{**block, "is_error": failed}]))
        return lines

    def user(self, text: str) -> list[Record]:
        return [self._build_user_line(text, promptSource="typed")]

    def assistant(self, text: str) -> list[Record]:
        return [self._build_reply({"type": "text", "text": text})]

    def shell(self, command: str, output: str, code: int) -> list[Record]:
        text = f"Exit code {code}\n{output}" if code else output
        return self.build_call("Bash", {"command": command}, text, bool(code))

    def todos(self, items: Sequence[tuple[str, str]]) -> list[Record]:
        todos = [{"content": text, "status": status} for text, status in items]
        return self.build_call("TodoWrite", {"todos": todos}, "Todos have been modified.")

    def compaction(self, summary: str) -> list[Record]:
        before, self.parent = self.parent, None
        boundary = self._build_line("system", subtype="compact_boundary", logicalParentUuid=before)
        return [boundary, self._build_user_line(summary, isCompactSummary=True)]

    def interruption(self) -> list[Record]:
        return [self._build_user_line([{"type": "text", "text": "[Request interrupted by user]"}])]

    def background(self, command: str, ended: Ended) -> list[Record]:
        id = f"b{self.clock.number()}"
        arguments = {"command": command, "run_in_background": True}
        log = f"Output is being written to: /tmp/tasks/{id}.output."
        started = f"Command running in background with ID: {id}. {log}"
        lines = self.build_call("Bash", arguments, started)
        if ended != "running":
            status = "completed" if ended == "done" else "failed"
            inside = f"<task-id>{id}</task-id>\n<status>{status}</status>"
            text = f"<task-notification>\n{inside}\n</task-notification>"
            lines.append(self._build_user_line(text, origin={"kind": "task-notification"}))
        return lines

    def agent(self, task: str, ended: Ended) -> list[Record]:
        arguments = {"description": task, "prompt": task, "subagent_type": "Explore"}
        return self.build_call("Agent", arguments, self.get_agent_result(ended), ended == "failed")

    def sidechain(self, text: str) -> list[Record]:
        return [self._build_user_line(text, isSidechain=True)]


class CodexFormat(BaseFormat):
    """Codex 0.118: response items, with the events that go with them."""

    def file_name(self) -> str:
        return f"rollout-2026-01-05T09-00-01-{self.id}.jsonl"

    def _build_line(self, type: str, payload: Record) -> Record:
        return {"timestamp": self.clock.time(), "type": type, "payload": payload}

    def _build_item(self, type: str, **more: Any) -> Record:
        return self._build_line("response_item", {"type": type, **more})

    def _build_event(self, type: str, **more: Any) -> Record:
        return self._build_line("event_msg", {"type": type, **more})

    def _build_message(self, role: str, text: str) -> Record:
        kind = "output_text" if role == "assistant" else "input_text"
        return self._build_item("message", role=role, content=[{"type": kind, "text": text}])

    def build_call(self, name: str, arguments: Record, result: str | None) -> list[Record]:
        id, given = f"call_{self.clock.number()}", json.dumps(arguments)
        lines = [self._build_item("function_call", name=name, arguments=given, call_id=id)]
        if result is not None:
            lines.append(self._build_item("function_call_output", call_id=id, output=result))
        return lines

    def begin(self) -> list[Record]:
        meta = {
            "id": self.id, "timestamp": self.clock.time(), "cwd": self.cwd, "source": "cli",
            "originator": "codex-tui", "cli_version": "0.118.0",
            "git": {"commit_hash": self.commit, "branch": "main"},
        }  # fmt: skip
        context = {"cwd": self.cwd, "model": "codex-test", "effort": "high"}
        return [self._build_line("session_meta", meta), self._build_line("turn_context", context)]

    def user(self, text: str) -> list[Record]:
        started = self._build_event("task_started", turn_id=self.clock.uuid())
        said = self._build_event("user_message", message=text, images=[])
        return [started, self._build_message("user", text), said]

    def assistant(self, text: str) -> list[Record]:
        usage = {"input_tokens": 1000, "output_tokens": 20, "total_tokens": 1020}
        info = {"last_token_usage": usage, "model_context_window": 258400}
        said = self._build_event("agent_message", message=text)
        message = self._build_message("assistant", text)
        return [said, message, self._build_event("token_count", info=info)]

    def shell(self, command: str, output: str, code: int) -> list[Record]:
        header = f"Chunk ID: 1\nWall time: 0.1 seconds\nProcess exited with code {code}"
        return self.build_call("exec_command", {"cmd": command}, f"{header}\nOutput:\n{output}")

    def edit(self, path: str, old: str, new: str) -> list[Record]:
        lines = [*(f"-{x}" for x in old.split("\n")), *(f"+{x}" for x in new.split("\n"))]
        return self._build_patch(f"*** Update File: {path}", ["@@", *lines], f"M {path}")

    def write(self, path: str, content: str) -> list[Record]:
        lines = [f"+{x}" for x in content.split("\n")]
        return self._build_patch(f"*** Add File: {path}", lines, f"A {path}")

    def _build_patch(self, head: str, lines: list[str], result: str) -> list[Record]:
        id = f"call_{self.clock.number()}"
        patch = "\n".join(("*** Begin Patch", head, *lines, "*** End Patch\n"))
        output = f"Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess.\n{result}\n"
        return [
            self._build_item("custom_tool_call", name="apply_patch", input=patch, call_id=id),
            self._build_item("custom_tool_call_output", call_id=id, output=output),
        ]

    def read(self, path: str, content: str) -> list[Record]:
        return self.shell(f"cat {path}", content, 0)

    def todos(self, items: Sequence[tuple[str, str]]) -> list[Record]:
        plan = [{"step": text, "status": status} for text, status in items]
        return self.build_call("update_plan", {"plan": plan}, "Plan updated")

    def compaction(self, summary: str) -> list[Record]:
        return [self._build_line("compacted", {"message": summary, "replacement_history": []})]

    def interruption(self) -> list[Record]:
        return [self._build_event("turn_aborted", reason="interrupted")]

    def background(self, command: str, ended: Ended) -> list[Record]:
        session = self.clock.number()
        header = "Chunk ID: 2\nWall time: 1.0 seconds\n"
        running = f"{header}Process running with session ID {session}\nOutput:\n"
        lines = self.build_call("exec_command", {"cmd": command}, running)
        if ended != "running":
            code = int(ended == "failed")
            finished = f"{header}Process exited with code {code}\nOutput:\nfinished\n"
            lines += self.build_call("write_stdin", {"session_id": session, "chars": ""}, finished)
        return lines

    def agent(self, task: str, ended: Ended) -> list[Record]:
        id = self.clock.uuid()
        spawned = json.dumps({"agent_id": id, "nickname": "Ada"})
        lines = self.build_call("spawn_agent", {"message": task}, spawned)
        if ended != "running":
            state = "completed" if ended == "done" else "errored"
            result = json.dumps({"status": {id: {state: "It is over."}}, "timed_out": False})
            lines += self.build_call("wait_agent", {"targets": [id]}, result)
        return lines


class PiFormat(BaseFormat):
    """pi and omp, version 3: a tree of entries."""

    file_tools: ClassVar[FileTools] = {
        "write": (
            "write", {"path": "path", "content": "content"}, "Successfully wrote to {path}",
        ),
        "read": ("read", {"path": "path"}, "{content}"),
    }  # fmt: skip

    def __init__(self, cwd: str, clock: Clock, omp: bool = False) -> None:
        super().__init__(cwd, clock)
        self.omp = omp

    def file_name(self) -> str:
        return f"2026-01-05T09-00-01-000Z_{self.id}.jsonl"

    def _build_line(self, type: str, **more: Any) -> Record:
        id = f"{self.clock.number():08x}"
        line = {"type": type, "id": id, "parentId": self.parent, "timestamp": self.clock.time()}
        self.parent = id
        return {**line, **more}

    def _build_message(self, role: str, **more: Any) -> Record:
        return self._build_line("message", message={"role": role, **more})

    def _build_reply(self, block: Record | None, stop: str = "toolUse") -> Record:
        usage = {"input": 1000 if block else 0, "output": 20 if block else 0}
        return self._build_message(
            "assistant", content=[block] if block else [], provider="test", model="pi-test",
            usage=usage, stopReason=stop,
        )  # fmt: skip

    def build_call(
        self, name: str, arguments: Record, result: str | None, **more: Any
    ) -> list[Record]:
        id = f"call_{self.clock.number()}"
        block = {"type": "toolCall", "id": id, "name": name, "arguments": arguments}
        lines = [self._build_reply(block)]
        if result is not None:
            content = [{"type": "text", "text": result}]
            fields = {"toolCallId": id, "toolName": name, "content": content, "isError": False}
            lines.append(self._build_message("toolResult", **{**fields, **more}))
        return lines

    def begin(self) -> list[Record]:
        start: Record = {"type": "session", "version": 3, "id": self.id}
        start |= {"timestamp": self.clock.time(), "cwd": self.cwd}
        slot = {"type": "title", "v": 1, "title": "", "pad": " " * 180}
        model = (
            {"model": "test/pi-test"} if self.omp else {"provider": "test", "modelId": "pi-test"}
        )
        change = self._build_line("model_change", **model)
        level = self._build_line("thinking_level_change", thinkingLevel="high")
        return [*([slot] if self.omp else []), start, change, level]

    def user(self, text: str) -> list[Record]:
        return [self._build_message("user", content=[{"type": "text", "text": text}])]

    def assistant(self, text: str) -> list[Record]:
        return [self._build_reply({"type": "text", "text": text}, "stop")]

    def shell(self, command: str, output: str, code: int) -> list[Record]:
        text = f"{output}\n\nCommand exited with code {code}" if code else output
        return self.build_call("bash", {"command": command}, text, isError=bool(code))

    def edit(self, path: str, old: str, new: str) -> list[Record]:
        arguments = {"path": path, "edits": [{"oldText": old, "newText": new}]}
        return self.build_call("edit", arguments, f"Successfully replaced 1 block(s) in {path}.")

    def todos(self, items: Sequence[tuple[str, str]]) -> list[Record]:
        tasks = [{"content": text, "status": status} for text, status in items]
        details = {"phases": [{"name": "Work", "tasks": tasks}]}
        return self.build_call("todo", {"op": "view"}, "Todos updated.", details=details)

    def compaction(self, summary: str) -> list[Record]:
        return [self._build_line("compaction", summary=summary, firstKeptEntryId=self.parent)]

    def interruption(self) -> list[Record]:
        return [self._build_reply(None, "aborted")]

    def background(self, command: str, ended: Ended) -> list[Record]:
        if ended != "running":
            return super().background(command, ended)
        return self.build_call("bash", {"command": command}, None)

    def agent(self, task: str, ended: Ended) -> list[Record]:
        result, failed = self.get_agent_result(ended), ended == "failed"
        return self.build_call("task", {"description": task}, result, isError=failed)

    def handoff(self, context: str) -> list[Record]:
        content = f"<handoff-context>\n{context}\n</handoff-context>"
        more: Record = {"customType": "handoff", "content": content, "display": True}
        return [self._build_line("custom_message", **more)]


FORMATS: dict[str, Callable[[str, Clock], Format]] = {
    "claude": ClaudeFormat, "codex": CodexFormat, "pi": PiFormat,
    "omp": partial(PiFormat, omp=True), "gemini": GeminiFormat, "gemini-json": GeminiDocumentFormat,
    "copilot": CopilotFormat, "opencode": OpencodeFormat, "opencode-export": OpencodeExportFormat,
    "aider": AiderFormat, "specstory": SpecStoryFormat,
}  # fmt: skip
"""The formats by harness."""


def create_format(harness: str, cwd: str, clock: Clock) -> Format:
    """Return the format of a harness. Raises KeyError for one that has none here."""
    return FORMATS[harness](cwd, clock)
