"""A command line that ended: its steps, its exit code, what it printed, and which lines sum up which step."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tasuki.draft.runs.command_kinds import (
    StartedRunner,
    identify_started,
    list_simple_commands,
    strip_variables,
)
from tasuki.draft.runs.programs import unquote
from tasuki.draft.runs.runners import JUDGED, CheckKind, Runner
from tasuki.draft.runs.summaries import Summary, clean_line, is_other_part
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


def keep_own_lines(
    steps: Sequence[LineStep], number: int, found: Mapping[int, Sequence[Summary]]
) -> list[Summary]:
    """Return the lines that sum up one step, without those of other kinds that print the same ones.

    Of lines that several may have printed each has one, in their order; the last has all that are left.
    A task may have printed any number, of which those that say that something passed may be another's.
    """
    lines = {one.line for one in found[number]}
    kind = _find_kind(steps[number])
    shares = [
        n
        for n, ones in found.items()
        if n == number
        or (_find_kind(steps[n]) != kind and not lines.isdisjoint(x.line for x in ones))
    ]
    others = {one.line for n in shares if n != number for one in found[n]}
    shared = [one for one in found[number] if one.line in others and not one.tests]
    tasks = [n for n in shares if (one := steps[n].runner) and one.is_wrapper]
    if number in tasks and number != shares[-1]:
        left = [one for one in shared if one.verdict == "failed"]
    elif tasks and tasks[0] < number:
        left = []
    else:
        taken = sum(n < number and found[n][0].line in lines for n in shares)
        end = len(shared) if number == shares[-1] else taken + (found[number][0] in shared)
        left = shared[taken:end]
    return [one for one in found[number] if one not in shared or one in left]


def _find_kind(step: LineStep) -> CheckKind:
    return step.runner.kind if step.runner else ""


def has_line_of_each(
    line: EndedLine, alike: Sequence[int], found: Mapping[int, Sequence[Summary]]
) -> bool:
    """Return whether each of several steps of one kind has a good line of its own.

    Builds with one program print the same ones: one of these must be there once for each.
    """
    lines = [[one.line for one in found[n] if one.verdict == "passed"] for n in alike]
    runners = {line.steps[n].runner for n in alike}
    if len(runners) == 1 and _find_kind(line.steps[alike[0]]) == "build":
        forms = Counter(_NUMBER.sub("", text) for text in lines[0])
        return len(alike) in forms.values()
    return sum(not is_other_part(text) for text in set().union(*lines)) >= len(alike)


def shows_rounds(line: EndedLine, found: Mapping[int, Sequence[Summary]]) -> bool:
    """Return whether the output holds a summary of each round of the only check in a loop."""
    lines = [one.line for ones in found.values() for one in ones if one.verdict == "passed"]
    shown = sum(not is_other_part(one) for one in lines)
    return len(found) == 1 and line.rounds == shown


def ends_task(
    line: EndedLine, step: LineStep, best: Summary, found: Mapping[int, Sequence[Summary]]
) -> bool:
    """Return whether a good line can be the last one of a task: no other task begins behind it."""
    places = [n for n, row in enumerate(line.rows) if best.line in row]
    later = [row for row in line.rows[places[-1] + 1 if places else 0 :] if row.strip()]
    if any(map(_BEGINS_TASK.match, later)) and step is line.steps[-1]:
        return False
    is_followed = any(ones for n, ones in found.items() if line.steps[n] is not step)
    may_be_first = step.runner and step.runner.kind != "test" and not best.tests
    return is_followed or not may_be_first or len(later) < MOST_AFTER


_NUMBER = compile_pattern(r"\d+")
_BEGINS_TASK = compile_pattern(r"\[[\w:.-]+\] \$ |> \S+@\S+ \w")
MOST_AFTER = 8
"""Lines that a task prints behind the one in which its program sums up."""
_ONE_PROJECT = compile_pattern(r"^dotnet\s+test\s(?!.*proj\b.*\.\w+proj\b).*\.\w+proj\b")
_DLL = compile_pattern(r"\s- (\S+)\.dll \(")


def is_of_one_project(step: LineStep, best: Summary) -> bool:
    """Return whether dotnet was given the project of which a line speaks, so that no other has one."""
    tested = _DLL.search(best.line)
    if tested is None and _ONE_PROJECT.search(step.command.text):
        return True
    paths = (unquote(word).rstrip("/\\") for word in step.command.text.split())
    names = (path.replace("\\", "/").rpartition("/")[2] for path in paths)
    stems = {re.sub(r"\.\w+proj$|\.dll$", "", name) for name in names}
    return tested is not None and tested[1] in stems


_ADDED_UP = compile_pattern(
    r"test result: ok\. (?P<cargo>\d+) passed; 0 failed;|[^:：!！]{1,30}[!！]\s*[-–:]?\s*[^:：]{2,28}[:：]\s*0[,，、][^:：]{2,28}[:：]\s*(?P<dotnet>\d+)[,，、]"
    r"|Tests run: (?P<maven>\d+), Failures: 0, Errors: 0, Skipped: \d+$|Tests:?\s+(?:\d+ skipped, )?(?P<jest>\d+) passed\b(?!.*failed)"
    r"|(?P<pytest>\d+) passed\b(?!.*failed).* in [\d.]+m?s\b|(?P<mocha>\d+) passing\b"
)
"""Lines in which each of several suites sums up, and how many tests passed in it."""


def sum_up_suites(line: str, output: str) -> str:
    """Return how many tests passed in several suites of one run; empty for one."""
    one = _ADDED_UP.match(line)
    if not one:
        return ""
    form, counts = one.lastgroup or "", list[int]()
    for row in output.split("\n"):
        match = _ADDED_UP.match(clean_line(row)) if len(row) < 1_000 else None
        if match and match.lastgroup == form:
            counts.append(int(match[form]))
    counts = [count for count in counts if count]
    return f"{sum(counts)} tests in {len(counts)} suites" if len(counts) > 1 else ""
