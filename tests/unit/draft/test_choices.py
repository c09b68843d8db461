"""Which files and commands a draft without a model names, and what it tells of each."""

from pathlib import Path

import pytest
from long_threads import long_thread
from making import thread_of

from tasuki.draft.authors import choices
from tasuki.draft.authors.author import AuthorTask
from tasuki.draft.facts.derive import derive_facts
from tasuki.model import CommandFact, CommandItem, FileItem, Goal
from tasuki.testing import ThreadBuilder

LIMITS = {"files": 20, "commands": 20, "context": 20, "decisions": 20, "questions": 20}


def task_of(builder: ThreadBuilder, folder: Path, goal: str = "go on") -> AuthorTask:
    """A draft to be written of a built thread."""
    thread = thread_of(builder, folder)
    return AuthorTask(thread, derive_facts(thread, None, goal), Goal(goal), LIMITS)


def files(builder: ThreadBuilder, folder: Path, goal: str = "go on") -> list[FileItem]:
    """The files that are offered."""
    return list(choices.choose_files(task_of(builder, folder, goal), 20, True))


def commands(folder: Path, *facts: CommandFact, told: tuple[int, ...] = ()) -> list[CommandItem]:
    """The commands that are offered of some facts."""
    task = task_of(ThreadBuilder("claude").user("go").assistant("Yes."), folder)
    return list(choices.choose_commands(facts, task.relevance, 20, set(told)))


def fact(command: str, ref: int = 1, **more: object) -> CommandFact:
    """A command that ran once and passed."""
    return CommandFact(command=command, refs=(ref,), **more)  # type: ignore[arg-type]


# -- files -----------------------------------------------------------------------------


def test_five_files_are_told_and_the_others_are_only_named(tmp_path: Path) -> None:
    """What was done to the first five is told with refs; the others are bare paths behind them."""
    found = files(long_thread("claude"), tmp_path)
    told = [f for f in found if not f.minor]

    assert found == [*told, *(f for f in found if f.minor)]
    assert len(told) == 5
    assert all(f.reason and f.refs for f in told)
    assert {("", ())} == {(f.reason, f.refs) for f in found if f.minor}


@pytest.mark.parametrize("goal", ["the reconciler drops rows", "look at src/reconciler.py"])
def test_the_file_that_the_goal_names_is_among_the_first(goal: str, tmp_path: Path) -> None:
    """A file read once long ago stands in front when its name holds the goal's words."""
    builder = ThreadBuilder("claude").user("go").read("src/reconciler.py", "x = 1")
    for n in range(90):
        builder.edit(f"src/part{n % 9}.py", str(n), str(n + 1))
    found = [f.path for f in files(builder, tmp_path, goal)]
    other = [f.path for f in files(builder, tmp_path, "go on")]

    assert "src/reconciler.py" in found[: choices.GOAL_FILE_PLACE + 1]
    assert other[-1] == "src/reconciler.py"


def test_what_is_only_spoken_of_stands_behind_what_was_touched(tmp_path: Path) -> None:
    """A file that a search printed comes after all that were read, one outside not at all."""
    printed = "src/named.py\n/etc/app/settings.toml"
    builder = ThreadBuilder("claude").user("go").read("src/a.py", "x").shell("rg -l x", printed)
    found = files(builder, tmp_path)

    assert [(f.path, f.minor) for f in found] == [("src/a.py", False), ("src/named.py", True)]


def test_a_file_that_was_deleted_is_not_named(tmp_path: Path) -> None:
    """Nobody opens what is gone, however often it was edited and whatever the goal says."""
    builder = ThreadBuilder("claude").user("go").read("src/a.py", "x")
    for n in range(5):
        builder.edit("src/gone.py", str(n), str(n + 1))
    builder.shell("rm src/gone.py")
    task = task_of(builder, tmp_path, "mend src/gone.py")

    assert [f.path for f in task.relevance.files.candidates if f.deleted] == ["src/gone.py"]
    assert [f.path for f in choices.choose_files(task, 20, True)] == ["src/a.py"]


def test_what_was_done_to_a_file_is_told_with_the_names_in_it(tmp_path: Path) -> None:
    """Made, edited and read are told apart, and names stand behind a semicolon."""
    builder = ThreadBuilder("claude").user("go").read("r.py", "x").read("r.py", "x")
    builder.create("n.py", "def parse_line(): ...").edit("n.py", "a", "b")

    assert {(f.path, f.reason) for f in files(builder, tmp_path)} == {
        ("n.py", "created, edited 1×; `parse_line`"),
        ("r.py", "read 2×"),
    }


def test_reasons_can_be_left_out(tmp_path: Path) -> None:
    """Without reasons nothing but path and refs is told."""
    task = task_of(long_thread("claude"), tmp_path)

    assert {f.reason for f in choices.choose_files(task, 20, False)} == {""}


def test_no_more_files_are_named_than_wanted(tmp_path: Path) -> None:
    """The limit counts what was touched and what was only spoken of; of the latter there are few."""
    builder = ThreadBuilder("claude").user("go")
    for n in range(40):
        builder.shell("rg x", f"src/spoken{n}.py").read(f"src/part{n}.py", "x = 1")
    task = task_of(builder, tmp_path)
    named = [f.path for f in choices.choose_files(task, 100, True)]

    assert len(list(choices.choose_files(task, 20, True))) == 20
    assert sum("spoken" in path for path in named) == choices.MAX_MENTIONED
    assert len(named) == 40 + choices.MAX_MENTIONED


# -- commands --------------------------------------------------------------------------


