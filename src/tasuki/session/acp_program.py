"""Agents that speak the Agent Client Protocol: how each is started, and ended with all it started."""

import asyncio
import os
import shlex
import shutil
import signal
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO, NoReturn

from msgspec import Struct

from tasuki import harness as harnesses
from tasuki.errors import AgentFailed, HarnessMissing, UsageError
from tasuki.plain import one_line, shown
from tasuki.session.hook import OF_THE_AGENT

GRACE = 2.0
"""Seconds that an agent is given to end by itself, and again once it was told to."""
LAST_WORDS = 2000
MOST_NOISE = 64 << 10
"""Bytes in a row that are no message, behind which a program is not listened to any more."""
MOST_MESSAGE = 256 << 20
"""Bytes of one message; a thread that is loaded again may hold long ones."""


class AcpProgram(Struct, frozen=True):
    """How an agent is started. `harness` is the name of its harness, empty if it is unknown."""

    command: tuple[str, ...]
    harness: str = ""
    package: str = ""
    """What npm installs it from."""

    @property
    def name(self) -> str:
        """What it is called on the screen."""
        return self.harness or Path(self.command[0]).name


PROGRAMS = {
    program.harness: program
    for program in (
        AcpProgram(("gemini", "--acp"), "gemini", "@google/gemini-cli"),
        AcpProgram(("opencode", "acp"), "opencode", "opencode-ai"),
        AcpProgram(("omp", "acp"), "omp", "@oh-my-pi/pi-coding-agent"),
        AcpProgram(("copilot", "--acp"), "copilot", "@github/copilot"),
        AcpProgram(("claude-agent-acp",), "claude", "@agentclientprotocol/claude-agent-acp"),
        AcpProgram(("codex-acp",), "codex", "@agentclientprotocol/codex-acp"),
        AcpProgram(("pi-acp",), "pi", "pi-acp"),
    )
}
_BY_PROGRAM = {program.command[0]: name for name, program in PROGRAMS.items()}
_BY_PROGRAM |= {"claude-code-acp": "claude", "claude": "claude", "codex": "codex", "pi": "pi"}


def acp_program(agent: str) -> AcpProgram:
    """The program that a harness's name, or a whole command line, means.

    Raises UsageError for an empty or unreadable line, HarnessMissing if it is not installed.
    """
    try:
        words = shlex.split(agent)
    except ValueError as error:
        raise UsageError(f"The command {agent!r} cannot be read: {error}.") from error
    if not words:
        known = ", ".join(PROGRAMS)
        raise UsageError(
            f'No agent named. Give a command or a name: --agent "gemini --acp" ({known})'
        )
    program = PROGRAMS.get(agent.strip()) or _program(words)
    if not shutil.which(program.command[0]):
        if os.sep in program.command[0]:
            raise HarnessMissing(_tell_no_program(program.command[0]))
        advice = (
            f"Install it: npm install -g {program.package}" if program.package else "Install it."
        )
        raise HarnessMissing(f"The program {program.command[0]} is not on your PATH. {advice}")
    return program


def _tell_no_program(path: str) -> str:
    """Why a path is no program, and what to do."""
    if os.path.isdir(path):
        return f"{path} is a folder, not a program. Name the program in it."
    if os.path.exists(path):
        return f"{path} is not executable. If it is the agent: chmod +x {shlex.quote(path)}"
    return f"There is no program {path}. Give its path, or a name that is on your PATH."


def _program(words: list[str]) -> AcpProgram:
    name = _BY_PROGRAM.get(Path(words[0]).name, "")
    known = PROGRAMS.get(name)
    package = known.package if known and known.command[0] == words[0] else ""
    return AcpProgram(tuple(words), name, package)


def title(name: str) -> str:
    """The name of an agent for people."""
    return harnesses.get(name).title if name in harnesses.names() else name


