"""The last steps: the newest distinct commands and edits, in order, each with what came of it."""

from pathlib import Path

import pytest
from making import thread_of

from tasuki.draft.facts.commands import list_runs
from tasuki.draft.rank.history import (
    MAX_COMMAND,
    MAX_NAMES,
    MAX_RESULT,
    STEP_WINDOW,
    list_last_steps,
)
from tasuki.model import Entry, FileChange, Thread, ToolCall, ToolStatus
from tasuki_testing import ThreadBuilder


def steps_of(thread: Thread, limit: int = 9, told: tuple[int, ...] = ()) -> list[str]:
    """The texts of the last steps."""
    names = {"src/deep/app.py": "app.py"}
    return [i.text for i in list_last_steps(thread, list_runs(thread.entries), names, limit, told)]


def built(builder: ThreadBuilder, folder: Path, limit: int = 9) -> list[str]:
    """The last steps of a built thread."""
    return steps_of(thread_of(builder, folder), limit)


def ran(command: str, output: str = "", status: ToolStatus = "ok") -> ToolCall:
    """A shell call."""
    return ToolCall(
        id="1", name="Bash", kind="shell", command=command, output=output, status=status,
        exit_code={"ok": 0, "error": 1}.get(status),
    )  # fmt: skip


def edited(*paths: str, status: ToolStatus = "ok", new: str = "x", kind: str = "edit") -> ToolCall:
    """An edit of some files."""
    changes = tuple(FileChange(path=p, kind=kind, old="a", new=new) for p in paths)  # type: ignore[arg-type]
    return ToolCall(id="1", name="Edit", kind="edit", paths=paths, changes=changes, status=status)


def thread(*calls: ToolCall) -> Thread:
    """A thread of calls, which count from 1."""
    entries = tuple(Entry(ref=n, kind="tool", tool=call) for n, call in enumerate(calls, 1))
    return Thread(harness="", id="", path="", cwd="/p", entries=entries)


def test_the_newest_steps_stand_in_their_order(tmp_path: Path) -> None:
    """Commands and edits, the oldest first, no more than wanted; words and reads are no steps."""
    builder = ThreadBuilder("claude").user("go").assistant("I look.").read("src/a.py", "x")
    builder.create("src/new.py", "def parse(): ...").shell("make lint", "clean\n")
    builder.edit("src/a.py", "x = 1", "def load_rows(): ...").shell("make all", "built\nready\n")

    assert built(builder, tmp_path) == [
        "wrote `src/new.py`: `parse`",
        "`make lint` → clean",
        "edited `src/a.py`: `load_rows`",
        "`make all` → ready",
    ]
    assert built(builder, tmp_path, 2) == ["edited `src/a.py`: `load_rows`", "`make all` → ready"]


def test_each_step_cites_its_entry() -> None:
    """One entry a step, in rising order."""
    found = list_last_steps(thread(ran("make a"), edited("/p/a.py"), ran("make b")), [], {}, 9)

    assert [i.refs for i in found] == [(2,)]
    both = thread(ran("make a"), edited("/p/a.py"), ran("make b"))
    assert [i.refs for i in list_last_steps(both, list_runs(both.entries), {}, 9)] == [
        (1,),
        (2,),
        (3,),
    ]


def test_a_step_that_comes_again_is_told_once_with_its_newest_result() -> None:
    """The same command and the same edit stand where they came last."""
    calls = (
        ran("make", "1 error", "error"),
        edited("/p/a.py"),
        edited("/p/a.py"),
        ran("make", "built"),
    )

    assert steps_of(thread(*calls)) == ["edited `a.py`", "`make` → built"]


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (ran("make x", "one\n\ntwo words \n\n"), "`make x` → two words"),
        (ran("make x"), "`make x` → no output"),
        (ran("make x", "Error: no rule\nmore", "error"), "`make x` → failed: Error: no rule"),
        (ran("make x", "", "error"), "`make x` → failed"),
        (ran("make x", "half", "aborted"), "`make x` → interrupted"),
        (ran("make x", "", "unknown"), "`make x`"),
        (ran("pytest -q", "....\n12 passed in 3s\nbye"), "`pytest -q` → 12 passed in 3s"),
        (ran("git commit -am x", "[main 1a2b3c4] Mend it\n 1 file"), "`git commit -am x` → [main 1a2b3c4] Mend it"),
        (ran("echo `date` > log.txt; make x", "ok"), "`echo date > log.txt; make x` → ok"),
        (edited("/p/src/deep/app.py"), "edited `app.py`"),
        (edited("/p/a.py", kind="delete"), "deleted `a.py`"),
        (edited("/p/a.py", status="error"), "edited `a.py`, which failed"),
        (edited(*(f"/p/{n}.py" for n in range(6))), "edited `0.py`, `1.py`, `2.py`, `3.py` and 2 more"),
    ],
)  # fmt: skip
def test_a_step_tells_what_came_of_it(call: ToolCall, told: str) -> None:
    """The last line of the output, the error, git's commit, or that nobody saw it end."""
    assert steps_of(thread(call)) == [told]


