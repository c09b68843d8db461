"""How each harness records the events of a thread, for `ThreadBuilder`."""

import json
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Literal, Protocol

from tasuki_testing.forms import Form, JsonLines

Record = dict[str, Any]
Ended = Literal["done", "failed", "running"]


class Clock:
    """Times and ids that are the same at every run."""

    def __init__(self, seed: int = 0) -> None:
        self._seconds = 0
        self._ids = seed * 100_000

    def time(self) -> str:
        """Return an ISO 8601 time, one second later with each call."""
        self._seconds += 1
        minutes, seconds = divmod(self._seconds, 60)
        hours, minutes = divmod(minutes, 60)
        return f"2026-01-05T{9 + hours:02}:{minutes:02}:{seconds:02}.000Z"

    def number(self) -> int:
        """Return the next unused number."""
        self._ids += 1
        return self._ids

    def uuid(self) -> str:
        """Return a UUID made of the next number."""
        return f"00000000-0000-7000-8000-{self.number():012x}"


class Format(Protocol):
    """Records of one harness, with one method for each kind of event."""

    id: str
    form: Form

    def file_name(self) -> str: ...
    def begin(self) -> list[Record]: ...
    def user(self, text: str) -> list[Record]: ...
    def assistant(self, text: str) -> list[Record]: ...
    def shell(self, command: str, output: str, code: int) -> list[Record]: ...
    def edit(self, path: str, old: str, new: str) -> list[Record]: ...
    def write(self, path: str, content: str) -> list[Record]: ...
    def read(self, path: str, content: str) -> list[Record]: ...
    def todos(self, items: Sequence[tuple[str, str]]) -> list[Record]: ...
    def compaction(self, summary: str) -> list[Record]: ...
    def interruption(self) -> list[Record]: ...
    def background(self, command: str, ended: Ended) -> list[Record]: ...
    def agent(self, task: str, ended: Ended) -> list[Record]: ...
    def sidechain(self, text: str) -> list[Record]: ...
    def handoff(self, context: str) -> list[Record]: ...


class ClaudeFormat:
    """Claude Code 2.1: a tree of lines, results inside user messages."""

    form: Form = JsonLines()

    def __init__(self, cwd: str, clock: Clock) -> None:
        self.cwd, self.clock = cwd, clock
        self.id = clock.uuid()
        self.parent: str | None = None

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

    def _build_call(
        self, name: str, arguments: Record, result: str | None, failed: bool = False
    ) -> list[Record]:
        id = f"toolu_{self.clock.number()}"
        lines = [
            self._build_reply({"type": "tool_use", "id": id, "name": name, "input": arguments})
        ]
        if result is not None:
            block = {"type": "tool_result", "tool_use_id": id, "content": result}
            lines.append(self._build_user_line([{**block, "is_error": failed}]))
        return lines

    def begin(self) -> list[Record]:
        return []

    def user(self, text: str) -> list[Record]:
        return [self._build_user_line(text, promptSource="typed")]

    def assistant(self, text: str) -> list[Record]:
        return [self._build_reply({"type": "text", "text": text})]

    def shell(self, command: str, output: str, code: int) -> list[Record]:
        text = f"Exit code {code}\n{output}" if code else output
        return self._build_call("Bash", {"command": command}, text, bool(code))

    def edit(self, path: str, old: str, new: str) -> list[Record]:
        arguments = {"file_path": path, "old_string": old, "new_string": new}
        return self._build_call("Edit", arguments, f"The file {path} has been updated.")

    def write(self, path: str, content: str) -> list[Record]:
        arguments = {"file_path": path, "content": content}
        return self._build_call("Write", arguments, f"File created successfully at: {path}")

    def read(self, path: str, content: str) -> list[Record]:
        return self._build_call("Read", {"file_path": path}, content)

    def todos(self, items: Sequence[tuple[str, str]]) -> list[Record]:
        todos = [{"content": text, "status": status} for text, status in items]
        return self._build_call("TodoWrite", {"todos": todos}, "Todos have been modified.")

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
        return [*self._build_call("Bash", arguments, started), *self._build_task_end(id, ended)]

    def agent(self, task: str, ended: Ended) -> list[Record]:
        arguments = {"description": task, "prompt": task, "subagent_type": "Explore"}
        result = {"running": None, "done": "It is done.", "failed": "It failed."}[ended]
        return self._build_call("Agent", arguments, result, ended == "failed")

    def _build_task_end(self, id: str, ended: Ended) -> list[Record]:
        if ended == "running":
            return []
        status = "completed" if ended == "done" else "failed"
        text = f"<task-notification>\n<task-id>{id}</task-id>\n<status>{status}</status>"
        return [
            self._build_user_line(
                f"{text}\n</task-notification>", origin={"kind": "task-notification"}
            )
        ]

    def sidechain(self, text: str) -> list[Record]:
        return [self._build_user_line(text, isSidechain=True)]

    def handoff(self, context: str) -> list[Record]:
        return self.user(f"# Handoff Context\n{context}")


