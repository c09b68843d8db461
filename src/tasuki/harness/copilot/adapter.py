"""Copilot CLI: `~/.copilot/session-state/<id>/events.jsonl`. Seen: 1.0.102."""

from collections.abc import Iterator
from pathlib import Path

from tasuki.files import find_home_folder
from tasuki.harness import plans
from tasuki.harness.copilot.head import CopilotHead, get_home, is_session, list_sessions
from tasuki.harness.integration import HarnessIntegration
from tasuki.harness.parts import ThreadPart
from tasuki.harness.protocol import (
    AgentControl,
    CallerIdentity,
    LaunchPlan,
    LaunchRequest,
    ThreadFile,
)
from tasuki.model import Thread, ThreadHead

_READY = r"/ commands"
"""The line below the input, once the program takes any: `/ commands · ? help`."""


class Copilot(plans.UnaskableHarness):
    """The adapter of Copilot CLI."""

    name = "copilot"
    title = "Copilot CLI"
    program = "copilot"
    can_start = True
    can_prefill = False
    caller = CallerIdentity("copilot-cli", variable="COPILOT_AGENT_SESSION_ID")

    def list_files(self, cwd: Path | None = None) -> Iterator[ThreadFile]:
        return list_sessions()

    def is_thread_file(self, path: Path, first: bytes) -> bool:
        return is_session(first)

    def read_head(self, file: ThreadFile) -> ThreadHead | None:
        return CopilotHead(file).read()

    def read(self, path: Path) -> Thread:
        from tasuki.harness.copilot.read import CopilotReader  # not needed to list threads

        return CopilotReader(path).read()

    def list_parts(self, path: Path, cwd: str) -> tuple[ThreadPart, ...]:
        """List the log and the file beside it that names the session and its folder."""
        beside = path.with_name("workspace.yaml")
        own = ThreadPart(path.name, str(path))
        return (own, ThreadPart(beside.name, str(beside))) if beside.is_file() else (own,)

    def format_skill_command(self, skill: str) -> str:
        return f"/{skill}"

    def list_skill_folders(self, cwd: Path) -> tuple[Path, ...]:
        own = tuple(cwd / base / "skills" for base in (".github", ".agents", ".claude"))
        return (*own, get_home() / "skills", find_home_folder() / ".agents" / "skills")

    def plan(self, request: LaunchRequest) -> LaunchPlan:
        return plans.plan_with_brief(
            self.program, self.title, request, ready=_READY, argument=_build_argument
        )

    def build_resume_command(self, thread: Thread) -> tuple[str, ...]:
        return (self.program, f"--resume={thread.id}")

    def is_signed_in(self) -> bool | None:
        """Tell whether there are credentials of it; None where that cannot be known."""
        from tasuki.harness.reading.credentials import find_credentials

        names = ("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN", "COPILOT_PROVIDER_API_KEY")
        return find_credentials(names, (), [get_home() / "config.json"])

    def get_integration(self) -> HarnessIntegration:
        from tasuki.harness.copilot.hooks import CopilotIntegration

        return CopilotIntegration()

    def get_control(self) -> AgentControl:
        from tasuki.harness.copilot.hooks import CopilotControl

        return CopilotControl(self.program, _READY, _build_argument)


def _build_argument(text: str) -> tuple[str, ...]:
    return (f"--interactive={text}",) if text.startswith("-") else ("-i", text)
