"""The command as tests call it: a home, a project, and threads in it."""

import json
import os
import subprocess
from pathlib import Path

from forked import COMMAND, MODELS, run_tasuki

from tasuki.harness.claude.head import build_folder_name
from tasuki_testing import ThreadBuilder, story

GOAL = "make the retries configurable and cover them with a test"
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


class World:
    """A home folder, a project, and the program in it."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.project = root / "proj"
        self.data = root / "data"
        self.project.mkdir(parents=True)
        self.home.mkdir()
        self.env = {
            "HOME": str(self.home),
            "PATH": os.environ["PATH"],
            "TASUKI_DATA": str(self.data),
            "TASUKI_CONFIG": os.devnull,
            "LANG": "C.UTF-8",
        }

    def run(self, *arguments: str, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        """Run tasuki in the project."""
        modules = MODELS if "--author" in arguments else COMMAND
        return run_tasuki(
            arguments, env={**self.env, **env}, cwd=self.project, input=stdin, modules=modules
        )

    def thread(self, builder: ThreadBuilder | None = None) -> Path:
        """A thread of Claude Code of this project, where Claude Code keeps it."""
        folder = self.home / ".claude" / "projects" / build_folder_name(self.project)
        folder.mkdir(parents=True, exist_ok=True)
        return (builder or story("claude", cwd=str(self.project))).write(folder)


def work(seed: int = 1, cwd: str = "/home/dev/proj") -> ThreadBuilder:
    """A thread with a question that is answered twice, the second time otherwise."""
    return (
        ThreadBuilder("claude", cwd=cwd, seed=seed)
        .user("Why does the upload stall after a minute?")
        .assistant("The upload stalls because the client timeout is 60 s.")
        .shell("curl -v https://upload.test", f"< x-token: {SECRET}\nTimeoutError: 61 s", 28)
        .user("That was not it, the client has no timeout")
        .assistant("You are right: the upload stalls because the gateway's keepalive is off.")
        .edit("src/gateway.py", "keepalive = False", "keepalive = True")
        .shell("pytest -q tests/test_upload.py", "12 passed", 0)
    )


def chain(world: World) -> tuple[str, str, Path]:
    """Two handoffs, the second made from a thread that began with the first; and the first thread."""
    first_path = world.thread(work(cwd=str(world.project)))
    first = json.loads(world.run("handoff", "--json", "--from", str(first_path), GOAL).stdout)
    second_path = world.thread(
        ThreadBuilder("claude", cwd=str(world.project), seed=2)
        .user(first["brief"])
        .assistant("The retries are configurable now: RETRY_LIMIT.")
        .edit("src/retry.py", "3", "RETRY_LIMIT")
    )
    second = json.loads(world.run("handoff", "--json", "--from", str(second_path), GOAL).stdout)
    return first["id"], second["id"], first_path
