"""Agents that speak the Agent Client Protocol: how each is started, and ended with its children."""

import asyncio
import os
import shlex
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import IO, NoReturn

from msgspec import Struct

from tasuki.errors import AgentFailed, HarnessMissing, UsageError
from tasuki.harness import registry as harnesses
from tasuki.session.child import ChildProcess
from tasuki.session.futures import wait_for_first
from tasuki.text_safety import clean_for_display, shorten_to_line

GRACE_SECONDS = 2.0
"""Seconds that an agent gets to end before the first signal."""
LAST_WORDS_BYTES = 2000
MOST_NOISE_BYTES = 64 << 10
"""Bytes in a row that are no message, after which a program is no longer listened to."""
MOST_MESSAGE_BYTES = 256 << 20
"""Most bytes of one message; a thread that is loaded again may hold long ones."""


class AcpProgram(Struct, frozen=True):
    """How an agent is started. `harness` is the name of its harness, empty if it is unknown."""

    command: tuple[str, ...]
    harness: str = ""
    package: str = ""
    """The npm package that installs it."""

    @property
    def name(self) -> str:
        """Its name on the screen."""
        return self.harness or Path(self.command[0]).name


@cache
def list_acp_programs() -> dict[str, AcpProgram]:
    """List the programs of all harnesses that speak ACP, by the harness's name."""
    found = [
        (f.acp, name) for name in harnesses.list_names() if (f := harnesses.find_facts(name)).acp
    ]
    found.sort(key=lambda one: one[0].place)
    return {name: AcpProgram(acp.command, name, acp.package) for acp, name in found}


def find_acp_program(agent: str) -> AcpProgram:
    """Find the program of a harness's name, or of a whole command line.

    Raises UsageError for an empty or unreadable line, HarnessMissing if it is not installed.
    """
    try:
        words = shlex.split(agent)
    except ValueError as error:
        raise UsageError(f"The command {agent!r} cannot be read: {error}.") from error
    if not words:
        names = ", ".join(list_acp_programs())
        raise UsageError(
            f'No agent named. Give a command or a name: --agent "gemini --acp" ({names})'
        )
    program = list_acp_programs().get(agent.strip()) or _build_program(words)
    if not shutil.which(program.command[0]):
        if os.sep in program.command[0]:
            raise HarnessMissing(_describe_missing(program.command[0]))
        advice = (
            f"Install it: npm install -g {program.package}" if program.package else "Install it."
        )
        raise HarnessMissing(f"The program {program.command[0]} is not on your PATH. {advice}")
    return program


def _describe_missing(path: str) -> str:
    """Describe why a path is no program, and what to do."""
    if os.path.isdir(path):
        return f"{path} is a folder, not a program. Name the program in it."
    if os.path.exists(path):
        return f"{path} is not executable. If it is the agent: chmod +x {shlex.quote(path)}"
    return f"There is no program {path}. Give its path, or a name that is on your PATH."


def _build_program(words: list[str]) -> AcpProgram:
    """Build the program of a command line, with the harness for which it speaks."""
    for name, program in list_acp_programs().items():
        acp = harnesses.find_facts(name).acp
        own = (harnesses.get_harness(name).program, program.command[0])
        if Path(words[0]).name in (*own, *(acp.other_programs if acp else ())):
            package = program.package if program.command[0] == words[0] else ""
            return AcpProgram(tuple(words), name, package)
    return AcpProgram(tuple(words))


def get_agent_title(name: str) -> str:
    """Return the name of an agent for people."""
    return harnesses.get_harness(name).title if name in harnesses.list_names() else name


class MessageReader(asyncio.StreamReader):
    """Reads the lines of a program's output that can be messages: JSON objects.

    Other lines are skipped. A program that writes only others, or a line without an end, is not
    read for ever: `refusal` says why, and then nothing more comes.
    """

    def __init__(self, output: asyncio.StreamReader) -> None:
        super().__init__()
        self.refusal = ""
        self._output = output
        self._noise = 0

    async def readuntil(self, separator: bytes = b"\n") -> bytes:  # type: ignore[override]
        """Return the next message, with its line break. Raises IncompleteReadError at the end."""
        while True:
            line = await self._read_line(separator)
            if _can_be_message(line) and line.rstrip().endswith(b"}"):
                self._noise = 0
                return line
            self._noise += len(line)
            if self._noise > MOST_NOISE_BYTES:
                self._refuse("writes something that is not a message", line)

    def is_at_end(self) -> bool:
        """Whether nothing more will come."""
        return bool(self.refusal) or self._output.at_eof()

    async def _read_line(self, separator: bytes) -> bytes:
        parts: list[bytes] = []
        size = 0
        while True:
            await asyncio.sleep(0)  # A loop that never waits would hold up everything else.
            try:
                return b"".join((*parts, await self._output.readuntil(separator)))
            except asyncio.LimitOverrunError as error:
                parts.append(await self._output.readexactly(error.consumed))
            size += len(parts[-1])
            if size > MOST_NOISE_BYTES and not _can_be_message(parts[0]):
                self._refuse("writes something that is not a message", parts[0])
            if size > MOST_MESSAGE_BYTES:
                self._refuse(
                    f"writes a message of more than {MOST_MESSAGE_BYTES >> 20} MiB", parts[0]
                )

    def _refuse(self, why: str, line: bytes) -> NoReturn:
        begin = shorten_to_line(clean_for_display(line[:200].decode("utf-8", "replace")), 60)
        self.refusal = f"{why}: {begin}" if begin else f"{why}."
        raise asyncio.IncompleteReadError(b"", None)


def _can_be_message(line: bytes) -> bool:
    return line[:100].lstrip().startswith(b"{")


class AcpChild(ChildProcess):
    """A running agent: its messages, and its last words.

    Its standard error goes into a file, because nothing reads it.
    """

    _errors: IO[bytes]
    reader: MessageReader

    @classmethod
    async def launch(cls, program: AcpProgram, cwd: Path) -> "AcpChild":
        """Start an agent in a folder, with this process's own environment. Raises AgentFailed."""
        withheld = harnesses.list_child_variables()
        environment = {k: v for k, v in os.environ.items() if k not in withheld}
        errors = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the agent
        try:
            child = await cls.start(program.command, stderr=errors, cwd=cwd, env=environment)
        except OSError as error:
            errors.close()
            raise AgentFailed(
                f"{program.command[0]} could not be started in {cwd}: {error.strerror}."
            ) from error
        child._errors, child.reader = errors, MessageReader(child.output)
        return child

    @property
    def has_ended(self) -> bool:
        """Whether it ended, or writes nothing more."""
        return self.code is not None or self.reader.is_at_end()

    async def describe_end(self) -> str:
        """Describe how it ended, as the end of a sentence, with its last words."""
        if self.reader.refusal:
            return self.reader.refusal
        await wait_for_first(self.exited, timeout=GRACE_SECONDS)
        outcome = "closed its output" if self.code is None else f"ended with status {self.code}"
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(size - LAST_WORDS_BYTES, 0))
        words = clean_for_display(self._errors.read().decode("utf-8", "replace")).strip()
        last_lines = "\n".join(words.splitlines()[-5:])
        return f"{outcome}. Its last words:\n{last_lines}" if last_lines else f"{outcome}."

    async def close(self) -> None:
        """End the agent, and everything that it started."""
        await self.end_group(GRACE_SECONDS)
        await asyncio.sleep(0)
        self._errors.close()
