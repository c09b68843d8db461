"""What the user asked for and ruled: whose words, in which order, and what gives way."""

from pathlib import Path

import pytest
from making import thread_of

from tasuki.draft.authors.author import AuthorTask
from tasuki.draft.facts.derive import derive_facts
from tasuki.draft.facts.statements import Statement
from tasuki.draft.rank.history import (
    JOINED,
    LAST_WHOLE,
    PASTED,
    is_only_question,
    quote_rulings,
)
from tasuki.draft.text.entries import split_turns
from tasuki.model import Entry, Goal, Item, Thread, ToolCall
from tasuki_testing import ThreadBuilder

LIMITS = {"files": 20, "commands": 20, "context": 20, "decisions": 20, "questions": 20}
GOAL = "go on"
NAMES = "orders users rooms pages games books songs trees lakes boats roads hills birds stars clouds".split()


def rulings_of(
    thread: Thread, room: int = 5_000, goal: str = GOAL
) -> tuple[list[Item], list[Item]]:
    """The items of a thread, and what was left out."""
    task = AuthorTask(thread, derive_facts(thread, None, goal), Goal(goal), LIMITS)
    return quote_rulings(
        split_turns(thread.entries), task.derived, task.open_statements, task.relevance, room
    )


def asked(thread: Thread, room: int = 5_000, goal: str = GOAL) -> list[tuple[str, tuple[int, ...]]]:
    """Text and refs of the items."""
    return [(item.text, item.refs) for item in rulings_of(thread, room, goal)[0]]


def quoted(thread: Thread) -> str:
    """All that is quoted, a line each."""
    return "\n".join(text for text, _ in asked(thread))


def talk(*messages: str) -> Thread:
    """A thread of messages; those of the agent begin with `A: `."""
    entries = [
        Entry(ref=n, kind="assistant", text=text[3:])
        if text.startswith("A: ")
        else Entry(ref=n, kind="user", text=text)
        for n, text in enumerate(messages, 1)
    ]
    return Thread(harness="", id="", path="", cwd="/p", entries=tuple(entries))


def with_answer(*pairs: tuple[str, str]) -> Thread:
    """A thread in which the user filled in a form."""
    text = "\n".join(f'asked "{asked}", the user chose "{chosen}"' for asked, chosen in pairs)
    entries = (
        Entry(ref=1, kind="user", text="Build the store"),
        Entry(ref=2, kind="user", text=text, origin="answer"),
        Entry(ref=3, kind="assistant", text="All right."),
    )
    return Thread(harness="", id="", path="", cwd="/p", entries=entries)


def test_words_stand_in_the_order_of_time_with_message_and_answer() -> None:
    """Each item cites the message and the agent's last one behind it, where it said anything."""
    thread = talk("Never touch the queue.", "A: I see.", "A: Done.", "Use tabs in all of it.", "Only on Linux, please.")  # fmt: skip

    assert asked(thread) == [
        ('"Never touch the queue."', (1, 3)),
        ('"Use tabs in all of it."', (4,)),
        ('"Only on Linux, please."', (5,)),
    ]


FILLER = "There is a house with a garden and a red door that somebody painted once. " * 9


@pytest.mark.parametrize("harness", ["claude", "codex", "pi"])
def test_only_the_users_own_words_are_quoted(harness: str, tmp_path: Path) -> None:
    """Not what the harness put into a message, nor what the agent had said; a short message is whole."""
    option = "Never ask Redis, always keep the whole cache in the memory of the worker."
    builder = ThreadBuilder(harness).handoff("- Never use tabs.").user("Mend the cache, please")
    builder.assistant(f"Two ways:\n1. {option}\n2. Must always ask Redis each time.")
    builder.user(f"{option}\nI want this one, but never log its keys").compaction(
        "Must never stop."
    )
    builder.user("look at this review:\n\nYou must rename Foo.\n\nMedium Severity").assistant("Hm.")
    builder.user(f"{option}\n\n{FILLER}\n\nBut no threads").assistant("Fine.").user("Go on then")
    texts = " ".join(text for text, _ in asked(thread_of(builder, tmp_path)))

    assert all(
        own in texts for own in ("never log its keys", "You must rename Foo.", "But no threads")
    )
    assert not [foreign for foreign in ("tabs", "Must") if foreign in texts]
    assert texts.count("keep the whole") == 1