@pytest.mark.parametrize(
    "call",
    [
        ran("make x", "no", "refused"), edited("/p/a.py", status="refused"),
        edited("/tmp/try.py"), ToolCall(id="1", name="Read", kind="read", paths=("/p/a.py",)),
    ],
)  # fmt: skip
def test_what_changed_nothing_is_no_step(call: ToolCall) -> None:
    """Looking around, what the user refused, and scratch space."""
    assert steps_of(thread(call)) == []


def test_looking_around_is_a_step_only_of_a_short_thread() -> None:
    """Where little was done, what was looked at is all there is to tell."""
    looked = ran("cat a.py", "x")
    worked = [ran(f"make {name}", "built") for name in ("a", "b", "c", "d")]

    assert steps_of(thread(looked, worked[0])) == ["`cat a.py` → x", "`make a` → built"]
    assert not any("cat" in step for step in steps_of(thread(*worked[:3], looked, worked[3])))


def test_what_the_state_of_the_work_tells_is_left_out() -> None:
    """The entries that are told already are no steps here."""
    calls = thread(ran("make a"), ran("pytest -q", "1 passed"))

    assert steps_of(calls, told=(2,)) == ["`make a` → no output"]


def test_only_the_newest_entries_are_looked_at() -> None:
    """What stands before them is no last step, however few there are."""
    quiet = [ToolCall(id="1", name="Read", kind="read") for _ in range(STEP_WINDOW)]

    assert steps_of(thread(ran("make a"), *quiet)) == []
    assert len(steps_of(thread(ran("make a"), *quiet[1:]))) == 1


def test_a_step_is_one_short_line() -> None:
    """Long commands, heredocs, long results and many names are cut."""
    names = "\n".join(f"def function_{n}(): ..." for n in range(20))
    calls = (
        ran("make " + "x " * 400, "y " * 400), ran("cat > a.txt <<'E'\nsecret\nE\n", "z" * 900),
        edited("/p/a.py", new=names),
    )  # fmt: skip
    found = steps_of(thread(*calls))

    assert all("\n" not in text and len(text) <= MAX_COMMAND + MAX_RESULT + 10 for text in found)
    assert "secret" not in " ".join(found)
    assert found[-1].count("function_") == MAX_NAMES


def test_any_line_of_a_long_output_is_no_result() -> None:
    """Of many lines the last is told only where it holds a figure, an error, or is git's."""
    many = "one\ntwo\nthree\nfour\n"

    assert steps_of(thread(ran("./tool --dump", many), ran("./tool", "one\ntwo\n"))) == [
        "`./tool --dump`",
        "`./tool` → two",
    ]
    assert steps_of(thread(ran("./bench.sh", f"{many}median 412 ms"))) == [
        "`./bench.sh` → median 412 ms"
    ]
    assert steps_of(thread(ran("git pull --rebase && make", many))) == [
        "`git pull --rebase && make` → four"
    ]


@pytest.mark.parametrize(
    ("command", "output", "step"),
    [
        ("git log --oneline -3", "c3 new\nb2 mid\na1 old", "`git log --oneline -3`"),
        ("git push", "To host.io\n   a1..c3  main -> main", "`git push` → a1..c3 main -> main"),
        ("git branch --show-current", "main", "`git branch --show-current` → main"),
    ],
)  # fmt: skip
def test_the_last_line_of_a_list_is_no_result(command: str, output: str, step: str) -> None:
    """The last of several commits is the oldest; the last line of a push is what it did."""
    assert steps_of(thread(ran(command, output))) == [step]
