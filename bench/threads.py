"""Large made-up threads of Claude Code 2.1, in the proportions of real ones.

Measured on 15 public threads: tool results with their `toolUseResult` copy are 60 % of the bytes,
assistant lines 25 %, progress and attachments 14 %; a line has about 3 KB.
"""

import json
import random
from pathlib import Path

WORDS = (
    "cache session parser retry upload client token branch commit index query schema worker queue handler request "
    "response config timeout buffer stream record thread ledger socket module export import render update remove"
).split()


class Writer:
    """Writes one thread line by line, each hanging on the one before."""

    def __init__(self, path: Path, cwd: str, seed: int) -> None:
        self.random = random.Random(seed)
        self.file = path.open("w", encoding="utf-8")
        self.session = path.stem
        self.cwd = cwd
        self.written = self.count = 0
        self.last: str | None = None

    def _uuid(self) -> str:
        self.count += 1
        return f"{self.random.getrandbits(32):08x}-0000-4000-8000-{self.count:012x}"

    def line(self, kind: str, **fields: object) -> None:
        """One tree line."""
        uuid = self._uuid()
        record = {
            "parentUuid": self.last, "isSidechain": False, "userType": "external", "cwd": self.cwd, "sessionId": self.session,
            "version": "2.1.330", "gitBranch": "main", "type": kind, **fields, "uuid": uuid, "timestamp": "2026-11-01T10:00:00.000Z",
        }  # fmt: skip
        result = record.pop("toolUseResult", None)
        if result is not None:
            record["toolUseResult"] = result
        text = json.dumps(record, separators=(",", ":")) + "\n"
        self.written += len(text)
        self.file.write(text)
        self.last = uuid

    def prose(self, sentences: int) -> str:
        """Some sentences about code."""
        pick = self.random.choice
        return " ".join(
            f"The {pick(WORDS)} of `{pick(WORDS)}_{pick(WORDS)}` fails because the {pick(WORDS)} is {self.random.randint(2, 900)} ms late."
            for _ in range(sentences)
        )

    def code(self, size: int) -> str:
        """About `size` characters of code."""
        pick = self.random.choice
        lines = []
        while size > 0:
            lines.append(
                f"    {pick(WORDS)} = {pick(WORDS)}.{pick(WORDS)}_{pick(WORDS)}({pick(WORDS)!r}, {self.random.random()})"
            )
            size -= len(lines[-1]) + 1
        return "\n".join(lines)

    def assistant(self, *blocks: dict[str, object]) -> None:
        """One line per block, as Claude Code writes them."""
        for block in blocks:
            message = {"id": f"msg_{self.count}", "role": "assistant", "model": "claude-opus-4-7", "content": [block],
                       "usage": {"input_tokens": 9, "cache_read_input_tokens": 90_000, "output_tokens": 200}}  # fmt: skip
            self.line("assistant", message=message)

    def turn(self) -> None:
        """A user message and what came of it."""
        self.line(
            "user",
            message={
                "role": "user",
                "content": f"Please fix the {self.random.choice(WORDS)}. " + self.prose(1),
            },
        )
        for _ in range(12):
            self.assistant({"type": "thinking", "thinking": self.prose(4), "signature": "x" * 300})
            if self.random.random() < 0.4:
                self.assistant({"type": "text", "text": self.prose(3)})
            self.call()

    def call(self) -> None:
        """A tool call with its result, and a progress line now and then."""
        id = f"toolu_{self.count:020d}"
        path = f"{self.cwd}/src/{self.random.choice(WORDS)}/{self.random.choice(WORDS)}.py"
        kind = self.random.random()
        output = self.code(int(self.random.lognormvariate(7.6, 1.0)))
        if kind < 0.45:
            self.assistant(
                {
                    "type": "tool_use",
                    "id": id,
                    "name": "Bash",
                    "input": {"command": f"pytest -q tests/test_{self.random.choice(WORDS)}.py"},
                }
            )
            result: dict[str, object] = {"stdout": output, "stderr": "", "interrupted": False}
        elif kind < 0.75:
            self.assistant(
                {"type": "tool_use", "id": id, "name": "Read", "input": {"file_path": path}}
            )
            result = {"type": "text", "file": {"filePath": path, "content": output}}
        else:
            new = self.code(600)
            self.assistant(
                {
                    "type": "tool_use",
                    "id": id,
                    "name": "Edit",
                    "input": {"file_path": path, "old_string": self.code(400), "new_string": new},
                }
            )
            result = {"filePath": path, "originalFile": self.code(6000), "newString": new}
            output = f"The file {path} has been updated."
        if self.random.random() < 0.4:
            self.line(
                "progress", data={"type": "hook_progress", "command": self.code(1500)}, toolUseID=id
            )
        content = [{"type": "tool_result", "tool_use_id": id, "content": output}]
        self.line("user", message={"role": "user", "content": content}, toolUseResult=result)


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
