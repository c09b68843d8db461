"""The scripted harness's log of itself, for tests to count: one JSON line each."""

import json
import os
import time
from typing import Any


class ProgramJournal:
    """A file to which every line is appended whole, by any number of programs at once."""

    def __init__(self, path: str) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self.number = os.open(path, flags, 0o600) if path else -1
        self.session = ""

    def log_event(self, kind: str, **more: Any) -> None:
        """Append `{"kind", "at", "pid", "session", …}`; do nothing without a journal."""
        if self.number < 0:
            return
        line = {"kind": kind, "at": time.time(), "pid": os.getpid(), "session": self.session}
        os.write(self.number, (json.dumps(line | more) + "\n").encode("utf-8", "replace"))
