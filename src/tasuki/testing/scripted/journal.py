"""What the scripted harness tells of itself, for tests to count: one line of JSON each."""

import json
import os
import time
from typing import Any


class Journal:
    """A file to which every line is appended whole, by however many programs at once."""

    def __init__(self, path: str) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self.number = os.open(path, flags, 0o600) if path else -1
        self.session = ""

    def tell(self, kind: str, **more: Any) -> None:
        """Append `{"kind", "at", "pid", "session", …}`; nothing where no journal is kept."""
        if self.number < 0:
            return
        line = {"kind": kind, "at": time.time(), "pid": os.getpid(), "session": self.session}
        os.write(self.number, (json.dumps(line | more) + "\n").encode("utf-8", "replace"))
