"""Checks: nothing in a draft that the thread does not hold, and each drop is reported."""

from pathlib import Path

import pytest
from making import thread_of

from tasuki.draft.claims import checker
from tasuki.draft.facts.derive import derive_facts
from tasuki.model import Authorship, CommandItem, Draft, FileItem, Goal, Item
from tasuki_testing import ThreadBuilder

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
    derived = derive_facts(thread)

    def run(validate_files: bool = True, **sections):  # type: ignore[no-untyped-def]
        draft = Draft(goal=Goal(text="g"), **sections)
        return checker.DraftChecker(thread, derived, draft.goal, {}, validate_files).check_draft(
            draft
        )

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
        authorship=Authorship(author="model"),
        state=(
            Item(
                text="`pytest -q tests`: `E   KeyError: 'x'`",
                refs=(5,),
                label="Failed, and did not pass since",
            ),
        ),
    )

    assert draft.state == ()
    assert list(reasons(draft).values()) == ["it succeeded later in the thread"]


def test_the_derived_state_is_left_as_it_is(check) -> None:  # type: ignore[no-untyped-def]
    """Its lines rest on what programs printed, in fixed words; only refs that can be opened stay."""
    lines = (
        Item(text="`feature/none`; nothing was committed in this thread", label="Branch"),
        Item(text="`pytest -q` passed: `5 passed`", refs=(7, 99), label="Tests"),
    )
    draft = check(state=lines)

    assert [(i.label, i.text, i.refs) for i in draft.state] == [
        ("Branch", lines[0].text, ()),
        ("Tests", lines[1].text, (7,)),
    ]
    assert draft.dropped == ()


def test_placeholders_and_repetitions_go(check) -> None:  # type: ignore[no-untyped-def]
    """Empty and placeholder items and second mentions are dropped."""
    texts = ["N/A", " ", "none", "Why?", "Why?", "Question?"]
    draft = check(questions=tuple(Item(text=t) for t in texts))

    assert [i.text for i in draft.questions] == ["Why?", "Question?"]
    assert {"empty or a placeholder", "said twice"} == set(reasons(draft).values())


def test_caps_count_what_an_author_wrote(check) -> None:  # type: ignore[no-untyped-def]
    """The seventh question of an author is dropped; facts fill a section without a cap."""
    questions = tuple(
        Item(text=f"Does {word} rename `Foo` to `Bar`?", refs=(2,))
        for word in ("who", "it", "that", "he", "she", "one", "this", "they", "some")
    )
    authored = check(questions=questions, authorship=Authorship(author="model"))
    derived = check(questions=questions)

    assert authored.questions == questions[:6]
    assert set(reasons(authored).values()) == {"over the cap of 6"}
    assert derived.questions == questions
    assert derived.dropped == ()


def test_what_an_author_says_of_the_state_takes_no_place_of_the_context(check) -> None:  # type: ignore[no-untyped-def]
    """Labelled items of the context have the cap of the state, and the others keep theirs."""
    words = "who it that he she one this they some any many all none both each such".split()
    labelled = tuple(
        Item(text=f"{word} renames `Foo` to `Bar`", refs=(2,), label="Done") for word in words
    )
    plain = tuple(Item(text=f"`Foo` is renamed to `Bar` by {w}", refs=(2,)) for w in words)
    draft = check(context=(*labelled, *plain), authorship=Authorship(author="model"))

    assert draft.context == (*labelled, *plain[:12])
    assert set(reasons(draft).values()) == {"over the cap of 12"}


@pytest.mark.parametrize(
    ("label", "stays"),
    [
        ("Under way", False),
        ("Next step", False),
        ("Next step, the user", False),
        ("Failed, and did not pass since", False),
        ("Failed or rejected", True),
        ("Done", True),
        ("", True),
    ],
)
def test_what_an_author_calls_open_did_not_succeed_later(check, label: str, stays: bool) -> None:  # type: ignore[no-untyped-def]
    """An item that is called open goes if the run that it cites passed later; a memory of it stays."""
    item = Item(text="the tests fail with `KeyError: 'x'`", refs=(5,), label=label)
    draft = check(context=(item,), authorship=Authorship(author="model"))

    assert draft.context == ((item,) if stays else ())
    assert set(reasons(draft).values()) == (
        set() if stays else {"it succeeded later in the thread"}
    )


def test_a_folder_may_begin_with_an_at_sign(tmp_path: Path) -> None:
    """A known path keeps its `@`; only the mark that an author puts before a path is taken off."""
    thread = thread_of(ThreadBuilder("claude").edit("@types/global.d.ts", "a", "b"), tmp_path)
    derived, goal = derive_facts(thread), Goal(text="g")
    paths = ("@types/global.d.ts", "@@types/global.d.ts")
    draft = checker.DraftChecker(thread, derived, goal, {}).check_draft(
        Draft(goal=goal, files=tuple(FileItem(path=p) for p in paths))
    )

    assert [f.path for f in draft.files] == ["@types/global.d.ts"]
    assert reasons(draft) == {"@types/global.d.ts": "said twice"}


def test_refs_that_no_entry_has_are_taken_off(check) -> None:  # type: ignore[no-untyped-def]
    """An item keeps only refs that can be opened."""
    draft = check(context=(Item(text="true", refs=(2, 99)),))

    assert draft.context[0].refs == (2,)
