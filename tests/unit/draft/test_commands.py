"""Shell commands: checks, outcomes, steps."""

import pytest

from tasuki.draft.facts import commands
from tasuki.draft.facts.derive import derive_facts
from tasuki.model import Entry, Thread, ToolCall


def entry(ref: int, command: str, output: str = "", status: str = "ok") -> Entry:
    """A shell call as an entry."""
    call = ToolCall(
        id=str(ref),
        name="Bash",
        kind="shell",
        command=command,
        output=output,
        status=status,  # type: ignore[arg-type]
        exit_code={"ok": 0, "error": 1}.get(status),
    )
    return Entry(ref=ref, kind="tool", tool=call)


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("go test ./... 2>&1 | tail -20", "test"), ("cd x && pytest -q", "test"), ("npm run test:unit", "test"),
        ("mise run test:e2e", "test"), ("npx vitest run", "test"), ("cargo nextest run", "test"),
        ("npm run check", "lint"), ("mise run lint", "lint"), ("npx tsc --noEmit", "lint"), ("ruff check .", "lint"),
        ("gofmt -w a.go", ""), ("gofmt -l .", "lint"), ("go build ./...", "build"), ("npm run build", "build"),
        ('git commit -m "test the build"', "commit"), ("cat tests/test_a.py", ""), ("ls build", ""),
        ("git log --oneline", ""), ("grep -rn pytest .", "test"),
    ],
)  # fmt: skip
def test_checks_are_told_by_the_command(command: str, kind: str) -> None:
    """Tests, linters, builds and commits are recognised by their program."""
    if command.startswith("grep"):
        assert commands.is_navigation(command)
    else:
        assert commands.find_check_kind(command) == kind


def test_a_failure_hidden_by_a_pipe_is_seen() -> None:
    """`… | tail` ends with 0 although the tests failed: the output tells."""
    (run,) = commands.list_runs(
        [entry(1, "go test ./... | tail -3", "--- FAIL: TestX\nFAIL\tpkg 0.1s\n")]
    )

    assert run.ok is False
    assert commands.find_error(run) == "--- FAIL: TestX"


def test_zero_failures_are_no_failure() -> None:
    """`0 failed` and `0 errors` do not make a passing run a failing one."""
    (run,) = commands.list_runs(
        [entry(1, "npm test", "Tests: 0 failed, 12 passed, 12 total\n0 errors")]
    )

    assert run.ok is True
    assert commands.find_outcome(run) == "Tests: 0 failed, 12 passed, 12 total"


def test_the_same_command_with_another_pipe_tail_is_the_same() -> None:
    """Redirections and pipe tails do not make a new command."""
    assert commands.normalize_command("go test ./... 2>&1 | tail -20") == "go test ./..."
    assert commands.normalize_command("a | b") == "a | b"


def test_a_refused_call_never_ran() -> None:
    """What the user refused is no run."""
    assert commands.list_runs([entry(1, "rm -rf build", "The user doesn't want", "refused")]) == []


def test_a_step_with_a_here_document_stays_what_was_run() -> None:
    """It is a command without its text, whatever stands behind."""
    line = (
        'gh pr create --title "Mend it" --body "$(cat <<\'EOF\'\nLong `text`\nEOF\n)" && git push'
    )

    assert list(commands.split_steps(line)) == [
        'gh pr create --title "Mend it" --body …',
        "git push",
    ]


def test_heredocs_are_left_off_and_marked() -> None:
    """A command with a heredoc is shown up to it and ends in `…`."""
    command = "git commit -m \"$(cat <<'EOF'\nLong text\nEOF\n)\""

    assert commands.shorten_command(command).endswith("…")
    assert "Long text" not in commands.shorten_command(command)
    assert commands.is_runnable(command) is False


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("pnpm -s test", "test"), ("npm --silent run test:unit", "test"), ("pnpm -s run build", "build"),
        ("yarn --cwd x run lint", "lint"), ('echo "pytest"', ""), ("curl https://x.org/tests/build", ""),
        ("./notify 'make lint'", ""), ('bash -c "pytest -q"', "test"), ("docker run x 'npm test'", "test"), ("docker run --rm -e A=b rust:1 cargo test --test real -- --ignored", "test"),
    ],
)  # fmt: skip
def test_what_stands_in_a_text_or_an_address_is_no_check(command: str, kind: str) -> None:
    """Options before a script's name are skipped; quotes count only where a shell runs them."""
    assert commands.find_check_kind(command) == kind


def test_the_steps_of_a_command_are_what_can_be_run_by_itself() -> None:
    """Looking around, pipe tails, comments, assignments and halves of a quote are no steps."""
    command = "cd src && ls; make deploy 2>&1 | tail -3\nX=1; # note\n./smoke --all || echo 'a; b' && ./end"

    assert list(commands.split_steps(command)) == ["make deploy", "./smoke --all", "./end"]
    assert list(commands.split_steps("make one <<'E'\nmake two\nE")) == ["make one"]
    assert list(commands.split_steps("make a;" * 1_000)) == []


