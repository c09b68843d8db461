"""The rank of files: what each term adds, how the goal's words match, and the order."""

from pathlib import Path

import pytest
from long_threads import long_thread
from making import thread_of

from tasuki.draft.facts.derive import derive_facts
from tasuki.draft.rank.relevance import (
    MAX_GOAL,
    MENTION_HALF_LIFE,
    PRINT_HALF_LIFE,
    TERMS,
    TOUCH_HALF_LIFE,
    FileRanks,
    Relevance,
)
from tasuki.model import FileFact
from tasuki_testing import ThreadBuilder

GOAL = "make the reconciliation of src/app/queue.py retry"


def files_of(builder: ThreadBuilder, folder: Path, goal: str = GOAL) -> FileRanks:
    """The files of a built thread as candidates for a goal."""
    thread = thread_of(builder, folder)
    return Relevance(thread, derive_facts(thread, None, goal), goal).files


def by_path(files: FileRanks) -> dict[str, dict[str, float]]:
    """The terms of every file."""
    return {f.path: files.compute_terms(f) for f in files.candidates}


def begun() -> ThreadBuilder:
    """A thread in which nothing was touched yet."""
    return ThreadBuilder("claude").user("go")


def test_every_file_has_exactly_the_terms_and_is_worth_their_sum(tmp_path: Path) -> None:
    """No term is left out, none is unknown, and nothing else makes the worth."""
    files = files_of(long_thread("claude"), tmp_path)

    assert len(files.candidates) > 5
    for file in files.candidates:
        assert list(files.compute_terms(file)) == list(TERMS)
        assert files.compute_worth(file) == pytest.approx(sum(files.compute_terms(file).values()))


def test_a_file_that_was_touched_more_often_or_later_is_worth_more(tmp_path: Path) -> None:
    """Each edit counts, a read a little less, and one of long ago half as much as one of now."""
    builder = begun().edit("old.py", "1", "2")
    for n in range(TOUCH_HALF_LIFE):
        builder.read(f"other{n}.py", "x")
    builder.edit("twice.py", "1", "2").edit("twice.py", "2", "3").edit("once.py", "1", "2")
    builder.read("read.py", "x")
    touched = {
        path: terms["touched"] for path, terms in by_path(files_of(builder, tmp_path)).items()
    }

    assert touched["twice.py"] > touched["once.py"] > touched["read.py"] > touched["old.py"] > 0


def test_the_file_touched_last_has_the_first_place(tmp_path: Path) -> None:
    """One for the file touched last, a half for the one before it."""
    found = by_path(files_of(begun().edit("a.py", "1", "2").read("b.py", "x"), tmp_path))

    assert {path: terms["place"] for path, terms in found.items()} == {"a.py": 0.5, "b.py": 1.0}


def test_what_the_agent_named_last_and_what_was_printed_counts(tmp_path: Path) -> None:
    """A file in the agent's last message gains; so does one whose name a tool printed lately."""
    builder = begun().read("src/a.py", "x").read("src/b.py", "x").read("src/c.py", "x")
    builder.shell("rg -l x", "src/b.py\n").assistant("The bug is in src/a.py.")
    found = by_path(files_of(builder, tmp_path))

    assert {path: terms["last_words"] for path, terms in found.items()} == {
        "src/a.py": 0.3,
        "src/b.py": 0.0,
        "src/c.py": 0.0,
    }
    assert found["src/b.py"]["printed"] > 0 == found["src/a.py"]["printed"]
    assert found["src/a.py"]["touched"] > found["src/c.py"]["touched"]
    assert TOUCH_HALF_LIFE > MENTION_HALF_LIFE > PRINT_HALF_LIFE


def test_the_goal_counts_by_its_words_and_by_a_name_in_it(tmp_path: Path) -> None:
    """A path that the goal names counts on top of one whose words it shares; others gain nothing."""
    builder = begun().read("src/app/queue.py", "x").read("src/reconcile.py", "x").read("z.py", "x")
    goal = {p: terms["goal"] for p, terms in by_path(files_of(builder, tmp_path)).items()}

    assert goal["src/app/queue.py"] > goal["src/reconcile.py"] > 0
    assert goal["src/app/queue.py"] >= 2
    assert goal["z.py"] == 0


def test_a_name_that_shares_the_goals_words_matches_better_than_a_folder(tmp_path: Path) -> None:
    """Forms of a word share its stem; in the file's name it counts more than in a folder's."""
    builder = begun().read("src/reconcile.py", "a").read("reconcile/x.py", "a").read("src/other.py", "a")  # fmt: skip
    files = files_of(builder, tmp_path, "the reconciliation is slow")
    match = {f.path: files.match_goal(f.path) for f in files.candidates}

    assert match["src/reconcile.py"] == 1.0
    assert 0 < match["reconcile/x.py"] < 1
    assert match["src/other.py"] == 0.0


def test_camel_case_and_underscores_part_words(tmp_path: Path) -> None:
    """`undoStack.cpp` and `undo_stack.cpp` hold the words of "undo stack", `soundtrack.cpp` does not."""
    builder = begun()
    for name in ("undoStack.cpp", "undo_stack.cpp", "soundtrack.cpp"):
        builder.read(f"src/{name}", "x")
    files = files_of(builder, tmp_path, "the undo stack loses a step")

    assert [
        files.match_goal(f"src/{n}.cpp") for n in ("undoStack", "undo_stack", "soundtrack")
    ] == [
        1.0,
        1.0,
        0.0,
    ]


@pytest.mark.parametrize("goal", ["", "?!", "x" * 100_000, "word " * MAX_GOAL, "その再試行を直す"])
def test_any_goal_gives_a_match_between_0_and_1(goal: str, tmp_path: Path) -> None:
    """A goal without words matches nothing; one without end is looked at as far as it is read."""
    files = files_of(long_thread("claude"), tmp_path, goal)

    assert all(0 <= files.match_goal(f.path) <= 1 for f in files.candidates)


def test_what_lies_outside_of_the_folder_is_worth_less(tmp_path: Path) -> None:
    """The same touch outside of the thread's folder loses one."""
    found = by_path(
        files_of(begun().edit("/etc/app.toml", "1", "2").edit("a.py", "1", "2"), tmp_path)
    )

    assert {path: terms["outside"] for path, terms in found.items()} == {
        "/etc/app.toml": -1.0,
        "a.py": 0.0,
    }


def test_scratch_space_is_no_candidate_and_the_best_comes_first(tmp_path: Path) -> None:
    """Files under /tmp are not ranked; worth falls along the list, and equals stand by their path."""
    files = files_of(long_thread("claude").edit("/tmp/try.py", "1", "2"), tmp_path)
    ranked = files.rank_files()

    assert "/tmp/try.py" in {f.path for f in files.candidates}
    assert "/tmp/try.py" not in {f.path for _, f in ranked}
    assert ranked == sorted(ranked, key=lambda pair: (-pair[0], pair[1].path))


def test_only_words_name_a_file_that_no_tool_touched(tmp_path: Path) -> None:
    """A printed file is only spoken of, unless the goal names it; a read one never is."""
    builder = begun().read("src/a.py", "x").shell("rg -l x", "src/app/queue.py\nsrc/b.py\n")
    files = files_of(builder, tmp_path)

    def spoken(file: FileFact) -> bool:
        return files.is_only_mentioned(file)

    assert {f.path: spoken(f) for f in files.candidates} == {
        "src/a.py": False,
        "src/app/queue.py": False,
        "src/b.py": True,
    }
