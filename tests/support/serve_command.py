"""`tasuki serve` as tests start it: one server for a folder, in a process of its own."""

import http.client
import json
import os
import subprocess
from pathlib import Path

from forked import SERVER, TASUKI, ForkedProgram, run_tasuki, start_forked


class Server:
    """`tasuki serve` in a process of its own, with a home and data of its own."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self.fleet = self.data / "fleet"
        self.env = {"PATH": os.environ["PATH"], "HOME": str(folder), "TASUKI_DATA": str(self.data),
                    "TASUKI_CONFIG": os.devnull, "LANG": "C.UTF-8"}  # fmt: skip
        self.folder = folder
        self.started: list[subprocess.Popen[str] | ForkedProgram] = []

    def popen(self, *options: str) -> subprocess.Popen[str]:
        """Start it as a shell does."""
        made = subprocess.Popen(
            [str(TASUKI), "serve", *options], env=self.env, cwd=self.folder, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.started.append(made)
        return made

    def fork(self, *options: str) -> ForkedProgram:
        """Start it from a process that has imported it."""
        out, errors = (self.folder / f"{len(self.started)}.{name}" for name in ("out", "err"))
        made = start_forked(
            TASUKI, ("serve", *options), env=self.env, cwd=self.folder,
            files=(Path(os.devnull), out, errors), modules=SERVER,
        )  # fmt: skip
        self.started.append(made)
        return made

    def start(self, *options: str) -> ForkedProgram:
        """Start it on a free port, once it answers."""
        made = self.fork("--port", "0", *options)
        self.said = made.read_line()
        assert self.said, made.communicate()[1]
        return made

    def start_program(self, *options: str) -> subprocess.Popen[str]:
        """Start it as a shell does on a free port, once it answers."""
        made = self.popen("--port", "0", *options)
        assert made.stdout
        self.said = made.stdout.readline()
        assert self.said, made.communicate()[1]
        return made

    def refused(self, *options: str) -> tuple[int, str]:
        """The exit code and the words of one that does not start."""
        done = run_tasuki(("serve", *options), env=self.env, cwd=self.folder, modules=SERVER)
        return done.returncode, done.stderr

    @property
    def address(self) -> str:
        """Where it answers."""
        return (self.fleet / "address").read_text().splitlines()[0]

    def health(self) -> str:
        """What it says of itself."""
        host, _, port = self.address.rpartition(":")
        connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=10)
        try:
            connection.request("GET", "/health")
            return str(json.loads(connection.getresponse().read())["status"])
        finally:
            connection.close()

    def end(self) -> None:
        """End all that was started."""
        for one in self.started:
            if one.poll() is None:
                one.kill()
            one.communicate()
