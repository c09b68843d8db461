"""Which of the lines that sum up are those of one step of a command line, and what they prove."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from tasuki.draft.runs.ended_line import EndedLine, LineStep
from tasuki.draft.runs.programs import unquote
from tasuki.draft.runs.runners import CheckKind
from tasuki.draft.runs.summaries import Summary, clean_line, is_other_part
from tasuki.patterns import compile_pattern


def keep_own_lines(
    steps: Sequence[LineStep], number: int, found: Mapping[int, Sequence[Summary]]
) -> list[Summary]:
    """Return the lines that sum up one step, without those of other kinds that print the same ones.

    Of lines that several may have printed each has one, in their order; the last has all that are left.
    A task may have printed any number, of which those that say that something passed may be another's.
    """
    lines = {one.line for one in found[number]}
    shares = [
        n
        for n, ones in found.items()
        if n == number
        or (
            _find_kind(steps[n]) != _find_kind(steps[number])
            and not lines.isdisjoint(x.line for x in ones)
        )
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
    stems = {
        re.sub(
            r"\.\w+proj$|\.dll$",
            "",
            unquote(word).rstrip("/\\").replace("\\", "/").rpartition("/")[2],
        )
        for word in step.command.text.split()
    }
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
