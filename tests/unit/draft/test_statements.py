"""Statements: what was answered, refused, done or taken back."""

from pathlib import Path

import pytest
from making import derived, thread_of

from tasuki.draft.facts import statements
from tasuki.draft.facts.open_statements import find_done_at_once, find_superseded
from tasuki.draft.facts.statements import LeftOut, extract_user_statements, find_answered
from tasuki.draft.text import language_cues, lexicon
from tasuki.model import Entry, ToolCall
from tasuki_testing import ThreadBuilder

OPTIONS = "Two ways:\n1. Keep the cache in memory.\n2. **Ask Redis** each time.\nWhich port is it?"


def user(*texts: str) -> list[Entry]:
    """Messages of the user, one after the other."""
    return [Entry(ref=n, kind="user", text=text) for n, text in enumerate(texts, 1)]


def left(*texts: str) -> list[str]:
    """What is not superseded of some messages of the user."""
    stated = extract_user_statements(user(*texts))
    gone = find_superseded(stated)
    return [s.text for i, s in enumerate(stated) if i not in gone]


@pytest.mark.parametrize(
    ("reply", "answers"),
    [
        ("2 please", "Ask Redis each time."), ("let's go with option 1", "Keep the cache in memory."),
        ("8080 on both", "Which port is it?"), ("3.", "Which port is it?"),
    ],
)  # fmt: skip
def test_a_short_reply_is_shown_with_what_it_answers(reply: str, answers: str) -> None:
    """The option that it picks, else the question that was asked last."""
    assert find_answered(reply, OPTIONS) == answers


def test_an_offer_to_go_on_is_no_question_that_anybody_answers() -> None:
    """`Shall I proceed?` is small talk, and so its `yes` answers nothing."""
    assert find_answered("yes", "All done. Shall I proceed with the docs?") == ""


def test_a_reply_becomes_a_ruling_and_an_order_does_not() -> None:
    """`8080, as ever` rules on the port; `run the tests` asks for something else."""
    asked = Entry(ref=1, kind="assistant", text=OPTIONS)
    (ruling, order) = extract_user_statements(
        [asked, Entry(ref=2, kind="user", text="8080, as ever"),
         Entry(ref=3, kind="user", text="run the tests first")]
    )  # fmt: skip

    assert (ruling.kind, ruling.answers) == ("decision", "Which port is it?")
    assert (order.kind, order.answers) == ("request", "")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("The export runs on 60 requests a second.", "Make it 20 requests instead."),
        ("Sessions expire after 90 days of silence.", "They must not end after 90 days."),
        ("Put a dark mode toggle into the header bar.", "Forget the toggle, nobody asked for it."),
    ],
)
def test_what_was_replaced_denied_or_taken_back_is_gone(before: str, after: str) -> None:
    """Another figure for the same unit, a `not` with the same figure, and a thing to forget."""
    assert left(before, "The footer holds the imprint.", after) == [
        "The footer holds the imprint.",
        after,
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("The export runs on 60 requests a second.", "The page holds 20 rows at first."),
        ("Never end a session after 90 days.", "They must not end after 90 days."),
        ("Put a dark mode toggle into the header bar.", "Forget the footer, nobody asked for it."),
    ],
)
def test_what_speaks_of_something_else_takes_nothing_back(before: str, after: str) -> None:
    """Figures of another unit, two refusals of one thing, and another thing to forget."""
    assert before in left(before, after)


def test_a_small_request_that_the_edits_carried_out_is_done(tmp_path: Path) -> None:
    """It is done with the edits before the next message; wishes and the last messages are not."""
    builder = ThreadBuilder("claude")
    for text in (
        "rename the header button",
        "never rename the header button",
        "translate the footer text",
    ):
        builder.user(text).edit("ui/header.ts", "a", "rename(button)")
    builder.user("and then").user("and more").user("rename the header button").edit("ui/header.ts", "b", "rename(button)")  # fmt: skip
    thread = thread_of(builder, tmp_path)
    stated = derived(builder, tmp_path).statements

    assert [s.text for s in stated if s in find_done_at_once(stated, thread.entries)] == [
        "rename the header button"
    ]
    assert {s.ref for s in find_done_at_once(stated, thread.entries)} == {1}


def test_a_question_is_told_with_what_it_is_about() -> None:
    """The sentence before a question goes with it, an announcement before it does not."""

    def told(text: str) -> str:
        entry = Entry(ref=1, kind="assistant", text=text)
        return statements.extract_assistant_statements([entry])[-1].text

    about = "The vendor changed the limits."
    asks = "Do we know which `limit` is unclear to them?"
    assert told(f"{about} {asks}") == f"{about} {asks}"
    assert told(f"Let me check the vendor. {asks}") == asks  # fmt: skip


