"""Copilot CLI: `~/.copilot/session-state/<id>/events.jsonl`. Seen: 1.0.102."""

from collections.abc import Iterable
from pathlib import Path

from tasuki.files import find_home_folder
from tasuki.harness.copilot.head import CopilotHead, get_home
from tasuki.harness.optional import ThreadPart
from tasuki.harness.plans import UnaskableHarness
from tasuki.harness.programs import ProgramHarness
from tasuki.harness.protocol import AcpCommand, CallerIdentity, HarnessFacts
from tasuki.model import Thread


class Copilot(UnaskableHarness, ProgramHarness):
    """The adapter of Copilot CLI."""

    name = "copilot"
    title = "Copilot CLI"
    program = "copilot"
    head = CopilotHead
    prefix = "Copilot"
    ready = r"/ commands"
    """The line below the input, once the program takes any: `/ commands · ? help`."""
    key_variables = ("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN", "COPILOT_PROVIDER_API_KEY")
    caller = CallerIdentity("copilot-cli", variable="COPILOT_AGENT_SESSION_ID")
    facts = HarnessFacts(
        package="@github/copilot",
        tested="1.0.102",
        process_names=("copilot",),
        child_variables=(
            "COPILOT_CLI", "COPILOT_CLI_BINARY_VERSION", "COPILOT_CLI_RESOLVED_DIST_DIR",
            "COPILOT_HOOK_DIR", "COPILOT_LOADER_PID", "COPILOT_PROJECT_DIR",
        ),
        acp=AcpCommand(("copilot", "--acp"), "@github/copilot", 3),
    )  # fmt: skip

    def list_parts(self, path: Path, cwd: str) -> tuple[ThreadPart, ...]:
        """List the log and the file beside it that names the session and its folder."""
        beside = path.with_name("workspace.yaml")
        own = ThreadPart(path.name, str(path))
        return (own, ThreadPart(beside.name, str(beside))) if beside.is_file() else (own,)

    def list_skill_folders(self, cwd: Path) -> tuple[Path, ...]:
        own = tuple(cwd / base / "skills" for base in (".github", ".agents", ".claude"))
        return (*own, get_home() / "skills", find_home_folder() / ".agents" / "skills")

    def build_resume_command(self, thread: Thread) -> tuple[str, ...]:
        return (self.program, f"--resume={thread.id}")

    def list_key_files(self) -> tuple[Iterable[Path], Iterable[Path]]:
        return (), [get_home() / "config.json"]

    def build_argument(self, prompt: str) -> tuple[str, ...]:
        return (f"--interactive={prompt}",) if prompt.startswith("-") else ("-i", prompt)
