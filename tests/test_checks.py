"""Checks: nothing in a draft that the thread does not hold, and each drop is reported."""

from pathlib import Path

import pytest
from making import thread_of

from tasuki.draft import checks
from tasuki.draft.facts import derive
from tasuki.model import CommandItem, Draft, FileItem, Goal, Item
from tasuki.testing import ThreadBuilder

LONG = "filler line\n" * 3000


@pytest.fixture
def check(tmp_path: Path):  # type: ignore[no-untyped-def]
    """Checks a draft against one small thread."""
    thread = thread_of(
        ThreadBuilder("claude", cwd="/home/dev/proj")
        .user("Please keep the **old** API, whatever happens.")
        .assistant("I will rename `Foo` to `Bar`.")
        .edit("src/core/auth.py", "a", "b")
        .edit("lib/auth.py", "a", "b")
        .shell("pytest  -q tests", "1 failed\nE   KeyError: 'x'", 1)
        .shell("make deploy STAGE=dev", LONG + "needle-in-the-middle\n" + LONG)
        .shell("pytest  -q tests", "5 passed"),
        tmp_path,
    )
    derived = derive(thread)

    def run(validate_files: bool = True, **sections):  # type: ignore[no-untyped-def]
        draft = Draft(goal=Goal(text="g"), **sections)
        return checks.Checker(thread, derived, draft.goal, {}, validate_files).checked(draft)

    return run


def reasons(draft: Draft) -> dict[str, str]:
    """What was dropped, and why."""
    return {d.text: d.reason for d in draft.dropped}


def test_a_path_must_occur_whole_or_as_an_unambiguous_tail(check) -> None:  # type: ignore[no-untyped-def]
    """A whole path and a unique tail stay; a basename, an ambiguous tail and an invention go."""
    draft = check(
        files=tuple(
            FileItem(path=p)
            for p in (
                "src/core/auth.py",
                "@lib/auth.py",
                "core/auth.py",
                "auth.py",
                "src/made/up.py",
            )
        )
    )

    assert [f.path for f in draft.files] == ["src/core/auth.py", "lib/auth.py", "core/auth.py"]
    assert set(reasons(draft)) == {"auth.py", "src/made/up.py"}


def test_unvalidated_files_are_kept_and_labelled(check) -> None:  # type: ignore[no-untyped-def]
    """`validateFiles: false` keeps an unknown path as unverified."""
    draft = check(validate_files=False, files=(FileItem(path="src/made/up.py", refs=(1,)),))

    assert draft.files == (FileItem(path="src/made/up.py", verified=False),)


def test_a_command_must_have_been_run(check) -> None:  # type: ignore[no-untyped-def]
    """Commands of the thread stay, also with other white space; invented ones go."""
    draft = check(
        commands=(CommandItem(command="pytest -q tests"), CommandItem(command="rm -rf /"))
    )

    assert [c.command for c in draft.commands] == ["pytest -q tests"]
    assert reasons(draft) == {"rm -rf /": "this command was not run in the thread"}


def test_a_quote_of_the_user_must_be_the_users(check) -> None:  # type: ignore[no-untyped-def]
    """Words of the user stay in their mouth; words of the agent are never put there."""
    draft = check(
        asked=(
            Item(text='"keep the old API, whatever happens"', refs=(1,)),
            Item(text='"I will rename `Foo` to `Bar`."', refs=(2,)),
        ),
        decisions=(Item(text='"delete everything"', label="User"),),
    )

    assert [i.text for i in draft.asked] == ['"keep the old API, whatever happens"']
    assert draft.decisions == ()
    assert set(reasons(draft).values()) == {"the user did not write this"}


def test_code_in_prose_must_occur_even_where_it_was_clipped_in_memory(check) -> None:  # type: ignore[no-untyped-def]
    """A code span from the middle of a long result is found in the file; an invented one is not."""
    draft = check(
        context=(
            Item(text="it prints `needle-in-the-middle` [sic]", refs=(6,)),
            Item(text="it prints `needle-of-nobody`", refs=(6,)),
        )
    )

    assert [i.text for i in draft.context] == ["it prints `needle-in-the-middle` [sic]"]
    assert reasons(draft) == {
        "it prints `needle-of-nobody`": "`needle-of-nobody` does not occur in the thread"
    }


def test_nothing_is_failing_that_passed_later(check) -> None:  # type: ignore[no-untyped-def]
    """A failure that a later run of the same command cured is not handed on as open."""
    draft = check(
        state=(
            Item(
                text="`pytest -q tests`: `E   KeyError: 'x'`",
                refs=(5,),
                label="Failed, not passed since",
            ),
        )
    )

    assert draft.state == ()
    assert list(reasons(draft).values()) == ["it succeeded later in the thread"]


def test_placeholders_repetitions_and_what_is_over_a_cap_go(check) -> None:  # type: ignore[no-untyped-def]
    """Empty and placeholder items, second mentions and the seventh question are dropped."""
    texts = ["N/A", " ", "none", "Why?", "Why?", *(f"Question {n}?" for n in range(9))]
    draft = check(questions=tuple(Item(text=t) for t in texts))

    assert [i.text for i in draft.questions] == ["Why?", *(f"Question {n}?" for n in range(5))]
    assert {"empty or a placeholder", "said twice", "over the cap of 6"} == set(
        reasons(draft).values()
    )


def test_refs_that_no_entry_has_are_taken_off(check) -> None:  # type: ignore[no-untyped-def]
    """An item keeps only refs that can be opened."""
    draft = check(context=(Item(text="true", refs=(2, 99)),))

    assert draft.context[0].refs == (2,)
