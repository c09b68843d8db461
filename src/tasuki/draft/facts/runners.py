"""Runners of tests, linters and builds: the commands that run each, and the lines in which each sums up.

The table is the only place that names them. A wrapper (`npm test`, `make lint`, `tox`) may run any of
them. Lines that only count (`3 failed, 40 passed in 2s`, `Tests: 40 passed, 40 total`) are read by their
words, whatever printed them: a log line that speaks of an error has other words in it and counts
nothing.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from msgspec import Struct

from tasuki.patterns import compile_pattern

CheckKind = str
Verdict = Literal["passed", "failed", "nothing"]


class Runner(Struct, frozen=True):
    """One runner. The patterns match a whole line of its output that sums up; empty for none.

    `is_silent`: it prints nothing where it finds nothing. `shows_parts`: it prints a verdict for each
    part, so that a good one proves nothing where the end of the output is missing.
    """

    kind: CheckKind
    command: str
    passed: str = ""
    failed: str = ""
    is_wrapper: bool = False
    is_silent: bool = False
    shows_parts: bool = False


_JS = r"(?:npm|pnpm|yarn|bun)\s+(?:(?:--?(?:prefix|filter|workspace|cwd|dir|C|w|F)\s+\S+|-\S+|workspace\s+\S+)\s+)*"
_TASK = r"(?:make|mise|just|task|rake|composer|nx|turbo|lerna|rush)\s+(?:-\S+\s+)*(?:run\s+)?"
_FIRST = r"\A(?:(?:npx|bunx|(?:pnpm|yarn|bundle)\s+exec|(?:uv|poetry|hatch)\s+run|python[\d.]*\s+-m)\s+)?(?:\S*/)?"
"""What stands before a program whose name is an everyday word."""
RUNNERS = (
    Runner("commit", r"git\s+(?:-\S+\s+)*commit"),
    # Those whose names others contain come first.
    Runner("test", r"bun\s+(?:-\S+\s+)*test(?!\S)"),
    Runner("test", r"pytest|py\.test|hatch\s+(?:run\s+)?test"),
    Runner("test", r"tox", r"congratulations :\)", r"evaluation failed :\(", is_wrapper=True),
    Runner("test", r"nox", r"nox > Session \S+ was successful.*", r"nox > Session \S+ failed.*", is_wrapper=True),
    Runner("test", rf"unittest|manage\.py\s+test|nose2|{_FIRST}trial", r"OK(?: \(.*\))?", r"FAILED \(.*\)"),
    Runner("test", r"go\s+test|gotestsum", r"ok\s+\S+\s+(?:\(cached\)|[\d.]+m?s)(?!.*\[no tests to run\]).*|DONE \d+ tests?(?:, \d+ skipped)? in .*",
           r"FAIL|FAIL\s+\S+(?:\s+(?:[\d.]+m?s|\[(?:build|setup) failed\]))?|DONE .*\b[1-9]\d* (?:failures?|errors?)\b.*", shows_parts=True),
    Runner("test", r"cargo\s+(?:[+-]\S+\s+)*(?:test|t|nextest)", r"test result: ok\. (?!0 passed).*",
           r"test result: FAILED.*|error: test (?:run )?failed.*|error: could not compile .*", shows_parts=True),
    Runner("test", r"dotnet\s+test|vstest", r"\S+!\s+[-–] [^:,]+:\s+0, [^:,]+:\s+[1-9].*|Test Run Successful\.|Test summary: total: [1-9].*, failed: 0,.*",
           r"\S+!\s+[-–] [^:,]+:\s+[1-9].*|Test Run Failed\.|Test summary: .*, failed: [1-9].*|Build FAILED\.", shows_parts=True),
    Runner("test", r"mvnw?\s+(?:\S+\s+){0,8}?\S*(?:test|verify)", r"BUILD SUCCESS", r"BUILD FAILURE"),
    Runner("test", r"gradlew?\s+(?:\S+\s+){0,6}?(?!build)\S*(?:[Tt]est|check)\S*", r"BUILD SUCCESSFUL.*", r"BUILD FAILED.*"),
    Runner("test", r"ctest"),
    Runner("test", rf"phpunit|{_FIRST}pest|artisan\s+test", r"OK(?: \(.*\)|, but .*)", r"FAILURES!|ERRORS!"),
    Runner("test", r"rspec|rails\s+test|minitest|ruby\s+\S*test\S*\.rb"),
    Runner("test", rf"{_FIRST}prove", r"All tests successful\.|Result: PASS", r"Result: FAIL"),
    Runner("test", r"swift\s+test|xcodebuild\s+(?:.*\s)?test", r"TEST SUCCEEDED", r"TEST FAILED"),
    Runner("test", r"(?:flutter|dart)\s+test", r".*\bAll tests passed!", r".*\bSome tests failed\."),
    Runner("test", r"(?:sbt|mill)\s+\S*test\S*", r"All tests passed\.", r".*\bTests unsuccessful"),
    Runner("test", r"cypress\s+run", r".*\bAll specs passed!.*", r".*\b[1-9]\d* of \d+ failed\b.*"),
    Runner("test", rf"(?:zig(?:\s+build)?|dune|stack|cabal|lein|bazel(?:isk)?)\s+(?:run)?test|{_FIRST}(?:busted|behave|cucumber\S*|karma)",
           r"All \d+ tests passed.*|Test Successful in .*", r".*\bFAILED in .*"),
    Runner("test", rf"node\s+(?:-\S+\s+)*--test|(?:deno|mix)\s+test|Invoke-Pester|{_FIRST}(?:bats|jasmine|ava|uvu)"),
    Runner("test", r"vitest|jest|mocha|playwright\s+test|npx\s+playwright"),
    Runner("lint", r"ruff\s+format\s+(?:.*\s)?--(?:check|diff)|black\s+(?:.*\s)?--check|isort\s+(?:.*\s)?--check\S*", r"\d+ files? already formatted|All done!.*|\d+ files? would be left unchanged\.",
           r"\d+ files? would be reformatted.*|Oh no!.*|would reformat .*|Would reformat: .*|ERROR: .*incorrectly sorted.*"),
    Runner("lint", r"ruff(?!\s+format)", r"All checks passed!"),
    Runner("lint", rf"mypy|pyright|pyrefly|{_FIRST}ty\s+check", r"Success: no issues found.*|All checks passed!"),
    Runner("lint", r"prettier\s+(?:.*\s)?(?:-c|--check)", r"All matched files use Prettier code style!", r".*Code style issues (?:were )?found in .*"),
    Runner("lint", r"biome|oxlint", r"Checked \d+ files? in .*\. No fixes (?:applied|needed)\.", r"Found \d+ errors?.*"),
    Runner("lint", r"rubocop|standardrb", r".*\bno offenses detected", r".*\b[1-9]\d* offenses? detected.*"),
    Runner("lint", r"clippy|cargo\s+fmt\s+.*--check", r"Finished .*\btarget\(s\).*", r"error: could not compile .*|Diff in .*"),
    Runner("lint", r"phpstan|psalm", r"No errors(?: found!)?"),
    Runner("lint", r"terraform\s+validate", r"Success! The configuration is valid.*"),
    Runner("lint", r"pre-commit\s+run", r"\S.*\.{3,}(?:\(.*\))?Passed", r"\S.*\.{3,}Failed", shows_parts=True),
    Runner("lint", r"tsc|vue-tsc", "", r".*\berror TS\d+.*", is_silent=True),
    Runner("lint", r"golangci-lint|eslint|flake8|pyflakes|shellcheck|stylelint|go\s+vet|gofmt\s+-[ld]\S*|yamllint|markdownlint\S*|actionlint|hadolint", is_silent=True),
    Runner("build", r"go\s+build", is_silent=True),
    Runner("build", r"cargo\s+(?:build|check|b|c)", r"Finished .*\btarget\(s\).*", r"error: could not compile .*"),
    Runner("build", r"dotnet\s+(?:build|publish)", r"Build succeeded\.?.*", r"Build FAILED\.?.*|Build failed with .*"),
    Runner("build", r"mvnw?\s+(?:\S+\s+){0,8}?(?:package|compile|install)|gradlew?\s+(?:\S+\s+){0,6}?\S*(?:build|assemble)\S*", r"BUILD SUCCESS(?:FUL.*)?", r"BUILD FAIL(?:URE|ED.*)"),
    Runner("build", r"vite\s+build|webpack|next\s+build|rollup|esbuild|parcel\s+build|ng\s+build",
           r".*\b[Cc]ompiled successfully\b.*|(?:\W+)?(?:built|Built|Done) in .*",
           r"error during build:.*|Failed to compile\.?|Build failed\b.*|.*\bcompiled with [1-9]\d* errors?.*"),
    Runner("build", r"docker\s+(?:buildx\s+)?build|podman\s+build", r"(?:\d+ )?naming to .*done|Successfully (?:built|tagged) .*", r"ERROR: failed to .*"),
    Runner("build", r"cmake", r"Build files have been written to: .*|\[100%\] Built target .*", r"CMake Error.*|gmake.*\*\*\* .*"),
    Runner("build", r"swift\s+build|xcodebuild(?!\s+(?:.*\s)?test)", r"Build complete!.*|BUILD SUCCEEDED", r"BUILD FAILED|error: .*"),
    # Names that a project gives.
    Runner("test", rf"{_JS}(?:run\s+)?test\S*|{_JS}(?:run\s+)?\S+:test\S*|{_TASK}\S*test\S*|\S{{0,200}}/tests?\S{{0,200}}\.sh|(?:scripts|bin|script)/tests?|run_tests?", is_wrapper=True),
    Runner("lint", rf"{_JS}run\s+(?:-\S+\s+)*(?:check|lint|typecheck|type-check|types)\S*|(?:pnpm|yarn)\s+(?:-\S+\s+)*(?:check|lint|typecheck|type-check)\S*|"
                   rf"{_TASK}\S*(?:lint|check|typecheck)\S*|(?:scripts|bin|script)/(?:check|lint)", is_wrapper=True),
    Runner("build", rf"{_JS}run\s+(?:-\S+\s+)*build\S*|(?:pnpm|yarn)\s+build|make(?:\s+(?:-\S+\s+)*(?:all|build))?$|(?:mise|just|task|composer|nx|turbo)\s+(?:run\s+)?build\S*", is_wrapper=True),
)  # fmt: skip
"""All runners; the first whose command is in a simple command is the one that it runs."""
JUDGED = ("test", "lint", "build")
"""Kinds that have an outcome, by what is more important."""

_COMMAND = compile_pattern(
    r"(?<![\w.-])(?:"
    + "|".join(f"(?P<r{number}>{one.command})" for number, one in enumerate(RUNNERS))
    + r")(?![\w/-]|\.(?!(?:exe|cmd|bat|js|sh)\b)\w)"
)


def find_runner(command: str) -> Runner | None:
    """Return the runner that stands first in a simple command, None for another program."""
    match = _COMMAND.search(command)
    return RUNNERS[int((match.lastgroup or "r0")[1:])] if match else None


# -- lines that sum up ------------------------------------------------------------------


class Summary(NamedTuple):
    """A line that sums up a run, and the greatest number of tests in it."""

    verdict: Verdict
    line: str
    tests: int = 0


_ANSI = compile_pattern(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_PREFIX = compile_pattern(
    r"^(?:[\s=#*ℹ│|>❯✔✓✖✘×✗⎯─-]|\[[A-Za-z][\w:./-]{0,40}\] ?|[\w@./-]{1,40}:(?:test|lint|build|check|typecheck)[\w:-]{0,40}: |[\w.-]{1,40} +\| )+|[\s=*│⎯─-]+$"
)
"""Decoration, levels of a log, and the name of the task that a runner of tasks puts before each line."""
_MAY_SUM_UP = compile_pattern(
    r"(?i)pass|fail|\bok\b|succe|err|issue|problem|violation|offense|finding|fehler|no\w* |ran 0|congrat|built|done|all |unchanged|formatted|reformat"
    r"|diff in|compile|deselect|up to date|finished|nam(?:ing|ed)|tagged|!\s+[-\u2013]|files have been"
)
_NO_WORK = compile_pattern(r"make(?:\[\d+\])?: (?:Nothing to be done for .*|.* is up to date\.)$")
_NOTHING = compile_pattern(
    r"(?i)^(?:no tests? (?:ran|found|were|executed|matche?[sd]?|to run|files? found|is available)\b.*|no test (?:files?|cases?|suites?) .*|"
    r"testing: warning: no tests to run|ok\s+\S+\s.*\[no tests to run\]|\?\s+\S+\s+\[no test files\]|ran 0 tests\b.*|collected 0 items.*|"
    r"\d+ deselected in .*|test result: ok\. 0 passed; 0 failed;.*|"
    r"no matching (?:tests|projects)\b.*|error: no test files found\b.*)$"
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
    "notrun deprecated deprecations inconclusive aborted locally did not erro erreur fehler errores".split()
)
"""Words of a line that sums up. One with another word is something else."""
_TEST_BAD = r"fail(?:ed|s|ing|ures?)?|errors?|errored|broken|issues?"
_LINT_BAD = r"errors?|problems?|issues?|violations?|offenses?|findings?|Error\(s\)|Erro\(s\)|Erreur\(s\)|Fehler|Errores"
_GOOD = r"pass(?:ed|es|ing)?|ok|succe(?:ss(?:es|ful)?|eded)"
_NOUN = r"(?:(?:tests?|test files?|test cases?|test suites?|suites?|specs?|examples?|steps?|scenarios?|features?|subtests?)\s+)?(?:are\s+|were\s+|have\s+)?"


class _Counts(NamedTuple):
    bad: re.Pattern[str]
    good: re.Pattern[str]


def _build_counts(words: str) -> re.Pattern[str]:
    return compile_pattern(
        rf"(?i)(?<![\d.])(\d[\d,]*)\s+{_NOUN}(?:{words})(?!\s*[:=]\s*\d|\w)|(?<![a-z])(?:{words})(?:\s+tests?)?\s*[:=]\s*(\d+)"
        rf"|(?<![a-z])(?:{words})\s+(\d+)(?=\s*(?:[,|\])]|$))"
    )


_COUNTS = {
    "test": _Counts(_build_counts(_TEST_BAD), _build_counts(_GOOD)),
    "lint": _Counts(_build_counts(_LINT_BAD), _build_counts(_GOOD)),
}
_ERRORS = _build_counts(r"errors?|Error\(s\)|Erro\(s\)|Erreur\(s\)|Fehler|Errores")
_NUMBER = compile_pattern(r"(?<![\d.])\d[\d,]*(?![\d.]*\s*(?:%|m?s\b|sec|min))(?!\.\d)")
_RUN_COUNT = compile_pattern(
    r"(?i)(?<![\d.])(\d[\d,]*)\s+(?:doc)?(?:tests?|examples?|runs|specs?|scenarios?|assertions)\b|\btests?(?: run)?:\s*(\d+)|out of (\d+)"
)


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


def _read_counts(kind: CheckKind, text: str, *, is_alone: bool) -> Summary | None:
    """Read a line that only counts; None for any other.

    Where checks of several kinds ran, what counts tests is of the tests alone.
    """
    if len(text) > 300 or not _DIGIT.search(text):
        return None
    if not is_alone and bool(_OF_TESTS.search(text)) != (kind == "test"):
        return None
    if not all(word.lower() in _KNOWN for word in _WORD.findall(text)):
        return None
    counts = _COUNTS["test" if kind == "test" else "lint"]
    bad, good = _add_up(counts.bad, text), _add_up(counts.good, text)
    if kind != "test" and (errors := _add_up(_ERRORS, text)) is not None:
        bad = errors  # `2 problems (0 errors, 2 warnings)`
    if bad:
        return Summary("failed", text, bad)
    if good:
        return Summary("passed", text, good)
    if bad is None:
        return Summary("nothing", text) if good == 0 and kind == "test" else None
    ran = _add_up(_RUN_COUNT, text)
    if kind != "test":
        return Summary("passed", text)
    return (
        None if ran is None else Summary("passed", text, ran) if ran else Summary("nothing", text)
    )


def clean_line(line: str) -> str:
    """Return a line of output without colours and without what decorates it."""
    return _PREFIX.sub("", _ANSI.sub("", line) if "\x1b" in line else line)


def _join_patterns(kind: CheckKind, wanted: Verdict) -> dict[str, re.Pattern[str]]:
    """Build for each runner of a kind the pattern of a verdict; that of a wrapper has all of them."""
    own = {one.command: getattr(one, wanted) for one in RUNNERS if one.kind == kind}
    every = "|".join(filter(None, own.values()))
    wrappers = {one.command for one in RUNNERS if one.is_wrapper}
    texts = {name: every if name in wrappers else text for name, text in own.items()}
    return {name: compile_pattern(rf"^(?:{text})$") for name, text in texts.items() if text}


_PASSED = {kind: _join_patterns(kind, "passed") for kind in JUDGED}
_FAILED = {kind: _join_patterns(kind, "failed") for kind in JUDGED}


def list_summaries(
    runner: Runner, lines: Iterable[str], *, is_alone: bool = True
) -> Iterator[Summary]:
    """Yield the lines of an output in which a runner sums up, in their order.

    `is_alone`: nothing of another kind wrote into this output.
    """
    failed, passed = (by[runner.kind].get(runner.command) for by in (_FAILED, _PASSED))
    for raw in lines:
        if len(raw) > 1_000 or not _MAY_SUM_UP.search(raw):
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


_MARKS = {
    "test": compile_pattern(
        r"(?m)^\s*(?:--- FAIL: |FAILED \S+(?:::| -)|ERROR \S+(?:::\S+)?(?: - |$)|not ok \d+(?!.*# (?:TODO|SKIP|todo|skip))|FAIL\s+\S+\.\w+|"
        r"test \S+ \.\.\. FAILED|(?:FAIL|ERROR): \w+ \(|[✕✗✖×] \S|E   \S)|<<< (?:FAILURE|ERROR)!"
    ),
    "lint": compile_pattern(
        r"(?m)^(?:vet: )?[\w./@+-]+\.[a-z]{1,4}:\d+(?::\d+)?: (?!warning|note|info|debug)\S|^error(?:\[E\d+\])?: |^\s*\d+:\d+\s+error\s"
    ),
    "build": compile_pattern(
        r"(?m)^[\w./@+-]+\.[a-z]{1,4}:\d+:\d+: (?!warning|note|info)\S|^error(?:\[E\d+\])?: |\berror (?:TS|CS|MSB)\d+: "
    ),
}
"""Marks of something that failed, which count where nothing sums up."""
_WRAPPER_FAILED = compile_pattern(
    r"(?m)^(?:npm (?:ERR!|error) (?:Test failed|code ELIFECYCLE|Lifecycle script .* failed|command failed)|\s*ELIFECYCLE\b.*|error Command failed with exit code \d+"
    r"|error: script \"\S+\" exited with code \d+|make(?:\[\d+\])?: \*\*\* \[.*\] Error \d+|error: Recipe `.*` failed.*|task: Failed to run task .*|(?:\[\S+\] )?ERROR task failed)"
)
"""Marks that a wrapper's script failed."""


