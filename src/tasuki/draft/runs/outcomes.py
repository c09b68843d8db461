"""How the checks of a command line ended: passed, failed, did not run, or not shown.

    the runner's own summary ─▶ an exit code that is proven to be its own ─▶ a sign that it never started
                                                                          └▶ not shown

Only the first two are told as results. An exit code is its own where the line ends with it, where the
line prints it (`echo $?`), or where nothing else in the line can have made it.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from tasuki.draft.runs.ended_line import (
    EndedLine,
    LineStep,
    ends_task,
    has_line_of_each,
    is_harmless,
    is_of_one_project,
    keep_own_lines,
    list_steps,
    read_line,
    shows_rounds,
)
from tasuki.draft.runs.exit_codes import NAMES_FAILURE, find_own_code, was_reached
from tasuki.draft.runs.programs import find_name
from tasuki.draft.runs.runners import TEST_TASK, CheckKind
from tasuki.draft.runs.summaries import (
    Part,
    Summary,
    clean_line,
    find_bad_end,
    find_begun_steps,
    find_needed_part,
    has_failure_mark,
    list_summaries,
    shows_tests,
)
from tasuki.model import RunResult, ToolCall
from tasuki.patterns import compile_pattern


class Judgement(NamedTuple):
    """How a check ended, and the line of the output that says so; empty where none does."""

    result: RunResult
    line: str = ""


NOT_SHOWN = Judgement("not shown")
INTERRUPTED = "interrupted"


_PREVIEW = compile_pattern(r"\s*<persisted-output>|\s*Output too large")
"""What stands before the beginning of an output whose end is in a file."""
_BLOCKED = compile_pattern(
    r"(?i)^(?:<tool_use_error>|Cancelled: parallel tool call|PreToolUse:|.{0,60}\bhook\b.{0,60}\b(?:error|blocked|blocking|denied|stopped|prevented)\b"
    r"|Permission (?:to|for|denied)\b|Claude requested permissions?\b|.{0,300}\b(?:requires approval|approval required|was blocked|is temporarily unavailable|haven't granted)\b"
    r"|.{0,80}\b(?:No such tool|not an available tool|tool \S{1,60} (?:is )?not (?:found|available)|unknown tool|InputValidationError|invalid (?:arguments|input|parameters))\b"
    r"|.{0,400}\b(?:denied by|rejected(?: by|\(|:)|blocked by|not permitted by|prevents you from using)|.{0,80}\bnot allowed (?:by|in|to)\b|(?:exec_command|shell) failed for .{0,4000}\b(?:Rejected|CreateProcess)\b"
    r"|Tool permission (?:stream|request)|Error: (?:Tool permission|Stream closed)|.{0,80}\bdenied this tool\b|Operation not permitted by sandbox)",
    re.DOTALL,
)
"""How results begin of calls that a hook, a rule, the sandbox or the program itself did not let begin."""


def find_blocker(call: ToolCall) -> str:
    """Return the line that says why a call never began; empty for one that did, or may have."""
    if call.status == "refused":
        return "refused"
    may_be = call.status in ("error", "aborted") and call.exit_code is None
    if not may_be or not _BLOCKED.match(call.output):
        return ""
    first = next((row for row in call.output.split("\n") if row.strip()), "")
    return first.replace("<tool_use_error>", "").replace("</tool_use_error>", "").strip()


def judge_checks(command: str, call: ToolCall) -> dict[CheckKind, Judgement]:
    """Judge each kind of check that a command line runs."""
    steps = list_steps(command)
    kinds = [one.runner.kind for one in steps if one.runner]
    if reason := find_blocker(call):
        return {kind: Judgement("did not run", reason) for kind in kinds}
    if call.status in ("aborted", "running"):
        ended = INTERRUPTED if call.status == "aborted" else ""
        return dict.fromkeys(kinds, Judgement("not shown", ended))
    line = read_line(steps, call)
    is_alone = len(set(kinds)) < 2
    found = {
        n: list(list_summaries(one.runner, line.rows, is_alone=is_alone))
        for n, one in enumerate(steps)
        if one.runner
    }
    found = {number: keep_own_lines(steps, number, found) for number in found}
    judged: dict[CheckKind, Judgement] = {}
    for number, summaries in found.items():
        runner = steps[number].runner
        assert runner
        one = _judge_step(line, number, summaries, found)
        this, before = steps[number].command, steps[number - 1].command
        # `npm test || npm test`
        is_retry = number and this.operator == "||" and this.text == before.text
        is_first = runner.kind not in judged or (is_retry and one.result == "passed")
        judged[runner.kind] = one if is_first else combine_judgements(judged[runner.kind], one)
        if runner.is_wrapper and "test" not in kinds and (tests := _judge_tests(line, number)):
            judged["test"] = tests
            own = runner.kind == "build" or any(x.verdict == "failed" for x in summaries)
            if tests.result == "failed" and not own:
                del judged[runner.kind]  # The task failed by its tests.
    return judged


_TESTS_ENDED = compile_pattern(r"\[(?:[\w./-]+:)*tests?(?::[\w:./-]+)?\] Finished in \d")
"""What mise prints of a task that passed."""


def _judge_tests(line: EndedLine, number: int) -> Judgement | None:
    """Judge the tests that a task of another kind ran, such as `make check`; None where it shows none."""
    steps = list(line.steps)
    started = steps[number].started
    assert started
    steps[number] = steps[number]._replace(started=started._replace(runner=TEST_TASK))
    summaries = [one for one in list_summaries(TEST_TASK, line.rows) if shows_tests(one)]
    ended = next(filter(_TESTS_ENDED.match, line.rows), "")
    if not summaries and not ended:
        return None
    summaries = summaries or [Summary("passed", ended)]
    judged = _judge_step(line._replace(steps=steps), number, summaries, {number: summaries})
    is_own = any(one.verdict == "failed" for one in summaries)
    return NOT_SHOWN if judged.result == "failed" and not is_own else judged


def combine_judgements(one: Judgement, other: Judgement) -> Judgement:
    """Return the judgement of two runs of one kind: the worst that is known, else the lesser."""
    order: Sequence[RunResult] = ("failed", "not shown", "did not run", "passed")
    return min(one, other, key=lambda judged: order.index(judged.result))


def _judge_step(
    line: EndedLine,
    number: int,
    summaries: Sequence[Summary],
    found: Mapping[int, Sequence[Summary]],
) -> Judgement:
    step = line.steps[number]
    assert step.runner
    code = find_own_code(line, number, found)
    if any(_REWRITES.match(one.text) for one in step.filters) or not _may_be_printed(line, step):
        summaries = ()
    telling = [one for one in summaries if one.verdict != "nothing"]
    failed = [one for one in telling if one.verdict == "failed"]
    counted = [one for one in telling if one.tests] or telling
    if failed and not (code == 0 and counted[-1].verdict == "passed"):
        return Judgement("failed", max(failed, key=lambda one: one.tests).line)
    ordered = telling[::-1] if step.runner.is_wrapper else telling
    best = max(ordered, key=lambda one: one.tests, default=None)
    told = best.line if best else ""
    if told.startswith("Finished in "):  # Another line says more of it.
        told = next((one.line for one in ordered if one is not best), told)
    nothing = _find_nothing(line, step, summaries)
    is_alone = all(one is step or is_harmless(one) for one in line.steps)
    is_list = _LISTS.match(step.command.text) and (code == 0 or step.filters)
    listed = next(filter(_LISTED.match, line.rows), "") if is_list else ""
    if listed:
        return Judgement("failed", listed) if is_alone else NOT_SHOWN
    if code == 0:
        return Judgement("did not run" if nothing else "passed", nothing or told)
    if reason := _find_why_not_started(line.steps[: number + 1], line.output):
        return Judgement("did not run", reason)
    if _CUT_OFF.search(line.output[-600:]):
        return NOT_SHOWN
    if nothing or code in NEVER_STARTED:
        return Judgement("did not run", nothing)
    if code is not None:
        is_empty = code in _PYTEST_NOTHING and _PYTEST.search(step.command.text)
        ended = Judgement("did not run" if is_empty else "failed")
        return NOT_SHOWN if code in TIMED_OUT or code < 0 else ended
    bad_end = find_bad_end(line.output)
    if bad_end or (not best and has_failure_mark(step.runner, line.output)):
        return Judgement("failed", bad_end) if is_alone else NOT_SHOWN
    if best:
        return Judgement("passed", told) if _proves(line, step, best, found) else NOT_SHOWN
    others = {one.line for n, ones in found.items() if n != number for one in ones}
    is_silent = _is_silent(line, step, others) and was_reached(line, number, found)
    return Judgement("passed") if is_silent else NOT_SHOWN


_LISTS = compile_pattern(r"(?:gofmt|goimports|gofumpt)\b.*\s-[ld]\b")
"""Programs that list what is wrong, and end well all the same."""
_LISTED = compile_pattern(r"\s*(?:[\w./\\@+-]+\.go|(?:diff|---) \S.*)\s*$")
_CUT_OFF = compile_pattern(
    r"(?im)^\W*(?:(?:error: )?(?:the )?command (?:timed out|was (?:aborted|interrupted|cancelled|killed))|command aborted|operation (?:timed out|aborted)\b.*|terminated|killed)\b"
)
"""How an output ends of what was stopped before its end."""
_NO_SCRIPT = compile_pattern(r"(?m)^> (?:echo\b[^&;|\n]*(?:&& exit 0)?|exit 0|true|:)$")
"""The script of a package, as npm prints it, that does nothing."""
_NO_PROOF = compile_pattern(r"BUILD SUCCESS|OK\b")
_GRADLE_TESTS = compile_pattern(r"(?m)^> Task \S*[tT]est\w*(?: UP-TO-DATE| FROM-CACHE)?$")


def _find_nothing(line: EndedLine, step: LineStep, summaries: Sequence[Summary]) -> str:
    """Return the line that says that a step had nothing to run; empty where something ran."""
    assert step.runner
    if any(
        one.verdict != "nothing" and (one.tests or not _NO_PROOF.match(one.line))
        for one in summaries
    ):
        return ""
    nothing = next((one.line for one in summaries if one.verdict == "nothing"), "")
    if nothing:
        return "" if _GRADLE_TESTS.search(line.output) else nothing
    script = _NO_SCRIPT.search(line.output) if step.runner.is_wrapper and not summaries else None
    return script[0] if script else ""


def _proves(
    line: EndedLine, step: LineStep, best: Summary, found: Mapping[int, Sequence[Summary]]
) -> bool:
    """Return whether a good line proves that a step passed, of which no exit code is known.

    Each step of its kind needs a line of its own, and all that may have failed must be in view.
    """
    assert step.runner
    if line.has_error or _PREVIEW.match(line.output):
        return False
    if step.command.in_loop and not shows_rounds(line, found):
        return False
    if step.runner.is_wrapper and not all(find_begun_steps(line.rows).values()):
        return False  # It stopped in the middle.
    is_open = step.runner.is_wrapper and line.code is None
    if is_open and not ends_task(line, step, best, found):
        return False  # It may be of what had to be there first.
    is_strict = _COUNTS_WARNINGS.search(step.command.text) or _SCRIPT_COUNTS.search(line.output)
    if is_strict and _WARNINGS.search(best.line):
        return False
    alike = [n for n in found if (one := line.steps[n].runner) and one.kind == step.runner.kind]
    if len(alike) > 1 and not has_line_of_each(line, alike, found):
        return False
    needed = find_needed_part(best.line, line.rows)
    if needed == "whole" and is_of_one_project(step, best):
        return True
    if _MANY.search(step.command.text):
        needed = "whole"
    elif step.runner.is_wrapper and not needed:
        needed = "end"  # What comes behind it may have failed.
    return not needed or _shows_part(line, step, needed)


_SCRIPT_COUNTS = compile_pattern(r"(?m)^[>$] .*\s--max-warnings[= ]0\b")
_COUNTS_WARNINGS = compile_pattern(r"\s--max-warnings[= ]0\b")
_WARNINGS = compile_pattern(r"[1-9]\d* warnings?\b")
_MANY = compile_pattern(
    r"\s(?:--workspaces|-ws|-r|--recursive|run-many|affected|workspaces)(?:\s|$)|^(?:npx\s+)?(?:turbo|lerna)\s"
)
"""Runs in several packages, each of which sums up."""


TIMED_OUT = (124, 137, 143)
"""Exit codes of what was stopped: it neither passed nor failed."""
NEVER_STARTED = (126, 127)
_PYTEST = compile_pattern(r"\b(?:pytest|py\.test)\b")
_PYTEST_NOTHING = (4, 5)
"""Exit codes of pytest: wrong usage, no tests collected."""


# -- starts and ends ----------------------------------------------------------------------

_NO_PROGRAM = compile_pattern(
    r"(?m)^(?=.*not found$)(?:.*[:/ ])?(?P<a>[\w.@/-]+): (?:command )?not found$|command not found: (?P<b>\S+)|(?:^|: )(?P<c>[\w./-]+): (?:No such file or directory|Permission denied|Operation not permitted)$"
    r"|'(?P<d>[^'\n]+)' is not recognized as an internal|[Tt]he term '(?P<e>[^'\n]+)' is not recognized|No module named '?(?P<f>[\w.]+)'?$"
    r"|Cannot find (?:module|package) '(?P<g>[^'\n]+)'|Failed to spawn: `(?P<h>[^`\n]+)`|Command not found: (?P<i>\S+)"
)
_NO_TASK = {
    hint: compile_pattern(f"(?m)^(?:{line})$")
    for hint, line in {
        "issing script": r".*\b[Mm]issing script:? .*",
        " not found": r".*\berror Command \".*\" not found\.?.*|error: Script not found .*|.*\bTask '\S+' not found.*|ERROR: file or directory not found.*",
        "ERR_PNPM_": r".*\bERR_PNPM_(?:NO_SCRIPT|RECURSIVE_EXEC_FIRST_FAIL|NO_IMPORTER_MANIFEST_FOUND).*",
        "*** No ": r"make(?:\[\d+\])?: \*\*\* No (?:rule to make target|targets specified).*",
        "error: ": r"error: (?:Justfile does not contain recipe|no such command:?|no such subcommand:?|unexpected argument|unknown option) .*|.*\berror: unrecognized arguments.*",
        "task": r".*\b(?:unknown task|no task named|task: Task .* does not exist|Don't know how to build task).*",
        " POM ": r".*\bthere is no POM in this directory.*",
        "Cargo.toml": r".*could not find `Cargo\.toml`.*",
        "go: ": r"go: (?:go\.mod file not found|cannot find main module).*",
        "MSB100": r".*\bMSB100[39]: .*",
        "no test specified": r".*\bno test specified.*",
        "enoent": r".*\benoent\b.*package\.json.*",
        "usage: ": r"ERROR: usage: .*",
        ": unknown ": r"\S+: unknown (?:flag|option|argument)\b.*",
        "cd: ": r"(?:\S+: (?:line \d+: )?)?cd: .*(?:[Nn]o such file|not a directory).*",
        "Cannot find path ": r".*Cannot find path .*",
        "docker: ": r"docker: .*",
        "Docker daemon": r"Cannot connect to the Docker daemon.*",
        "ssh: ": r"ssh: .*",
        "No such container": r"Error: No such container.*",
        "shell cwd recovered": r".*\bwas deleted; shell cwd recovered.*",
    }.items()
}
"""Signs that a check was never started: no such target, wrong usage, no such folder; by a word that each has."""


_NO_FILE = compile_pattern(r"(?m)^.*: No such file or directory \(os error 2\)$")
"""What a runner of tasks written in Rust says of a program that is not there."""


def _find_why_not_started(steps: Sequence[LineStep], output: str) -> str:
    """Return the line that says why the last of some steps did not start; empty where none does."""
    step = steps[-1]
    assert step.runner
    needed = [one for one in steps[:-1] if is_harmless(one)] + [step]
    texts = " ".join(one.command.text for one in needed)
    words = {word.rpartition("/")[2] for word in re.split(r"[\s'\"]+", texts)}
    for match in _NO_PROGRAM.finditer(output):
        name = next(value for value in match.groupdict().values() if value)
        is_named = {name, name.rpartition("/")[2], name.partition(".")[0]} & words
        # Python itself says that it lacks the module that it was to run.
        is_misspelt = match["f"] and "-m" in words and ": No module named" in output
        if step.runner.is_wrapper or is_named or is_misspelt:
            start = output.rfind("\n", 0, match.start()) + 1
            end = output.find("\n", match.end() - 1)
            return output[start : len(output) if end < 0 else end].strip()
    is_task = step.runner.kind == "test" and step.runner.is_wrapper
    if is_task and (lacking := _NO_FILE.search(output)):
        return lacking[0].strip()
    told = (line.search(output) for hint, line in _NO_TASK.items() if hint in output)
    return next((found[0].strip() for found in told if found), "")


_PRINTS_FILE = compile_pattern(
    r"(?:cat|tail|head|less|more|bat|grep|rg|sed|awk|type|Get-Content|gc)\b.*|git\s+(?:log|show)\b(?!.*--(?:oneline|stat)).*"
)
_OF_A_RUN = compile_pattern(
    r"(?i)\.(?:log|out|txt|xml|tap|md|rst|adoc|json|ya?ml)\b|result|report|output|^git\s"
)


def _may_be_printed(line: EndedLine, step: LineStep) -> bool:
    """Return whether what sums up in an output can be that of a check.

    What it prints into a file is there only if the line prints that file. Another file of results
    that the line prints may be of any run.
    """
    target = step.command.output_to
    shown = [m[0] for one in line.steps if (m := _PRINTS_FILE.match(one.command.text))]
    if target:
        return target != "/dev/null" and any(target in text for text in shown)
    teed = " ".join(one.text for one in step.filters if one.text.startswith(("tee", "Tee")))
    written = f"{teed} {step.command.text}"
    others = (text for text in shown if _OF_A_RUN.search(text))
    return all(
        any(find_name(word) in written for word in text.split() if "." in word) for text in others
    )


_KEEPS_END = compile_pattern(r"(?:tee|tail|cat|less|more|ts)\b(?!.*\s\+)")
_REWRITES = compile_pattern(
    r"(?:awk|sort|uniq|wc|cut|jq|tr|xargs|python\S*|perl|ruby|node|nl|column|e?grep\b.*\s-\w*[co]|rg\b.*\s-\w*[co]|sed\b(?=.*(?i:pass|fail|ok|err)))\b"
)
"""Filters whose output is no longer that of the check."""
_GREP = compile_pattern(r"(?:e?grep|rg)\b(?:.*\s-\w*(v))?(?!.*\s-\w*[coqlm])")
_CUTS_ROWS = compile_pattern(r"(head|tail)(?:\s+-(?:n\s*|-lines=)?(\d+))?$")
BLANK_ENDS = 2
"""Empty lines that may have been at the ends of an output, and are not kept."""
_KEEPS_START = compile_pattern(r"(?:head|tee|tail|cat|less|more|Select-Object)\b")


def _shows_part(line: EndedLine, step: LineStep, needed: Part) -> bool:
    """Return whether a part of what a check printed is in view, or else what names a failure in it."""
    printed = sum(bool(row.strip()) for row in line.rows)
    at_start = len("\n".join(line.rows).strip("\n").split("\n")) + BLANK_ENDS
    if needed == "whole" and not line.is_whole:
        return False
    for one in step.filters:
        cut, grep = _CUTS_ROWS.match(one.text), _GREP.match(one.text)
        if cut and (at_start if cut[1] == "head" else printed) < int(cut[2] or 10):
            continue
        if grep and bool(grep[1]) != bool(NAMES_FAILURE.search(one.text)):
            continue
        if not _KEEPS_END.match(one.text) or (cut and needed == "whole"):
            return False
    return True


def _is_silent(line: EndedLine, step: LineStep, others: Collection[str]) -> bool:
    """Return whether a check that prints what it finds has printed nothing, beside what other checks print."""
    assert step.runner
    return (
        step.runner.is_silent
        and line.is_whole
        and line.code == 0
        and not (step.command.output_to or step.command.errors_to)
        and not (step.command.in_background or step.command.in_block)
        and all(_KEEPS_START.match(one.text) for one in step.filters)
        and not any(row.strip() and clean_line(row) not in others for row in line.rows)
        and not any(one.command.operator == "||" for one in line.steps)
    )
