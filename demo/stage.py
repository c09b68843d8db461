"""What the demonstrations of the fleet share: a folder, a tmux server and a server of their own.

The agents are tasuki's scripted harness, which behaves in a terminal as Claude Code does and asks no
model. Nothing of the user's is read or written, and everything is taken away at the end.
"""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))

from fakes.scripted_harness import install_scripted

TASUKI = Path(sys.executable).with_name("tasuki")
SECONDS = 90.0
FOREIGN = ("TMUX", "CLAUDE", "XDG_", "TASUKI_", "SCRIPTED_", "GIT_")
"""Variables of the user's that programs of a demonstration are not to see begin so."""


class Stage:
    """A folder with everything that a demonstration needs."""

    def __init__(self, folder: Path, rules: Iterable[dict[str, Any]]) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.journal = folder / "journal.jsonl"
        self.sockets = Path(tempfile.mkdtemp(prefix="t-", dir="/tmp"))
        self.server: subprocess.Popen[bytes] | None = None
        self.prompt = "$"
        self.options: tuple[str, ...] = ()
        """Options of `tasuki serve`."""
        (folder / "home").mkdir()
        (folder / "project").mkdir()
        (folder / "config.toml").write_text('notify_about = ""\n')  # no desktop is told of it
        (folder / "script.json").write_text(json.dumps({"rules": list(rules)}))
        install_scripted(folder / "bin")
        self.env = {
            **{k: v for k, v in os.environ.items() if not k.startswith(FOREIGN)},
            "PATH": f"{folder / 'bin'}:{TASUKI.parent}:{os.environ['PATH']}", "SHELL": "/bin/sh",
            "HOME": str(folder / "home"), "TASUKI_DATA": str(self.data),
            "TASUKI_CONFIG": str(folder / "config.toml"), "TMUX_TMPDIR": str(self.sockets),
            "SCRIPTED_LOG": str(self.journal), "SCRIPTED_HARNESS": str(folder / "script.json"),
        }  # fmt: skip

    def run(self, *words: str, show: bool = True) -> str:
        """Run a command of tasuki and show it as one would type it; what it prints."""
        if show:
            say(f"\n{self.prompt} tasuki {shlex.join(words)}")
        done = subprocess.run(
            [str(TASUKI), *words], env=self.env, cwd=self.folder / "project", text=True,
            capture_output=True, check=False,
        )  # fmt: skip
        if show or done.returncode:
            say((done.stdout + done.stderr).rstrip())
        if done.returncode:
            raise SystemExit(f"tasuki {words[0]} failed.")
        return done.stdout

    def serve(self) -> None:
        """Start the server, and wait until it answers."""
        say(f"\n{self.prompt} tasuki {shlex.join(('serve', *self.options))} &")
        with (self.folder / "server.log").open("ab") as log:
            self.server = subprocess.Popen(
                [str(TASUKI), "serve", "--port", "0", *self.options], env=self.env, cwd=self.folder, stdout=log,
                stderr=log, start_new_session=True,
            )  # fmt: skip
        until(lambda: (self.data / "fleet" / "address").exists() and self._answers())

    def _answers(self) -> bool:
        with suppress(OSError, SystemExit):
            self.api("GET", "agents")
            return True
        return False

    def api(self, method: str, path: str, **body: Any) -> Any:
        """Call the server's API; its answer. Raises SystemExit with the server's sentence."""
        address = (self.data / "fleet" / "address").read_text().splitlines()[0]
        token = (self.data / "fleet" / "token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        data = json.dumps(body).encode() if method == "POST" else None
        asked = urllib.request.Request(f"http://{address}/api/{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(asked, timeout=60) as answer:  # noqa: S310
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise SystemExit(f"{method} {path}: {error.read().decode()}") from None

    def kill(self) -> None:
        """End the server as a crash would."""
        assert self.server
        say(f"\n{self.prompt} kill -9 {self.server.pid}        # the server")
        self.server.send_signal(signal.SIGKILL)
        self.server.wait()
        (self.data / "fleet" / "address").unlink(missing_ok=True)

    def agents(self) -> list[Any]:
        """The agents as the server knows them, the newest first."""
        return list(self.api("GET", "agents")["agents"])

    def seen(self, kind: str, words: str = "") -> list[Any]:
        """What the harness itself saw."""
        lines = map(json.loads, self.journal.read_text().splitlines())
        return [x for x in lines if x["kind"] == kind and words in x.get("text", "")]

    def tmux(self, *words: str) -> str:
        """One command of the demonstration's own tmux; what it prints."""
        done = subprocess.run(["tmux", *words], env=self.env, capture_output=True, text=True, check=False)  # fmt: skip
        return done.stdout

    def close(self) -> None:
        """Take everything away; every program has ended then."""
        if self.server and self.server.poll() is None:
            self.server.terminate()
            try:
                self.server.wait(20)
            except subprocess.TimeoutExpired:
                self.server.kill()
                self.server.wait()
        panes = self.tmux("list-panes", "-a", "-F", "#{pane_pid}").split()
        self.tmux("kill-server")
        deadline = time.monotonic() + 10
        while any(map(_lives, panes)) and time.monotonic() < deadline:
            time.sleep(0.05)
        shutil.rmtree(self.sockets, ignore_errors=True)


def _lives(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    return True


@contextmanager
def stage(rules: Callable[[Path], Iterable[dict[str, Any]]]) -> Iterator[Stage]:
    """A stage in a folder that is taken away, also when the demonstration is broken off.

    `rules` tells the script of the agents from that folder.
    """
    needed("tmux", "curl")
    with temporary() as folder:
        made = Stage(folder, rules(folder))
        try:
            yield made
        finally:
            made.close()


@contextmanager
def temporary() -> Iterator[Path]:
    """A folder that is taken away, also when this program is told to end."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: sys.exit(128 + number))
    with tempfile.TemporaryDirectory(prefix="tasuki-demo-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def needed(*programs: str) -> None:
    """Raises SystemExit where one of these programs is missing."""
    if missing := [program for program in programs if not shutil.which(program)]:
        names = " ".join(missing)
        raise SystemExit(f"This needs {names}. Debian: apt install {names}. macOS: brew install {names}.")  # fmt: skip


def say(text: str) -> None:
    """Show something at once."""
    print(text, flush=True)


def until(condition: Callable[[], object], seconds: float = SECONDS) -> None:
    """Wait for something."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit("That took too long; something is wrong.")
        time.sleep(0.1)
