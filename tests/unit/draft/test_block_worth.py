"""What a block of an earlier message is worth: late, near and whole before old, overtaken and announced."""

from collections.abc import Callable
from pathlib import Path

import pytest
from making import thread_of

from tasuki.draft.authors.author import AuthorTask
from tasuki.draft.authors.offline import DraftComposer
from tasuki.draft.facts.derive import derive_facts
from tasuki.draft.rank.block_worth import BlockWorth
from tasuki.model import Goal
from tasuki_testing import ThreadBuilder

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
        return BlockWorth(task, composer.turns, composer.blocks).weigh(block)

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


@pytest.mark.parametrize(
    ("change", "is_less"),
    [("merge_key = (row.tenant, row.id)", True), ("colour = 'blue'", False)],
)
def test_a_finding_whose_code_was_edited_since_is_worth_nothing(
    change: str, is_less: bool, weigh: Weigh
) -> None:
    """What a finding says of a name is true until that name is edited."""
    finding = "`merge_key` should hold the tenant."
    builder = talk(finding).edit("src/rows.py", "x = 1", change).assistant("Changed.")
    before = talk(finding).read("src/rows.py", "x = 1").assistant("Changed.")

    assert (weigh(builder, finding) == 0 < weigh(before, finding)) is is_less


def test_what_speaks_of_the_goal_is_worth_more(weigh: Weigh) -> None:
    """The words of the goal are looked for."""
    builder = later(talk(CAUSE), 2)

    assert weigh(builder, CAUSE, "fix the importer that drops rows") > weigh(builder, CAUSE)


@pytest.mark.parametrize(
    ("said", "is_worth"),
    [
        ("Good, now I look at the importer.", False),
        ("Great, back to the mailer. views.py and api.py call the old one.", True),
        ("That is the place.", False),
        ("3 of 7 are left.", False),
        ("The shorter keepalive changed nothing: it still resets.", True),
        ("guardian does not fit, since it checks objects.", True),
    ],
)
def test_a_remark_that_tells_nothing_is_worth_nothing(
    said: str, is_worth: bool, weigh: Weigh
) -> None:
    """Announcements, agreement and progress of earlier turns are left out; names, numbers and reasons stay."""
    builder = ThreadBuilder("claude").user("Look at the mailer").assistant(said)
    builder.read("src/rows.py", "x = 1").assistant("The mailer sends twice.")

    assert bool(weigh(later(builder, 1), said[:10])) is is_worth


def test_a_setting_that_was_changed_since_makes_a_statement_worthless(weigh: Weigh) -> None:
    """Unless it tells of the new value, too."""
    said = "The game needs `APP_ID=1` in its file."
    later_value = talk(said).edit(".env", "APP_ID=1", "APP_ID=67").assistant("Changed.")
    same_value = talk(said).edit(".env", "APP_ID=0", "APP_ID=1").assistant("Changed.")
    both = "`APP_ID=1` belongs to the demo, `APP_ID=67` to the game."

    assert weigh(later_value, "The game") == 0 < weigh(same_value, "The game")
    assert weigh(talk(both).edit(".env", "APP_ID=1", "APP_ID=67").assistant("Ok"), "`APP_ID=1`") > 0