class Messages(asyncio.StreamReader):
    """The lines of a program's output that can be messages: JSON objects. Others are passed over.

    A program that writes nothing but others, or a line without an end, is not listened to for ever:
    `refused` says why, and then nothing more comes.
    """

    def __init__(self, output: asyncio.StreamReader) -> None:
        super().__init__()
        self.refused = ""
        self._output = output
        self._noise = 0

    async def readuntil(self, separator: bytes = b"\n") -> bytes:  # type: ignore[override]
        """The next message, with its line break. Raises IncompleteReadError at the end."""
        while True:
            line = await self._line(separator)
            if _can_be_message(line) and line.rstrip().endswith(b"}"):
                self._noise = 0
                return line
            self._noise += len(line)
            if self._noise > MOST_NOISE:
                self._refuse("writes what is no message", line)

    def at_end(self) -> bool:
        """Whether nothing more is to come."""
        return bool(self.refused) or self._output.at_eof()

    async def _line(self, separator: bytes) -> bytes:
        parts: list[bytes] = []
        size = 0
        while True:
            await asyncio.sleep(0)  # What never waits would hold up everything else.
            try:
                return b"".join((*parts, await self._output.readuntil(separator)))
            except asyncio.LimitOverrunError as error:
                parts.append(await self._output.readexactly(error.consumed))
            size += len(parts[-1])
            if size > MOST_NOISE and not _can_be_message(parts[0]):
                self._refuse("writes what is no message", parts[0])
            if size > MOST_MESSAGE:
                self._refuse(f"writes a message of more than {MOST_MESSAGE >> 20} MiB", parts[0])

    def _refuse(self, why: str, line: bytes) -> NoReturn:
        begin = one_line(shown(line[:200].decode("utf-8", "replace")), 60)
        self.refused = f"{why}: {begin}" if begin else f"{why}."
        raise asyncio.IncompleteReadError(b"", None)


def _can_be_message(line: bytes) -> bool:
    return line[:100].lstrip().startswith(b"{")


class Child:
    """An agent that runs: its streams, its last words, and its end.

    It leads a process group of its own, so a Ctrl-C of the terminal does not reach it, and what it
    started ends with it. What it writes to standard error goes into a file, for nobody reads it.
    """

    def __init__(self, process: asyncio.subprocess.Process, errors: IO[bytes]) -> None:
        assert process.stdin
        assert process.stdout
        self.process, self._errors = process, errors
        self.writer, self.reader = process.stdin, Messages(process.stdout)

    @classmethod
    async def start(cls, program: AcpProgram, cwd: Path) -> "Child":
        """Start an agent in a folder, with this process's own environment. Raises AgentFailed."""
        kept = {k: v for k, v in os.environ.items() if k not in OF_THE_AGENT}
        errors = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the agent
        try:
            process = await asyncio.create_subprocess_exec(
                *program.command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                cwd=cwd,
                env=kept,
                start_new_session=True,
            )
        except OSError as error:
            errors.close()
            raise AgentFailed(
                f"{program.command[0]} could not be started in {cwd}: {error.strerror}."
            ) from error
        return cls(process, errors)

    @property
    def ended(self) -> bool:
        """Whether it is gone, or no longer says anything."""
        return self.process.returncode is not None or self.reader.at_end()

    def last_words(self) -> str:
        """The end of what it wrote to standard error."""
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(size - LAST_WORDS, 0))
        lines = shown(self._errors.read().decode("utf-8", "replace")).strip().splitlines()
        return "\n".join(lines[-5:])

    async def fate(self) -> str:
        """How it ended, as the end of a sentence, with its last words."""
        if self.reader.refused:
            return self.reader.refused
        with suppress(TimeoutError):
            await asyncio.wait_for(self.process.wait(), GRACE)
        code = self.process.returncode
        how = "closed its output" if code is None else f"ended with status {code}"
        words = self.last_words()
        return f"{how}. Its last words:\n{words}" if words else f"{how}."

    async def end(self) -> None:
        """Close its input, then end whatever of its group is left."""
        with suppress(OSError, RuntimeError):
            self.writer.close()
        for order in (None, signal.SIGTERM, signal.SIGKILL):
            if order and not self._signal(order):
                break
            with suppress(TimeoutError):
                await asyncio.wait_for(self.process.wait(), GRACE)
        # A program that never stops writing leaves its pipe open, and asyncio would tell of that at the end.
        self.process._transport.close()  # type: ignore[attr-defined]
        await asyncio.sleep(0)
        self._errors.close()

    def _signal(self, order: signal.Signals) -> bool:
        """Whether there was somebody in its group to get a signal."""
        try:
            os.killpg(self.process.pid, order)
        except (ProcessLookupError, PermissionError):
            return False
        return True
