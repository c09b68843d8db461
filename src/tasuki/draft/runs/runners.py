"""Runners of tests, linters and builds: the commands that run each, and the lines in which each sums up.

The table is the only place that names them. A wrapper (`npm test`, `make lint`, `tox`) may run any of
them.
"""

from msgspec import Struct

from tasuki.patterns import compile_pattern

CheckKind = str


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
    Runner("test", r"gradlew?\s+(?:-x\s+\S+\s+|(?!-x)\S+\s+){0,6}?(?!build|-x)\S*(?:[Tt]est|check)\S*", r"BUILD SUCCESSFUL.*", r"BUILD FAILED.*"),
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
