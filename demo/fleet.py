"""`scripts/demo fleet`: two personas, one handoff from start to acknowledged, a server killed in the middle.

The agents are tasuki's scripted harness, which behaves in a terminal as Claude Code does and asks no
model. Everything happens in a folder of its own, with a tmux server of its own, and is taken away.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tasuki.testing.scripted_harness import install_scripted

TASUKI = Path(sys.executable).with_name("tasuki")
CON = "You are Con, a developer. You make small changes and test each of them.\n"
ROBIN = "You are Robin, a reviewer. You read what others changed and name what can fail.\n"
SECONDS = 60.0


class Demo:
    """A folder with everything that the demonstration needs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.hold = folder / "document-may-be-written"
        self.journal = folder / "journal.jsonl"
        self.sockets = Path(tempfile.mkdtemp(prefix="t-", dir="/tmp"))
        self.server: subprocess.Popen[bytes] | None = None
        (folder / "home").mkdir()
        (folder / "project").mkdir()
        install_scripted(folder / "bin")
        self._script()
        self.env = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("TMUX", "CLAUDE", "XDG_"))},
            "PATH": f"{folder / 'bin'}:{TASUKI.parent}:{os.environ['PATH']}",
            "HOME": str(folder / "home"), "TASUKI_DATA": str(self.data), "TASUKI_CONFIG": os.devnull + "/none",
            "TMUX_TMPDIR": str(self.sockets), "SCRIPTED_LOG": str(self.journal),
            "SCRIPTED_HARNESS": str(folder / "script.json"),
        }  # fmt: skip

    def _script(self) -> None:
        """The outgoing agent writes its document when it is let, so that there is time to kill the server."""
        document = r"(?is)\bwrite\b.*?(?P<path>/[^\s`'\"]*/handoffs/[^\s`'\"]+\.md)"
        rules = [{"match": document, "do": [["wait_for", str(self.hold)], ["document", "{path}"], ["say", "The document is written."]]}]  # fmt: skip
        (self.folder / "script.json").write_text(json.dumps({"rules": rules}))

    def run(self, *words: str, show: bool = True) -> str:
        """Run a command of tasuki and show it as one would type it."""
        if show:
            say(f"\n$ tasuki {' '.join(words)}")
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
        say("\n$ tasuki serve &")
        with (self.folder / "server.log").open("ab") as log:
            self.server = subprocess.Popen(
                [str(TASUKI), "serve", "--port", "0"], env=self.env, cwd=self.folder, stdout=log, stderr=log,
            )  # fmt: skip
        address = self.data / "fleet" / "address"
        until(lambda: address.exists() and self._lists_agents())

    def _lists_agents(self) -> bool:
        listed = [str(TASUKI), "agent", "list"]
        return not subprocess.run(listed, env=self.env, capture_output=True, check=False).returncode

    def kill(self) -> None:
        """End the server as a crash would."""
        assert self.server
        say(f"\n$ kill -9 {self.server.pid}        # the server")
        self.server.send_signal(signal.SIGKILL)
        self.server.wait()
        (self.data / "fleet" / "address").unlink(missing_ok=True)

    def agents(self) -> list[Any]:
        """The agents as the server knows them."""
        return list(json.loads(self.run("agent", "list", "--json", show=False))["agents"])

    def seen(self, kind: str, words: str = "") -> list[Any]:
        """What the harness itself saw."""
        lines = map(json.loads, self.journal.read_text().splitlines())
        return [x for x in lines if x["kind"] == kind and words in x.get("text", "")]

    def close(self) -> None:
        """Take everything away."""
        if self.server and self.server.poll() is None:
            self.server.terminate()
            self.server.wait(20)
        subprocess.run(["tmux", "kill-server"], env=self.env, capture_output=True, check=False)
        shutil.rmtree(self.sockets, ignore_errors=True)


def say(text: str) -> None:
    """Show something at once."""
    print(text, flush=True)


def until(condition: Callable[[], object]) -> None:
    """Wait for something."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit("That took too long; something is wrong.")
        time.sleep(0.1)


def shown(demo: Demo) -> None:
    """The demonstration."""
    (demo.folder / "con.md").write_text(CON)
    (demo.folder / "robin.md").write_text(ROBIN)
    demo.serve()
    demo.run("install", "claude", "--fleet", "--yes")
    demo.run("persona", "add", "developer", "con", "--skill", str(demo.folder / "con.md"))
    demo.run("persona", "add", "reviewer", "robin", "--skill", str(demo.folder / "robin.md"))
    demo.run("agent", "start", "--persona", "developer-con-1")
    demo.run("agent", "start", "--persona", "reviewer-robin-1")
    until(lambda: all(agent["state"] == "idle" for agent in demo.agents()))
    demo.run(
        "agent",
        "send",
        "1",
        "Make the retries of the upload client configurable. Never touch vendor/.",
    )
    until(lambda: demo.agents()[-1]["state"] == "idle")
    demo.run("agent", "list")

    say("\n$ tasuki agent handoff 1 --reason context_limit --watch")
    watch = subprocess.Popen(
        [str(TASUKI), "agent", "handoff", "1", "--reason", "context_limit", "--watch"],
        env=demo.env, cwd=demo.folder,
    )  # fmt: skip
    until(lambda: demo.seen("prompt", "Write a handoff document"))
    time.sleep(1)
    demo.kill()
    demo.hold.touch()
    say("# The agent writes its document while no server is there; its hooks keep what happens.")
    time.sleep(2)
    demo.serve()
    if watch.wait(SECONDS):
        raise SystemExit("The handoff did not end well.")

    demo.run("agent", "list")
    demo.run("handoffs", "--agents")
    (document,) = (demo.data / "data/personas/developer-con-1/handoffs").glob("*.md")
    say(f"\n$ head -20 {document.name}\n" + "\n".join(document.read_text().splitlines()[:20]))
    counts = {
        "instructions": len(demo.seen("prompt", "Write a handoff document")),
        "exits": len(demo.seen("exit")),
        "successors": len(demo.seen("started")) - 2,
        "prompts to the successor": len(demo.seen("prompt", "Begin your answer with")),
    }
    say("\nCounted in the harness's own journal: " + ", ".join(f"{n} × {what}" for what, n in counts.items()))  # fmt: skip
    if set(counts.values()) != {1}:
        raise SystemExit("Something happened twice, or not at all.")
    say("Each once, although the server was killed in the middle. With real agents: docs/fleet.md")


def main() -> None:
    """Show it, in a folder that is taken away."""
    if not shutil.which("tmux") or not shutil.which("curl"):
        raise SystemExit("This needs tmux and curl. Debian: apt install tmux curl. macOS: brew install tmux curl.")  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="tasuki-demo-", ignore_cleanup_errors=True) as folder:
        demo = Demo(Path(folder))
        try:
            shown(demo)
        finally:
            demo.close()


if __name__ == "__main__":
    main()
