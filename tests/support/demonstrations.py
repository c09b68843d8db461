"""The demonstrations of the checkout, as processes that must leave nothing behind."""

import os
import selectors
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from tree import ROOT

SECONDS = 180.0
MARK = "STARTED_FOR_THE_TEST"


class Shown:
    """A demonstration in a process group of its own; its folders are made in `folder`."""

    def __init__(self, name: str, folder: Path) -> None:
        self.folder = folder
        self.mark = f"{folder.name}-{time.monotonic_ns()}"
        env = {**os.environ, "TMPDIR": str(folder), MARK: self.mark, "HOME": str(folder)}
        self.program = subprocess.Popen(
            [sys.executable, str(ROOT / "demo" / name)], env=env, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        self.said = ""

    def until(self, words: str) -> str:
        """What it said, once these words are among it."""
        assert self.program.stdout
        deadline = time.monotonic() + SECONDS
        with selectors.DefaultSelector() as ready:
            ready.register(self.program.stdout, selectors.EVENT_READ)
            while words not in self.said:
                assert ready.select(deadline - time.monotonic()), self.said
                piece = os.read(self.program.stdout.fileno(), 1 << 16).decode()
                assert piece, self.said
                self.said += piece
        return self.said

    def running(self) -> list[str]:
        """The environment of every process that was started by it and still runs."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                found.append((process / "environ").read_bytes().decode("utf-8", "replace"))
        return [each for each in found if f"{MARK}={self.mark}\0" in each]

    def end(self, number: int) -> int:
        """Its exit status once a signal has ended it."""
        self.program.send_signal(number)
        return self.program.wait(60)

    def interrupt(self) -> int:
        """Its exit status once Ctrl-C has ended it: what it runs in the foreground gets that, too."""
        os.killpg(self.program.pid, signal.SIGINT)
        assert self.program.stdout
        while piece := os.read(self.program.stdout.fileno(), 1 << 16):
            self.said += piece.decode()
        return self.program.wait(60)

    def close(self) -> None:
        """End what is left of it."""
        if self.program.poll() is None:
            self.end(signal.SIGTERM)
        assert self.program.stdout
        self.program.stdout.close()
