"""Which files and commands a draft without a model names, and what it tells of each."""

from pathlib import Path

from long_threads import long_thread
from making import thread_of

from tasuki.draft.authors import choices
from tasuki.draft.authors.task import Task
from tasuki.draft.facts import derive
from tasuki.draft.features import Weights, using
from tasuki.model import CommandFact, CommandItem, FileItem, Goal
from tasuki.testing import ThreadBuilder

LIMITS = {"files": 20, "commands": 20, "context": 20, "decisions": 20, "questions": 20}


def task_of(builder: ThreadBuilder, folder: Path, goal: str = "go on") -> Task:
    """A draft to be written of a built thread."""
    thread = thread_of(builder, folder)
    return Task(thread, derive(thread, None, goal), Goal(goal), LIMITS)


def files(builder: ThreadBuilder, folder: Path, goal: str = "go on") -> list[FileItem]:
    """The files that are offered."""
    return list(choices.files(task_of(builder, folder, goal), 20, True, 2_000))


def commands(folder: Path, *facts: CommandFact, told: tuple[int, ...] = ()) -> list[CommandItem]:
    """The commands that are offered of some facts."""
    task = task_of(ThreadBuilder("claude").user("go").assistant("Yes."), folder)
    return list(choices.commands(facts, set(told), task.relevance, 20))


def fact(command: str, ref: int = 1, **more: object) -> CommandFact:
    """A command that ran once and passed."""
    return CommandFact(command=command, refs=(ref,), **{"ok": True, **more})  # type: ignore[arg-type]


def test_a_file_in_detail_never_stands_behind_a_minor_one(tmp_path: Path) -> None:
    """At least three files are told in detail, the others are minor and cite one entry."""
    found = files(long_thread("claude"), tmp_path)
    minor = [f.minor for f in found]

    assert minor == sorted(minor)
    assert minor.count(False) >= choices.DETAILED_LEAST
    assert any(minor)
    assert all(len(f.refs) <= 1 for f in found if f.minor)


def test_the_file_that_the_goal_names_is_among_the_first(tmp_path: Path) -> None:
    """A file read once long ago stands in front when its name holds the goal's words."""
    builder = ThreadBuilder("claude").user("go").read("src/reconciler.py", "x = 1")
    for n in range(30):
        builder.edit(f"src/part{n % 9}.py", str(n), str(n + 1))
    with using(Weights({"edits": 1.0}, 0.0)):
        found = [f.path for f in files(builder, tmp_path, "the reconciler drops rows")]

    assert "src/reconciler.py" in found[: choices.GOALS_PLACE + 1]


def test_what_is_only_spoken_of_stands_behind_what_was_touched(tmp_path: Path) -> None:
    """A file that a search printed comes after all that were read, one outside not at all."""
    printed = "src/named.py\n/etc/app/settings.toml"
    builder = ThreadBuilder("claude").user("go").read("src/a.py", "x").shell("rg -l x", printed)
    with using(Weights({"printed": 9.0}, 0.0)):
        found = files(builder, tmp_path)

    assert [f.path for f in found] == ["src/a.py", "src/named.py"]
    assert found[1].reason == "only spoken of"


def test_what_was_done_to_a_file_is_told_with_the_names_in_it(tmp_path: Path) -> None:
    """Made, edited and removed are told apart, and names stand behind a semicolon."""
    found = files(
        ThreadBuilder("claude").user("go").create("n.py", "def parse_line(): ...").edit("n.py", "a", "b"),
        tmp_path,
    )  # fmt: skip

    assert [f.reason for f in found] == ["created, edited 2×; `parse_line`"]


def test_reasons_can_be_left_out(tmp_path: Path) -> None:
    """Without reasons nothing but path and refs is told."""
    task = task_of(long_thread("claude"), tmp_path)

    assert {f.reason for f in choices.files(task, 20, False, 2_000)} == {""}


def test_a_smaller_budget_names_fewer_files(tmp_path: Path) -> None:
    """At 1,000 tokens nine files are named at most, at 5,000 as many as the caps allow."""
    builder = ThreadBuilder("claude").user("go")
    for n in range(40):
        builder.shell("rg x", f"src/spoken{n}.py").read(f"src/part{n}.py", "x = 1")
    task = task_of(builder, tmp_path)

    assert len(list(choices.files(task, 20, True, 1_000))) == 9
    assert len(list(choices.files(task, 20, True, 5_000))) == 20


def test_one_command_of_each_shape_is_offered(tmp_path: Path) -> None:
    """Runs that differ in pipes and redirections alone are one command, the newest."""
    found = commands(
        tmp_path, fact("pytest -q", 1), fact("pytest -q 2>&1 | tail -3", 5), fact("make docs", 3)
    )

    assert sorted(c.command for c in found) == ["make docs", "pytest -q 2>&1 | tail -3"]


def test_of_a_command_too_long_to_repeat_the_steps_are_told(tmp_path: Path) -> None:
    """What only looks around is no step; a step that another command holds is told once."""
    long = f"cd /srv && make deploy && echo {'x' * 200} && ./smoke --all"
    found = commands(tmp_path, fact(long))

    assert [c.command for c in found] == ["make deploy", "./smoke --all"]


def test_the_note_of_a_command_tells_how_it_ended() -> None:
    """Passed, failed with its reason, told above, a selection, and not recorded are told apart."""
    note = choices.command_note
    red = fact("make", ok=False, error="no rule")

    assert note(fact("make")) == "ok"
    assert note(red) == "failed: no rule"
    assert note(red, told=True) == "failed, as above"
    assert note(fact("make", known=False)) == "how it ended is not recorded"
    assert note(fact("pytest -k x", check="test", outcome="2 passed")) == "2 passed (a selection)"