def test_sentences_that_do_not_follow_one_another_are_joined_by_a_mark() -> None:
    """Of a long message the chosen sentences stand in its own order, ` … ` between them."""
    small = (
        "There is a house with a garden and a red door that somebody painted once upon a time. " * 8
    )
    text = f"Never touch the queue of the workers.\n\n{small}\n\nAlways keep the old names of all columns."
    ((told, _), *_) = asked(talk(text, "A: Yes.", "one more", "and more", "and the rest"), 120)

    assert told == f'"Never touch the queue of the workers.{JOINED}Always keep the old names of all columns."'  # fmt: skip


def test_a_refusal_names_the_refused_call() -> None:
    """What was refused stands behind the user's words."""
    call = ToolCall(id="1", name="Bash", kind="shell", command="git push -f", status="refused")
    entries = (
        Entry(ref=1, kind="user", text="Ship the release"),
        Entry(ref=2, kind="tool", tool=call),
        Entry(ref=3, kind="user", text="not on a friday, and never by force"),
    )
    thread = Thread(harness="", id="", path="", cwd="/p", entries=entries)

    assert asked(thread)[-1] == (
        '"not on a friday, and never by force" — refusing: Bash git push -f',
        (3,),
    )


def test_a_short_reply_names_its_question() -> None:
    """What a `yes` says is told by what was asked."""
    thread = talk("Mend the port.", "A: I see two. Should the old port 8080 stay open?", "yes, for now")  # fmt: skip

    assert asked(thread)[-1] == (
        '"yes, for now" — answering: Should the old port 8080 stay open?',
        (3,),
    )


def test_each_chosen_option_stands_with_its_own_question() -> None:
    """Of a form with two questions there are two items, in the form's order."""
    thread = with_answer(("Which store?", "Redis"), ("How long, in days?", "30"))

    assert asked(thread)[1:] == [
        ('asked "Which store?", the user chose "Redis"', (2, 3)),
        ('asked "How long, in days?", the user chose "30"', (2, 3)),
    ]


def test_the_last_three_messages_stand_whole_before_older_small_talk() -> None:
    """Where there is not room for all, they come before what older messages said without binding."""
    old = [f"please look at the {name} and tell me about it" for name in NAMES]
    last = [
        f"Now for the {name}: read it. Mend it! Then say what is left of it"
        for name in NAMES[:LAST_WHOLE]
    ]
    told = asked(talk(*old, *last), sum(map(len, last)) + 30 * LAST_WHOLE)

    assert [text for text, _ in told[-LAST_WHOLE:]] == [f'"{text}"' for text in last]


def test_a_ruling_of_long_ago_comes_before_an_errand_of_later() -> None:
    """What binds is kept when there is little room; an errand that was run is left out."""
    errands = [f"look at file {n} of the worker please" for n in range(12)]
    thread = talk("Mend it.", "Never, under no circumstances, touch the billing table.", *errands)
    room = sum(len(e) + 18 for e in errands[-LAST_WHOLE:]) + 100

    assert '"Never, under no circumstances, touch the billing table."' in [t for t, _ in asked(thread, room)]  # fmt: skip
    assert len(asked(thread, room)) < len(thread.entries)


def test_an_answered_question_gives_way() -> None:
    """Of two questions the one that nobody answered is kept, although it is older."""
    late = ["do the first", "do the second", "do the third"]
    reader, writer = "What does the reader cost us?", "What does the writer cost us?"
    answered = talk("Mend it.", writer, reader, "A: 3 ms.", *late)
    room = sum(len(text) + 18 for text in ("Mend it.", *late)) + 60
    told = [text for text, _ in asked(answered, room)]

    assert f'"{writer}"' in told
    assert f'"{reader}"' not in told


