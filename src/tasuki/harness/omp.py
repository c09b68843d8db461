"""oh-my-pi: `~/.omp/agent/sessions/<cwd>/<time>_<id>.jsonl`, with a folder of the same name.

Seen: 14.9 and 18.2. Line 1 may be a title slot that is overwritten in place.
"""

import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from tasuki.files import find_home_folder
from tasuki.harness import plans
from tasuki.harness.integration import HarnessIntegration
from tasuki.harness.pi_v3 import format as pi_format
from tasuki.harness.pi_v3.head import is_omp, is_session, list_session_files, read_head
from tasuki.harness.protocol import (
    AgentControl,
    AskAnswer,
    AskPlan,
    AskRequest,
    CallerIdentity,
    LaunchPlan,
    LaunchRequest,
    PlannedFile,
    ThreadFile,
)
from tasuki.model import Sidechain, Thread, ThreadHead

_READY = r"^\s*π > "
OWN_COMMAND = (
    "oh-my-pi already has a /handoff, which compacts the session in place and cannot be replaced: there tasuki's command "
    "is /tasuki."
)


def get_agent_folder() -> Path:
    """Return the folder of omp; `PI_CODING_AGENT_DIR` moves it if it points into `.omp`."""
    base = os.environ.get("PI_CODING_AGENT_DIR", "")
    return (
        Path(base) if base and ".omp" in Path(base).parts else find_home_folder() / ".omp" / "agent"
    )


def build_folder_name(cwd: str) -> str:
    """Return the folder name of a working directory.

    It is `-proj` below home, `-tmp-x` below the temporary folder, `--srv-x--` elsewhere;
    symbolic links are resolved.
    """
    real = os.path.realpath(cwd)
    for prefix, base in (("-", find_home_folder()), ("-tmp", Path(tempfile.gettempdir()))):
        relative = os.path.relpath(real, os.path.realpath(base))
        if relative == ".":
            return prefix
        if not relative.startswith(".."):
            return f"{prefix.removesuffix('-')}-{_replace_separators(relative)}"
    return f"--{_replace_separators(real.removeprefix('/'))}--"


def _replace_separators(path: str) -> str:
    return re.sub(r"[/:]", "-", path)


class Omp:
    """The adapter of oh-my-pi."""

    name = "omp"
    title = "oh-my-pi"
    program = "omp"
    can_start = True
    can_prefill = False
    can_ask = True
    caller = CallerIdentity("omp-coding-agent")

    def list_files(self, cwd: Path | None = None) -> Iterator[ThreadFile]:
        folder = build_folder_name(str(cwd)) if cwd is not None else None
        yield from list_session_files(get_agent_folder() / "sessions", folder)

    def is_thread_file(self, path: Path, first: bytes) -> bool:
        return is_session(first) and is_omp(path, first)

    def read_head(self, file: ThreadFile) -> ThreadHead | None:
        return read_head(file, self.name)

    def read(self, path: Path) -> Thread:
        from tasuki.harness.pi_v3.read import PiReader  # not needed to list threads

        thread = PiReader(path, self.name).read()
        companions = _list_companions(path)
        if not companions:
            return thread
        chains = [p for p in companions if p.suffix == ".jsonl"]
        return replace(
            thread,
            artifacts=tuple(str(p) for p in companions if p not in chains),
            sidechains=tuple(Sidechain(id=p.stem, path=str(p)) for p in chains),
        )

    def format_skill_command(self, skill: str) -> str:
        return f"/skill:{skill}"

    def list_skill_folders(self, cwd: Path) -> tuple[Path, ...]:
        return (cwd / ".omp" / "skills", get_agent_folder() / "skills", cwd / ".agents" / "skills")

    def plan(self, request: LaunchRequest) -> LaunchPlan:
        """Plan `omp --resume FILE`: the file holds the past, the input the goal."""
        folder = get_agent_folder() / "sessions" / build_folder_name(request.cwd)
        return pi_format.plan_session(
            request, folder, argv=(self.program, "--resume"), ready=_READY, omp=True
        )

    def ask(self, request: AskRequest) -> AskPlan:
        """Plan `omp --resume COPY`; logs and marks of opened files go to the scratch folder too."""
        scratch = Path(request.scratch)
        copy, state = scratch / "thread.jsonl", scratch / "state"
        resumed = ("--resume", str(copy), "--session-dir", request.scratch)
        return AskPlan(
            argv=(self.program, "-p", *resumed, "--no-tools", "--no-extensions", "--no-title"),
            cwd=plans.choose_ask_folder(request),
            stdin=request.question,
            env={"XDG_STATE_HOME": str(state)},
            copies=((request.thread.path, str(copy)),),
            files=(PlannedFile(str(state / "omp" / "asked"), ""),),  # used only where it is there
        )

    def parse_answer(self, output: str, request: AskRequest) -> AskAnswer:
        from tasuki.harness.pi_v3.hooks import parse_answer

        return parse_answer(request)

    def build_resume_command(self, thread: Thread) -> tuple[str, ...]:
        return (self.program, "--resume", thread.path)

    def get_integration(self) -> HarnessIntegration:
        from tasuki.harness.pi_v3.hooks import PiIntegration

        return PiIntegration(self.name, get_agent_folder(), "tasuki", (OWN_COMMAND,))

    def get_control(self) -> AgentControl:
        from tasuki.harness.pi_v3.hooks import OmpControl

        return OmpControl(self.program, _READY, get_agent_folder())


def _list_companions(path: Path) -> list[Path]:
    """List what the session created: plans, outputs and the records of its sub-agents."""
    try:
        return sorted(p for p in path.with_suffix("").rglob("*") if p.is_file())
    except OSError:
        return []
