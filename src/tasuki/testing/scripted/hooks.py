"""Runs the command hooks and the status line of the settings, as Claude Code 2.1 does."""

import json
import os
import re
import subprocess
from contextlib import suppress
from typing import Any

from .identity import home
from .journal import Journal

SECONDS = 60.0
"""How long a hook may take that names no time."""
ERROR = 2
"""Exit status by which a hook objects."""


class Answer:
    """What one hook said."""

    def __init__(self, code: int, output: str, complaint: str) -> None:
        self.code = code
        self.output = output
        self.complaint = complaint
        self.content: dict[str, Any] = {}
        with suppress(ValueError):
            found = json.loads(output)
            self.content = found if isinstance(found, dict) else {}

    @property
    def veto(self) -> str:
        """Why it objects, empty where it does not."""
        if self.code == ERROR:
            return self.complaint.strip() or "blocked by hook"
        if self.content.get("decision") == "block":
            return str(self.content.get("reason") or "blocked by hook")
        return ""

    def context(self, event: str) -> str:
        """What it gives the model: for a session's start and a prompt, plain output is that too."""
        inner = self.content.get("hookSpecificOutput")
        if isinstance(inner, dict) and inner.get("additionalContext"):
            return str(inner["additionalContext"])
        plain = not self.content and not self.code and event in ("SessionStart", "UserPromptSubmit")
        return self.output.strip() if plain else ""


class Hooks:
    """The hooks of the user and of the project."""

    def __init__(self, cwd: str, more: str, journal: Journal) -> None:
        self.cwd = cwd
        self.journal = journal
        project = os.path.join(cwd, ".claude")
        self.files = [
            os.path.join(home(), "settings.json"),
            os.path.join(project, "settings.json"),
            os.path.join(project, "settings.local.json"),
            more,
        ]

    def run(
        self, event: str, matched: str, payload: dict[str, Any], env: dict[str, str]
    ) -> list[Answer]:
        """Run all hooks of an event at once; their answers. `matched` is what a matcher looks at."""
        text = (json.dumps({**payload, "hook_event_name": event}) + "\n").encode("utf-8", "replace")
        started = [
            (self._start(hook["command"], text, env), hook)
            for hook in self._matching(event, matched)
        ]
        return [self._answer(event, hook, program) for program, hook in started]

    def status_line(self, payload: dict[str, Any], env: dict[str, str]) -> str | None:
        """The first line that the command of the status line prints; None where there is none."""
        command = ""
        for settings in self._settings():
            found = settings.get("statusLine")
            command = found.get("command", "") if isinstance(found, dict) else command
        if not command:
            return None
        program = self._start(command, json.dumps(payload).encode("utf-8", "replace"), env)
        answer = self._answer("statusLine", {"command": command, "timeout": 5}, program)
        return answer.output.partition("\n")[0]

    def _settings(self) -> list[dict[str, Any]]:
        found = []
        for path in self.files:
            with suppress(OSError, ValueError):
                with open(path, encoding="utf-8") as file:
                    content = json.load(file)
                found += [content] if isinstance(content, dict) else []
        return found

    def _matching(self, event: str, matched: str) -> list[dict[str, Any]]:
        hooks: dict[str, dict[str, Any]] = {}
        for settings in self._settings():
            if settings.get("disableAllHooks") is True:
                return []
            for group in (settings.get("hooks") or {}).get(event) or ():
                pattern = group.get("matcher") or "*"
                if pattern == "*" or re.fullmatch(pattern, matched):
                    for hook in group.get("hooks") or ():
                        if hook.get("type") == "command" and hook.get("command"):
                            hooks.setdefault(hook["command"], hook)
        return list(hooks.values())

    def _start(self, command: str, text: bytes, env: dict[str, str]) -> "subprocess.Popen[bytes]":
        """A hook that is running, and has its payload; it has no terminal."""
        program = subprocess.Popen(
            ("/bin/sh", "-c", command), cwd=self.cwd, env={**os.environ, **env}, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert program.stdin
        with suppress(OSError):
            program.stdin.write(text)
        with suppress(OSError):
            program.stdin.close()
        program.stdin = None
        return program

    def _answer(
        self, event: str, hook: dict[str, Any], program: "subprocess.Popen[bytes]"
    ) -> Answer:
        try:
            output, complaint = program.communicate(timeout=float(hook.get("timeout") or SECONDS))
            code = program.returncode
        except subprocess.TimeoutExpired:
            program.kill()
            output, complaint = program.communicate()
            code = -1
        answer = Answer(code, output.decode(errors="replace"), complaint.decode(errors="replace"))
        self.journal.tell("hook", event=event, exit=code, output=answer.output[:4000])
        return answer
