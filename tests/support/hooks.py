"""Payloads of hooks, tasuki as the hook that gets them, and what stands around it."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from forked import run_tasuki
from terminals import Terminal
from waiting import retry_until

from tasuki.harness.claude.head import build_folder_name
from tasuki.harness.pi_v3.head import build_folder_name as build_pi_folder_name
from tasuki_testing import ThreadBuilder

ASKED = "Let the parser keep blank lines; the printer counts them."
SAID = "The parser drops them in `lines()`; mended there."
SHELLS = [shell for shell in ("dash", "bash", "zsh", "busybox") if shutil.which(shell)]


class Session:
    """A running session of a harness, as its hooks see it: a thread on disk, and no terminal."""

    def __init__(self, root: Path, harness: str = "claude") -> None:
        self.root, self.harness = root, harness
        self.home, self.project, self.data = root / "home", root / "proj", root / "data"
        for folder in (self.home, self.project):
            folder.mkdir(exist_ok=True)
        self.config = root / "config.toml"
        self.config.touch()
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
            self.builder.user(text).assistant(SAID)
        return self.written()

    def written(self) -> "Session":
        """Write the thread where the harness keeps it, as if a while ago."""
        folder = {
            "claude": self.home / ".claude" / "projects" / build_folder_name(self.project),
            "codex": self.home / ".codex" / "sessions" / "2026" / "01" / "05",
            "pi": self.home
            / ".pi"
            / "agent"
            / "sessions"
            / build_pi_folder_name(str(self.project)),
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

    def run(
        self,
        *arguments: str,
        text: str = "",
        env: dict[str, str] | None = None,
        before: Callable[[], None] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run tasuki in the project, without a terminal; `before` is called in its process."""
        if not before:
            given = {**self.env, **(env or {})}
            return run_tasuki(arguments, env=given, cwd=self.project, input=text)
        return subprocess.run(
            [sys.executable, "-m", "tasuki", *arguments], cwd=self.project,
            env={**self.env, **(env or {})}, input=text, capture_output=True, text=True, timeout=60,
            check=False, preexec_fn=before,
        )  # fmt: skip

    def raw(self, command: str, text: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run `tasuki COMMAND HARNESS` with this on standard input."""
        return self.run(command, self.harness, text=text, env=env)

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


def program(session: Session, name: str, script: str) -> Path:
    """A program in the session's own folder of programs."""
    path = session.root / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def in_shell(shell: str, command: str, given: bytes) -> subprocess.CompletedProcess[bytes]:
    """Run a shell command with this on standard input; the shell of busybox is one of its programs."""
    words = [shell, "sh"] if shell == "busybox" else [shell]
    return subprocess.run([*words, "-c", command], input=given, capture_output=True, timeout=20,
                          check=False)  # fmt: skip


def inside(session: Session, terminal: Terminal) -> dict[str, str]:
    """What a hook of a program in a pane of this server has in its environment."""
    pane = terminal.open(["cat"], session.project)
    socket = terminal.run(("display-message", "-p", "#{socket_path},#{pid},0")).strip()
    return {"TMUX": socket, "TMUX_PANE": pane, "TERM": "xterm-256color", "CLAUDECODE": "1",
            "CLAUDE_CODE_SESSION_ID": "x"}  # fmt: skip


def window(terminal: Terminal) -> str:
    """The pane that the hook opened."""
    return retry_until(lambda: [p for p in terminal.panes() if " handoff " in p])[0].split()[0]
