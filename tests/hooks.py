"""Payloads of hooks, and tasuki as the hook that gets them."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from tasuki.harness.claude import folder_name
from tasuki.testing import ThreadBuilder

ASKED = "Let the parser keep blank lines; the printer counts them."


class Session:
    """A running session of a harness, as its hooks see it: a thread on disk, and no terminal."""

    def __init__(self, root: Path, harness: str = "claude") -> None:
        self.root, self.harness = root, harness
        self.home, self.project, self.data = root / "home", root / "proj", root / "data"
        for folder in (self.home, self.project):
            folder.mkdir(exist_ok=True)
        self.config = root / "config.toml"
        self.env = {
            "HOME": str(self.home),
            "PATH": os.environ["PATH"],
            "TASUKI_DATA": str(self.data),
            "TASUKI_CONFIG": str(self.config),
            "LANG": "C.UTF-8",
        }
        self.builder = ThreadBuilder(harness, cwd=str(self.project))
        self.thread = Path()

    def talk(self, *more: str) -> "Session":
        """The user asks and the agent answers, for each of the prompts."""
        for text in (ASKED, *more):
            self.builder.user(text).assistant("The parser drops them in `lines()`; mended there.")
        return self.written()

    def written(self) -> "Session":
        """Write the thread where the harness keeps it, as if a while ago."""
        folder = {
            "claude": self.home / ".claude" / "projects" / folder_name(self.project),
            "codex": self.home / ".codex" / "sessions" / "2026" / "01" / "05",
        }[self.harness]
        folder.mkdir(parents=True, exist_ok=True)
        self.thread = self.builder.write(folder)
        os.utime(self.thread, (1_700_000_000, 1_700_000_000))
        return self

    def uses(self, tokens: int) -> "Session":
        """Let the last figures of the thread say so many tokens."""
        figure = {"claude": "input_tokens", "codex": "total_tokens"}[self.harness]
        text = self.thread.read_text()
        last = list(re.finditer(rf'(?<="{figure}":)\d+', text))[-1]
        self.thread.write_text(f"{text[: last.start()]}{tokens}{text[last.end() :]}")
        os.utime(self.thread, (1_700_000_000, 1_700_000_000))
        return self

    def payload(self, event: str, **more: Any) -> dict[str, Any]:
        """What a hook gets."""
        return {
            "session_id": self.builder.id,
            "transcript_path": str(self.thread),
            "cwd": str(self.project),
            "hook_event_name": event,
            **more,
        }

    def raw(self, command: str, text: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run `tasuki COMMAND HARNESS` with this on standard input."""
        return subprocess.run(
            [sys.executable, "-m", "tasuki", command, self.harness],
            cwd=self.project,
            env={**self.env, **env},
            input=text,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def hook(self, event: str, env: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
        """What tasuki answers to a hook, {} for nothing."""
        done = self.raw("hook", json.dumps(self.payload(event, **more)), **(env or {}))
        assert (done.returncode, done.stderr) == (0, ""), done
        found: dict[str, Any] = json.loads(done.stdout) if done.stdout else {}
        return found

    def typed(self, prompt: str, **env: str) -> dict[str, Any]:
        """What tasuki answers when the user submits a prompt."""
        return self.hook("UserPromptSubmit", env, prompt=prompt)

    def turn(self, **env: str) -> str:
        """What the user is told at the end of a turn."""
        said: str = self.hook("Stop", env, stop_hook_active=False).get("systemMessage", "")
        return said
