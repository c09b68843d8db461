"""Run the command hooks and the status line of the settings, as Claude Code 2.1 does."""

import json
import os
import re
import subprocess
from contextlib import suppress
from typing import Any

from fakes.scripted.identity import get_home
from fakes.scripted.journal import ProgramJournal

DEFAULT_SECONDS = 60.0
"""How long a hook may take that sets no timeout."""
ERROR_STATUS = 2
"""Exit status with which a hook objects."""


class HookOutput:
    """The output of one hook."""

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
        """Why it objects, empty if it does not."""
        if self.code == ERROR_STATUS:
            return self.complaint.strip() or "blocked by hook"
        if self.content.get("decision") == "block":
            return str(self.content.get("reason") or "blocked by hook")
        return ""

    def get_context(self, event: str) -> str:
        """Return what it gives the model; for a session's start and a prompt also plain output."""
        inner = self.content.get("hookSpecificOutput")
        if isinstance(inner, dict) and inner.get("additionalContext"):
            return str(inner["additionalContext"])
        plain = not self.content and not self.code and event in ("SessionStart", "UserPromptSubmit")
        return self.output.strip() if plain else ""


class HookRunner:
    """The hooks of the user and of the project."""

    def __init__(self, cwd: str, more: str, journal: ProgramJournal) -> None:
        self.cwd = cwd
        self.journal = journal
        project = os.path.join(cwd, ".claude")
        self.files = [
            os.path.join(get_home(), "settings.json"),
            os.path.join(project, "settings.json"),
            os.path.join(project, "settings.local.json"),
            more,
        ]

    def run_hooks(
        self, event: str, matched: str, payload: dict[str, Any], env: dict[str, str]
    ) -> list[HookOutput]:
        """Run all hooks of an event at once and return their answers.

        `matched` is the text that a matcher is compared with.
        """
        text = (json.dumps({**payload, "hook_event_name": event}) + "\n").encode("utf-8", "replace")
        started = [
            (self._start_hook(hook["command"], text, env), hook)
            for hook in self._list_matching(event, matched)
        ]
        return [self._wait_for_answer(event, hook, program) for program, hook in started]

    def run_status_line(self, payload: dict[str, Any], env: dict[str, str]) -> str | None:
        """Return the first line printed by the status line's command, or None without one."""
        command = ""
        for settings in self._read_settings():
            found = settings.get("statusLine")
            command = found.get("command", "") if isinstance(found, dict) else command
        if not command:
            return None
        program = self._start_hook(command, json.dumps(payload).encode("utf-8", "replace"), env)
        answer = self._wait_for_answer("statusLine", {"command": command, "timeout": 5}, program)
        return answer.output.partition("\n")[0]

    def _read_settings(self) -> list[dict[str, Any]]:
        found = []
        for path in self.files:
            with suppress(OSError, ValueError):
                with open(path, encoding="utf-8") as file:
                    content = json.load(file)
                found += [content] if isinstance(content, dict) else []
        return found

    def _list_matching(self, event: str, matched: str) -> list[dict[str, Any]]:
        hooks: dict[str, dict[str, Any]] = {}
        for settings in self._read_settings():
            if settings.get("disableAllHooks") is True:
                return []
            for group in (settings.get("hooks") or {}).get(event) or ():
                pattern = group.get("matcher") or "*"
                if pattern == "*" or re.fullmatch(pattern, matched):
                    for hook in group.get("hooks") or ():
                        if hook.get("type") == "command" and hook.get("command"):
                            hooks.setdefault(hook["command"], hook)
        return list(hooks.values())

    def _start_hook(
        self, command: str, text: bytes, env: dict[str, str]
    ) -> "subprocess.Popen[bytes]":
        """Start a hook without a terminal, and send it its payload."""
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

    def _wait_for_answer(
        self, event: str, hook: dict[str, Any], program: "subprocess.Popen[bytes]"
    ) -> HookOutput:
        try:
            output, complaint = program.communicate(
                timeout=float(hook.get("timeout") or DEFAULT_SECONDS)
            )
            code = program.returncode
        except subprocess.TimeoutExpired:
            program.kill()
            output, complaint = program.communicate()
            code = -1
        answer = HookOutput(
            code, output.decode(errors="replace"), complaint.decode(errors="replace")
        )
        self.journal.log_event("hook", event=event, exit=code, output=answer.output[:4000])
        return answer
