"""A command line that ended: its steps, its exit code, and what it printed."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from tasuki.draft.runs.command_kinds import (
    StartedRunner,
    identify_started,
    list_simple_commands,
    strip_variables,
)
from tasuki.draft.runs.runners import JUDGED, Runner
from tasuki.model import ToolCall
from tasuki.patterns import compile_pattern
from tasuki.shell import SimpleCommand


class LineStep(NamedTuple):
    """One pipeline of a line: its first command, what reads its output, and what it checks."""

    command: SimpleCommand
    filters: tuple[SimpleCommand, ...]
    started: StartedRunner | None

    @property
    def runner(self) -> Runner | None:
        """The runner that it starts; None for another program, and for a commit."""
        return self.started.runner if self.started and self.started.runner.kind in JUDGED else None


class EndedLine(NamedTuple):
    """A command line that ended: its steps, the exit code if it is known, and what it printed."""

    steps: Sequence[LineStep]
    code: int | None
    rows: Sequence[str]
    output: str
    is_whole: bool
    stops: Sequence[bool]
    """Of each step: the shell goes on to it only if the one before did not fail."""
    passes_codes_on: bool
    """An exit code comes through a pipe."""
    has_error: bool
    """Its program says that something went wrong, and not with which code."""
    rounds: int
    """How often its loop runs: the number of plain words behind `for x in`; 0 where that is not known."""


_SETTING = compile_pattern(r"set\s+(?:[-+]\w+\s+(?:pipefail\s+)?)*(?:(-\w*e|-o\s+errexit)|\+\w*e)")
_LOOP = compile_pattern(r"\bfor\s+\w+\s+in\s+([\w./@:+ -]+?)\s*[;\n]\s*do\b")
_TRAP = compile_pattern(r"trap\b.*\bexit\b")
_PIPEFAIL = compile_pattern(r"set\s+.*\bpipefail\b")
_ADDED = compile_pattern(
    r"\(Bash completed with no output\)|\(no output\)|Shell cwd was reset to |Exit code \d+$"
)
"""Lines that a harness puts into an output."""
_CUTS = compile_pattern(r"<persisted-output>|Output too large|truncated|\[\.\.\.|\n…")
"""Marks that a program left a part of an output out."""


def find_exit_code(call: ToolCall) -> int | None:
    """Return the exit code of a whole line, None where the thread does not prove it.

    A harness also calls an error what never ran: an error alone proves no failure.
    """
    if call.exit_code is not None:
        return call.exit_code
    return 0 if call.status == "ok" else None


def list_steps(command: str) -> list[LineStep]:
    """List the pipelines of a command line, in their order."""
    steps: list[LineStep] = []
    for part in list_simple_commands(command):
        if part.is_piped and steps:
            steps[-1] = steps[-1]._replace(filters=(*steps[-1].filters, part))
            continue
        steps.append(LineStep(part, (), identify_started(part)))
    return steps


def read_line(steps: Sequence[LineStep], call: ToolCall) -> EndedLine:
    """Read how a line ended, and what it printed without its own `echo`s and what a harness adds."""
    texts = [one.command.text for one in steps]
    said = [re.compile(pattern) for text in texts if (pattern := _build_echo_pattern(text))]
    rows = [
        row
        for row in call.output.split("\n")
        if not (_ADDED.match(row) or any(one.fullmatch(row.strip()) for one in said))
    ]
    stops, is_set = [], False
    loops = _LOOP.findall(call.command)
    for text in texts:
        stops.append(is_set)
        if match := _SETTING.match(text):
            is_set = bool(match[1])
    return EndedLine(
        steps,
        None if any(map(_TRAP.match, texts)) else find_exit_code(call),
        rows,
        call.output,
        len(call.output) >= call.output_size and not _CUTS.search(call.output),
        stops,
        any(map(_PIPEFAIL.match, texts)),
        call.status == "error" and call.exit_code is None,
        len(loops[0].split()) if len(loops) == 1 else 0,
    )


ECHO = compile_pattern(r"(?:echo|printf|Write-Output|Write-Host)\s+(?:-[neE]+\s+)?(.*)", re.DOTALL)
_VARIABLE = compile_pattern(r"\$(?:\{[^}]*\}|\([^)]*\)|\w+|\?)|`[^`]*`")


def _build_echo_pattern(text: str) -> str:
    """Build the pattern of the line that an `echo` prints; empty where it prints anything."""
    match = ECHO.match(text)
    plain = re.sub(r"[\"']|\\n", "", match[1]).strip() if match else ""
    parts = [re.escape(part.strip()) for part in _VARIABLE.split(plain)]
    return r"\s*\S*\s*".join(parts) if any(parts) else ""


def find_echoed_text(text: str) -> str:
    """Return what an `echo` prints to the letter; empty for a text with variables."""
    match = ECHO.match(text)
    if not match or "$" in match[1] or "`" in match[1]:
        return ""
    return match[1].replace('"', "").replace("'", "").replace("\\n", "").strip()


_HARMLESS = compile_pattern(
    r"(?:cd|pushd|popd|export|source|\.|set|unset|umask|ulimit|trap|echo|printf|true|:|pwd|mkdir|sleep|date|clear)(?:\s|$)"
)
"""What hardly ever fails; where a folder or a file to source is missing, the shell says so."""


def is_harmless(step: LineStep) -> bool:
    """Return whether a step hardly ever fails, so that a failure of the line is not its own."""
    text = strip_variables(step.command.text)
    return not step.command.is_negated and (not text or bool(_HARMLESS.match(text)))
