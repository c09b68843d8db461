"""Gemini CLI: `~/.gemini/tmp/<project>/chats/session-<time>-<id>.jsonl`. Seen: 0.35 and 0.61."""

from collections.abc import Iterator
from pathlib import Path

from tasuki.harness import plans
from tasuki.harness.control import Control
from tasuki.harness.gemini.head import home, is_session, read_head, sessions
from tasuki.harness.integration import Integration
from tasuki.harness.protocol import (
    AskAnswer,
    AskPlan,
    AskRequest,
    Caller,
    LaunchPlan,
    LaunchRequest,
    ThreadFile,
)
from tasuki.model import Thread, ThreadHead

_READY = r"Type your message"
"""What stands in an empty input: `Type your message or @path/to/file`."""


class Gemini:
    """The adapter of Gemini CLI."""

    name = "gemini"
    title = "Gemini CLI"
    program = "gemini"
    can_start = True
    can_prefill = False
    can_ask = True
    caller = Caller("gemini-cli-mcp-client")

    def files(self, cwd: Path | None = None) -> Iterator[ThreadFile]:
        yield from sessions(cwd)

    def recognises(self, path: Path, first: bytes) -> bool:
        return is_session(first)

    def head(self, file: ThreadFile) -> ThreadHead | None:
        return read_head(file, self.name)

    def read(self, path: Path) -> Thread:
        from tasuki.harness.gemini.read import Reader  # not needed to list threads

        return Reader(path).read()

    def skill_command(self, skill: str) -> str:
        """None: `/name` exists, but runs all lines of the prompt behind it together."""
        return ""

    def skill_folders(self, cwd: Path) -> tuple[Path, ...]:
        own = (cwd / ".gemini" / "skills", cwd / ".agents" / "skills")
        return (*own, home() / "skills", home().parent / ".agents" / "skills")

    def plan(self, request: LaunchRequest) -> LaunchPlan:
        return plans.with_brief(self.program, self.title, request, ready=_READY, argument=_argument)

    def ask(self, request: AskRequest) -> AskPlan:
        from tasuki.harness.gemini import asking

        return asking.plan(self.program, request, home())

    def answered(self, output: str, request: AskRequest) -> AskAnswer:
        from tasuki.harness.gemini import asking

        return asking.answered(output)

    def resume_command(self, thread: Thread) -> tuple[str, ...]:
        """Opens a copy: `--resume` can lose the original when the copies are cleared away."""
        return (self.program, "--session-file", thread.path)

    def integration(self) -> Integration:
        from tasuki.harness.gemini.installing import GeminiIntegration

        return GeminiIntegration()

    def control(self) -> Control:
        from tasuki.harness.gemini.control import GeminiControl

        return GeminiControl()


def _argument(text: str) -> tuple[str, ...]:
    return (f"--prompt-interactive={text}",) if text.startswith("-") else ("-i", text)
