"""The lines in which a runner sums up, and the marks and names of what failed.

Lines that only count (`3 failed, 40 passed in 2s`, `Tests: 40 passed, 40 total`) are read by their
words, whatever printed them: a log line that speaks of an error has other words in it and counts
nothing.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from tasuki.draft.runs.command_kinds import list_simple_commands
from tasuki.draft.runs.runners import ALL_RUNNERS, JUDGED, TESTED_WELL, CheckKind, Runner
from tasuki.draft.text.split import find_error_line
from tasuki.patterns import compile_pattern

Verdict = Literal["passed", "failed", "nothing"]


class Summary(NamedTuple):
    """A line that sums up a run, and the greatest number of tests in it."""

    verdict: Verdict
    line: str
    tests: int = 0


_ANSI = compile_pattern(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_PREFIX = compile_pattern(
    r"^(?:[\s=#*ℹ│|>❯✔✓✖✘×✗⎯─-]|\[[A-Za-z][\w:./-]{0,40}\] ?|[\w@./-]{1,40}[: ](?:test|lint|build|check|typecheck)[\w:-]{0,40}: |[\w.-]{1,40} +\| )+|[\s=*│⎯─-]+$"
)
"""Decoration, levels of a log, and the name of the task that a runner of tasks puts before each line."""
_MAY_SUM_UP = compile_pattern(
    r"pass|fail|\bok\b|succe|err|issue|problem|violation|offense|finding|fehler|no\w* |ran 0|congrat|built|done|all |unchanged|formatted|reformat"
    r"|diff in|compile|deselect|skipped|no-source|specified|up to date|finished|nam(?:ing|ed)|tagged|files have been|couldn't find|\d[;,，、][^:：]{2,28}[:：]\s*\d"
)
"""In small letters: what a line holds that may sum up."""
_NO_WORK = compile_pattern(r"make(?:\[\d+\])?: (?:Nothing to be done for .*|.* is up to date\.)$")
_NOTHING = compile_pattern(
    r"(?i)^(?:(?:error: )?no tests? (?:modules? found|ran|found|were|executed|matche?[sd]?|to run|files? found|is available)\b.*|no test (?:files?|cases?|suites?) .*|"
    r"testing: warning: no tests to run|ok\s+\S+\s.*\[no tests to run\]|\?\s+\S+\s+\[no test files\]|ran 0 tests\b.*|collected 0 items.*|tests are skipped\.?|> task \S*test\S* no-source|"
    r"there are no tests to run\b.*|tasks:\s+0 successful, 0 total|no (?:tasks were run|projects? \S.*)|\d+ deselected in .*|test result: ok\. 0 passed; 0 failed;.*|"
    r"no matching (?:tests|projects)\b.*|error: no test files found\b.*|couldn't find any files to test)$"
)
"""Say that nothing was run, and that no test was."""
_DIGIT = compile_pattern(r"\d")
_WORD = compile_pattern(r"[A-Za-z][A-Za-z'-]*")
_KNOWN = frozenset(
    "test tests testing file files suite suites spec specs example examples scenario scenarios step steps feature features case cases "
    "assertion assertions expectation expectations expect calls check checks run runs ran result results executed execution summary "
    "passed pass passes passing ok success successes succeeded successful fail failed fails failing failure failures error errors errored "
    "broken skipped skip skips skipping ignored pending todo todos filtered measured finished deselected warning warnings warn warns xfailed "
    "xpassed rerun reruns flaky interrupted cancelled canceled incomplete risky unexpected doctest doctests property properties snapshots "
    "snapshot total time duration elapsed took in of out across with after and all are were have been completed complete done s ms m h min "
    "sec secs second seconds minute minutes subtests subtest issue issues problem problems found by rest fixed fixable remaining source "
    "checked information informations notes note info finding findings violation violations offense offenses excluded invalid quarantined "
    "notrun deprecated deprecations inconclusive aborted locally did not erro erreur fehler errores errori".split()
)
"""Words of a line that sums up. One with another word is something else."""
_TEST_BAD = r"fail(?:ed|s|ing|ures?)?|errors?|errored|broken|issues?"
_ERROR = (
    r"errors?|Error\(s\)|Erro\(s\)|Erreur\(s\)|Fehler|Errores|Errori|个错误|個錯誤|エラー|Ошибок"
)
_LINT_BAD = rf"problems?|issues?|violations?|offenses?|findings?|{_ERROR}"
_GOOD = r"pass(?:ed|es|ing)?|ok|succe(?:ss(?:es|ful)?|eded)"
_NOUN = r"(?:(?:tests?|test files?|test cases?|test suites?|suites?|specs?|examples?|steps?|scenarios?|features?|subtests?)\s+)?(?:are\s+|were\s+|have\s+)?"


class _Counts(NamedTuple):
    bad: re.Pattern[str]
    good: re.Pattern[str]


def _build_counts(words: str) -> re.Pattern[str]:
    return compile_pattern(
        rf"(?i)(?<![\d.,])(\d+(?:,\d{{3}})*)\s+{_NOUN}(?:{words})(?!\s*[:=]\s*\d|\w)|(?<![a-z])(?:{words})(?:\s+tests?)?\s*[:=]\s*(\d+)"
        rf"|(?<![a-z])(?:{words})\s+(\d+)(?=\s*(?:[,|\])]|$))"
    )


_COUNTS = {
    "test": _Counts(_build_counts(_TEST_BAD), _build_counts(_GOOD)),
    "lint": _Counts(_build_counts(_LINT_BAD), _build_counts(_GOOD)),
}
_ERRORS = _build_counts(_ERROR)
_REMAINING = compile_pattern(r"\b(\d+) remaining\b")
_RUN_COUNT = compile_pattern(
    r"(?i)(?<![\d.])(\d[\d,]*)\s+(?:doc)?(?:tests?|examples?|runs|specs?|scenarios?|assertions)\b|\btests?(?: run)?:\s*(\d+)|out of (\d+)"
)


_ALL_EXCLUDED = compile_pattern(r"(\d+) tests?, 0 failures, \1 excluded.*")
_SKIPPED = compile_pattern(r"(?i)\b\d+ (?:\w+ )?(?:skipped|deselected|pending)\b")


def _add_up(pattern: re.Pattern[str], text: str) -> int | None:
    """Return the sum of what a line counts, None where it counts nothing of this."""
    found = [
        int(next(group for group in match.groups() if group).replace(",", ""))
        for match in pattern.finditer(text)
    ]
    return sum(found) if found else None


_OF_TESTS = compile_pattern(
    r"(?i)\b(?:tests?|pass(?:ed|ing|es)?|fail(?:ed|ing|s|ures?)?|skipped|examples?)\b"
)

_ALL_TESTS = compile_pattern(r"(?:TOTAL|PASS|SKIP|XFAIL|FAIL|XPASS|ERROR):\s+\d+$")
"""What Automake counts under `make check`."""
_OF_LINT = compile_pattern(r"(?i)\b(?:issues?|problems?|violations?|offenses?|findings?)\b")


def _read_counts(kind: CheckKind, text: str, *, is_alone: bool) -> Summary | None:
    """Read a line that only counts; None for any other.

    Where checks of several kinds ran, what counts tests is of the tests alone, what counts issues no build's.
    """
    if len(text) > 300 or not _DIGIT.search(text):
        return None
    if not is_alone and bool(_OF_TESTS.search(text)) != (kind == "test"):
        return None
    if not is_alone and kind == "build" and _OF_LINT.search(text):
        return None
    if not all(word.lower() in _KNOWN for word in _WORD.findall(text)):
        return None
    counts = _COUNTS["test" if kind == "test" or _ALL_TESTS.match(text) else "lint"]
    bad, good = _add_up(counts.bad, text), _add_up(counts.good, text)
    if kind != "test" and (errors := _add_up(_ERRORS, text)) is not None:
        bad = errors  # `2 problems (0 errors, 2 warnings)`
    if remaining := _REMAINING.search(text):
        bad = int(remaining[1])  # `Found 3 errors (3 fixed, 0 remaining)`
    if bad:
        return Summary("failed", text, bad)
    if good:
        return Summary("passed", text, good)
    skipped = bad is None and good is None and _SKIPPED.search(text)
    if kind == "test" and (good == 0 or skipped or _ALL_EXCLUDED.match(text)):
        return Summary("nothing", text)
    if bad is None:
        return None
    if kind != "test":
        return Summary("passed", text)
    ran = _add_up(_RUN_COUNT, text)
    return None if ran is None else Summary("passed" if ran else "nothing", text, ran)


def clean_line(line: str) -> str:
    """Return a line of output without colours and without what decorates it."""
    return _PREFIX.sub("", _ANSI.sub("", line) if "\x1b" in line else line)


def _join_patterns(kind: CheckKind, wanted: Verdict) -> dict[str, re.Pattern[str]]:
    """Build for each runner of a kind the pattern of a verdict; that of a wrapper has all of them."""
    own = {one.command: getattr(one, wanted) for one in ALL_RUNNERS if one.kind == kind}
    every = "|".join(filter(None, own.values()))
    wrappers = {one.command for one in ALL_RUNNERS if one.is_wrapper}
    texts = {name: every if name in wrappers else text for name, text in own.items()}
    return {name: compile_pattern(rf"^(?:{text})$") for name, text in texts.items() if text}


_PASSED = {kind: _join_patterns(kind, "passed") for kind in JUDGED}
_FAILED = {kind: _join_patterns(kind, "failed") for kind in JUDGED}


def list_summaries(
    runner: Runner, lines: Sequence[str], *, is_alone: bool = True
) -> Iterator[Summary]:
    """Yield the lines of an output in which a runner sums up, in their order.

    `is_alone`: nothing of another kind wrote into this output.
    """
    failed, passed = (by[runner.kind].get(runner.command) for by in (_FAILED, _PASSED))
    is_translated = runner.command.startswith("dotnet")
    for raw in lines:
        if len(raw) > 1_000 or not (is_translated or _MAY_SUM_UP.search(raw.lower())):
            continue
        line = clean_line(raw)
        if failed and failed.match(line):
            yield Summary("failed", line)
        elif _NO_WORK.match(line) or (runner.kind == "test" and _NOTHING.match(line)):
            yield Summary("nothing", line)
        elif counted := _read_counts(runner.kind, line, is_alone=is_alone):
            yield counted
        elif passed and passed.match(line):
            yield Summary("passed", line)
    if runner.kind == "test":
        yield from _read_tap(lines)
    if runner.is_wrapper and (ended := find_ended_steps(lines)):
        yield Summary("passed", ended)


_TAP_PLAN = compile_pattern(r"1\.\.(\d+)(?:\s|$)")
_TAP_RESULT = compile_pattern(r"(not )?ok \d+\b(.*)")
_TAP_EXCUSE = compile_pattern(r"(?i)# ?(todo|skip)\b")


def _read_tap(lines: Sequence[str]) -> Iterator[Summary]:
    """Yield each stream of TAP that has as many results as its plan says, before them or behind."""
    planned, results = -1, list[tuple[str, bool]]()
    for line in lines:
        if plan := _TAP_PLAN.match(line):
            results = results if planned < 0 else []
            planned = int(plan[1])
        elif result := _TAP_RESULT.match(line):
            is_excused = bool(_TAP_EXCUSE.search(result[2]))
            results.append((line.strip(), bool(result[1]) and not is_excused))
        if planned == len(results) > 0:
            bad = [row for row, has_failed in results if has_failed]
            yield Summary("failed" if bad else "passed", (bad or [results[-1][0]])[0], planned)
            planned, results = -1, []


_TASKS_ENDED = compile_pattern(r"Finished in \d[\w. ]*$")
_TASK_ENDED = compile_pattern(r"\[[\w:./-]+\] Finished in \d")
"""What mise prints of each task, and of all; behind that stands a task that failed."""
_BEGUN_STEP = compile_pattern(r"❯ ([\w.-]+)(?:\s+\[[=> ]*\] \d+/\d+)?$")
_ENDED_STEP = compile_pattern(r"✔ ([\w.-]+)$")


def find_begun_steps(lines: Iterable[str]) -> dict[str, bool]:
    """Return the steps of a runner such as hk that prints `❯ step` and `✔ step`, and which of them passed."""
    steps: dict[str, bool] = {}
    for line in lines:
        if line[:1] not in ("❯", "✔"):
            continue
        if begun := _BEGUN_STEP.match(line):
            steps.setdefault(begun[1], False)
        elif (ended := _ENDED_STEP.match(line)) and ended[1] in steps:
            steps[ended[1]] = True
    return steps


def find_ended_steps(lines: Sequence[str]) -> str:
    """Return the line at which the last step passed, if that is the end and all steps have passed."""
    last = next((line for line in reversed(lines) if line.strip()), "")
    if _TASKS_ENDED.match(last) and any(map(_TASK_ENDED.match, lines)):
        return last
    is_end = _ENDED_STEP.match(last)
    steps = find_begun_steps(lines) if is_end else {}
    return last if steps and all(steps.values()) else ""


def prints_passed_tests(output: str) -> bool:
    """Return whether an output, of whatever program, sums up tests that passed."""
    lines = list_summaries(_ANY, output.split("\n"))
    return any(one.verdict == "passed" and one.tests for one in lines)


_OF_A_PACKAGE = compile_pattern(
    r"(?:ok|FAIL)\s+\S+\s+(?:\(cached\)|[\d.]+m?s)|[^:：;,]{1,30}[!！]\s*[-–:]"
)
_OF_OTHERS = compile_pattern(r"(?i)\b(?:checks?|hooks?|rules?|steps?|targets?|tasks?)\b")


def shows_tests(summary: Summary) -> bool:
    """Return whether a line that sums up, of whatever program, is surely that of tests."""
    if _OF_A_PACKAGE.match(summary.line):
        return True
    counted = summary.tests and _OF_TESTS.search(summary.line)
    return bool(counted and not _OF_OTHERS.search(summary.line))


def is_good_line(line: str) -> bool:
    """Return whether a line of an output sums up what went well."""
    return any(one.verdict == "passed" for one in list_summaries(_ANY, [line]))


_ANY = Runner("test", "", is_wrapper=True)
_PARTS = (
    (compile_pattern(r"Tests:?\s"), compile_pattern(r"Test (?:Suites|Files)\b.*")),  # jest, vitest
    (compile_pattern(r"(?:tests|pass) \d+$"), compile_pattern(r"fail \d+$")),  # node
    (compile_pattern(r"\d+ pass$"), compile_pattern(r"\d+ fail$")),  # bun
    (compile_pattern(r"PASS:\s"), compile_pattern(r"FAIL:\s")),  # Automake
    (
        compile_pattern(
            rf"\d+ passed \([\d.]+m?s\)$|[^:：;,]{{1,30}}?[!！]\s*[-–:]?\s*[^:：;,，、\d]{{2,28}}[:：]\s*\d|{TESTED_WELL}"
        ),
        None,
    ),  # playwright, dotnet
)
"""Lines that are a part of a summary, and the other part without which they do not tell what failed."""
_AT_END = compile_pattern(r"\d+ passing\b|test result: ok|ok\s+\S|(?:\[\S+\] )?Finished in \d")
"""Lines behind which stands what failed: of mocha, cargo, Go and mise."""
Part = Literal["", "end", "whole"]


def find_needed_part(line: str, rows: Iterable[str]) -> Part:
    """Return which part of an output must be there for a good line of it to prove that nothing failed."""
    for part, other in _PARTS:
        if part.match(line):
            is_there = other and any(other.match(clean_line(row)) for row in rows)
            return "" if is_there else "whole"
    return "end" if _AT_END.match(line) else ""


def is_other_part(line: str) -> bool:
    """Return whether a line sums up what another line of the same run sums up, too."""
    return any(other and other.match(line) for _, other in _PARTS)


_MARKS = {
    "test": compile_pattern(
        r"(?m)^[^\S\n]*(?:--- FAIL: |FAILED \S+(?:::| -)|ERROR \S+(?:::\S+)?(?: - |$)|not ok \d+(?!.*# (?:TODO|SKIP|todo|skip))|FAIL\s+\S+\.\w+|"
        r"test \S+ \.\.\. FAILED|(?:FAIL|ERROR): \w+ \(|[✕✗✖×] \S|E   \S)|<<< (?:FAILURE|ERROR)!"
    ),
    "lint": compile_pattern(
        r"(?m)^(?:vet: )?[\w./@+-]+\.[a-z]{1,4}:\d+(?::\d+)?: (?!warning|note|info|debug)\S|^error(?:\[E\d+\])?: |^[^\S\n]*\d+:\d+\s+error\s"
    ),
    "build": compile_pattern(
        r"(?m)^[\w./@+-]+\.[a-z]{1,4}:\d+:\d+: (?!warning|note|info)\S|^error(?:\[E\d+\])?: |\berror (?:TS|CS|MSB)\d+: "
    ),
}
"""Marks of something that failed, which count where nothing sums up."""


def find_marked_line(kind: CheckKind, output: str) -> str:
    """Return the first line that is marked as an error by what checks or compiles; empty for none."""
    match = _MARKS["test" if kind == "test" else "build"].search(output)
    if not match:
        return ""
    start, end = output.rfind("\n", 0, match.end()) + 1, output.find("\n", match.end())
    return output[start : len(output) if end < 0 else end].strip()[:240]


_WRAPPER_FAILED = compile_pattern(
    r"(?m)^(?:npm (?:ERR!|error) (?:Test failed|code ELIFECYCLE|Lifecycle script .* failed|command failed)|[^\S\n]*ELIFECYCLE\b.*|error Command failed with exit code \d+"
    r"|error: script \"\S+\" exited with code \d+|make(?:\[\d+\])?: \*\*\* \[.*\] Error \d+|make(?:\[\d+\])?: .*Error \d+ \(ignored\)|error: Recipe `.*` failed.*|task: Failed to run task .*|(?:\[\S+\] )?ERROR task failed)"
)
"""Marks that a wrapper's script failed."""


