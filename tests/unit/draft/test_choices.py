"""Which files and commands a draft without a model names, and what it tells of each."""

from pathlib import Path

import pytest
from making import thread_of
from msgspec.structs import replace

from tasuki.draft.authors import choices
from tasuki.draft.authors.author import AuthorTask
from tasuki.draft.facts.derive import derive_facts
from tasuki.model import CommandFact, CommandItem, FileItem, Goal
from tasuki_testing import ThreadBuilder

LIMITS = {"files": 20, "commands": 20, "context": 20, "decisions": 20, "questions": 20}


def task_of(builder: ThreadBuilder, folder: Path, goal: str = "go on") -> AuthorTask:
    """A draft to be written of a built thread."""
    thread = thread_of(builder, folder)
    return AuthorTask(thread, derive_facts(thread, None, goal), Goal(goal), LIMITS)


def files(builder: ThreadBuilder, folder: Path, goal: str = "go on") -> list[FileItem]:
    """The files that are offered."""
    return list(choices.choose_files(task_of(builder, folder, goal), 20))


def commands(folder: Path, *facts: CommandFact) -> list[CommandItem]:
    """The commands that are offered of some facts."""
    task = task_of(ThreadBuilder("claude").user("go").assistant("Yes."), folder)
    derived = replace(task.derived, facts=replace(task.derived.facts, commands=facts), memo={})
    return list(choices.choose_commands(derived, task.relevance, 20))


def fact(command: str, ref: int = 1, **more: object) -> CommandFact:
    """A command that ran once and passed."""
    return CommandFact(command=command, refs=(ref,), **more)  # type: ignore[arg-type]


# -- files -----------------------------------------------------------------------------


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

    assert [f.path for f in found] == ["src/a.py", "src/named.py"]


def test_a_file_that_was_deleted_is_not_named(tmp_path: Path) -> None:
    """Nobody opens what is gone, however often it was edited and whatever the goal says."""
    builder = ThreadBuilder("claude").user("go").read("src/a.py", "x")
    for n in range(5):
        builder.edit("src/gone.py", str(n), str(n + 1))
    builder.shell("rm src/gone.py")
    task = task_of(builder, tmp_path, "mend src/gone.py")

    assert [f.path for f in task.relevance.files.candidates if f.deleted] == ["src/gone.py"]
    assert [f.path for f in choices.choose_files(task, 20)] == ["src/a.py"]


def test_no_more_files_are_named_than_wanted(tmp_path: Path) -> None:
    """The limit counts what was touched and what was only spoken of; of the latter there are few."""
    builder = ThreadBuilder("claude").user("go")
    for n in range(40):
        builder.shell("rg x", f"src/spoken{n}.py").read(f"src/part{n}.py", "x = 1")
    task = task_of(builder, tmp_path)
    named = [f.path for f in choices.choose_files(task, 100)]

    assert len(list(choices.choose_files(task, 20))) == 20
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


def test_of_a_command_too_long_to_repeat_the_steps_are_named(tmp_path: Path) -> None:
    """What only looks around is no step; a step that another command holds is named once."""
    long = f"cd /srv && make deploy && echo {'x' * 200} && ./smoke --all; make deploy"
    found = commands(tmp_path, fact(long))

    assert [c.command for c in found] == ["make deploy", "./smoke --all"]


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
