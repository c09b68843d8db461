"""What is said of the files since a check ran: what changed them, that nothing did, or nothing at all."""

from pathlib import Path

import pytest

from tasuki.draft.facts.derive import derive_facts
from tasuki.draft.facts.state import list_state_items
from tasuki.harness.registry import detect_harness
from tasuki_testing import ThreadBuilder

HARNESSES = ("claude", "codex", "pi", "gemini", "opencode")


def list_tests(build: ThreadBuilder, folder: Path) -> list[str]:
    """What the state says of the tests."""
    thread = detect_harness(path := build.write(folder)).read(path)
    return [
        i.text for i in list_state_items(thread, derive_facts(thread).facts) if i.label == "Tests"
    ]


def read_check(build: ThreadBuilder, folder: Path) -> str:
    """What the state says behind the result of the tests."""
    return list_tests(build, folder)[0].partition("passed: `42 passed in 2s`")[2].removeprefix("; ")


def check_then(command: str, harness: str = "claude") -> ThreadBuilder:
    """A thread in which a command follows a check that passed."""
    build = ThreadBuilder(harness).user("Fix the cart").edit("src/cart.py", "a", "b")
    return build.shell("pytest -q", "42 passed in 2s").shell(command, "ok")


@pytest.mark.parametrize("harness", HARNESSES)
@pytest.mark.parametrize(
    "command",
    [
        "sed -i 's/a/b/' src/cart.py", "cp /tmp/cart.py src/cart.py", "git checkout main", "git stash pop", "git pull --rebase", "npx eslint src --fix", "black src",
        "npm install lodash", "go mod tidy", "make generate", "dotnet format", "git reset --hard HEAD~1", "gh pr checkout 12", "pre-commit run --all-files", "git checkout -b new origin/main",
    ],
)  # fmt: skip
def test_a_command_that_changes_files_is_named(command: str, harness: str, tmp_path: Path) -> None:
    """In every harness, whatever the command rewrites, moves, installs or checks out."""
    assert read_check(check_then(command, harness), tmp_path) == f"`{command}` ran since"


@pytest.mark.parametrize(
    "command",
    [
        "echo 'x = 1' >> src/cart.py",
        "cat > src/cart.py <<'E'\nx\nE",
        "Set-Content -Path src/cart.py -Value x",
    ],
)
def test_a_file_that_a_line_writes_is_named(command: str, tmp_path: Path) -> None:
    """The file, and not the program; one that only takes its output is none of the agent's words."""
    assert read_check(check_then(command), tmp_path) == "edited since: `cart.py`"
    command = "python3 make.py > src/cart.py"
    assert read_check(check_then(command), tmp_path) == "written since: `src/cart.py`"


@pytest.mark.parametrize(
    "command",
    [
        "python3 -c \"open('src/cart.py', 'w')\"", "./scripts/rename.sh", "npx prisma generate", "find . -name '*.py' -exec sed -i s/a/b/ {} +", "rg -l foo | xargs perl -pi -e s/a/b/",
        "claude -p 'fix the bug'", "curl -o src/vendor.js https://example.com/x", "npm version patch", "jj new main",
    ],
)  # fmt: skip
def test_nothing_is_said_where_nobody_knows_what_a_command_changed(
    command: str, tmp_path: Path
) -> None:
    """A program of which nothing is known may have changed any file."""
    assert read_check(check_then(command), tmp_path) == ""


def test_sub_agents_are_named(tmp_path: Path) -> None:
    """They have tools of their own, beside what was edited here."""
    build = check_then("git status").agent("Refactor the cart")

    assert read_check(build, tmp_path) == "sub-agents ran since"
    build = build.edit("NOTES.md", "a", "b")
    assert read_check(build, tmp_path) == "edited since: `NOTES.md`; sub-agents ran since"


def test_edits_hide_no_command_that_changes_files(tmp_path: Path) -> None:
    """A document that was edited does not say that the code is as it was."""
    build = check_then("sed -i s/a/b/ src/cart.py").edit("NOTES.md", "a", "b")

    assert (
        read_check(build, tmp_path)
        == "edited since: `NOTES.md`; `sed -i s/a/b/ src/cart.py` ran since"
    )


@pytest.mark.parametrize(
    "command",
    [
        "git status && git diff | head", "git add -A && git commit -m 'Fix it'", "ls src; cat src/cart.py", "pytest -q > /tmp/out.log 2>&1; echo rc=$?", "git checkout -b next",
        "npx tsc --noEmit", "gh pr create --fill", "grep -rn foo src | wc -l", "black --check src",
    ],
)  # fmt: skip
def test_nothing_was_edited_where_all_commands_since_only_look(
    command: str, tmp_path: Path
) -> None:
    """They read, check, commit or push."""
    assert read_check(check_then(command), tmp_path) == "nothing edited since"


def test_what_was_run_last_is_told_first(tmp_path: Path) -> None:
    """Nobody takes the older result for the newest."""
    assert list_tests(check_then("pytest -q tests/api | wc -l"), tmp_path) == [
        "`pytest -q tests/api` was run last; tasuki cannot tell how it ended. "
        "Earlier, `pytest -q` passed: `42 passed in 2s`; nothing edited since"
    ]
