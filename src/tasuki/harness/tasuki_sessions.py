"""Sessions of `tasuki chat` and `tasuki acp`: `<data>/sessions/--<cwd>--/*.jsonl`, in pi's format of version 3."""

import os
from collections.abc import Iterator
from pathlib import Path

from tasuki.data_folder import data_folder
from tasuki.harness import plans
from tasuki.harness.pi_v3.head import is_session, read_head, sessions_in
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


def sessions_folder() -> Path:
    """The folder of all sessions, with one folder for each working directory."""
    return data_folder() / "sessions"


class TasukiSessions:
    """The adapter of tasuki's own sessions: they can be read; a successor is started in another harness."""

    name = "tasuki"
    title = "tasuki chat"
    program = ""
    can_start = False
    can_prefill = False
    can_ask = False
    caller = Caller()

    def files(self, cwd: Path | None = None) -> Iterator[ThreadFile]:
        yield from sessions_in(sessions_folder(), folder_name(str(cwd)) if cwd else None)

    def recognises(self, path: Path, first: bytes) -> bool:
        """A session lies below tasuki's data folder; a copy elsewhere is taken for pi's."""
        root = os.path.realpath(sessions_folder())
        return is_session(first) and os.path.realpath(path).startswith(f"{root}{os.sep}")

    def head(self, file: ThreadFile) -> ThreadHead | None:
        return read_head(file, self.name)

    def read(self, path: Path) -> Thread:
        from tasuki.harness.pi_v3.read import Reader  # not needed to list threads

        return Reader(path, self.name).read()

    def skill_command(self, skill: str) -> str:
        return ""

    def skill_folders(self, cwd: Path) -> tuple[Path, ...]:
        return ()

    def plan(self, request: LaunchRequest) -> LaunchPlan:
        return plans.none(self.title)

    def ask(self, request: AskRequest) -> AskPlan:
        plans.not_asked(self.title)

    def answered(self, output: str, request: AskRequest) -> AskAnswer:
        plans.not_asked(self.title)

    def resume_command(self, thread: Thread) -> tuple[str, ...]:
        return ("tasuki", "chat", "--resume", thread.id)

    def integration(self) -> None:
        """Nothing is added to it."""

    def control(self) -> None:
        """It is not run in a fleet."""
