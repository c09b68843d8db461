"""Programs of tests, forked from a process that has imported them: a start takes milliseconds, not seconds.

A forked program is a process of its own, with its own environment, folder and files; it can be
killed and waited for. Only its command line is not its own. What a test is about is how
a program starts, it is started with `subprocess` as everywhere.
"""

import atexit
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from functools import cache
from pathlib import Path
from typing import Any

from tree import PROGRAMS

TASUKI = Path(sys.executable).with_name("tasuki")
COMMAND = ("tasuki.cli.main", "tasuki.draft.pipeline", "rich.console")
"""What most commands import. A module that is missing in these lists costs each start its import, and nothing else."""
SERVER = (
    *COMMAND, "anyio._backends._asyncio", "attrs", "dbos._sys_db_sqlite", "encodings.idna", "litestar.middleware.allowed_hosts",
    "litestar.middleware._internal.exceptions", "litestar.plugins.attrs", "litestar.plugins.pydantic", "psycopg",
    "tasuki.cli.fleet.serve", "tasuki.fleet.service", "tasuki.web.application", "tasuki.web.server", "uvicorn.lifespan.on",
    "uvicorn.loops.uvloop", "uvloop", "prepared_server",
)  # fmt: skip
"""What `tasuki serve` imports."""
MODELS = (*COMMAND, "pydantic_ai.direct", "pydantic_ai.models.openai", "pydantic_ai.models.anthropic", "pydantic_ai.models.google")  # fmt: skip
"""What an author that is a model imports."""

CHAT = (
    *COMMAND,
    "acp",
    "acp.schema",
    "acp.stdio",
    "tasuki.session.chat.chat",
    "tasuki.session.agent_session.acp_backend",
)
"""What `tasuki chat` without a terminal imports."""


class ForkServer:
    """The process from which programs are forked; `programs/fork_server.py` says how it is asked."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loaded: set[str] = set()
        clean = {name: value for name, value in os.environ.items() if not name.startswith("LC_")}
        self._process = subprocess.Popen(
            [sys.executable, str(PROGRAMS / "fork_server.py")], env={**clean, "LANG": "C.UTF-8"},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def ask(self, **request: Any) -> Any:
        """Send a request; the answer."""
        assert self._process.stdin
        assert self._process.stdout
        with self._lock:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """End it; what it has started goes on."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(10)

    def load(self, modules: tuple[str, ...]) -> None:
        """Import modules once."""
        if new := [name for name in modules if name not in self._loaded]:
            self._loaded.update(new)
            self.ask(load=new)


@cache
def fork_server() -> ForkServer:
    """The one of this process; it ends with it."""
    made = ForkServer()
    atexit.register(made.close)
    return made


class ForkedProgram:
    """A running program, to be used like a `subprocess.Popen`."""

    def __init__(self, pid: int, files: tuple[Path, Path, Path]) -> None:
        self.pid = pid
        self.files = files
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        if self.returncode is None:
            self.returncode = fork_server().ask(poll=self.pid)["code"]
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float = 60) -> tuple[str, str]:
        """Wait for its end; its output and its errors. Raises TimeoutExpired."""
        self.wait(timeout)
        return self.files[1].read_text(), self.files[2].read_text()

    def read_line(self, seconds: float = 60) -> str:
        """The first line of its output, once it is written; what there is where it has ended."""
        deadline = time.monotonic() + seconds
        while "\n" not in (written := self.files[1].read_text() if self.files[1].exists() else ""):
            if self.poll() is not None or time.monotonic() > deadline:
                return written
            time.sleep(0.02)
        return written.partition("\n")[0] + "\n"

    def wait(self, timeout: float = 60) -> int:
        """Wait for its end; the exit code. Raises TimeoutExpired."""
        deadline = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if (left := deadline - time.monotonic()) < 0:
                raise subprocess.TimeoutExpired(f"forked {self.pid}", timeout)
            self._await_end(left)
        return code

    def _await_end(self, seconds: float) -> None:
        """Wait until it has ended; where the system cannot tell (macOS), a moment."""
        if not hasattr(os, "pidfd_open"):
            time.sleep(0.01)
            return
        ends = os.pidfd_open(self.pid)
        try:
            poller = select.poll()  # select.select fails in a process with 1,024 open files
            poller.register(ends)
            poller.poll(seconds * 1000)
        finally:
            os.close(ends)


def start_forked(
    script: Path, arguments: tuple[str, ...], *, env: dict[str, str], cwd: Path, files: tuple[Path, Path, Path],
    modules: tuple[str, ...] = COMMAND,
) -> ForkedProgram:  # fmt: skip
    """Start `python SCRIPT ARGUMENTS`; `files` become its input, and get its output and its errors at their ends."""
    fork_server().load(modules)
    answer = fork_server().ask(
        script=str(script), arguments=arguments, env=env, cwd=str(cwd), files=[str(f) for f in files]
    )  # fmt: skip
    return ForkedProgram(answer["pid"], files)


def run_tasuki(
    arguments: tuple[str, ...], *, env: dict[str, str], cwd: Path, input: str = "", timeout: float = 60,
    modules: tuple[str, ...] = COMMAND,
) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """Run `tasuki ARGUMENTS` without a terminal, as `subprocess.run` does. Raises TimeoutExpired.

    Where the environment says something to Python itself, it is started, not forked.
    """
    if any(name.startswith(("PYTHON", "LC_")) for name in env) or env.get("LANG") != "C.UTF-8":
        return subprocess.run(
            [str(TASUKI), *arguments], env=env, cwd=cwd, input=input, capture_output=True, text=True, timeout=timeout, check=False
        )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="forked-") as folder:
        files = tuple(Path(folder, name) for name in ("in", "out", "err"))
        files[0].write_text(input)
        program = start_forked(TASUKI, arguments, env=env, cwd=cwd, files=files, modules=modules)  # type: ignore[arg-type]
        try:
            code = program.wait(timeout)
        finally:
            program.send_signal(signal.SIGKILL)
        out, err = (file.read_text() if file.exists() else "" for file in files[1:])
    return subprocess.CompletedProcess(["tasuki", *arguments], code, out, err)
