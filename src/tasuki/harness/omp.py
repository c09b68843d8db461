"""oh-my-pi: `~/.omp/agent/sessions/<cwd>/<time>_<id>.jsonl`, a folder of the same name beside it.

Seen: 14.9 and 18.2. Line 1 may be a title slot that is overwritten in place.
"""

import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from tasuki.harness import plans
from tasuki.harness.control import Control
from tasuki.harness.integration import Integration
from tasuki.harness.pi_v3 import format as pi_format
from tasuki.harness.pi_v3.head import is_omp, is_session, read_head, sessions_in
from tasuki.harness.protocol import (
    AskAnswer,
    AskPlan,
    AskRequest,
    Caller,
    LaunchPlan,
    LaunchRequest,
    PlannedFile,
    ThreadFile,
)
from tasuki.model import Sidechain, Thread, ThreadHead
from tasuki.paths import home_folder

_READY = r"^\s*π > "
OWN_COMMAND = (
    "oh-my-pi has a /handoff of its own, which compacts the session in place and cannot be replaced: "
    "tasuki's command is /tasuki there."
)


def agent_folder() -> Path:
    """Folder of omp; `PI_CODING_AGENT_DIR` moves it if it points into an `.omp` folder."""
    base = os.environ.get("PI_CODING_AGENT_DIR", "")
    return Path(base) if base and ".omp" in Path(base).parts else home_folder() / ".omp" / "agent"


def folder_name(cwd: str) -> str:
    """Folder name of a working directory: `-proj` below home, `-tmp-x` below the temporary
    folder, `--srv-x--` elsewhere; symbolic links are resolved."""
    real = os.path.realpath(cwd)
    for prefix, base in (("-", home_folder()), ("-tmp", Path(tempfile.gettempdir()))):
        below = os.path.relpath(real, os.path.realpath(base))
        if below == ".":
            return prefix
        if not below.startswith(".."):
            return f"{prefix.removesuffix('-')}-{_dashed(below)}"
    return f"--{_dashed(real.removeprefix('/'))}--"


def _dashed(path: str) -> str:
    return re.sub(r"[/:]", "-", path)


class Omp:
    """The adapter of oh-my-pi."""

    name = "omp"
    title = "oh-my-pi"
    program = "omp"
    can_start = True
    can_prefill = False
    can_ask = True
    caller = Caller("omp-coding-agent")

    def files(self, cwd: Path | None = None) -> Iterator[ThreadFile]:
        folder = folder_name(str(cwd)) if cwd is not None else None
        yield from sessions_in(agent_folder() / "sessions", folder)

    def recognises(self, path: Path, first: bytes) -> bool:
        return is_session(first) and is_omp(path, first)

    def head(self, file: ThreadFile) -> ThreadHead | None:
        return read_head(file, self.name)

    def read(self, path: Path) -> Thread:
        from tasuki.harness.pi_v3.read import Reader  # not needed to list threads

        thread = Reader(path, self.name).read()
        beside = _beside(path)
        if not beside:
            return thread
        chains = [p for p in beside if p.suffix == ".jsonl"]
        return replace(
            thread,
            artifacts=tuple(str(p) for p in beside if p not in chains),
            sidechains=tuple(Sidechain(id=p.stem, path=str(p)) for p in chains),
        )

    def skill_command(self, skill: str) -> str:
        return f"/skill:{skill}"

    def skill_folders(self, cwd: Path) -> tuple[Path, ...]:
        return (cwd / ".omp" / "skills", agent_folder() / "skills", cwd / ".agents" / "skills")

    def plan(self, request: LaunchRequest) -> LaunchPlan:
        """`omp --resume FILE`: the file holds the past, the input the goal."""
        folder = agent_folder() / "sessions" / folder_name(request.cwd)
        return pi_format.plan(
            request, folder, argv=(self.program, "--resume"), ready=_READY, omp=True
        )

    def ask(self, request: AskRequest) -> AskPlan:
        """`omp --resume COPY`, with logs and marks of what was opened in the scratch folder too."""
        scratch = Path(request.scratch)
        copy, state = scratch / "thread.jsonl", scratch / "state"
        resumed = ("--resume", str(copy), "--session-dir", request.scratch)
        return AskPlan(
            argv=(self.program, "-p", *resumed, "--no-tools", "--no-extensions", "--no-title"),
            cwd=plans.ask_place(request),
            stdin=request.question,
            env={"XDG_STATE_HOME": str(state)},
            copies=((request.thread.path, str(copy)),),
            files=(PlannedFile(str(state / "omp" / "asked"), ""),),  # used only where it is there
        )

    def answered(self, output: str, request: AskRequest) -> AskAnswer:
        from tasuki.harness.pi_v3 import asking

        return asking.answered(request)

    def resume_command(self, thread: Thread) -> tuple[str, ...]:
        return (self.program, "--resume", thread.path)

    def integration(self) -> Integration:
        from tasuki.harness.pi_v3.installing import PiIntegration

        return PiIntegration(self.name, agent_folder(), "tasuki", (OWN_COMMAND,))

    def control(self) -> Control:
        from tasuki.harness.pi_v3.control import OmpControl

        return OmpControl(agent_folder(), _READY)


def _beside(path: Path) -> list[Path]:
    """What the session made: plans, outputs and the records of its sub-agents."""
    try:
        return sorted(p for p in path.with_suffix("").rglob("*") if p.is_file())
    except OSError:
        return []