_COVERAGE = compile_pattern(
    r"(?m)^.*\b(?:[Cc]overage threshold .* not met|FAIL Required test coverage|Coverage failure: total|ERROR: Coverage for .* does not meet|below the expected minimum coverage|SimpleCov failed with exit|Coverage test failed, threshold not met|ESLint found too many warnings|error: \d+ targets? failed:).*|^[^\S\n]*[1-9]\d* did not run$"
)


def find_bad_end(output: str) -> str:
    """Return the line by which a wrapper or a rule of coverage says that a run failed; empty for none."""
    found = _WRAPPER_FAILED.search(output) or _COVERAGE.search(output)
    return found[0].strip() if found else ""


def has_failure_mark(runner: Runner, output: str) -> bool:
    """Return whether an output without a summary shows that something in it failed."""
    text = _ANSI.sub("", output) if "\x1b" in output else output
    is_wrapped = runner.is_wrapper and _WRAPPER_FAILED.search(text)
    return bool(is_wrapped or _MARKS[runner.kind].search(text))


# -- the tests that failed ----------------------------------------------------------------

MOST_FAILED = 50
_FAILED_TEST = compile_pattern(
    r"^(?:\[[\w:.-]{1,40}\])?[ \t]*(?:"
    r"--- FAIL: (?P<go>\S+)"
    r"|FAILED (?P<pytest>\S+::\S+)"
    r"|FAIL {1,2}(?P<suite>[\w./@+-]+\.[a-z]+(?: > [^\n]+?)?)"
    r"|(?:FAIL|ERROR): (?P<unittest>\w+) \("
    r"|test (?P<cargo>[\w:]+) \.\.\. FAILED"
    r"|● (?P<jest>[^\n]*? › [^\n]+?)"
    r"|not ok \d+ -? ?(?P<tap>[^\n#]+?)"
    r"|[✕✗✖×] (?P<marked>[^\n]+?)(?: \(?\d+ ?ms\)?)?"
    r")[ \t]*(?=$| - |\()",
    re.MULTILINE,
)
_NAME_HINTS = (
    "FAIL ", "--- FAIL: ", "FAILED", "FAIL: ", "ERROR: ", "● ", "not ok ", "✕ ", "✗ ", "✖ ", "× ",
)  # fmt: skip
MAX_NAME = 120


