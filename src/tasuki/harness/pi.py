"""pi: `~/.pi/agent/sessions/--<cwd>--/<time>_<id>.jsonl`. Seen: 0.73 to 1.5, and files of 2025."""

import os
from collections.abc import Iterator
from pathlib import Path

from tasuki.harness import plans
from tasuki.harness.control import Control
from tasuki.harness.integration import Integration
from tasuki.harness.pi_v3 import format as pi_format
from tasuki.harness.pi_v3.head import is_omp, is_session, read_head, sessions_in
from tasuki.harness.pi_v3.session_folder import folder_name
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
from tasuki.paths import home_folder

_READY = r"\d%/\d+(?:\.\d+)?[kM]"
"""The footer tells how much of the context window is used: `1.2%/128k`."""


def agent_folder() -> Path:
    """Folder of pi; `PI_CODING_AGENT_DIR` moves it, as it moves that of omp."""
    base = os.environ.get("PI_CODING_AGENT_DIR", "")
    return (
        Path(base) if base and ".omp" not in Path(base).parts else home_folder() / ".pi" / "agent"
    )


class Pi:
    """The adapter of pi."""

    name = "pi"
    title = "pi"
    program = "pi"
    can_start = True
    can_prefill = False
    can_ask = True
    caller = Caller("pi", variable="PI_SESSION_FILE")

    def files(self, cwd: Path | None = None) -> Iterator[ThreadFile]:
        folder = folder_name(str(cwd)) if cwd is not None else None
        yield from sessions_in(agent_folder() / "sessions", folder)

    def recognises(self, path: Path, first: bytes) -> bool:
        return is_session(first) and not is_omp(path, first)

    def head(self, file: ThreadFile) -> ThreadHead | None:
        return read_head(file, self.name)

    def read(self, path: Path) -> Thread:
        from tasuki.harness.pi_v3.read import Reader  # not needed to list threads

        return Reader(path, self.name).read()

    def skill_command(self, skill: str) -> str:
        return f"/skill:{skill}"

    def skill_folders(self, cwd: Path) -> tuple[Path, ...]:
        own = (cwd / ".pi" / "skills", agent_folder() / "skills")
        return (*own, cwd / ".agents" / "skills", home_folder() / ".agents" / "skills")

    def plan(self, request: LaunchRequest) -> LaunchPlan:
        """`pi --session FILE`: the file holds the past, the input the goal."""
        folder = agent_folder() / "sessions" / folder_name(request.cwd)
        return pi_format.plan(
            request, folder, argv=(self.program, "--session"), ready=_READY, omp=False
        )

    def ask(self, request: AskRequest) -> AskPlan:
        """`pi --fork FILE`: the fork is recorded in the scratch folder."""
        fork = ("--fork", request.thread.path, "--session-dir", request.scratch)
        return AskPlan(
            argv=(self.program, "-p", *fork, "--no-tools", "--no-extensions"),
            cwd=plans.ask_place(request),
            stdin=request.question,
        )

    def answered(self, output: str, request: AskRequest) -> AskAnswer:
        from tasuki.harness.pi_v3 import asking

        return asking.answered(request)

    def resume_command(self, thread: Thread) -> tuple[str, ...]:
        return (self.program, "--session", thread.path)

    def integration(self) -> Integration:
        from tasuki.harness.pi_v3.installing import PiIntegration

        return PiIntegration(self.name, agent_folder())

    def control(self) -> Control:
        from tasuki.harness.pi_v3.control import PiControl

        return PiControl(agent_folder(), _READY)
