"""pi: `~/.pi/agent/sessions/--<cwd>--/<time>_<id>.jsonl`. Seen: 0.73 to 1.5, and files of 2025."""

import os
from collections.abc import Iterator
from pathlib import Path

from tasuki.files import find_home_folder
from tasuki.harness import plans
from tasuki.harness.integration import HarnessIntegration
from tasuki.harness.pi_v3 import format as pi_format
from tasuki.harness.pi_v3.head import (
    build_folder_name,
    is_omp,
    is_session,
    list_session_files,
    read_head,
)
from tasuki.harness.protocol import (
    AgentControl,
    AskAnswer,
    AskPlan,
    AskRequest,
    CallerIdentity,
    LaunchPlan,
    LaunchRequest,
    ThreadFile,
)
from tasuki.model import Thread, ThreadHead

_READY = r"\d%/\d+(?:\.\d+)?[kM]"
"""The footer shows how much of the context window is used: `1.2%/128k`."""


def get_agent_folder() -> Path:
    """Return the folder of pi; `PI_CODING_AGENT_DIR` moves it, as it moves that of omp."""
    base = os.environ.get("PI_CODING_AGENT_DIR", "")
    return (
        Path(base)
        if base and ".omp" not in Path(base).parts
        else find_home_folder() / ".pi" / "agent"
    )


class Pi:
    """The adapter of pi."""

    name = "pi"
    title = "pi"
    program = "pi"
    can_start = True
    can_prefill = False
    can_ask = True
    caller = CallerIdentity("pi", variable="PI_SESSION_FILE")

    def list_files(self, cwd: Path | None = None) -> Iterator[ThreadFile]:
        folder = build_folder_name(str(cwd)) if cwd is not None else None
        yield from list_session_files(get_agent_folder() / "sessions", folder)

    def is_thread_file(self, path: Path, first: bytes) -> bool:
        return is_session(first) and not is_omp(path, first)

    def read_head(self, file: ThreadFile) -> ThreadHead | None:
        return read_head(file, self.name)

    def read(self, path: Path) -> Thread:
        from tasuki.harness.pi_v3.read import PiReader  # not needed to list threads

        return PiReader(path, self.name).read()

    def format_skill_command(self, skill: str) -> str:
        return f"/skill:{skill}"

    def list_skill_folders(self, cwd: Path) -> tuple[Path, ...]:
        own = (cwd / ".pi" / "skills", get_agent_folder() / "skills")
        return (*own, cwd / ".agents" / "skills", find_home_folder() / ".agents" / "skills")

    def plan(self, request: LaunchRequest) -> LaunchPlan:
        """Plan `pi --session FILE`: the file holds the past, the input the goal."""
        folder = get_agent_folder() / "sessions" / build_folder_name(request.cwd)
        return pi_format.plan_session(
            request, folder, argv=(self.program, "--session"), ready=_READY, omp=False
        )

    def ask(self, request: AskRequest) -> AskPlan:
        """Plan `pi --fork FILE`: the fork is recorded in the scratch folder."""
        fork = ("--fork", request.thread.path, "--session-dir", request.scratch)
        return AskPlan(
            argv=(self.program, "-p", *fork, "--no-tools", "--no-extensions"),
            cwd=plans.choose_ask_folder(request),
            stdin=request.question,
        )

    def parse_answer(self, output: str, request: AskRequest) -> AskAnswer:
        from tasuki.harness.pi_v3.hooks import parse_answer

        return parse_answer(request)

    def build_resume_command(self, thread: Thread) -> tuple[str, ...]:
        return (self.program, "--session", thread.path)

    def get_integration(self) -> HarnessIntegration:
        from tasuki.harness.pi_v3.hooks import PiIntegration

        return PiIntegration(self.name, get_agent_folder())

    def get_control(self) -> AgentControl:
        from tasuki.harness.pi_v3.hooks import PiControl

        return PiControl(self.program, _READY, get_agent_folder())