def test_a_message_that_asks_and_says_more_is_no_mere_question() -> None:
    """Only where every sentence of it is a question."""

    def of(text: str, kind: str = "question") -> bool:
        return is_only_question(Statement(text, 1, kind, 1.0, True))  # type: ignore[arg-type]

    assert of("Why is it slow? And since when?")
    assert of('Is it "lazy"?)')
    assert not of("Why is it slow? Never cache it.")
    assert not of("Why is it slow?", "constraint")


@pytest.mark.parametrize("room", [-9, 0, 40, 150, 600, 2_000])
def test_what_is_quoted_fits_and_the_rest_is_told_as_left_out(room: int) -> None:
    """Nothing is longer than the room, and what binds but found none is left out, not lost."""
    wishes = [
        f"Never change the columns of the {name} table, whatever happens to it" for name in NAMES
    ]
    items, left = rulings_of(talk(*wishes), room)

    assert sum(len(item.text) for item in items) <= max(room, 0)
    assert sorted(item.text for item in (*items, *left)) == sorted(f'"{wish}"' for wish in wishes)
    assert [item.refs for item in items] == sorted(item.refs for item in items)


def test_what_was_taken_back_is_not_quoted() -> None:
    """A wish that a later message called off is gone, and so is one that the edits carried out."""
    thread = talk("Put a dark mode toggle into the header bar.", "A: Done.", "Forget the toggle, nobody asked for it.")  # fmt: skip

    assert [text for text, _ in asked(thread)] == ['"Forget the toggle, nobody asked for it."']


@pytest.mark.parametrize(
    "words", ["yes please, go ahead", "ok, let's implement this", "yup, capture and let's continue", "fix it up", "yeah, give it a try"]
)  # fmt: skip
def test_letting_the_agent_go_ahead_is_told_only_of_the_last_message(words: str) -> None:
    """It was done since; as the last message it is what the successor goes on with."""
    before = ("Never touch the queue.", "A: I see. Shall I draft it?")
    since = ("A: Drafted.", "Use tabs in all of it.", "A: I will.")

    assert words not in quoted(talk(*before, words, *since))
    assert words in quoted(talk(*before, words))


@pytest.mark.parametrize(
    "words", ["yeah, that sounds better for now", "let's keep it simple for now", "na, let's give it a try", "ok, do 1+2 next", "fix the tests", "give up on this", "go with one", "Plan one, please", "do the next one", "fix them all"]
)  # fmt: skip
def test_an_answer_that_rules_is_kept(words: str) -> None:
    """More than a yes: it chooses, limits or refuses something."""
    thread = talk("Never touch the queue.", "A: One cache or two caches?", words, "A: Done.", "Use tabs.", "A: I do.")  # fmt: skip

    assert words in quoted(thread)


def test_a_chosen_option_is_told_even_where_it_only_says_yes() -> None:
    """In a form the question says what was agreed to."""
    thread = with_answer(("Should the store keep deleted rows?", "Yes, please"))

    assert [text for text, _ in asked(thread)][-1] == (
        'asked "Should the store keep deleted rows?", the user chose "Yes, please"'
    )


def test_numbered_answers_keep_their_numbers() -> None:
    """Of a long list of answers, cut up, each one still tells which point it answers."""
    reply = (
        "1. I agree that the workers must never share one connection, whatever the pool says about it\n"
        "2. we found that smaller commits are easier to read, so keep every change below 200 lines\n"
        "3. yes this is confusing, let's stop doing it\n\n"
        "And always tell me before you touch the schema."
    )
    told = quoted(talk("Review the plan.", "A: Three points.", reply, "A: Noted."))

    assert "2. we found that smaller commits" in told
    assert "3. yes this is confusing" in told
    assert "always tell me before" in told


