"""Shell commands: checks, outcomes, commits."""

import pytest

from tasuki.draft import commands
from tasuki.model import Entry, ToolCall


def entry(ref: int, command: str, output: str = "", status: str = "ok") -> Entry:
    """A shell call as an entry."""
    call = ToolCall(
        id=str(ref),
        name="Bash",
        kind="shell",
        command=command,
        output=output,
        status=status,  # type: ignore[arg-type]
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
        assert commands.check_kind(command) == kind


def test_a_failure_hidden_by_a_pipe_is_seen() -> None:
    """`… | tail` ends with 0 although the tests failed: the output tells."""
    (run,) = commands.runs(
        [entry(1, "go test ./... | tail -3", "--- FAIL: TestX\nFAIL\tpkg 0.1s\n")]
    )

    assert run.ok is False
    assert commands.error_of(run) == "--- FAIL: TestX"


def test_zero_failures_are_no_failure() -> None:
    """`0 failed` and `0 errors` do not make a passing run a failing one."""
    (run,) = commands.runs([entry(1, "npm test", "Tests: 0 failed, 12 passed, 12 total\n0 errors")])

    assert run.ok is True
    assert commands.outcome(run) == "Tests: 0 failed, 12 passed, 12 total"


def test_commits_are_taken_from_gits_own_output() -> None:
    """Hash and subject of each commit, oldest first, with the entry."""
    found = commands.commits(
        commands.runs(
            [
                entry(
                    3, 'git commit -m "One"', "[main (root-commit) 1a2b3c4] One\n 1 file changed"
                ),
                entry(
                    7, 'git commit -qm "Two" && git commit --amend', "[feat/x 9f8e7d6] Two (v2)\n"
                ),
            ]
        )
    )

    assert [(q.text, q.ref) for q in found] == [("1a2b3c4 One", 3), ("9f8e7d6 Two (v2)", 7)]


def test_the_same_command_with_another_pipe_tail_is_the_same() -> None:
    """Redirections and pipe tails do not make a new command."""
    assert commands.base_command("go test ./... 2>&1 | tail -20") == "go test ./..."
    assert commands.base_command("a | b") == "a | b"


def test_a_refused_call_never_ran() -> None:
    """What the user refused is no run."""
    assert commands.runs([entry(1, "rm -rf build", "The user doesn't want", "refused")]) == []


def test_heredocs_are_left_off_and_marked() -> None:
    """A command with a heredoc is shown up to it and ends in `…`."""
    command = "git commit -m \"$(cat <<'EOF'\nLong text\nEOF\n)\""

    assert commands.short_command(command).endswith("…")
    assert "Long text" not in commands.short_command(command)
    assert commands.runnable(command) is False
