"""What a block of an earlier message is worth: late, near and whole before old, overtaken and announced."""

from collections.abc import Callable
from pathlib import Path

import pytest
from making import thread_of

from tasuki.draft.authors.author import AuthorTask
from tasuki.draft.authors.offline import DraftComposer
from tasuki.draft.facts.derive import derive_facts
from tasuki.draft.rank import block_worth
from tasuki.draft.rank.block_worth import BlockWorth
from tasuki.model import Goal
from tasuki.testing import ThreadBuilder

LIMITS = {"files": 20, "commands": 20, "context": 20, "decisions": 20, "questions": 20}
CAUSE = "The importer drops rows because `merge_key` ignores the tenant."
Weigh = Callable[..., float]


@pytest.fixture
def weigh(tmp_path: Path) -> Weigh:
    """The worth of the block of a thread that begins with some words."""

    def worth(builder: ThreadBuilder, begins: str, goal: str = "go on") -> float:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        thread = thread_of(builder, folder)
        task = AuthorTask(thread, derive_facts(thread, None, goal), Goal(goal), LIMITS)
        composer = DraftComposer(task, 4_000, True)
        (block,) = [b for b in composer.blocks if b.text.startswith(begins)]
        return BlockWorth(task, composer.turns, composer.picker).weigh(block)

    return worth


def talk(*said: str) -> ThreadBuilder:
    """A thread of turns with one answer each."""
    builder = ThreadBuilder("claude")
    for text in said:
        builder.user("Tell me about the mailer, please").assistant(text)
    return builder


def later(builder: ThreadBuilder, turns: int) -> ThreadBuilder:
    """Turns about something else, without an edit."""
    for _ in range(turns):
        builder.user("Which colour has the sea today?").assistant("Blue as ever.")
    return builder


def test_a_plan_or_report_loses_with_each_message_of_the_user(weigh: Weigh) -> None:
    """A message of several parts is worked off or overruled; a single statement holds on."""
    report = f"{CAUSE}\n\nThe exporter is slow.\n\nThe mailer sends twice."
    soon, late = (weigh(later(talk(report), n), CAUSE) for n in (1, 8))
    alone = [weigh(later(talk(CAUSE), n), CAUSE) for n in (1, 8)]

    assert late < soon / 3
    assert alone[1] > alone[0] / 3


def test_code_and_tables_of_earlier_turns_are_worth_little(weigh: Weigh) -> None:
    """They show how it was, or was going to be."""
    builder = later(talk(f"{CAUSE}\n\n```py\nmerge_key = row.id\n```"), 1)

    assert weigh(builder, "```py") < weigh(builder, CAUSE) / 2


def test_what_only_introduces_is_worth_nothing_by_itself(weigh: Weigh) -> None:
    """It is quoted with what it introduces."""
    assert weigh(later(talk("Look at the timeline:\n\n- first"), 1), "Look at") == 0.0


@pytest.mark.parametrize(
    ("change", "is_less"),
    [("merge_key = (row.tenant, row.id)", True), ("colour = 'blue'", False)],
)
def test_a_finding_whose_code_was_edited_since_is_worth_less(
    change: str, is_less: bool, weigh: Weigh
) -> None:
    """What a finding says of a name is true until that name is edited."""
    finding = "`merge_key` should hold the tenant."
    builder = talk(finding).edit("src/rows.py", "x = 1", change).assistant("Changed.")
    before = talk(finding).read("src/rows.py", "x = 1").assistant("Changed.")

    assert (weigh(builder, finding) < weigh(before, finding)) is is_less


def test_what_speaks_of_the_goal_or_of_the_last_topic_is_worth_more(weigh: Weigh) -> None:
    """The words of the goal, and of the last messages, are looked for."""
    builder = later(talk(CAUSE), 2)
    near = talk(CAUSE).user("Why does the importer drop rows of a tenant?").assistant("As I said.")
    far = talk(CAUSE).user("Why is the sea always of that colour?").assistant("As I said.")

    assert weigh(builder, CAUSE, "fix the importer that drops rows") > weigh(builder, CAUSE)
    assert weigh(near, CAUSE) > weigh(far, CAUSE)


def test_an_announcement_is_worth_little(weigh: Weigh) -> None:
    """It was done since."""
    assert block_worth.ANNOUNCEMENT_WORTH < 1
    assert weigh(later(talk("Let me look at the importer."), 1), "Let me") < weigh(
        later(talk("I looked at the importer."), 1), "I looked"
    )
