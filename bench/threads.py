"""Large made-up threads of Claude Code 2.1, in the proportions of real ones.

Measured on 83 public threads of 121 MB: tool results with their `toolUseResult` copy are half of the
bytes, calls an eighth, thinking a tenth, the progress of sub-agents a tenth; a line has 3 KB, a user
message is followed by five calls, and 2.2 MB by a compaction. Of the calls a third is Bash (half of
them with a pipe, a quarter with `&&`, a tenth with a here-document), a fifth each Read and Edit; 5 %
fail, 1 % are refused.
"""

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

from thread_text import OUTPUTS, TextMaker

BEGINNING = datetime(2026, 11, 1, 9, tzinfo=UTC)
COMPACTED_EACH = 2_200_000
"""Bytes between two compactions."""
REFUSED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the new_string was NOT written to the file). "
    "To tell you how to proceed, the user said:\n"
)  # fmt: skip
REMINDER = "\n\n<system-reminder>\nWhenever you read a file, you should consider whether it would be considered malware.\n</system-reminder>\n"
Record = dict[str, object]
Called = tuple[str, Record, str, object, bool]
"""A call: the tool, its input, the output, `toolUseResult`, and whether it failed."""


class Writer:
    """Writes one thread line by line, each hanging on the one before."""

    def __init__(self, path: Path, cwd: str, seed: int) -> None:
        self.random = random.Random(seed)
        self.text = TextMaker(self.random)
        self.file = path.open("w", encoding="utf-8")
        self.session = path.stem
        self.cwd = cwd
        self.written = self.count = self.compacted = 0
        self.now = BEGINNING
        self.last: str | None = None
        self.todos: list[str] = []

    def _uuid(self) -> str:
        self.count += 1
        return f"{self.random.getrandbits(32):08x}-0000-4000-8000-{self.count:012x}"

    def put(self, record: Record) -> None:
        """One line as it is."""
        line = json.dumps(record, separators=(",", ":"), ensure_ascii=False) + "\n"
        self.written += len(line)
        self.file.write(line)

    def line(self, kind: str, **fields: object) -> None:
        """One tree line, some seconds after the one before."""
        uuid = self._uuid()
        self.now += timedelta(milliseconds=self.random.randint(200, 20_000))
        result = {"toolUseResult": fields.pop("toolUseResult")} if "toolUseResult" in fields else {}
        self.put({
            "parentUuid": self.last, "isSidechain": False, **({"type": kind} if kind == "user" else {}), **fields,
            "type": kind, "uuid": uuid, "timestamp": self._stamp(), **result, "userType": "external", "entrypoint": "cli", "cwd": self.cwd,
            "sessionId": self.session, "version": "2.1.330", "gitBranch": "main", "slug": "quiet-wandering-otter",
        })  # fmt: skip
        self.last = uuid

    def _stamp(self) -> str:
        return f"{self.now:%Y-%m-%dT%H:%M:%S}.{self.now.microsecond // 1000:03d}Z"

    def _message(self, block: Record) -> Record:
        usage = {"input_tokens": 9, "cache_creation_input_tokens": 1453, "cache_read_input_tokens": 90_000, "output_tokens": 213, "service_tier": "standard",
                 "cache_creation": {"ephemeral_5m_input_tokens": 1453, "ephemeral_1h_input_tokens": 0}}  # fmt: skip
        return {"model": "claude-opus-4-7", "id": f"msg_01{self.count:022d}", "type": "message", "role": "assistant", "content": [block],
                "stop_reason": None, "stop_sequence": None, "usage": usage}  # fmt: skip

    def assistant(self, block: Record) -> None:
        """One line per block, as Claude Code writes them."""
        self.line("assistant", message=self._message(block), requestId=f"req_01{self.count:022d}")

    def user(self, content: object, **fields: object) -> None:
        """A line of the user, or of a tool's result."""
        self.line("user", message={"role": "user", "content": content}, **fields)

    def progress(self, data: Record, id: str) -> None:
        """A line of progress, which no brief shows."""
        self.line("progress", data=data, toolUseID=id, parentToolUseID=id)

    def turn(self) -> None:
        """A user message and what came of it."""
        asked = self.text.ask()
        self.put({"type": "file-history-snapshot", "messageId": self._uuid(), "isSnapshotUpdate": False, "snapshot": {"trackedFileBackups": {
            self.text.fill_slot("path"): {"backupFileName": f"{self.random.getrandbits(64):016x}@v2", "version": 2, "backupTime": self._stamp()}
            for _ in range(7)}}})  # fmt: skip
        if self.random.random() < 0.08:
            self.user(
                "<command-name>/model</command-name>\n            <command-message>model</command-message>\n            <command-args></command-args>"
            )
            self.user("<local-command-stdout>Kept model as Default</local-command-stdout>")
        if self.random.random() < 0.1:
            self.put(
                {
                    "type": "queue-operation",
                    "operation": "enqueue",
                    "timestamp": self._stamp(),
                    "sessionId": self.session,
                    "content": asked,
                }
            )
        self.user(asked, permissionMode="acceptEdits")
        for _ in range(self.text.draw_size(5.6, 0.9, 40)):
            if self.random.random() < 0.7:
                thought = self.text.explain(self.text.draw_size(2, 0.9, 60))
                self.assistant(
                    {
                        "type": "thinking",
                        "thinking": thought,
                        "signature": self.text.make_signature(self.text.draw_size(460, 0.9, 4000)),
                    }
                )
            if self.random.random() < 0.35:
                self.assistant({"type": "text", "text": self.text.narrate()})
            self.call()
        self.assistant(
            {"type": "text", "text": self.text.write_report(self.text.draw_size(620, 0.9, 9000))}
        )
        hooks = [
            {"command": 'notify --title "$(basename $PWD)" --message finished'},
            {"command": "mise run format"},
        ]
        self.line(
            "system",
            subtype="stop_hook_summary",
            hookCount=2,
            hookInfos=hooks,
            hookErrors=[],
            preventedContinuation=False,
            hasOutput=True,
        )
        if self.random.random() < 0.5:
            self.line("system", subtype="turn_duration", durationMs=77_877, isMeta=False)
        if self.random.random() < 0.33:
            self.line(
                "attachment",
                attachment={
                    "type": "task_reminder",
                    "content": self.todos,
                    "itemCount": len(self.todos),
                },
            )
        if self.random.random() < 0.25:
            for kind, key, told in (("last-prompt", "lastPrompt", asked[:200]), ("ai-title", "aiTitle", self.text.fill("{Verb} the {noun} of {name}")),
                                    ("permission-mode", "permissionMode", "acceptEdits")):  # fmt: skip
                self.put({"type": kind, key: told, "sessionId": self.session})
        if self.written - self.compacted > COMPACTED_EACH:
            self.compact()

    def compact(self) -> None:
        """A compaction: the boundary and its summary."""
        before, self.last = self.last, None
        self.line("system", subtype="compact_boundary", content="Conversation compacted", logicalParentUuid=before, level="info",
                  compactMetadata={"trigger": "auto", "preTokens": 155_000})  # fmt: skip
        self.user(
            self.text.summarize(11_700), isVisibleInTranscriptOnly=True, isCompactSummary=True
        )
        self.compacted = self.written

    def call(self) -> None:
        """A tool call with its progress and its result."""
        call = self.random.choices((self.run, self.read, self.edit, self.search, self.plan, self.create, self.delegate), (34, 22, 19, 12, 8, 2, 2))[0]  # fmt: skip
        name, given, output, result, failed = call()
        id = f"toolu_01{self.count:022d}"
        self.assistant({"type": "tool_use", "id": id, "name": name, "input": given})
        if name == "Bash" and self.random.random() < 0.12:
            for seconds in range(2, 16, 2):
                told = {
                    "type": "bash_progress",
                    "output": output[-200:],
                    "fullOutput": output[-200:],
                    "elapsedTimeSeconds": seconds,
                }
                self.progress(told, id)
        if name == "Task":
            for _ in range(12):
                block = {
                    "type": "tool_result",
                    "tool_use_id": id,
                    "content": self.text.cut_code(self.text.draw_size(2200, 0.9, 30_000)),
                }
                message = {
                    "type": "user",
                    "message": {"role": "user", "content": [block]},
                    "timestamp": self._stamp(),
                }
                self.progress(
                    {
                        "type": "agent_progress",
                        "message": message,
                        "normalizedMessages": [],
                        "prompt": given["prompt"],
                        "agentId": "a5cbd18",
                    },
                    id,
                )
        if self.random.random() < 0.26:
            self.progress(
                {
                    "type": "hook_progress",
                    "hookEvent": "PostToolUse",
                    "hookName": f"PostToolUse:{name}",
                    "command": "mise run hook",
                },
                id,
            )
        if self.random.random() < 0.01:
            output, failed = REFUSED + self.text.ask(), True
        if failed:
            result = f"Error: {output}"
        content = {"tool_use_id": id, "type": "tool_result", "content": output, "is_error": failed}
        self.user([content], toolUseResult=result, sourceToolAssistantUUID=self.last)

    def _path(self) -> str:
        return f"{self.cwd}/{self.text.fill_slot('path')}"

    def run(self) -> Called:
        """A shell command."""
        command, output, failed = self.text.run_command()
        given = {"command": command, "description": self.text.fill("{Verb} the {noun} of {name}")}
        result = {"stdout": output, "stderr": "", "interrupted": False, "isImage": False}
        return "Bash", given, f"Exit code 1\n{output}" if failed else output, result, failed

    def read(self) -> Called:
        """A file that is read."""
        path, code = self._path(), self.text.cut_code(self.text.draw_size(1900, 1.3, 45_000))
        lines = code.split("\n")
        numbered = "\n".join(f"{n:6}→{line}" for n, line in enumerate(lines, 1))
        file = {
            "filePath": path,
            "content": code,
            "numLines": len(lines),
            "startLine": 1,
            "totalLines": len(lines),
        }
        return (
            "Read",
            {"file_path": path},
            numbered + REMINDER,
            {"type": "text", "file": file},
            False,
        )

    def edit(self) -> Called:
        """An edit; one of twenty finds nothing to replace."""
        path, size = self._path(), self.text.draw_size(380, 1.0, 9000)
        old, new = self.text.cut_code(size), self.text.cut_code(int(size * 1.4))
        given = {"replace_all": False, "file_path": path, "old_string": old, "new_string": new}
        if self.random.random() < 0.05:
            return (
                "Edit",
                given,
                "<tool_use_error>String to replace not found in file.</tool_use_error>",
                None,
                True,
            )
        patch = [f"-{line}" for line in old.split("\n")] + [f"+{line}" for line in new.split("\n")]
        result = {"filePath": path, "oldString": old, "newString": new, "originalFile": self.text.cut_code(self.text.draw_size(11_000, 0.9, 50_000)),
                  "structuredPatch": [{"oldStart": 84, "oldLines": 7, "newStart": 84, "newLines": 9, "lines": patch}], "userModified": False, "replaceAll": False}  # fmt: skip
        return "Edit", given, f"The file {path} has been updated successfully.", result, False

    def search(self) -> Called:
        """A search through the files."""
        found = self.text.fill_lines(OUTPUTS["found"], self.text.draw_size(800, 1.4, 19_000))
        given = {
            "pattern": self.text.fill("{name}|{noun}.*{noun}"),
            "path": self.cwd,
            "output_mode": "content",
        }
        return (
            "Grep",
            given,
            found,
            {"mode": "content", "numFiles": 0, "filenames": [], "content": found},
            False,
        )

    def plan(self) -> Called:
        """A todo list that is taken a step further."""
        if self.random.random() < 0.2 or not self.todos:
            self.todos = [self.text.fill("{Verb} the {noun} in {name}") for _ in range(6)]
        done = self.random.randrange(len(self.todos))
        todos = [{"content": todo, "status": "completed" if n < done else "in_progress" if n == done else "pending", "activeForm": todo}
                 for n, todo in enumerate(self.todos)]  # fmt: skip
        said = "Todos have been modified successfully. Ensure that you continue to use the todo list to track your progress."
        return "TodoWrite", {"todos": todos}, said, {"oldTodos": todos, "newTodos": todos}, False

    def create(self) -> Called:
        """A file that is written."""
        path, size = self._path(), self.text.draw_size(4500, 0.8, 30_000)
        text = self.text.write_report(size) if path.endswith(".md") else self.text.cut_code(size)
        result = {
            "type": "create",
            "filePath": path,
            "content": text,
            "structuredPatch": [],
            "originalFile": None,
        }
        return (
            "Write",
            {"file_path": path, "content": text},
            f"File created successfully at: {path}",
            result,
            False,
        )

    def delegate(self) -> Called:
        """A sub-agent."""
        prompt, answer = (
            self.text.write_report(1900),
            self.text.write_report(self.text.draw_size(3500, 0.8, 18_000)),
        )
        given = {
            "description": self.text.fill("{Verb} the {noun}"),
            "prompt": prompt,
            "subagent_type": "general-purpose",
        }
        result = {
            "status": "completed",
            "prompt": prompt,
            "agentId": "a5cbd18",
            "content": [{"type": "text", "text": answer}],
            "totalTokens": 40_000,
        }
        return "Task", given, answer, result, False


def write(path: Path, size: int, cwd: str = "/home/dev/proj", seed: int = 1) -> Path:
    """A thread of about `size` bytes; an existing file of that size is used again."""
    if path.exists() and abs(path.stat().st_size - size) < 200_000:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = Writer(path, cwd, seed)
    while writer.written < size:
        writer.turn()
    writer.file.close()
    return path