class CodexFormat:
    """Codex 0.118: response items, with the events that go with them."""

    form: Form = JsonLines()

    def __init__(self, cwd: str, clock: Clock) -> None:
        self.cwd, self.clock = cwd, clock
        self.id = clock.uuid()

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

    def _build_call(self, name: str, arguments: Record, result: str | None) -> list[Record]:
        id = f"call_{self.clock.number()}"
        lines = [
            self._build_item(
                "function_call", name=name, arguments=json.dumps(arguments), call_id=id
            )
        ]
        if result is not None:
            lines.append(self._build_item("function_call_output", call_id=id, output=result))
        return lines

    def begin(self) -> list[Record]:
        git = {"commit_hash": "c0ffee0000000000000000000000000000000000", "branch": "main"}
        meta = {
            "id": self.id, "timestamp": self.clock.time(), "cwd": self.cwd, "source": "cli",
            "originator": "codex-tui", "cli_version": "0.118.0", "git": git,
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
        return [
            said,
            self._build_message("assistant", text),
            self._build_event("token_count", info=info),
        ]

    def shell(self, command: str, output: str, code: int) -> list[Record]:
        header = f"Chunk ID: 1\nWall time: 0.1 seconds\nProcess exited with code {code}"
        return self._build_call("exec_command", {"cmd": command}, f"{header}\nOutput:\n{output}")

    def edit(self, path: str, old: str, new: str) -> list[Record]:
        lines = [*(f"-{x}" for x in old.split("\n")), *(f"+{x}" for x in new.split("\n"))]
        return self._build_patch(f"*** Update File: {path}", ["@@", *lines], f"M {path}")

    def write(self, path: str, content: str) -> list[Record]:
        return self._build_patch(
            f"*** Add File: {path}", [f"+{x}" for x in content.split("\n")], f"A {path}"
        )

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
        return self._build_call("update_plan", {"plan": plan}, "Plan updated")

    def compaction(self, summary: str) -> list[Record]:
        return [self._build_line("compacted", {"message": summary, "replacement_history": []})]

    def interruption(self) -> list[Record]:
        return [self._build_event("turn_aborted", reason="interrupted")]

    def background(self, command: str, ended: Ended) -> list[Record]:
        session = self.clock.number()
        header = "Chunk ID: 2\nWall time: 1.0 seconds\n"
        running = f"{header}Process running with session ID {session}\nOutput:\n"
        lines = self._build_call("exec_command", {"cmd": command}, running)
        if ended != "running":
            code = 0 if ended == "done" else 1
            finished = f"{header}Process exited with code {code}\nOutput:\nfinished\n"
            lines += self._build_call("write_stdin", {"session_id": session, "chars": ""}, finished)
        return lines

    def agent(self, task: str, ended: Ended) -> list[Record]:
        id = self.clock.uuid()
        spawned = json.dumps({"agent_id": id, "nickname": "Ada"})
        lines = self._build_call("spawn_agent", {"message": task}, spawned)
        if ended != "running":
            state = "completed" if ended == "done" else "errored"
            result = json.dumps({"status": {id: {state: "It is over."}}, "timed_out": False})
            lines += self._build_call("wait_agent", {"targets": [id]}, result)
        return lines

    def sidechain(self, text: str) -> list[Record]:
        return []

    def handoff(self, context: str) -> list[Record]:
        return self.user(f"# Handoff Context\n{context}")


class PiFormat:
    """pi and omp, version 3: a tree of entries."""

    form: Form = JsonLines()

    def __init__(self, cwd: str, clock: Clock, omp: bool = False) -> None:
        self.cwd, self.clock, self.omp = cwd, clock, omp
        self.id = clock.uuid()
        self.parent: str | None = None

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
        return self._build_message(
            "assistant",
            content=[block] if block else [],
            provider="test",
            model="pi-test",
            usage={"input": 1000 if block else 0, "output": 20 if block else 0},
            stopReason=stop,
        )

    def _build_call(
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
        if not self.omp:
            change = self._build_line("model_change", provider="test", modelId="pi-test")
            return [start, change, self._build_line("thinking_level_change", thinkingLevel="high")]
        slot = {"type": "title", "v": 1, "title": "", "pad": " " * 180}
        change = self._build_line("model_change", model="test/pi-test")
        return [
            slot,
            start,
            change,
            self._build_line("thinking_level_change", thinkingLevel="high"),
        ]

    def user(self, text: str) -> list[Record]:
        return [self._build_message("user", content=[{"type": "text", "text": text}])]

    def assistant(self, text: str) -> list[Record]:
        return [self._build_reply({"type": "text", "text": text}, "stop")]

    def shell(self, command: str, output: str, code: int) -> list[Record]:
        text = f"{output}\n\nCommand exited with code {code}" if code else output
        return self._build_call("bash", {"command": command}, text, isError=bool(code))

    def edit(self, path: str, old: str, new: str) -> list[Record]:
        arguments = {"path": path, "edits": [{"oldText": old, "newText": new}]}
        return self._build_call("edit", arguments, f"Successfully replaced 1 block(s) in {path}.")

    def write(self, path: str, content: str) -> list[Record]:
        return self._build_call(
            "write", {"path": path, "content": content}, f"Successfully wrote to {path}"
        )

    def read(self, path: str, content: str) -> list[Record]:
        return self._build_call("read", {"path": path}, content)

    def todos(self, items: Sequence[tuple[str, str]]) -> list[Record]:
        tasks = [{"content": text, "status": status} for text, status in items]
        details = {"phases": [{"name": "Work", "tasks": tasks}]}
        return self._build_call("todo", {"op": "view"}, "Todos updated.", details=details)

    def compaction(self, summary: str) -> list[Record]:
        return [self._build_line("compaction", summary=summary, firstKeptEntryId=self.parent)]

    def interruption(self) -> list[Record]:
        return [self._build_reply(None, "aborted")]

    def background(self, command: str, ended: Ended) -> list[Record]:
        """Record a running call without result: pi has no background commands."""
        if ended == "running":
            return self._build_call("bash", {"command": command}, None)
        return self.shell(command, "finished", 0 if ended == "done" else 1)

    def agent(self, task: str, ended: Ended) -> list[Record]:
        result = {"running": None, "done": "It is done.", "failed": "It failed."}[ended]
        return self._build_call("task", {"description": task}, result, isError=ended == "failed")

    def sidechain(self, text: str) -> list[Record]:
        return []

    def handoff(self, context: str) -> list[Record]:
        content = f"<handoff-context>\n{context}\n</handoff-context>"
        return [
            self._build_line("custom_message", customType="handoff", content=content, display=True)
        ]


def _create_lazy_format(module: str, name: str) -> Callable[[str, Clock], Format]:
    """Return a factory for a format in a separate file, imported on first use."""

    def make_format(cwd: str, clock: Clock) -> Format:
        made: Format = getattr(import_module(f"tasuki_testing.{module}"), name)(cwd, clock)
        return made

    return make_format


FORMATS: dict[str, Callable[[str, Clock], Format]] = {
    "claude": ClaudeFormat,
    "codex": CodexFormat,
    "pi": PiFormat,
    "omp": lambda cwd, clock: PiFormat(cwd, clock, omp=True),
    "gemini": _create_lazy_format("gemini_formats", "GeminiFormat"),
    "gemini-json": _create_lazy_format("gemini_formats", "GeminiDocumentFormat"),
    "copilot": _create_lazy_format("copilot_formats", "CopilotFormat"),
    "opencode": _create_lazy_format("opencode_formats", "OpencodeFormat"),
    "opencode-export": _create_lazy_format("opencode_formats", "OpencodeExportFormat"),
    "aider": _create_lazy_format("markdown_formats", "AiderFormat"),
    "specstory": _create_lazy_format("markdown_formats", "SpecStoryFormat"),
}
"""The formats by harness."""


def create_format(harness: str, cwd: str, clock: Clock) -> Format:
    """Return the format of a harness. Raises KeyError for one that has none here."""
    return FORMATS[harness](cwd, clock)
