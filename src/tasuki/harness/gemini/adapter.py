"""Gemini CLI: `~/.gemini/tmp/<project>/chats/session-<time>-<id>.jsonl`. Seen: 0.35 and 0.61.

The agent of a thread is asked on a copy, in a home folder of its own. In the user's home it
would take the copy in as a new thread, add a summary to the user's last one, and delete others
with the same short id. So `tmp`, `history` and the registry of projects are new and empty; login
and everything else are links to the user's own.
"""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from tasuki.harness import plans, protocol
from tasuki.harness.gemini.head import GeminiHead, get_home
from tasuki.harness.optional import ThreadPart
from tasuki.harness.programs import ProgramHarness
from tasuki.harness.reading.jsonl import decode_lines, scan_folder, split_output
from tasuki.model import Thread
from tasuki.patterns import compile_pattern

OWN = {"tmp", "history", "projects.json", "state.json", "settings.json", "extensions"}
"""Entries of `.gemini` that are not linked to the user's.

They are what the program writes, and settings that are changed here.
"""
POLICY = '[[rule]]\ntoolName = "*"\ndecision = "deny"\npriority = 999\n'
FLAGS = ("--output-format", "stream-json", "-e", "none", "--allowed-mcp-server-names", "none")
_COMMENT = compile_pattern(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)


class Gemini(ProgramHarness):
    """The adapter of Gemini CLI."""

    name = "gemini"
    title = "Gemini CLI"
    program = "gemini"
    head = GeminiHead
    prefix = "Gemini"
    ready = r"Type your message"
    """The hint in an empty input: `Type your message or @path/to/file`."""
    key_variables = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
    caller = protocol.CallerIdentity("gemini-cli-mcp-client")
    facts = protocol.HarnessFacts(
        package="@google/gemini-cli",
        tested="0.61.0",
        process_names=("gemini", "gemini-cli"),
        child_variables=(
            "GEMINI_CLI", "GEMINI_CLI_NO_RELAUNCH", "GEMINI_CWD", "GEMINI_PLANS_DIR",
            "GEMINI_PROJECT_DIR", "GEMINI_SESSION_ID",
        ),
        acp=protocol.AcpCommand(("gemini", "--acp"), "@google/gemini-cli", 0),
    )  # fmt: skip

    def list_parts(self, path: Path, cwd: str) -> tuple[ThreadPart, ...]:
        """List the session's file, and the one in its project's folder that names `cwd`."""
        own = ThreadPart(f"chats/{path.name}", str(path))
        return (own, ThreadPart(".project_root", data=os.fsencode(cwd))) if cwd else (own,)

    def format_skill_command(self, skill: str) -> str:
        """Return nothing: `/name` exists, but joins all lines of the prompt after it."""
        return ""

    def list_skill_folders(self, cwd: Path) -> tuple[Path, ...]:
        own = (cwd / ".gemini" / "skills", cwd / ".agents" / "skills")
        return (*own, get_home() / "skills", get_home().parent / ".agents" / "skills")

    def ask(self, request: protocol.AskRequest) -> protocol.AskPlan:
        """Plan `gemini --session-file COPY`, every tool denied. Seen: 0.61."""
        own, scratch = get_home(), Path(request.scratch)
        home = scratch / "home"
        copy = scratch / f"thread{Path(request.thread.path).suffix}"
        policy = scratch / "deny.toml"
        settings = _build_settings(own / "settings.json")
        return protocol.AskPlan(
            argv=(
                *(self.program, "--session-file", str(copy), *FLAGS),
                *("--admin-policy", str(policy), "-p", ""),
            ),
            cwd=plans.choose_ask_folder(request),
            stdin=request.question,
            env={"GEMINI_CLI_HOME": str(home)},
            copies=((request.thread.path, str(copy)),),
            links=tuple(_list_links(own, home)),
            files=(
                protocol.PlannedFile(str(policy), POLICY),
                protocol.PlannedFile(str(home / ".gemini" / "settings.json"), settings),
            ),
        )

    def parse_answer(self, output: str, request: protocol.AskRequest) -> protocol.AskAnswer:
        """Parse what came after the last tool; a turn without a result was interrupted."""
        pieces: list[str] = []
        model = error = ""
        began = False
        end: _GeminiAnswerEvent | None = None
        for event in decode_lines(split_output(output), _EVENT):
            if event.type == "init":
                began, model = True, event.model
            elif event.type == "message" and event.role == "assistant":
                pieces.append(event.content)
            elif event.type.startswith("tool_"):
                pieces = []
            elif event.type == "result":
                end = event
        if end and end.status != "success":
            error = (end.error or plans.AnswerError()).message or "an error without a message"
        stats = (end.stats if end else None) or plans.AnswerUsage()
        return protocol.AskAnswer(
            text="" if error else "".join(pieces),
            model=model,
            input_tokens=stats.input_tokens,
            output_tokens=stats.output_tokens,
            aborted=began and end is None,
            error=error,
        )

    def list_key_files(self) -> tuple[Iterable[Path], Iterable[Path]]:
        return [get_home() / "oauth_creds.json"], [get_home() / ".env"]

    def build_argument(self, prompt: str) -> tuple[str, ...]:
        return (f"--prompt-interactive={prompt}",) if prompt.startswith("-") else ("-i", prompt)

    def build_resume_command(self, thread: Thread) -> tuple[str, ...]:
        """Return the command that opens a copy: `--resume` can lose the original when copies are deleted."""
        return (self.program, "--session-file", thread.path)


def _list_links(own: Path, home: Path) -> list[tuple[str, str]]:
    entries = [e for e in scan_folder(own) if e.name not in OWN and not e.name.endswith(".lock")]
    links = [(e.path, str(home / ".gemini" / e.name)) for e in entries]
    neighbours = [own.parent / name for name in (".env", ".agents")]
    return links + [(str(path), str(home / path.name)) for path in neighbours if path.exists()]


def _build_settings(path: Path) -> str:
    """Build the user's settings without their hooks; the file may hold comments."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
        settings: Any = msgspec.json.decode(_COMMENT.sub(lambda m: m[1] or "", text))
    except (OSError, msgspec.MsgspecError, RecursionError):
        settings = {}
    settings = settings if isinstance(settings, dict) else {}
    settings.pop("hooks", None)
    return msgspec.json.encode({**settings, "hooksConfig": {"enabled": False}}).decode()


# -- what an agent answers -----------------------------------------------------------------


class _GeminiAnswerEvent(Struct):
    """A line of `--output-format stream-json`; the last one is of type `result`."""

    type: str = ""
    role: str = ""
    content: str = ""
    model: str = ""
    status: str = ""
    error: plans.AnswerError | None = None
    stats: plans.AnswerUsage | None = None


_EVENT = msgspec.json.Decoder(_GeminiAnswerEvent)
