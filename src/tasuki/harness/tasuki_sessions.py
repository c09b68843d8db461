"""Sessions of `tasuki chat` and `tasuki acp`: `<data>/sessions/--<cwd>--/*.jsonl`.

They are in pi's format of version 3.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from tasuki.files import get_data_folder
from tasuki.harness.pi_v3.head import build_folder_name, is_session, list_session_files, read_head
from tasuki.harness.plans import ReadOnlyHarness
from tasuki.harness.protocol import ThreadFile
from tasuki.model import Thread, ThreadHead


def get_sessions_folder() -> Path:
    """Return the folder of all sessions, with one folder for each working directory."""
    return get_data_folder() / "sessions"


class TasukiSessions(ReadOnlyHarness):
    """The adapter of tasuki's own sessions.

    They can be read; a successor is started in another harness.
    """

    name = "tasuki"
    title = "tasuki chat"
    program = ""

    def list_files(self, cwd: Path | None = None) -> Iterator[ThreadFile]:
        yield from list_session_files(
            get_sessions_folder(), build_folder_name(str(cwd)) if cwd else None
        )

    def is_thread_file(self, path: Path, first: bytes) -> bool:
        """A session is below tasuki's data folder; a copy elsewhere is taken for one of pi's."""
        root = os.path.realpath(get_sessions_folder())
        return is_session(first) and os.path.realpath(path).startswith(f"{root}{os.sep}")

    def read_head(self, file: ThreadFile) -> ThreadHead | None:
        return read_head(file, self.name)

    def read(self, path: Path) -> Thread:
        from tasuki.harness.pi_v3.read import PiReader  # not needed to list threads

        return PiReader(path, self.name).read()

    def build_resume_command(self, thread: Thread) -> tuple[str, ...]:
        return ("tasuki", "chat", "--resume", thread.id)