def test_small_talk_is_no_wish() -> None:
    """Coming and going says nothing about the work; a wish of the same length does."""
    for text in ("ok thanks, gotta run", "good night", "I'll be back tomorrow", "lunch"):
        assert language_cues.is_small_talk(text), text
    for text in (
        "stop the worker at once",
        "I want the tabs back",
        "thanks, but keep the old name of it",
        "we must stop using floats",
        "I'll leave the old table as it is",
    ):
        assert not language_cues.is_small_talk(text), text  # fmt: skip
    kinds = [s.kind for s in extract_user_statements(user("see you on monday", "never touch it"))]
    assert kinds == ["request", "constraint"]


def test_having_no_clue_takes_nothing_back() -> None:
    """`no clue` and `no problem` begin like a refusal and are none."""
    assert not language_cues.detect_cues("no clue, ask the vendor") & lexicon.REVERSAL
    assert not language_cues.detect_cues("no problem with tabs") & lexicon.REVERSAL
    assert language_cues.detect_cues("no, use tabs") & lexicon.REVERSAL


def refused(command: str, *after: Entry) -> list[Entry]:
    """A call that the user refused, and what came behind it."""
    call = ToolCall(id="1", name="Bash", kind="shell", command=command, status="refused")
    return [Entry(ref=1, kind="tool", tool=call), *after]


def test_words_that_refuse_a_call_bind_and_name_it() -> None:
    """The next message says why; one behind other entries does not, nor one behind a call that ran."""
    why = Entry(ref=2, kind="user", text="we only deploy on mondays, with the others around")
    (told,) = extract_user_statements(refused("make `deploy` STAGE=live", why))
    (later,) = extract_user_statements(
        refused("make deploy", Entry(ref=2, kind="assistant", text="Why?"), why)
    )

    assert (told.kind, told.refuses, told.answers) == (
        "decision",
        "Bash make deploy STAGE=live",
        "",
    )
    assert told.weight >= statements.REFUSAL_WEIGHT
    assert later.refuses == ""
    assert (
        len(extract_user_statements(refused("x" * 500, why))[0].refuses)
        <= statements.MAX_REFUSED_CALL
    )


def test_a_chosen_option_stands_with_its_question() -> None:
    """Of a form with several questions each answer is a ruling of its own, in the form's order."""
    text = (
        'asked "Which store?", the user chose "Redis (Recommended)"\n'
        'asked "How long, in days?", the user answered "30"'
    )
    found = extract_user_statements([Entry(ref=4, kind="user", text=text, origin="answer")])

    assert [(s.text, s.answers, s.kind, s.weight) for s in found] == [
        ("Redis (Recommended)", "Which store?", "decision", statements.CHOSEN_WEIGHT),
        ("30", "How long, in days?", "decision", statements.CHOSEN_WEIGHT),
    ]
    assert [s.shown for s in found] == [
        'asked "Which store?", the user chose "Redis (Recommended)"',
        '"30" — answering: How long, in days?',
    ]
    (free,) = extract_user_statements(
        [Entry(ref=4, kind="user", text="none of these, use sqlite", origin="answer")]
    )
    assert (free.text, free.answers) == ("none of these, use sqlite", "")


def test_a_message_is_cut_where_lines_were_pasted_into_it() -> None:
    """What is on both sides of a block of code is two sentences, and all are the user's."""
    pasted = f"can you look at this\n```\n{'boom ' * 120}\n```\nplease never touch the queue\nand keep it"

    assert [s.text for s in extract_user_statements(user(pasted, "ok"))] == [
        "can you look at this", ("boom " * 120).strip(), "please never touch the queue and keep it", "ok",
    ]  # fmt: skip
    assert [
        s.text
        for s in extract_user_statements(
            user("Never touch the queue.  It is\nwatched by   others.")
        )
    ] == ["Never touch the queue. It is watched by others."]


def test_a_message_that_repeats_the_agent_is_cut_and_what_was_repeated_goes() -> None:
    """An option in a long message that the user copied is the agent's; what they wrote below it is theirs."""
    below = "But never log its keys. " + "There is a house with a red door. " * 20
    option = "Keep the whole cache in the memory of the worker."
    before = Entry(ref=1, kind="assistant", text=f"Two ways:\n1. {option}\n2. Ask Redis.")
    after = Entry(ref=2, kind="user", text=f"{option}\n\n{below}")
    short = Entry(ref=3, kind="user", text=f"{option}\nBut never log its keys. Not even once.")
    left_out: list[LeftOut] = []

    stated = extract_user_statements([before, after, short], {}, left_out)
    assert [s.text for s in stated][:1] == ["But never log its keys."]
    assert stated[-1].text == f"{option} But never log its keys. Not even once."
    assert left_out == [LeftOut(2, option, "the agent had printed it before")]


def test_a_message_of_several_sentences_is_not_replaced_as_a_whole() -> None:
    """One figure in it is out of date; the rule beside it still holds."""
    said = "Keep the backups for 14 days. Never touch the monthly ones."

    assert left(said, "Keep the backups for 30 days instead.") == [
        said,
        "Keep the backups for 30 days instead.",
    ]