def test_blanks_around_what_joins_commands_change_nothing() -> None:
    """A step is the same with many blanks and with none."""
    assert commands.split_steps("make a   &&\t make b") == commands.split_steps("make a&&make b")
    assert commands.is_navigation("  ls  ;\n\n  pwd ")
    assert not commands.is_navigation("ls ; make")


def test_the_subject_of_a_commit_is_the_message_it_was_given() -> None:
    """Both quotes and joined options are read; a commit that failed has none."""
    found = commands.list_commit_subjects(
        commands.list_runs(
            [
                entry(1, "git commit -am \"Keep the 'old' name\""),
                entry(2, "git add . && git commit -m 'Drop it'"),
                entry(3, 'git commit -m "Never made"', status="error"),
                entry(4, 'grep -m "x" a.py'),
            ]
        )
    )

    assert [(q.text, q.ref) for q in found] == [("Keep the 'old' name", 1), ("Drop it", 2)]


@pytest.mark.parametrize(
    ("command", "asks"),
    [("tool --help", True), ("go version", True), ("x -h | head", True), ("helper run", False),
     ("./release --version-file x", False), ("tool --help " + "x" * 200, False)],
)  # fmt: skip
def test_a_command_that_asks_for_help_is_told_apart(command: str, asks: bool) -> None:
    """Help and version as words of their own, and in a short command alone."""
    assert commands.is_help_or_version(command) is asks


def test_a_package_without_tests_is_not_how_the_tests_ended() -> None:
    """Go names every package; the one whose tests ran is told, though another is printed last."""
    output = "ok  \tapp/store\t0.538s\nok  \tapp/store/id\t(cached) [no tests to run]\n"
    (run,) = commands.list_runs([entry(1, "go test ./store/... -run TestKeep", output)])

    assert commands.find_outcome(run) == "ok app/store 0.538s"

    nothing = "testing: warning: no tests to run\nPASS\nok  \tapp/store\t0.2s [no tests to run]\n"
    (run,) = commands.list_runs([entry(1, "go test ./store/... -run TestGone", nothing)])
    assert run.result == "did not run"
    assert "no tests to run" in commands.find_outcome(run)


@pytest.mark.parametrize(
    ("command", "hides"),
    [
        ("make", False), ("make && ls", False), ("set -e; pytest; echo ok", False), ("make; pytest", False), ("echo hi", False), ("cd x && make", False), ("", False),
        ("make | tail -3", True), ('make; echo "exit=$?"', True), ("make || true", True), ("make; ls", True), ("./mig.sh; cat out.log", True), ("make & wait", True), ("make; exit 0", True), ("make 2>&1 | tee log", True),
    ],
)  # fmt: skip
def test_an_exit_code_may_be_that_of_another_program(command: str, hides: bool) -> None:
    """What reads the output, or says something at the end, passes whatever happened before it."""
    assert commands.is_exit_code_hidden(command) is hides


def test_a_command_that_passed_with_variables_set_has_passed() -> None:
    """`env CACHE=/tmp go list` mends `go list`: it is the same command."""
    read = derive_facts(
        Thread(
            harness="", id="", path="", cwd="/p",
            entries=(
                entry(1, "go list ./...", "open cache: permission denied", "error"),
                entry(2, "env GOCACHE=/tmp/cache go list ./...", "app\n"),
            ),
        )
    )  # fmt: skip

    assert [(x.failed, x.passed) for x in read.facts.lessons] == [(1, 2)]


@pytest.mark.parametrize(
    ("command", "kinds", "shown"),
    [
        ("sed -i s/a/b/ src/*.ts\nnpm run test -- ui/ 2>&1 | tail -3", ["test"], "npm run test -- ui/"),
        ("cd /w/app || exit 1\necho '=== log ==='; git log -3\ndotnet build A.csproj | tail -2", ["build"], "cd /w/app && dotnet build A.csproj"),
        ("go build ./... && echo ok && go test ./... | grep -v x && git diff", ["build", "test"], "go build ./... && go test ./..."),
        ("CI=1 pytest a; pytest b", ["test"], "CI=1 pytest a; pytest b"),
        ("mise run fmt && mise run check | tail", ["test"], "mise run check"),
        ("for x in a b; do go test $x; done | tail -1", ["test"], "for x in a b; do go test $x; done"),
    ],
)  # fmt: skip
def test_the_steps_that_are_the_check_are_shown(command: str, kinds: list[str], shown: str) -> None:
    """Not the beginning of the line in which they stand."""
    assert commands.shorten_check(command, kinds) == shown
