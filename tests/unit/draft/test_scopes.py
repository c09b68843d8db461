"""Which later run makes up for a check that failed, and what is said of the others."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tasuki.draft.facts.derive import derive_facts
from tasuki.draft.facts.state import list_state_items
from tasuki.draft.runs.scopes import is_whole_suite, list_scopes, may_cover
from tasuki.harness.claude.adapter import Claude
from tasuki_testing import ThreadBuilder

CWD = "/home/dev/proj"
PYTEST = ("tests/test_cart.py::test_round",)
JEST = ("cart › rounds up",)
RUST = ("cart::rounds",)
GO = ("TestRound",)
FAILED = "1 failed, 3 passed in 0.1s\nFAILED tests/test_cart.py::test_round - assert 1 == 2\n"


@pytest.mark.parametrize(
    ("failed", "later", "tests"),
    [
        ("pytest -q", ".venv/bin/pytest -q", PYTEST),
        (".venv/bin/python -m pytest tests/test_cart.py -q", ".venv/bin/python -m pytest -q", PYTEST),
        ("pytest tests/test_cart.py -q", "pytest -q > /tmp/o.log 2>&1; tail -1 /tmp/o.log", PYTEST),
        ("pytest src/cart/test_round.py -q", "make test", PYTEST),
        ("pytest tests/test_cart.py -q", "./scripts/test.sh", PYTEST),
        ("npx jest src/cart.test.ts", "npm test", JEST),
        ("npm test -- src/cart.test.ts", "npm test", JEST),
        ("npx vitest run src/cart.test.ts", "pnpm --filter web test", JEST),
        ("bun test src/cart.test.ts", "bun test", JEST),
        ("cargo test cart::rounds", "cargo test", RUST),
        ("cargo test -p shop cart::rounds", "cargo test --workspace", RUST),
        ("cargo test -p shop", "cargo test -p shop", RUST),
        ("cargo test", "cargo test cart", RUST),
        ("go test ./cart -run TestRound", "go test ./...", GO),
        ("cd cart && go test .", "go test ./...", GO),
        ("./gradlew test --tests CartTest", "./gradlew test", ()),
        ("pytest -q tests/test_cart.py", "pytest -q tests/test_cart.py tests/test_b.py", PYTEST),
        ("pytest -q -k round", "pytest -q tests", PYTEST),
        ("pytest -q /home/dev/proj/tests/test_cart.py", "pytest -q tests", PYTEST),
        ("pytest -q ./tests/test_cart.py", "pytest -q tests", PYTEST),
        ("cd backend && pytest -q tests/test_cart.py", "pytest -q backend/tests", PYTEST),
        ("cd backend && pytest -q tests/test_cart.py", "cd backend && pytest -q", PYTEST),
        ("docker compose exec app pytest tests/test_cart.py", "docker compose exec app pytest", PYTEST),
        ("pytest -q", "pytest -q tests/test_cart.py", PYTEST),
        ("pytest -q", "pytest -q tests/test_cart.py::test_round", PYTEST),
        ("pytest -q", "pytest -q -k round", PYTEST),
        ('pytest -q', "pytest -q -k 'not slow'", PYTEST),
        ("cd web && npm test", "npm test", JEST),
        ("npm test -w web", "npm test -w web", JEST),
        ("mypy .", "npm run lint", ()),
        ("npm run check", "npm run check", ("../other/src/main.ts",)),
        ("ruff check .", "ruff check src tests", ()),
        ("ruff check src", "ruff check .", ()),
        ("npm run test:unit", "npm test", JEST),
        ("npm run test:unit", "npm run test:unit", JEST),
        ("npx vitest", "npm run test:unit", JEST),
        ("python manage.py test shop.tests.CartTest", "python manage.py test", ()),
        ("python -m unittest", "pytest", ()),
        ("npx jest", "npx jest src/cart.test.ts", JEST),
        ("npx tsc --noEmit", "npx tsc --noEmit -p .", ()),
        ("mvn test", "mvn clean verify", ()),
        ("mvn -Dtest=CartTest test", "mvn test", ("CartTest",)),
        ("pytest --tb short -q tests/test_cart.py", "pytest --tb short -q", PYTEST),
        ("pytest --cov src/app -n 4", "pytest --cov src/app -n 4", PYTEST),
        ("make test", "make -C . test", JEST),
        ("dotnet test tests/Shop.Tests", "dotnet test", ()),
        ("dotnet test", "dotnet test --no-build", ()),
        ("eslint .", "npx eslint .", ()),
        ("npx eslint src/a.ts", "npx eslint src --fix", ()),
        ("bundle exec rspec spec/cart_spec.rb:12", "bundle exec rspec", ()),
    ],
)  # fmt: skip
def test_a_later_run_may_have_looked_at_all_that_failed(
    failed: str, later: str, tests: tuple[str, ...]
) -> None:
    """It names no part, or one that holds what failed; another path to the same program is the same tool."""
    (scope,) = list_scopes(failed, CWD)

    assert may_cover(list_scopes(later, CWD), scope, tests)


@pytest.mark.parametrize(
    ("failed", "later", "tests"),
    [
        ("cargo test -p shop", "cargo test -p other", RUST),
        ("cargo test", "cargo test -p other", RUST),
        ("go test ./...", "go test ./other", GO),
        ("go test ./...", "go test ./... -run TestFoo", GO),
        ("pytest -q", "pytest -q tests/test_other.py", PYTEST),
        ("pytest -q", "pytest -q tests/test_cart.py::test_other", PYTEST),
        ("pytest -q", "pytest -q -k other", PYTEST),
        ("cd ../lib && pytest -q", "pytest -q", PYTEST),
        ("pytest -q", "cd ../lib && pytest -q", PYTEST),
        ("cd web && npm test", "cd api && npm test", JEST),
        ("npm test", "cd web && npm test", JEST),
        ("npm test --prefix web", "npm test --prefix api", JEST),
        ("npm test -w web", "npm test -w api", JEST),
        ("mypy .", "ruff check .", ()),
        ("ruff format --check .", "ruff check .", ()),
        ("npm run test:unit", "npm run test:e2e", JEST),
        ("npm test", "npm run test:e2e", JEST),
        ("npx jest", "npx playwright test", JEST),
        ("npx jest", "npx jest src/other.test.ts", JEST),
        ("mvn test", "mvn -Dtest=OtherTest test", ()),
        ("dotnet test", "dotnet test --filter Foo", ("Shop.CartTest.Rounds",)),
        ("npx eslint src", "npx eslint src/b.ts", ()),
        ("pytest -q", "pytest -q --deselect tests/test_cart.py::test_round", PYTEST),
        ("pytest -q", "pytest -q -k 'not test_round'", PYTEST),
        ("pytest -q", "pytest -q --ignore=tests/test_cart.py", PYTEST),
        ("go test ./...", "go test -skip TestRound ./...", GO),
        ("cargo test", "cargo test -- --skip cart::rounds", RUST),
        ("ruff check .", "ruff check tests", ("src/a.py",)),
        ("cargo build --release", "cargo build", ()),
        ("gradle :web:test", "gradle :api:test", ()),
    ],
)  # fmt: skip
def test_a_later_run_cannot_have_looked_at_all_that_failed(
    failed: str, later: str, tests: tuple[str, ...]
) -> None:
    """It ran elsewhere, with another tool, or looked at another part."""
    (scope,) = list_scopes(failed, CWD)

    assert not may_cover(list_scopes(later, CWD), scope, tests)


@pytest.mark.parametrize(
    ("failed", "later", "surely"),
    [
        ("pytest -q", "pytest -q", True), ("pytest -q tests/test_cart.py", "pytest -q", True), ("pytest -q", "pytest -q -m 'not slow'", False),
        ("pytest -q", "make test", False), ("npx jest", "npx jest --onlyChanged", False), ("go test ./...", "go test -short ./...", False),
        ("ruff check .", "ruff check . --select E", False), ("npm run test:e2e", "npm test", False), ("docker exec a pytest", "pytest", False),
    ],
)  # fmt: skip
def test_some_runs_have_surely_looked_at_all(failed: str, later: str, surely: bool) -> None:
    """Only those contradict a claim that something fails: another tool or an option may leave it out."""
    (scope,) = list_scopes(failed, CWD)

    assert may_cover(list_scopes(later, CWD), scope, PYTEST if "pytest" in failed else ())
    assert may_cover(list_scopes(later, CWD), scope, (), surely=True) == surely


def read_state(path: Path) -> list[str]:
    """The lines of the state that speak of runs."""
    thread = Claude().read(path)
    items = list_state_items(thread, derive_facts(thread).facts)
    return [
        f"{item.label}: {item.text}"
        for item in items
        if item.label[:5] in ("Tests", "Faile", "Lint ", "Last ")
    ]


@pytest.mark.parametrize(
    ("build", "lines"),
    [
        (
            lambda of: of.shell("pytest -q", FAILED, 1).shell("pytest -q tests/test_b.py", "4 passed in 1s"),
            [
                "Tests: `pytest -q tests/test_b.py` passed: `4 passed in 1s`; nothing edited since",
                "Last run of the whole suite: `pytest -q` FAILED: `1 failed, 3 passed in 0.1s`; failing: `tests/test_cart.py::test_round`; nothing edited since",
            ],
        ),
        (
            lambda of: of.shell("mypy src", "Found 3 errors in 1 file", 1).shell("ruff check .", "All checks passed!"),
            [
                "Lint or type check: `ruff check .` passed: `All checks passed!`; nothing edited since",
                "Failed, and did not pass since: `mypy src`: `Found 3 errors in 1 file`",
            ],
        ),
        (
            lambda of: of.shell("cd frontend && npm test", "Tests: 1 failed, 3 passed, 4 total", 1).shell("cd backend && npm test", "Tests: 9 passed, 9 total"),
            [
                "Tests: `cd backend && npm test` passed: `Tests: 9 passed, 9 total`; nothing edited since",
                "Failed, and did not pass since: `cd frontend && npm test`: `Tests: 1 failed, 3 passed, 4 total`",
            ],
        ),
        (
            lambda of: of.shell("pytest -q", FAILED, 1).shell("git checkout main", "ok").shell("pytest -q", "42 passed in 1s").shell("git checkout feat", "ok"),
            ["Tests: `pytest -q` FAILED: `1 failed, 3 passed in 0.1s`; failing: `tests/test_cart.py::test_round`; `git checkout feat` ran since"],
        ),
        (
            lambda of: of.shell("cargo fmt --check && cargo test -p reg", "test types::tests::all ... FAILED\ntest result: FAILED. 113 passed; 1 failed; 0 ignored", 101).shell("cargo test --all-features -p reg template::tests", "test result: ok. 3 passed; 0 failed; 0 ignored"),
            [
                "Tests: `cargo test --all-features -p reg template::tests` passed: `test result: ok. 3 passed; 0 failed; 0 ignored`; nothing edited since",
                "Lint or type check: `cargo fmt --check` passed; nothing edited since",
                "Failed, and did not pass since: `cargo fmt --check && cargo test -p reg`: `test types::tests::all ... FAILED`",
            ],
        ),
        (
            lambda of: of.shell("pytest -q tests/test_cart.py", FAILED, 1).shell("pytest -q", "42 passed in 1s"),
            ["Tests: `pytest -q` passed: `42 passed in 1s`; nothing edited since"],
        ),
        (
            lambda of: of.shell("pytest -q", FAILED, 1).shell("./check-everything", "42 passed in 1s"),
            ["Tests: `pytest -q` FAILED: `1 failed, 3 passed in 0.1s`; failing: `tests/test_cart.py::test_round`"],
        ),
        (
            lambda of: of.shell("pytest -q", "42 passed in 1s").shell("git stash && pytest -q; git stash pop", FAILED, 1),
            ["Tests: `pytest -q` passed: `42 passed in 1s`; `git stash pop` ran since"],
        ),
        (
            lambda of: of.shell("pytest -q", "42 passed in 1s").shell("git stash", "Saved").shell("pytest -q", FAILED, 1).shell("git stash pop", "ok"),
            ["Tests: `pytest -q` passed: `42 passed in 1s`; `git stash pop` ran since"],
        ),
        (
            lambda of: of.shell("git checkout main", "ok").shell("pytest -q", FAILED, 1).shell("git -C lib checkout 1807c8b", "ok"),
            ["Tests: `pytest -q` FAILED: `1 failed, 3 passed in 0.1s`; failing: `tests/test_cart.py::test_round`; `git -C lib checkout 1807c8b` ran since"],
        ),
        (
            lambda of: of.shell("git stash", "Saved").shell("pytest -q", "42 passed in 1s").shell("git stash drop", "Dropped"),
            ["Tests: `pytest -q` passed: `42 passed in 1s`; nothing edited since"],
        ),
        (
            lambda of: of.shell("git stash", "Saved").shell("pytest -q", FAILED, 1),
            ["Tests: `pytest -q` (without the stashed changes) FAILED: `1 failed, 3 passed in 0.1s`; failing: `tests/test_cart.py::test_round`; nothing edited since"],
        ),
    ],
)  # fmt: skip
def test_the_state_tells_of_open_failures(
    build: Callable[[ThreadBuilder], ThreadBuilder], lines: list[str], tmp_path: Path
) -> None:
    """A run that looked at something else hides none; one on files that were put back counts for nothing."""
    path = build(ThreadBuilder("claude").user("Fix the rounding")).write(tmp_path)

    assert read_state(path) == lines


@pytest.mark.parametrize(
    "lines",
    [
        ["git -C /home/dev/proj stash -q && pytest -q; git -C /home/dev/proj stash pop -q"], ["git --no-pager stash push -- a.py", "pytest -q", "git --no-pager stash pop"], ["git stash push -q -- a.py && pytest -q | tail -3; git stash pop -q"],
        ["git checkout main -- . && pytest -q; git checkout HEAD -- ."], ["git checkout HEAD~1 -- src && pytest -q; git checkout HEAD -- src"], ["git checkout -q HEAD~1 && pytest -q; git checkout -q -"],
        ["git diff > /tmp/p && git checkout -- . && pytest -q; git apply /tmp/p"], ["git apply -R /tmp/p", "pytest -q", "git apply /tmp/p"], ["git worktree add ../base main && cd ../base && pytest -q"],
        ["git worktree add --detach .wt HEAD~2", "cd .wt && pytest -q", "git worktree remove .wt"], ["git stash -q", "EDIT /tmp/probe.py", "pytest -q", "git stash pop -q"],
    ],
)  # fmt: skip
def test_a_run_on_a_baseline_is_not_the_newest_run(lines: list[str], tmp_path: Path) -> None:
    """However the changes were put aside: the newest run is one of the code that is there."""
    builder = ThreadBuilder("claude").user("go").shell("pytest -q", "42 passed in 1s")
    for line in lines:
        name, _, path = line.partition(" ")
        output = (FAILED, 1) if "pytest" in line else ("", 0)
        builder = builder.edit(path, "1", "2") if name == "EDIT" else builder.shell(line, *output)
    (told,) = (one for one in read_state(builder.write(tmp_path)) if one.startswith("Tests"))

    assert told.startswith("Tests: `pytest -q` passed: `42 passed in 1s`")


FEAT = ("git switch feat", "Switched to branch 'feat'")
ON_FEAT = ("git status", "On branch feat")
MAIN = ("git switch main", "Switched to branch 'main'")


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ([ON_FEAT], [MAIN], " (on `feat`)"),
        ([ON_FEAT], [MAIN, FEAT], ""),
        ([ON_FEAT], [("git switch -c fix", "Switched to a new branch 'fix'")], ""),
        ([ON_FEAT], [("git branch -m fix", "")], ""),
        (
            [ON_FEAT],
            [("git checkout -b fix main", "Switched to a new branch 'fix'")],
            " (on `feat`)",
        ),
        (
            [ON_FEAT],
            [MAIN, ("git switch -c fix", "Switched to a new branch 'fix'")],
            " (on `feat`)",
        ),
        ([ON_FEAT], [("git status", "On branch main")], " (on `feat`)"),
        ([ON_FEAT], [("git -C /home/dev/other switch main", "Switched to branch 'main'")], ""),
        ([ON_FEAT], [("git status", "On branch fix")], ""),
        ([], [("git status", "On branch main")], ""),
    ],
)
def test_a_run_on_another_branch_names_it(
    before: list[tuple[str, str]], after: list[tuple[str, str]], told: str, tmp_path: Path
) -> None:
    """A new branch made from there is no other state; nothing is said where nobody knows the branch."""
    builder = ThreadBuilder("claude").user("go")
    for command in (*before, ("pytest -q", "42 passed in 1s"), *after):
        builder = builder.shell(*command)
    (line,) = (one for one in read_state(builder.write(tmp_path)) if one.startswith("Tests"))

    assert line.startswith(f"Tests: `pytest -q`{told} passed")


CHECKED = (
    "[test:ci] $ go test -race ./...\n[lint] $ golangci-lint run\n[lint] 0 issues.\n[test:ci] ok  \tp/a\t8.552s\n"
    "[test:ci] ok  \tp/b\t(cached)\n[test:ci] Finished in 9.29s\nFinished in 9.34s"
)
CHECK_FAILED = (
    "[test:ci] $ go test ./...\n[test:ci] --- FAIL: TestCart (0.1s)\n[test:ci] FAIL\tp/a\t1.2s\n"
    "[test:ci] ERROR task failed"
)
PNPM_CHECK = "> p@1.0.0 check\n> pnpm lint && pnpm test\n\n> vitest run\n\n Tests  12 passed (12)\n Duration  1.2s"


@pytest.mark.parametrize(
    ("build", "lines"),
    [
        (  # A task of several tasks ran the tests, too.
            lambda of: of.shell("go test -run TestA ./...", "ok  \tp/a\t0.5s").shell("mise run check", CHECKED),
            ["Tests: `mise run check` passed, ok in 2 packages", "Lint or type check: `mise run check` passed: `0 issues.`"],
        ),
        (  # The last line of mise is there only if no task failed.
            lambda of: of.shell("go test -run TestA ./...", "ok  \tp/a\t0.5s").shell("mise run check 2>&1 | tail -2", CHECKED[-60:]),
            ["Tests: `mise run check` passed: `[test:ci] Finished in 9.29s`", "Lint or type check: `mise run check` passed: `Finished in 9.34s`"],
        ),
        (
            lambda of: of.shell("mise run check", CHECK_FAILED, 1),
            ["Tests: `mise run check` FAILED: `[test:ci] --- FAIL: TestCart (0.1s)`"],
        ),
        (
            lambda of: of.shell("npx vitest run -t cart", " Tests  1 passed (1)").shell("pnpm run check", PNPM_CHECK),
            ["Tests and Lint or type check: `pnpm run check` passed: `Tests 12 passed (12)`"],
        ),
        (  # Nobody knows what it ran.
            lambda of: of.shell("pytest -k cart", "1 passed in 1s").shell("just ci", "all good"),
            ["Tests: `pytest -k cart` passed: `1 passed in 1s`"],
        ),
        (
            lambda of: of.shell("pytest -k cart", "1 passed in 1s").agent("Run all tests"),
            ["Tests: `pytest -k cart` passed: `1 passed in 1s`; sub-agents ran since"],
        ),
        (
            lambda of: of.shell("pytest -k cart", "1 passed in 1s").shell("pytest | wc -l", "9"),
            ["Tests: `pytest` was run last; tasuki cannot tell how it ended. Earlier, `pytest -k cart` passed: `1 passed in 1s`"],
        ),
        (
            lambda of: of.shell("pytest", "9 passed in 1s").shell("make verify", "ok").shell("pytest -k cart", "1 passed in 1s"),
            ["Tests: `pytest -k cart` passed: `1 passed in 1s`"],
        ),
        (
            lambda of: of.shell("pytest", "9 passed in 1s").edit("a.py", "1", "2").shell("pytest -k cart", "1 passed in 1s"),
            ["Tests: `pytest -k cart` passed: `1 passed in 1s`", "Last run of the whole suite: `pytest` passed: `9 passed in 1s`; edited since: `a.py`"],
        ),
        (
            lambda of: of.shell("pytest -k cart", "1 passed in 1s").shell("npm run lint", "ok"),
            ["Lint or type check: `npm run lint` passed", "Tests: `pytest -k cart` passed: `1 passed in 1s`", "Not verified: only selected tests were run in this thread, never the whole suite"],
        ),
        (  # What failed may have passed since.
            lambda of: of.shell("pytest", FAILED, 1).edit("a.py", "1", "2").shell("pytest | wc -l", "9"),
            ["Tests: `pytest` was run; tasuki cannot tell how it ended"],
        ),
        (
            lambda of: of.shell("make deploy", "make: *** [deploy] Error 1", 1).shell("make deploy | tail -1", "done"),
            [],
        ),
        (  # Only what the newer run did not look at is open.
            lambda of: of.shell("pytest tests/a", FAILED, 1).shell("pytest tests/b | wc -l", "9"),
            ["Tests: `pytest tests/b` was run last; tasuki cannot tell how it ended. Earlier, `pytest tests/a` FAILED: `1 failed, 3 passed in 0.1s`; failing: `tests/test_cart.py::test_round`"],
        ),
        (  # It may have passed, the rest of the suite did not.
            lambda of: of.shell("cd api && pytest", FAILED, 1).shell("cd api && pytest tests/test_cart.py | wc -l", "9"),
            ["Tests: `cd api && pytest tests/test_cart.py` was run last; tasuki cannot tell how it ended. Earlier, `cd api && pytest` FAILED: `1 failed, 3 passed in 0.1s`; failing: `tests/test_cart.py::test_round`"],
        ),
    ],
)  # fmt: skip
def test_the_state_tells_which_tests_were_run(
    build: Callable[[ThreadBuilder], ThreadBuilder], lines: list[str], tmp_path: Path
) -> None:
    """By what a task printed, and not at all where nobody knows what it ran."""
    thread = Claude().read(build(ThreadBuilder("claude").user("Fix the rounding")).write(tmp_path))
    items = list_state_items(thread, derive_facts(thread).facts)
    told = [
        f"{item.label}: {item.text}"
        for item in items
        if not item.label.startswith(("Branch", "Not committed yet"))
    ]

    assert [line.replace("; nothing edited since", "") for line in told] == lines


@pytest.mark.parametrize(
    ("command", "is_whole"),
    [
        ("go test -race -count=1 ./...", True), ("go test -race -count=1 ./internal/sem", False), ("go test", False), ("go test -json ./a", False),
        ("dotnet test", True), ("dotnet test A.sln -c Release", True), ("dotnet test A.Tests.csproj", False), ("cargo nextest run", True), ("cargo test -p x", False), ("cargo +1.96.0 test", True),
        ("pytest -q tests/", True), ("npx jest -- cart", False), ("mise exec node@20 -- npm test", True), ("pytest tests/unit", False), ("mvn clean verify", True), ("mvn -pl x test", False), ("gradle :app:test", False),
        ("npm test", True), ("npm test -w x", False), ("npm test -- cart", False), ("mise run test:ci", True), ("make test T=x", False), ("bun test cart", False),
    ],
)  # fmt: skip
def test_a_package_is_not_the_whole_suite(command: str, is_whole: bool) -> None:
    """Only a run that names no part of its folder runs all tests of it."""
    assert is_whole_suite(command) is is_whole


@pytest.mark.parametrize(
    ("command", "look", "output", "told"),
    [
        ("npm test | tail -9", "", "1\tTests: 9 passed, 9 total", "passed: `Tests: 9 passed, 9 total`"),
        ("npm test | tail -9", "tail -3 LOG", "Tests: 1 failed, 9 total", "FAILED: `Tests: 1 failed, 9 total`"),
        ("npm test | tail -9", "cat LOG | head -1", "> jest", "was run; tasuki cannot tell how it ended"),
        ("go test ./... | tail -9", "sleep 2; tail -5 LOG", "ok  \tp/a\t1s", "passed: `ok p/a 1s`"),
        ("go test ./... | tail -9", "grep ok LOG", "ok  \tp/a\t1s", "was run; tasuki cannot tell how it ended"),
        ("npm test | tail -9", "grep -c x LOG", "9", "was run; tasuki cannot tell how it ended"),
        ("npm test | tail -9", "cat /tmp/other.output", "Tests: 9 passed, 9 total", "was run; tasuki cannot tell how it ended"),
    ],
)  # fmt: skip
def test_the_newest_look_at_a_log_tells_how_a_run_ended(
    command: str, look: str, output: str, told: str, tmp_path: Path
) -> None:
    """After the end of what ran in the background; a filter of the look may hide it."""
    build = ThreadBuilder("claude").user("Go").background(command, "done")
    log = re.findall(r"/tmp/tasks/\w+\.output", build.text())[0]
    build = build.shell(look.replace("LOG", log), output) if look else build.read(log, output)

    assert read_tests(build, tmp_path) == told


def test_a_look_before_the_end_tells_nothing(tmp_path: Path) -> None:
    """What comes may fail; a file that a run printed into is whole once the run has ended."""
    runs = ThreadBuilder("claude").user("Go").background("go test ./... | tee x", "running")
    log = re.findall(r"/tmp/tasks/\w+\.output", runs.text())[0]
    file = (
        ThreadBuilder("claude").user("Go").shell("go test ./... > out.log 2>&1; echo done", "done")
    )

    assert "cannot tell" in read_tests(runs.shell(f"cat {log}", "ok  \tp/a\t1s"), tmp_path)
    assert (
        read_tests(file.shell("tail -9 out.log", "ok  \tp/a\t1s"), tmp_path)
        == "passed: `ok p/a 1s`"
    )


def read_tests(build: ThreadBuilder, folder: Path) -> str:
    """What the state says of the tests, without the command."""
    thread = Claude().read(build.write(folder))
    items = list_state_items(thread, derive_facts(thread).facts)
    text = next(item.text for item in items if item.label == "Tests")
    return text.partition("` ")[2].replace("; nothing edited since", "")
