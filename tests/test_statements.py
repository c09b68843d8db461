"""Statements: what was answered, done, taken back or left open, and what offline drafts take of them."""

from pathlib import Path

import pytest
from making import derived, thread_of

from tasuki.draft import said, statements
from tasuki.draft.authors import offline
from tasuki.draft.authors.offline import Taken
from tasuki.draft.authors.task import Task
from tasuki.draft.facts import derive
from tasuki.draft.statements import Statement, Talk, answered, done_at_once, of_user, superseded
from tasuki.model import CommandFact, Entry, Facts, Goal, Item, Quote
from tasuki.testing import ThreadBuilder

LIMITS = {"files": 20, "commands": 20, "context": 20, "decisions": 20, "questions": 20}
OPTIONS = "Two ways:\n1. Keep the cache in memory.\n2. **Ask Redis** each time.\nWhich port is it?"


def user(*texts: str) -> list[Entry]:
    """Messages of the user, one after the other."""
    return [Entry(ref=n, kind="user", text=text) for n, text in enumerate(texts, 1)]


def left(*texts: str) -> list[str]:
    """What is not superseded of some messages of the user."""
    stated = of_user(user(*texts))
    gone = superseded(stated)
    return [s.text for i, s in enumerate(stated) if i not in gone]


def is_open(question: str, *after: tuple[str, str], by_user: bool = False) -> bool:
    """Whether a question is open after what was said."""
    asked = Statement(question, 1, "question", 1.0, by_user)
    entries = [Entry(ref=n, kind=kind, text=text) for n, (kind, text) in enumerate(after, 2)]  # type: ignore[arg-type]
    return statements.unanswered(asked, Talk(entries))


def offered(builder: ThreadBuilder, folder: Path, goal: str) -> dict[str, list[Item]]:
    """What an offline draft is offered of a built thread."""
    thread = thread_of(builder, folder)
    return offline.offer(Task(thread, derive(thread, None, goal), Goal(goal), LIMITS), True, 2_000)


@pytest.mark.parametrize(
    ("reply", "answers"),
    [
        ("2 please", "Ask Redis each time."), ("let's go with option 1", "Keep the cache in memory."),
        ("8080 on both", "Which port is it?"), ("3.", "Which port is it?"),
    ],
)  # fmt: skip
def test_a_short_reply_is_shown_with_what_it_answers(reply: str, answers: str) -> None:
    """The option that it picks, else the question that was asked last."""
    assert answered(reply, OPTIONS) == answers


def test_an_offer_to_go_on_is_no_question_that_anybody_answers() -> None:
    """`Shall I proceed?` is small talk, and so its `yes` answers nothing."""
    assert answered("yes", "All done. Shall I proceed with the docs?") == ""