def test_a_message_that_is_the_goal_is_not_told_twice() -> None:
    """It stands to the letter at the end of the brief; at a compaction it is the last message too."""
    thread = talk("Never touch the queue.", "A: I see.", "Sort the branches  by date")

    assert "Sort the branches" in quoted(thread)
    task = AuthorTask(thread, derive_facts(thread), Goal("Sort the branches by date"), LIMITS)
    items, _ = quote_rulings(
        split_turns(thread.entries), task.derived, task.open_statements, task.relevance, 5_000
    )
    assert [item.text for item in items] == ['"Never touch the queue."']


def test_numbers_do_not_make_answers_replace_one_another() -> None:
    """Two points that are worded alike are two points; each has its own number, also where words repeat."""
    alike = "1. Never log the request body\n\n2. Never log the response body"
    again = "1. Go with your recommendation\n\n2. No, drop it entirely\n\n3. Go with your recommendation"
    told = quoted(talk("Plan it.", "A: Points:", alike, "A: Noted.", again))

    assert "1. Never log the request body" in told
    assert "2. Never log the response body" in told
    assert "1. Go with your recommendation" in told
    assert "2. No, drop it entirely" in told


def test_a_yes_that_answers_a_question_is_kept_with_it() -> None:
    """What was agreed to is told by the question."""
    thread = talk("Plan it.", "A: Should we drop Python 3.8 support in this release?", "yes please", "A: Done.", "Use tabs.", "A: I do.")  # fmt: skip

    assert '"yes please" — answering: Should we drop Python 3.8 support' in quoted(thread)


def test_an_earlier_message_that_reads_like_the_goal_stays() -> None:
    """Only the last one is the goal; the other answered something else."""
    thread = talk("Plan it.", "A: Option 1 is a cache, option 2 a queue. Which one?", "option 2", "A: Good.", "Use tabs.")  # fmt: skip
    task = AuthorTask(thread, derive_facts(thread), Goal("option 2"), LIMITS)
    items, _ = quote_rulings(
        split_turns(thread.entries), task.derived, task.open_statements, task.relevance, 5_000
    )

    assert any(item.text.startswith('"option 2"') for item in items)


def ran(ref: int, output: str) -> Entry:
    """A command with what it printed."""
    call = ToolCall(
        id=f"c{ref}", name="Bash", kind="shell", command="make", output=output, status="ok"
    )
    return Entry(ref=ref, kind="tool", tool=call)


def test_what_only_repeats_a_program_is_labelled_as_pasted() -> None:
    """An error block, and lines that a program of the thread printed, are no rules; own words beside them are."""
    entries = (
        Entry(ref=1, kind="user", text="Build it with the new loader, please."),
        ran(2, "loader: reading 14 tables of the store\nloader: stopped at table seven of them\nkeep it small for now"),
        Entry(ref=3, kind="user", text="loader: reading 14 tables of the store\nloader: stopped at table seven of them"),
        Entry(ref=4, kind="user", text="error: replicate: push declined by the rules of the repository"),
        Entry(ref=5, kind="user", text="nginx: [warn] the \"user\" directive makes no sense here"),
        Entry(ref=6, kind="user", text="keep it small for now"),
        Entry(ref=7, kind="user", text="Never touch the error: lines of the log."),
    )  # fmt: skip
    thread = Thread(harness="", id="", path="", cwd="/p", entries=entries)

    assert {item.refs[0]: item.label for item in rulings_of(thread)[0]} == {
        1: "", 3: PASTED, 4: PASTED, 5: PASTED, 6: "", 7: "",
    }  # fmt: skip


def test_a_mark_of_omission_is_only_where_something_is_left_out() -> None:
    """Sentences that follow one another are quoted as they are, list marks and headings with them."""
    text = "Never touch the queue of the store. It is shared by all of them.\n- Keep the old names of it\n- Use tabs in all of the files\n" + "So it must be. " * 40  # fmt: skip
    words = quoted(talk(text, "A: Yes."))

    assert (
        "Never touch the queue of the store. It is shared by all of them. - Keep the old names of it - Use tabs"
        in words
    )
