"""pi, oh-my-pi, and tasuki's own sessions, which are all in pi's format of version 3.

pi: `~/.pi/agent/sessions/--<cwd>--/<time>_<id>.jsonl`. Seen: 0.73 to 1.5, and files of 2025.

oh-my-pi: `~/.omp/agent/sessions/<cwd>/<time>_<id>.jsonl`, with a folder of the same name.
Seen: 14.9 and 18.2. Line 1 may be a title slot that is overwritten in place.

Sessions of `tasuki chat` and `tasuki acp`: `<data>/sessions/--<cwd>--/*.jsonl`.
"""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

from msgspec.structs import replace

from tasuki.files import find_home_folder, get_data_folder
from tasuki.harness import optional, plans, protocol
from tasuki.harness.integration import HarnessIntegration
from tasuki.harness.pi_v3 import format as record
from tasuki.harness.pi_v3 import head
from tasuki.harness.programs import ProgramHarness
from tasuki.harness.protocol import AcpCommand, CallerIdentity, HarnessFacts, ThreadFile
from tasuki.harness.reading.jsonl import scan_folder
from tasuki.model import Sidechain, Thread, ThreadHead


class _PiFiles(ProgramHarness):
    """Reading of files in pi's format, for all adapters here."""

    name: str
    reader = "PiReader"

    def read_head(self, file: ThreadFile) -> ThreadHead | None:
        return head.PiHead(file, self.name).read()

    def read(self, path: Path) -> Thread:
        return self.build_reader(path, self.name).read()

    def follow(self, path: Path) -> optional.ThreadFollower | None:
        return self.build_reader(path, self.name, follows=True)

    def list_parts(self, path: Path, cwd: str) -> tuple[optional.ThreadPart, ...]:
        """List the file; nothing of tasuki's own sessions, which only the user deletes."""
        return () if _is_own_session(path) else (optional.ThreadPart(path.name, str(path)),)


class _PiProgram(_PiFiles):
    """What pi and omp have in common as programs."""

    place: str
    """The folder below the user's home that holds its own."""
    skill_mark = "/skill:"
    key_variables = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY")
    """Variables from which both programs take a provider's key."""
    session_flag: str
    """Goes in front of a session's file."""
    command: tuple[Any, ...] = ()
    """The name of tasuki's command where it is another one, and notes on it."""

    def get_folder(self) -> Path:
        """Return its folder; `PI_CODING_AGENT_DIR` moves omp's if it points into `.omp`, else pi's."""
        base = os.environ.get("PI_CODING_AGENT_DIR", "")
        is_own = base and (".omp" in Path(base).parts) == (self.place == ".omp")
        return Path(base) if is_own else find_home_folder() / self.place / "agent"

    def parse_answer(self, output: str, request: protocol.AskRequest) -> protocol.AskAnswer:
        return cast(protocol.AskAnswer, self.load("hooks", "parse_answer")(request))

    def find_session_folder(self, cwd: str) -> Path:
        """Return the folder for sessions of a working directory."""
        raise NotImplementedError

    def plan(self, request: protocol.LaunchRequest) -> protocol.LaunchPlan:
        """Plan the program with a session's file: that holds the past, the input the goal."""
        folder, argv = self.find_session_folder(request.cwd), (self.program, self.session_flag)
        return record.plan_session(request, folder, argv, self.ready, omp=self.program == "omp")

    def build_resume_command(self, thread: Thread) -> tuple[str, ...]:
        return (self.program, self.session_flag, thread.path)

    def get_integration(self) -> HarnessIntegration:
        build = self.load("hooks", "*Integration")
        return cast(HarnessIntegration, build(self.name, self.get_folder(), *self.command))

    def get_control(self) -> protocol.AgentControl:
        build = self.load("hooks", "*Control")
        return cast(protocol.AgentControl, build(self.program, self.ready, self.get_folder()))


class Pi(_PiProgram):
    """The adapter of pi."""

    name = "pi"
    title = "pi"
    program = "pi"
    prefix = "Pi"
    place = ".pi"
    ready = r"\d%/\d+(?:\.\d+)?[kM]"
    """The footer shows how much of the context window is used: `1.2%/128k`."""
    session_flag = "--session"
    caller = CallerIdentity("pi", variable="PI_SESSION_FILE")
    facts = HarnessFacts(
        package="@earendil-works/pi-coding-agent",
        tested="1.5.2",
        process_names=("pi", "pi-coding-agent"),
        acp=AcpCommand(("pi-acp",), "pi-acp", 6),
    )

    def list_files(self, cwd: Path | None = None) -> Iterator[ThreadFile]:
        base = self.get_folder()
        try:
            named = head.list_named_folders(base, cwd or Path.cwd())
        except FileNotFoundError:  # The current folder is gone.
            named = head.list_named_folders(base, base)
        for root in dict.fromkeys((base / "sessions", *named)):
            yield from head.list_session_files(root)

    def is_thread_file(self, path: Path, first: bytes) -> bool:
        return head.is_session(first) and not head.is_omp(path, first)

    def list_skill_folders(self, cwd: Path) -> tuple[Path, ...]:
        own = (cwd / ".pi" / "skills", self.get_folder() / "skills")
        return (*own, cwd / ".agents" / "skills", find_home_folder() / ".agents" / "skills")

    def find_session_folder(self, cwd: str) -> Path:
        named = head.list_named_folders(self.get_folder(), Path(cwd))
        return (*named, self.get_folder() / "sessions" / head.build_folder_name(cwd))[0]

    def ask(self, request: protocol.AskRequest) -> protocol.AskPlan:
        """Plan `pi --fork FILE`: the fork is recorded in the scratch folder."""
        fork = ("--fork", request.thread.path, "--session-dir", request.scratch)
        return protocol.AskPlan(
            argv=(self.program, "-p", *fork, "--no-tools", "--no-extensions"),
            cwd=plans.choose_ask_folder(request),
            stdin=request.question,
        )

    def list_key_files(self) -> tuple[Iterable[Path], Iterable[Path]]:
        return [self.get_folder() / "auth.json"], [self.get_folder() / "models.json"]