def test_a_reply_becomes_a_ruling_and_an_order_does_not() -> None:
    """`8080, as ever` rules on the port; `run the tests` asks for something else."""
    asked = Entry(ref=1, kind="assistant", text=OPTIONS)
    (ruling, order) = of_user(
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

    assert [s.text for s in stated if s in done_at_once(stated, thread.entries)] == [
        "rename the header button"
    ]
    assert {s.ref for s in done_at_once(stated, thread.entries)} == {1}


def test_a_question_of_the_agent_is_answered_by_a_short_reply_unless_it_is_put_off() -> None:
    """A pick and a short message answer; `later` and an order do not."""
    asked = "Should the importer keep the duplicate rows?"

    assert not is_open(asked, ("user", "yes"))
    assert not is_open(asked, ("user", "the newest of each is enough, I would say, as before"))
    assert is_open(asked, ("user", "later"))
    assert is_open(asked, ("user", "run the whole suite against staging and show me what is red"))
    assert is_open(asked)


def test_a_question_of_the_user_is_open_when_the_reply_leaves_it_so() -> None:
    """What the agent does not know, or never came to, is open; a plain reply closes it."""
    asked = "Which region do the backups live in?"

    assert not is_open(asked, ("assistant", "They live in eu-west-1."), by_user=True)
    assert is_open(asked, ("assistant", "That is unclear from the code."), by_user=True)
    assert is_open(asked, ("user", "hello"), by_user=True)


def test_a_question_is_told_with_what_it_is_about() -> None:
    """The sentence before a question goes with it, an announcement before it does not."""

    def told(text: str) -> str:
        entry = Entry(ref=1, kind="assistant", text=text)
        return statements.of_assistant([entry])[-1].text

    about = "The vendor changed the limits."
    asks = "Do we know which `limit` is unclear to them?"
    assert told(f"{about} {asks}") == f"{about} {asks}"
    assert told(f"Let me check the vendor. {asks}") == asks  # fmt: skip


def test_small_talk_is_no_wish() -> None:
    """Coming and going says nothing about the work; a wish of the same length does."""
    for text in ("ok thanks, gotta run", "good night", "I'll be back tomorrow", "lunch"):
        assert said.is_small_talk(text), text
    for text in (
        "stop the worker at once",
        "I want the tabs back",
        "thanks, but keep the old name of it",
    ):
        assert not said.is_small_talk(text), text  # fmt: skip
    assert of_user(user("see you on monday", "never touch the billing table")) == of_user(
        [Entry(ref=2, kind="user", text="never touch the billing table")]
    )


def test_having_no_clue_takes_nothing_back() -> None:
    """`no clue` and `no problem` begin like a refusal and are none."""
    assert not said.marks("no clue, ask the vendor") & said.REVERSAL
    assert not said.marks("no problem with tabs") & said.REVERSAL
    assert said.marks("no, use tabs") & said.REVERSAL


def test_nearly_the_same_is_told_once() -> None:
    """A text adds something unless most of its words were told; short ones must be the same."""
    taken = Taken()

    assert taken.adds("The cache keeps stale rows of the tenant.")
    assert not taken.adds("the cache keeps stale rows of a tenant")
    assert taken.adds("The cache of the session is empty now.")
    assert taken.adds("Use tabs")
    assert taken.adds("Use spaces")
    assert not taken.adds("use tabs!")


def test_an_errand_is_over_with_a_later_commit() -> None:
    """`commit and push` is done once a commit follows; a wish about commits stays."""
    errand = Statement("commit it and push", 3, "request", 0.2, True)
    wish = Statement("never push to main", 3, "constraint", 2.0, True)
    later, earlier = (Facts(subjects=(Quote(text="x", ref=n),)) for n in (4, 2))

    assert offline._is_errand(errand, later)
    assert not offline._is_errand(errand, earlier)
    assert not offline._is_errand(wish, later)


def test_a_goal_against_the_agents_last_advice_is_told_the_advice(tmp_path: Path) -> None:
    """What the agent's last words warn of is no step still to do, but an overruled one."""
    advice = "I would not add the Redis cache to the session store, because it doubles the latency."
    builder = ThreadBuilder("claude").user("what next?").assistant(advice)
    label = "Overruled by the goal, as said before it"

    told = offered(builder, tmp_path, "add the Redis cache to the session store")
    assert [i.text for i in told["state"] if i.label == label] == [advice]
    assert advice not in [i.text for i in told["context"]]
    other = offered(builder, tmp_path, "translate the footer")
    assert label not in {i.label for i in other["state"]}


def test_what_one_message_said_stands_together_in_its_own_order(tmp_path: Path) -> None:
    """Lines are ordered by the best of their message, and inside of it as it was written."""
    thread = thread_of(
        ThreadBuilder("claude").user("go").assistant("First **this**. Then that.").assistant("Or."),
        tmp_path,
    )
    that, other, this = (
        Item(text="Then that.", refs=(2,)),
        Item(text="Or.", refs=(3,)),
        Item(text="First this.", refs=(2,)),
    )

    assert offline._as_said([that, other, this], thread) == [this, that, other]
    assert offline._as_said([other, that, this], thread) == [other, this, that]


@pytest.mark.parametrize(
    ("text", "tells"),
    [
        ("The retry path is still missing.", True), ("A follow-up is the migration.", True),
        ("The Windows build is untested.", True), ("I'd split it by tenant.", True),
        ("Next I open the file.", False), ("次に移行を書きます。", True), ("The cache — a dict — is fast.", False), ("The parser reads a line.", False),
    ],
)  # fmt: skip
def test_older_sentences_tell_of_work_to_do_by_their_words(text: str, tells: bool) -> None:
    """What is missing, untested or left for later is told apart from an announcement."""
    assert bool(offline._LEFT_TO_DO.search(text)) is tells


def test_a_failure_is_over_once_the_tests_passed() -> None:
    """Only a passed run of the tests behind an entry counts."""

    def after(**check: object) -> bool:
        run = CommandFact(command="x", **{"refs": (5,), "ok": True, "check": "test", **check})  # type: ignore[arg-type]
        return offline._passed_since(4, Facts(last_check=(run,)))

    assert after()
    assert not after(ok=False)
    assert not after(check="lint")
    assert not after(refs=(3,))