def has_failure_mark(runner: Runner, output: str) -> bool:
    """Return whether an output without a summary shows that something in it failed."""
    text = _ANSI.sub("", output) if "\x1b" in output else output
    is_wrapped = runner.is_wrapper and _WRAPPER_FAILED.search(text)
    return bool(is_wrapped or _MARKS[runner.kind].search(text))


# -- the tests that failed ----------------------------------------------------------------

MOST_FAILED = 50
_FAILED_TEST = compile_pattern(
    r"^[ \t]*(?:"
    r"--- FAIL: (?P<go>\S+)"
    r"|FAILED (?P<pytest>\S+::\S+)"
    r"|(?:FAIL|ERROR): (?P<unittest>\w+) \("
    r"|test (?P<cargo>[\w:]+) \.\.\. FAILED"
    r"|● (?P<jest>[^\n]*? › [^\n]+?)"
    r"|not ok \d+ -? ?(?P<tap>[^\n#]+?)"
    r"|[✕✗✖×] (?P<marked>[^\n]+?)(?: \(?\d+ ?ms\)?)?"
    r")[ \t]*(?=$| - |\()",
    re.MULTILINE,
)
_NAME_HINTS = ("--- FAIL: ", "FAILED", "FAIL: ", "ERROR: ", "● ", "not ok ", "✕ ", "✗ ", "✖ ", "× ")
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