def list_failed_tests(output: str) -> tuple[str, ...]:
    """Return the names of the tests that failed, each once; a parent of a failed subtest is left out.

    Formats: go test, pytest, unittest, cargo test, jest, vitest, mocha, node --test, TAP.
    """
    if not any(hint in output for hint in _NAME_HINTS):
        return ()
    found = dict.fromkeys(
        (match[match.lastgroup or 0] or "").strip() for match in _FAILED_TEST.finditer(output)
    )
    names = [name for name in found if 2 < len(name) <= MAX_NAME]
    parents = {name.rpartition("/")[0] for name in names if "/" in name and "::" not in name}
    return tuple(name for name in names if name not in parents)[:MOST_FAILED]


_NAMED_FILE = compile_pattern(
    r"(?m)^[^\S\n]*(?:-->\s+|error: )?((?:[\w.@+-]*/)*[\w.@+-]+\.[a-z]{1,5})(?:[:(]\d+|$)"
)


def list_failed_files(output: str) -> tuple[str, ...]:
    """Return the files that a linter, a compiler or a build names with a line, or alone on one."""
    return tuple(dict.fromkeys(_NAMED_FILE.findall(output[:100_000])))[:MOST_FAILED]


_GO_FAILURE = compile_pattern(r"(?m)^\s{4,}(\w+_test\.go:\d+: \S.*)$")
_TELLS_SOMETHING = compile_pattern(r"[^\W\d_]{3}")
_FAILURES = compile_pattern(
    r"(?m)^(?:=+ (?:FAILURES|ERRORS) =+|failures:|---- \S.* stdout ----|FAIL {1,2}\S+\.\w+|(?:FAIL|ERROR): \w+ \(|\s*● .* › |\s*--- FAIL: )"
)
"""What stands before the reasons for which tests failed, behind what they logged."""
_PRINTS_TEXT = compile_pattern(
    r"(?:rg|e?grep|cat|sed|head|tail|nl|awk|git\s+(?:\S+\s+)*?(?:diff|show|log|grep))\b"
)


def find_reason(command: str, kind: CheckKind, output: str, line: str) -> str:
    """Return the line that says why a command failed; `line` is the one in which its check sums up."""
    is_test = kind == "test"
    failed = _GO_FAILURE.search(output) if is_test else None
    begin = _FAILURES.search(output) if is_test and line else None
    error = failed[1] if failed else find_error_line(output[begin.start() if begin else 0 :], line)
    parts = list_simple_commands(command)
    if kind in JUDGED and any(_PRINTS_TEXT.match(part.text) for part in parts if not part.is_piped):
        error = find_marked_line(kind, output) or line
    if not _TELLS_SOMETHING.search(error) or line.startswith("Diff in "):
        error = line
    return error