def test_one_command_of_each_shape_is_told(tmp_path: Path) -> None:
    """Runs that differ in pipes and redirections alone are one command, without those."""
    found = commands(
        tmp_path,
        fact("pytest -q", 1),
        fact("pytest -q 2>&1 | tail -3", 5, result="not shown"),
        fact("make docs", 3),
    )

    assert sorted((c.command, c.note) for c in found) == [("make docs", ""), ("pytest -q", "")]


def test_four_commands_are_told_and_the_short_ones_behind_them_are_bare(tmp_path: Path) -> None:
    """The first have refs; the others are whole simple commands and nothing more."""
    found = commands(tmp_path, *(fact(f"tool{n} run --fast", n) for n in range(1, 8)))

    assert [bool(c.refs) for c in found] == [True] * 4 + [False] * 3
    assert [c.minor for c in found] == [False] * 4 + [True] * 3
    assert {c.command for c in found if c.minor} == {f"tool{n} run --fast" for n in (1, 2, 3)}


def test_of_a_command_too_long_to_repeat_the_steps_are_named(tmp_path: Path) -> None:
    """What only looks around is no step; a step that another command holds is named once."""
    long = f"cd /srv && make deploy && echo {'x' * 200} && ./smoke --all; make deploy"
    found = commands(tmp_path, fact(long))

    assert [(c.command, c.minor) for c in found] == [("make deploy", True), ("./smoke --all", True)]


def test_what_the_state_of_the_work_told_is_named_bare(tmp_path: Path) -> None:
    """The result of the last check stands there already; here it is one of the short commands."""
    found = commands(tmp_path, fact("pytest -q", 5, check="test"), fact("make docs", 3), told=(5,))

    assert [(c.command, c.minor) for c in found] == [("make docs", False), ("pytest -q", True)]


@pytest.mark.parametrize(
    "command",
    ["git add -A && git commit -m 'x'", "sed -i 's/a/b/' a.py", "perl -pi -e 1 a.py", "ls -la src", "tool --help"],
)  # fmt: skip
def test_what_nobody_runs_again_is_not_told(command: str, tmp_path: Path) -> None:
    """Git's bookkeeping, edits by a stream editor, looking around and asking for help say nothing."""
    assert [c for c in commands(tmp_path, fact(command)) if not c.minor] == []


def test_a_command_of_several_lines_is_told_by_its_steps(tmp_path: Path) -> None:
    """A text that a command was given, and an assignment, are no commands."""
    found = commands(tmp_path, fact("X=1\nmake one <<'E'\nrun me\nE\nCI=1 make two"))

    assert [c.command for c in found] == ["make one", "CI=1 make two"]


def test_the_note_of_a_command_tells_how_it_ended() -> None:
    """Passed, failed with its reason, told above, and a selection are told apart; nothing is said where nothing is recorded."""
    note = choices.format_command_note
    red = fact("make", result="failed", error="no rule")

    assert note(fact("./export.sh")) == ""
    assert note(red) == "failed: no rule"
    assert note(red, is_reported=True) == "failed, as above"
    assert note(fact("make", result="not shown")) == ""
    assert (
        note(fact("pytest -k x", check="test", outcome="2 passed", suite="selection"))
        == "2 passed (a selection)"
    )


def test_what_a_filter_hides_is_not_told_as_passed(tmp_path: Path) -> None:
    """`lint | grep` ends with what the filter found: without a line of the check's own it tells nothing."""
    hidden = fact("golangci-lint run ./... | grep -oE x | sort", check="lint", result="not shown")
    masked = fact('./repo create smoke; echo "exit=$?"', result="not shown")
    told = fact("go test ./... | tail -3", check="test", outcome="ok in 5 packages")
    failed = fact(
        "go vet ./... | head", check="lint", result="failed", error="a.go:1:2: unreachable"
    )
    found = commands(tmp_path, hidden, masked, told, failed)

    assert [(c.command, c.note) for c in found if not c.minor] == [
        ("go test ./...", "ok in 5 packages"),
        ("go vet ./...", "failed: a.go:1:2: unreachable"),
    ]


def test_a_result_stands_behind_the_step_that_has_it(tmp_path: Path) -> None:
    """What a filter in the middle of a line is cut off with takes no later step with it."""
    line = "npx tsc | head -50 && npm run check | tail -6"

    assert (
        next(c.command for c in commands(tmp_path, fact(line, check="lint", outcome="ok"))) == line
    )


@pytest.mark.parametrize(
    ("failed", "later", "is_closed"),
    [
        ("go test -run TestX ./a", ("go build ./... ; go test -run 'TestX|TestY' ./a", "ok  \tp/a\t1s"), True),
        ("go test -run TestX ./a", ("go test ./... | wc -l", "9"), True),
        ("go test -run TestX ./a", ("go vet ./...", ""), False),
        ("gh pr view --json url", ("git status", ""), True),
        ("make deploy", ("make docs", "done"), False),
    ],
)  # fmt: skip
def test_a_failure_that_something_lifted_is_not_told(
    failed: str, later: tuple[str, str], is_closed: bool, tmp_path: Path
) -> None:
    """What passed since, or may have, and what only looked for something, is no open failure."""
    build = ThreadBuilder("claude").user("go").shell(failed, "--- FAIL: TestX (0s)\nFAIL", 1)
    build = build.edit("a.go", "1", "2").shell(*later)
    found = derive_facts(thread_of(build, tmp_path)).facts

    assert (2 in choices.list_closed_failures(found)) is is_closed