OMP_COMMAND_NOTE = (
    "oh-my-pi already has a /handoff, which compacts the session in place and cannot be replaced: there tasuki's command "
    "is /tasuki."
)


def build_omp_folder_name(cwd: str) -> str:
    """Return the folder name of a working directory.

    It is `-proj` below home, `-tmp-x` below the temporary folder, `--srv-x--` elsewhere;
    symbolic links are resolved.
    """
    import tempfile

    real = os.path.realpath(cwd)
    for prefix, base in (("-", find_home_folder()), ("-tmp", Path(tempfile.gettempdir()))):
        relative = os.path.relpath(real, os.path.realpath(base))
        if relative == ".":
            return prefix
        if not relative.startswith(".."):
            return f"{prefix.removesuffix('-')}-{re.sub('[/:]', '-', relative)}"
    return f"--{re.sub('[/:]', '-', real.removeprefix('/'))}--"


class Omp(_PiProgram):
    """The adapter of oh-my-pi."""

    name = "omp"
    title = "oh-my-pi"
    program = "omp"
    prefix = "Omp"
    place = ".omp"
    ready = r"^\s*π > "
    session_flag = "--resume"
    command = ("tasuki", (OMP_COMMAND_NOTE,))
    caller = CallerIdentity("omp-coding-agent")
    facts = HarnessFacts(
        package="@oh-my-pi/pi-coding-agent",
        tested="18.2.3",
        process_names=("omp", "pi-coding-agent"),
        acp=AcpCommand(("omp", "acp"), "@oh-my-pi/pi-coding-agent", 2),
    )

    def list_files(self, cwd: Path | None = None) -> Iterator[ThreadFile]:
        profiles = scan_folder(find_home_folder() / ".omp" / "profiles")
        for base in dict.fromkeys((self.get_folder(), *(Path(p.path, "agent") for p in profiles))):
            yield from head.list_session_files(base / "sessions")

    def is_thread_file(self, path: Path, first: bytes) -> bool:
        return head.is_session(first) and head.is_omp(path, first)

    def read(self, path: Path) -> Thread:
        """Read the session, with what it created: plans, outputs and the records of sub-agents."""
        thread = super().read(path)
        try:
            beside = sorted(p for p in path.with_suffix("").rglob("*") if p.is_file())
        except OSError:
            return thread
        chains = [p for p in beside if p.suffix == ".jsonl"]
        return replace(
            thread,
            artifacts=tuple(str(p) for p in beside if p not in chains),
            sidechains=tuple(Sidechain(id=p.stem, path=str(p)) for p in chains),
        )

    def follow(self, path: Path) -> optional.ThreadFollower | None:
        return None  # the files next to a session are listed anew by each reading

    def list_skill_folders(self, cwd: Path) -> tuple[Path, ...]:
        return (cwd / ".omp" / "skills", self.get_folder() / "skills", cwd / ".agents" / "skills")

    def find_session_folder(self, cwd: str) -> Path:
        return self.get_folder() / "sessions" / build_omp_folder_name(cwd)

    def ask(self, request: protocol.AskRequest) -> protocol.AskPlan:
        """Plan `omp --resume COPY`; logs and marks of opened files go to the scratch folder too."""
        scratch = Path(request.scratch)
        copy, state = scratch / "thread.jsonl", scratch / "state"
        resumed = ("--resume", str(copy), "--session-dir", request.scratch)
        asked = protocol.PlannedFile(
            str(state / "omp" / "asked"), ""
        )  # used only where it is there
        return protocol.AskPlan(
            argv=(self.program, "-p", *resumed, "--no-tools", "--no-extensions", "--no-title"),
            cwd=plans.choose_ask_folder(request),
            stdin=request.question,
            env={"XDG_STATE_HOME": str(state)},
            copies=((request.thread.path, str(copy)),),
            files=(asked,),
        )

    def list_key_files(self) -> tuple[Iterable[Path], Iterable[Path]]:
        return (), [self.get_folder() / name for name in ("agent.db", "models.yml")]


def get_sessions_folder() -> Path:
    """Return the folder of all sessions, with one folder for each working directory."""
    return get_data_folder() / "sessions"


def _is_own_session(path: Path) -> bool:
    root = os.path.realpath(get_sessions_folder())
    return os.path.realpath(path).startswith(f"{root}{os.sep}")


class TasukiSessions(plans.ReadOnlyHarness, _PiFiles):
    """The adapter of tasuki's own sessions: they can be read; a successor is started elsewhere."""

    name = "tasuki"
    title = "tasuki chat"
    program = ""

    def list_files(self, cwd: Path | None = None) -> Iterator[ThreadFile]:
        return head.list_session_files(get_sessions_folder())

    def is_thread_file(self, path: Path, first: bytes) -> bool:
        """A session is below tasuki's data folder; a copy elsewhere is taken for one of pi's."""
        return head.is_session(first) and _is_own_session(path)

    def build_resume_command(self, thread: Thread) -> tuple[str, ...]:
        return ("tasuki", "chat", "--resume", thread.id)
