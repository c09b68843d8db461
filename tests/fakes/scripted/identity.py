"""The identity of the scripted harness: version, ids, folders, arguments, and its session
file.
"""

import json
import os
import re
import subprocess
import time
from contextlib import suppress
from typing import Any

VERSION = "2.1.330"
VALUE_OPTIONS = frozenset(
    "--session-id --model --permission-mode --settings --append-system-prompt --name -n --prefill "
    "--resume -r --effort --setting-sources".split()
)
LIST_OPTIONS = frozenset(
    "--add-dir --allowedTools --disallowedTools --mcp-config --plugin-dir".split()
)
"""Options that take every word up to the next option: a prompt after them is lost."""


class ProgramArguments:
    """The words of the command line. Raises SystemExit for one that Claude Code does not know."""

    def __init__(self, words: list[str]) -> None:
        self.options: dict[str, str] = {}
        self.folders: list[str] = []
        self.prompt = ""
        rest = list(words)
        while rest:
            word = rest.pop(0)
            if word == "--":
                self.prompt = rest[0] if rest else self.prompt
                return
            if not word.startswith("-"):
                self.prompt = self.prompt or word
            else:
                self._read_option(word, rest)

    def _read_option(self, word: str, rest: list[str]) -> None:
        name, equals, value = word.partition("=")
        if name in LIST_OPTIONS:
            taken = [value] if equals else []
            while not equals and rest and not rest[0].startswith("-"):
                taken.append(rest.pop(0))
            self.folders += taken if name == "--add-dir" else []
        elif name in VALUE_OPTIONS:
            if not equals and not rest:
                raise SystemExit(f"error: option '{name}' argument missing")
            self.options[name] = value if equals else rest.pop(0)
        elif word in ("--version", "-v"):
            self.options["--version"] = "yes"
        elif word not in ("--strict-mcp-config", "--dangerously-skip-permissions", "--verbose"):
            raise SystemExit(f"error: unknown option '{word}'")

    def get_option(self, *names: str) -> str:
        """Return the value of the first of these options that is present, or an empty string."""
        return next((self.options[name] for name in names if name in self.options), "")


def create_id() -> str:
    """Return a random UUID."""
    digits = bytearray(os.urandom(16))
    digits[6], digits[8] = digits[6] & 0x0F | 0x40, digits[8] & 0x3F | 0x80
    text = digits.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def get_home() -> str:
    """Return the folder of settings, threads and sessions."""
    return os.environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude")


def get_thread_path(session: str, cwd: str) -> str:
    """Return the path of a session's thread; empty inside another session, which keeps none."""
    if "CLAUDE_CODE_CHILD_SESSION" in os.environ:
        return ""
    folder = re.sub(r"[^A-Za-z0-9]", "-", os.path.realpath(cwd))[:200]
    return os.path.join(get_home(), "projects", folder, f"{session}.jsonl")


class ProgramSessionFile:
    """`sessions/<pid>.json`: what the program does now. Not kept inside another session."""

    def __init__(self, cwd: str) -> None:
        self.path = os.path.join(get_home(), "sessions", f"{os.getpid()}.json")
        if "CLAUDE_CODE_CHILD_SESSION" in os.environ:
            self.path = ""
        now = int(time.time() * 1000)
        self.content: dict[str, Any] = {
            "pid": os.getpid(), "cwd": cwd, "startedAt": now, "procStart": _read_process_start(),
            "version": VERSION, "kind": "interactive", "entrypoint": "cli", "tmux": _find_pane(),
            "updatedAt": now,
        }  # fmt: skip

    def write_status(self, session: str, status: str = "", waiting: str = "") -> None:
        """Rewrite the file: `status` is idle, busy or waiting."""
        if not self.path:
            return
        now = int(time.time() * 1000)
        content = {**self.content, "sessionId": session, "updatedAt": now, "statusUpdatedAt": now}
        content |= {"status": status} if status else {}
        content |= {"waitingFor": waiting} if waiting else {}
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        with open(f"{self.path}.new", "w", encoding="utf-8") as file:
            json.dump(content, file)
        os.replace(f"{self.path}.new", self.path)

    def remove(self) -> None:
        """Remove the file when the program ends."""
        with suppress(OSError):
            os.unlink(self.path)


def _read_process_start() -> str:
    try:
        with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _find_pane() -> str:
    """Return where in tmux it runs: `session:@window.%pane`."""
    pane = os.environ.get("TMUX_PANE", "")
    if not pane or not os.environ.get("TMUX"):
        return ""
    form = "#{session_name}:#{window_id}.#{pane_id}"
    with suppress(OSError, subprocess.SubprocessError):
        call = ("tmux", "display-message", "-p", "-t", pane, form)
        done = subprocess.run(call, capture_output=True, text=True, timeout=5, check=False)
        return done.stdout.strip()
    return ""
