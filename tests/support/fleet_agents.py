"""Scripted agents for tests: a `claude` on a PATH of their own, in panes of a tmux server of their own."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fakes.scripted_harness import install_scripted
from pane_programs import submit
from terminals import Terminal
from waiting import retry_until

from tasuki.launch.tmux.panes import OpenedPane, TmuxPanes

EVENTS = (
    "SessionStart UserPromptSubmit Stop StopFailure SubagentStart SubagentStop PreCompact PostCompact "
    "Notification SessionEnd PreToolUse PostToolUse"
).split()
"""The hooks that `record` adds."""


class Scripted:
    """A home, a project, a script and a log for scripted agents."""

    def __init__(self, folder: Path, terminal: Terminal) -> None:
        self.home = folder / "home"
        self.cwd = folder / "proj"
        self.script = folder / "script.json"
        self.log = folder / "harness.jsonl"
        self.payloads = folder / "payloads.jsonl"
        self.folder = folder
        for made in (self.home / ".claude", self.cwd):
            made.mkdir(parents=True, exist_ok=True)
        self.program = install_scripted(folder / "bin")
        self.terminal = terminal
        self.panes = TmuxPanes(terminal, folder / "locks")
        self.env = {
            **terminal.env,
            "PATH": f"{self.program.parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.home),
            "SCRIPTED_HARNESS": str(self.script),
            "SCRIPTED_LOG": str(self.log),
        }

    def rules(self, *rules: dict[str, Any], **settings: Any) -> None:
        """Write the script; the agents take it over with their next prompt."""
        new = self.script.with_suffix(".new")
        new.write_text(json.dumps({**settings, "rules": list(rules)}))
        new.replace(self.script)

    def send(self, pane: str, text: str, id: str = "t-1") -> None:
        """Submit a text as the fleet does."""
        submit(self.panes, pane, text, id, 0)

    def settings(self, content: dict[str, Any]) -> None:
        """Write the settings of the user."""
        (self.home / ".claude" / "settings.json").write_text(json.dumps(content))

    def record(self, **answers: str) -> None:
        """Add hooks that write down every payload, and print an answer for some events."""
        hooks: dict[str, Any] = {}
        for event in EVENTS:
            answer = self.folder / f"{event}.answer"
            answer.write_text(answers.get(event, ""))
            script = self.folder / f"{event}.sh"
            script.write_text(
                f'#!/bin/sh\nread -r line\nprintf "%s\\n" "$line" >> "{self.payloads}"\n'
                f'printf "%s\\n" "$CLAUDE_CODE_SESSION_ID" >> "{self.payloads}.env"\ncat "{answer}"\n'
            )
            script.chmod(0o755)
            hooks[event] = [{"hooks": [{"type": "command", "command": str(script)}]}]
        status = f'{{ cat; echo; }} >> "{self.payloads}.status"; echo context'
        self.settings({"hooks": hooks, "statusLine": {"type": "command", "command": status}})

    def start(
        self, *words: str, tag: str = "agent-1", ready: bool = True, **env: str
    ) -> OpenedPane:
        """An agent in a pane, once it takes input."""
        order = self.folder / f"{tag}.json"
        content = {
            "argv": [str(self.program), *words],
            "cwd": str(self.cwd),
            "env": {**self.env, **env},
        }
        order.write_text(json.dumps(content))
        before = len(self.told("ready"))
        opened = self.panes.open(order, tag, tag, str(self.cwd))
        if ready:
            retry_until(lambda: len(self.told("ready")) > before)
        return opened

    def told(self, *kinds: str) -> list[dict[str, Any]]:
        """The lines of the harness's own log, of some kinds or all."""
        text = self.log.read_text() if self.log.exists() else ""
        whole = text[: text.rfind("\n") + 1].splitlines()  # it may be writing one
        return [line for line in map(json.loads, whole) if not kinds or line["kind"] in kinds]

    def told_of(self, kind: str, count: int = 1, seconds: float = 10.0) -> list[dict[str, Any]]:
        """The lines of one kind once there are so many."""
        return retry_until(lambda: len(told := self.told(kind)) >= count and told, seconds) or []

    def hooked(self, *events: str) -> list[dict[str, Any]]:
        """The payloads that the recording hooks got, of some events or all."""
        lines = self.payloads.read_text().splitlines() if self.payloads.exists() else []
        payloads = [json.loads(line) for line in lines]
        return [p for p in payloads if not events or p["hook_event_name"] in events]

    def hooks_told(self, event: str, count: int = 1) -> list[dict[str, Any]]:
        """The payloads of one event once so many hooks have ended."""

        def ended() -> bool:
            return len([line for line in self.told("hook") if line["event"] == event]) >= count

        retry_until(ended)
        return self.hooked(event)

    def thread(self, session: str) -> Path:
        """Where the thread of a session is kept."""
        return next(iter((self.home / ".claude" / "projects").glob(f"*/{session}.jsonl")))

    def state(self, pid: int) -> dict[str, Any]:
        """What `sessions/<pid>.json` says; empty where it is not there."""
        path = self.home / ".claude" / "sessions" / f"{pid}.json"
        return json.loads(path.read_text()) if path.exists() else {}  # type: ignore[no-any-return]


def texts(lines: Sequence[dict[str, Any]]) -> list[str]:
    """The texts of lines of the log."""
    return [line["text"] for line in lines]
