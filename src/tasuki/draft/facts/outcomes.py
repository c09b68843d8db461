"""How the checks of a command line ended: passed, failed, did not run, or not shown.

    the runner's own summary ─▶ an exit code that is proven to be its own ─▶ a sign that it never started
                                                                          └▶ not shown

Only the first two are told as results. An exit code is its own where the line ends with it, where the
line prints it (`echo $?`), or where nothing else in the line can have made it.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tasuki.draft.facts.command_kinds import (
    identify_runner,
    list_simple_commands,
    strip_variables,
)
from tasuki.draft.facts.runners import (
    JUDGED,
    CheckKind,
    Runner,
    Summary,
    has_failure_mark,
    list_summaries,
)
from tasuki.model import RunResult, ToolCall
from tasuki.patterns import compile_pattern
from tasuki.shell import SimpleCommand


class Judgement(NamedTuple):
    """How a check ended, and the line of the output that says so; empty where none does."""

    result: RunResult
    line: str = ""


NOT_SHOWN = Judgement("not shown")


class _Step(NamedTuple):
    """One pipeline of a line: its first command, what reads its output, and what it checks."""

    command: SimpleCommand
    filters: tuple[SimpleCommand, ...]
    runner: Runner | None


class _Line(NamedTuple):
    """A command line that ended: its steps, the exit code if it is known, and what it printed."""

    steps: Sequence[_Step]
    code: int | None
    rows: Sequence[str]
    output: str
    is_whole: bool
    stops_at_failure: bool
    passes_codes_on: bool
    """An exit code comes through a pipe."""
    hides_output: bool
    """Some of it goes into a file."""


_SETTINGS = compile_pattern(r"set\s+(?:-\w+\s+)*-\w*e")
_PIPEFAIL = compile_pattern(r"set\s+.*\bpipefail\b")
_REDIRECTED = compile_pattern(r"(?:^|[^&2-9])>(?!&)|2>(?!&1)")
_PREVIEW = compile_pattern(r"\s*<persisted-output>|\s*Output too large")
"""What stands before the beginning of an output whose end is in a file."""
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


_BLOCKED = compile_pattern(
    r"(?i)^(?:<tool_use_error>|PreToolUse:|.{0,60}\bhook\b.{0,60}\b(?:error|blocked|blocking|denied|stopped|prevented)\b"
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
    if call.status != "error" or call.exit_code is not None or not _BLOCKED.match(call.output):
        return ""
    first = next((row for row in call.output.split("\n") if row.strip()), "")
    return first.replace("<tool_use_error>", "").replace("</tool_use_error>", "").strip()


def judge_checks(command: str, call: ToolCall) -> dict[CheckKind, Judgement]:
    """Judge each kind of check that a command line runs."""
    steps = _list_steps(command)
    kinds = [one.runner.kind for one in steps if one.runner]
    if reason := find_blocker(call):
        return {kind: Judgement("did not run", reason) for kind in kinds}
    if call.status in ("aborted", "running"):
        return dict.fromkeys(kinds, NOT_SHOWN)
    line = _read_line(command, steps, call)
    is_alone = len(set(kinds)) < 2
    found = {
        n: list(list_summaries(one.runner, line.rows, is_alone=is_alone))
        for n, one in enumerate(steps)
        if one.runner
    }
    judged: dict[CheckKind, Judgement] = {}
    for number, summaries in found.items():
        runner = steps[number].runner
        assert runner
        one = _judge_step(line, number, summaries, found)
        judged[runner.kind] = (
            combine_judgements(judged[runner.kind], one) if runner.kind in judged else one
        )
    return judged


def _list_steps(command: str) -> list[_Step]:
    steps: list[_Step] = []
    for part in list_simple_commands(command):
        if part.is_piped and steps:
            steps[-1] = steps[-1]._replace(filters=(*steps[-1].filters, part))
            continue
        runner = identify_runner(part.text)
        steps.append(_Step(part, (), runner if runner and runner.kind in JUDGED else None))
    return steps


def _read_line(command: str, steps: Sequence[_Step], call: ToolCall) -> _Line:
    texts = [one.command.text for one in steps]
    said = {row for text in texts if (row := _find_echoed_text(text))}
    rows = [
        row for row in call.output.split("\n") if row.strip() not in said and not _ADDED.match(row)
    ]
    return _Line(
        steps,
        find_exit_code(call),
        rows,
        call.output,
        len(call.output) >= call.output_size and not _CUTS.search(call.output),
        any(map(_SETTINGS.match, texts)),
        any(map(_PIPEFAIL.match, texts)),
        bool(_REDIRECTED.search(command)),
    )


def combine_judgements(one: Judgement, other: Judgement) -> Judgement:
    """Return the judgement of two runs of one kind: the worst that is known, else the lesser."""
    order: Sequence[RunResult] = ("failed", "not shown", "did not run", "passed")
    return min(one, other, key=lambda judged: order.index(judged.result))


def _judge_step(
    line: _Line,
    number: int,
    summaries: Sequence[Summary],
    found: Mapping[int, Sequence[Summary]],
) -> Judgement:
    step = line.steps[number]
    assert step.runner
    code = _find_own_code(line, number, found)
    if any(_REWRITES.match(one.text) for one in step.filters):
        summaries = ()
    telling = [one for one in summaries if one.verdict != "nothing"]
    failed = [one for one in telling if one.verdict == "failed"]
    if failed and not (code == 0 and telling[-1].verdict == "passed"):
        return Judgement("failed", max(failed, key=lambda one: one.tests).line)
    best = max(telling, key=lambda one: one.tests, default=None)
    has_part = step.runner.shows_parts or step.runner.is_wrapper
    empty = (one.line for one in summaries if one.verdict == "nothing")
    nothing = "" if any(one.tests or has_part for one in telling) else next(empty, "")
    if code == 0:
        return (
            Judgement("did not run", nothing)
            if nothing
            else Judgement("passed", best.line if best else "")
        )
    if reason := _find_why_not_started(line.steps[: number + 1], line.output):
        return Judgement("did not run", reason)
    if code is not None:
        return _judge_code(step, code, nothing)
    if best and not nothing and (not step.runner.shows_parts or _shows_bad_parts(line, step)):
        return NOT_SHOWN if _PREVIEW.match(line.output) else Judgement("passed", best.line)
    if nothing:
        return Judgement("did not run", nothing)
    is_alone = all(one is step or _is_harmless(one) for one in line.steps)
    if not best and is_alone and has_failure_mark(step.runner, line.output):
        return Judgement("failed")
    return Judgement("passed") if _is_silent(line, step) else NOT_SHOWN


_TIMED_OUT = (124, 137, 143)
NEVER_STARTED = (126, 127)
_PYTEST = compile_pattern(r"\b(?:pytest|py\.test)\b")
_PYTEST_NOTHING = (4, 5)
"""Exit codes of pytest: wrong usage, no tests collected."""


def _judge_code(step: _Step, code: int, nothing: str) -> Judgement:
    if code in NEVER_STARTED or nothing:
        return Judgement("did not run", nothing)
    if code in _TIMED_OUT or code < 0:
        return NOT_SHOWN
    if code in _PYTEST_NOTHING and _PYTEST.search(step.command.text):
        return Judgement("did not run")
    return Judgement("failed")


# -- exit codes ---------------------------------------------------------------------------

_HARMLESS = compile_pattern(
    r"(?:cd|pushd|popd|export|source|\.|set|unset|umask|ulimit|trap|echo|printf|true|:|pwd|mkdir|sleep|date|clear)(?:\s|$)"
)
"""What hardly ever fails; where a folder or a file to source is missing, the shell says so."""
_TRANSPARENT = compile_pattern(
    r"(?:tee|tail|cat|ts|sed|awk|perl|python\S*|less|more|Out-String|Tee-Object)\b"
)
"""Filters that read to the end: they do not end what writes to them."""


def _is_harmless(step: _Step) -> bool:
    text = strip_variables(step.command.text)
    return not step.command.is_negated and (not text or bool(_HARMLESS.match(text)))


def _find_own_code(line: _Line, number: int, found: Mapping[int, Sequence[Summary]]) -> int | None:
    """Find the exit code of one step, None where nothing proves it."""
    step, code = line.steps[number], line.code
    if step.command.is_negated or step.command.in_block or step.command.in_background:
        return None
    printed = _find_printed_code(line, number)
    if printed is not None or (
        step.filters
        and not (line.passes_codes_on and all(_TRANSPARENT.match(one.text) for one in step.filters))
    ):
        return printed
    if not step.filters and (marked := _find_marked_code(line, number, found)) is not None:
        return marked
    if code is None:
        return None
    after = [_find_operator(line, one) for one in line.steps[number + 1 :]]
    if code == 0:
        return 0 if all(one == "&&" for one in after) else None
    return code if _has_made_code(line, number, after, found) else None


def _has_made_code(
    line: _Line, number: int, after: Sequence[str], found: Mapping[int, Sequence[Summary]]
) -> bool:
    """Return whether a failure of the whole line can only be that of one step."""
    if after and after[0] == "||":
        later: Sequence[_Step] = ()
    elif all(one == "&&" for one in after):
        later = line.steps[number + 1 :]
    else:
        return False
    return _was_reached(line, number, found) and all(map(_is_harmless, later))


def _was_reached(line: _Line, number: int, found: Mapping[int, Sequence[Summary]]) -> bool:
    """Return whether everything that a step waited for with `&&` has passed."""
    for n in range(number, 0, -1):
        if _find_operator(line, line.steps[n]) != "&&":
            break
        before = line.steps[n - 1]
        if not _is_harmless(before) and all(s.verdict != "passed" for s in found.get(n - 1, ())):
            return False
    return True


def _find_operator(line: _Line, step: _Step) -> str:
    """Return what stands before a step, `&&` where the shell stops at a failure anyway."""
    operator = step.command.operator
    return "&&" if line.stops_at_failure and operator in (";", "\n") else operator


_ECHO = compile_pattern(r"(?:echo|printf|Write-Output|Write-Host)\s+(?:-[neE]+\s+)?(.*)", re.DOTALL)
_CODE_NAMES = r"\$\?|\$\{\?\}|\$LASTEXITCODE"
_PIPED_CODES = r"\$\{PIPESTATUS\[0\](?::-[^}]*)?\}|\$\{?pipestatus\[1\]\}?"
_ASSIGNED = compile_pattern(rf"\$?(\w+)\s*=\s*[\"']?(?:({_CODE_NAMES})|{_PIPED_CODES})[\"']?$")
_OWN = compile_pattern(rf"({_CODE_NAMES})|{_PIPED_CODES}")


def _find_echoed_text(text: str) -> str:
    """Return what an `echo` prints to the letter; empty for a text with variables."""
    match = _ECHO.match(text)
    if not match or "$" in match[1] or "`" in match[1]:
        return ""
    return match[1].replace('"', "").replace("'", "").replace("\\n", "").strip()


def _find_printed_code(line: _Line, number: int) -> int | None:
    """Find the exit code of a step that the line itself prints after it."""
    rest = [one.command.text for one in line.steps[number + 1 :]]
    is_piped = bool(line.steps[number].filters)
    if not rest:
        return None
    name = _CODE_NAMES if not is_piped else _PIPED_CODES
    if assigned := _ASSIGNED.match(rest[0]):
        if is_piped and assigned[2]:
            return None
        name = rf"\$\{{?{assigned[1]}\}}?"
        texts = rest[1:]
        if re.fullmatch(rf"exit\s+[\"']?(?:{name})[\"']?", rest[-1]):
            return line.code
    else:
        texts = rest[:1]
    for text in texts:
        match = _ECHO.match(text)
        parts = re.split(name, match[1], maxsplit=1) if match else []
        if len(parts) == 2 and not (is_piped and _OWN.search(parts[1])):
            before = re.split(r"[$`\"']|\\n", parts[0])[-1][-30:]
            after = re.split(r"[$`\"']|\\n", parts[1])[0][:30]
            start = re.escape(before) if before else "^"
            pattern = rf"(?m){start}(\d{{1,3}})(?!\d){re.escape(after)}"
            printed = re.findall(pattern, line.output)
            return int(printed[-1]) if printed else None
    return None


def _find_marked_code(
    line: _Line, number: int, found: Mapping[int, Sequence[Summary]]
) -> int | None:
    """Find how a step ended by what stands behind it: `&& echo OK || echo BAD`, or `&& go test`."""
    marks = {}
    for n in range(number + 1, len(line.steps)):
        if _find_operator(line, line.steps[n]) != "&&":
            break
        if found.get(n):
            return 0
    for one in line.steps[number + 1 : number + 3]:
        if one.command.operator not in ("&&", "||") or one.command.operator in marks:
            break
        marks[one.command.operator] = _find_echoed_text(one.command.text)
        if not marks[one.command.operator]:
            break
    printed = {row.strip() for row in line.output.split("\n")}
    good, bad = marks.get("&&", ""), marks.get("||", "")
    if good == bad or len(marks) < 1:
        return None
    if bad and bad in printed:
        return 1 if _was_reached(line, number, found) else None
    if good and good in printed:
        return 0
    return 0 if bad and not good and line.is_whole and line.code == 0 else None


# -- starts and ends ----------------------------------------------------------------------

_NO_PROGRAM = compile_pattern(
    r"(?m)^(?:.*[:/ ])?(?P<a>[\w.@/-]+): (?:command )?not found$|command not found: (?P<b>\S+)|(?:^|: )(?P<c>[\w./-]+): (?:No such file or directory|Permission denied)$"
    r"|'(?P<d>[^'\n]+)' is not recognized as an internal|[Tt]he term '(?P<e>[^'\n]+)' is not recognized|No module named '?(?P<f>[\w.]+)'?$"
    r"|Cannot find (?:module|package) '(?P<g>[^'\n]+)'|Failed to spawn: `(?P<h>[^`\n]+)`|Command not found: (?P<i>\S+)"
)
_NO_TASK = compile_pattern(
    r"(?m)^(?:.*\b(?:npm (?:ERR!|error) )?[Mm]issing script:? .*|.*\berror Command \".*\" not found\.?.*|.*\bERR_PNPM_(?:NO_SCRIPT|RECURSIVE_EXEC_FIRST_FAIL|NO_IMPORTER_MANIFEST_FOUND).*"
    r"|error: Script not found .*|make(?:\[\d+\])?: \*\*\* No (?:rule to make target|targets specified).*|error: (?:Justfile does not contain recipe|no such command:?|no such subcommand:?) .*"
    r"|.*\b(?:unknown task|no task named|Task '\S+' not found|task: Task .* does not exist|Don't know how to build task).*|.*\bthere is no POM in this directory.*|.*could not find `Cargo\.toml`.*"
    r"|go: (?:go\.mod file not found|cannot find main module).*|.*\bMSB100[39]: .*|.*\benoent\b.*package\.json.*"
    r"|ERROR: usage: .*|.*\berror: unrecognized arguments.*|ERROR: file or directory not found.*|error: (?:unexpected argument|unknown option) .*|\S+: unknown (?:flag|option|argument)\b.*"
    r"|(?:\S+: (?:line \d+: )?)?cd: .*(?:No such file|no such file|not a directory).*|.*Cannot find path .*|Cannot connect to the Docker daemon.*|docker: .*|ssh: .*|Error: No such container.*"
    r"|.*\bwas deleted; shell cwd recovered.*)$"
)
"""Signs that a check was never started: no program, no such target, wrong usage, no such folder."""


def _find_why_not_started(steps: Sequence[_Step], output: str) -> str:
    """Return the line that says why the last of some steps did not start; empty where none does."""
    step = steps[-1]
    assert step.runner
    needed = [one for one in steps[:-1] if _is_harmless(one)] + [step]
    texts = " ".join(one.command.text for one in needed)
    words = {word.rpartition("/")[2] for word in re.split(r"[\s'\"]+", texts)}
    for match in _NO_PROGRAM.finditer(output):
        name = next(value for value in match.groupdict().values() if value)
        if (
            step.runner.is_wrapper
            or {name, name.rpartition("/")[2], name.partition(".")[0]} & words
            or _is_misspelt(match, words)
        ):
            start = output.rfind("\n", 0, match.start()) + 1
            end = output.find("\n", match.end() - 1)
            return output[start : len(output) if end < 0 else end].strip()
    missing = _NO_TASK.search(output)
    return missing[0].strip() if missing else ""


def _is_misspelt(match: re.Match[str], words: set[str]) -> bool:
    """Return whether Python itself says that it lacks the module that it was to run."""
    return (
        "f" in match.groupdict()
        and bool(match["f"])
        and "-m" in words
        and ": No module named" in match.string
    )


_KEEPS_END = compile_pattern(r"(?:tee|tail|cat|less|more|ts)\b(?!.*\s\+)")
_REWRITES = compile_pattern(
    r"(?:awk|sort|uniq|wc|cut|jq|tr|xargs|python\S*|perl|ruby|node|nl|column|e?grep\b.*\s-\w*[co]|rg\b.*\s-\w*[co])\b"
)
"""Filters whose output is no longer that of the check."""
_GREP = compile_pattern(r"(?:e?grep|rg)\b(?:.*\s-\w*(v))?(?!.*\s-\w*[coqlm])")
_HEAD = compile_pattern(r"head(?:\s+-(?:n\s*|-lines=)?(\d+))?$")
_NAMES_FAILURE = compile_pattern(r"(?i)fail|falha|fehl|\u00e9chou|fall[o\u00f3]|error")
_KEEPS_START = compile_pattern(r"(?:head|tee|tail|cat|less|more|Select-Object)\b")


def _shows_bad_parts(line: _Line, step: _Step) -> bool:
    """Return whether a part that failed would be in the output: its filters keep the end, or name it."""
    if _PREVIEW.match(line.output):
        return False
    printed = sum(bool(row.strip()) for row in line.rows)
    for one in step.filters:
        head, grep = _HEAD.match(one.text), _GREP.match(one.text)
        if head and printed < int(head[1] or 10):
            continue
        if grep and bool(grep[1]) != bool(_NAMES_FAILURE.search(one.text)):
            continue
        if not _KEEPS_END.match(one.text):
            return False
    return True


def _is_silent(line: _Line, step: _Step) -> bool:
    """Return whether a check that prints what it finds has printed nothing."""
    assert step.runner
    return (
        step.runner.is_silent
        and line.is_whole
        and line.code == 0
        and not line.hides_output
        and not step.command.in_background
        and all(_KEEPS_START.match(one.text) for one in step.filters)
        and not any(row.strip() for row in line.rows)
    )
