"""Boxes are ticked one by one, each seen before the next key; what is not seen is not sent."""

import shlex
import shutil
import sys
from pathlib import Path

import fleet_records as records
import msgspec
import pytest
from terminals import Terminal

from tasuki.errors import NotPossible
from tasuki.fleet.delivery import answers
from tasuki.fleet.delivery.answers import QuestionScreen, answer_question, tick_boxes
from tasuki.fleet.delivery.prompt_delivery import PromptDelivery
from tasuki.fleet.orders.bodies import QuestionAnswer
from tasuki.fleet.store import queries
from tasuki.fleet.store.agent_question import AgentQuestion, QuestionChoice
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.log import ChangeFeed
from tasuki.fleet.store.questions import dump_question
from tasuki.harness.questions import DialogSubject, ScreenChoice, ScreenQuestion
from tasuki.launch.tmux.panes import TmuxPanes

QUESTION = AgentQuestion(
    "Which parts?", "m1", 0.0, kind="choice", takes_several=True, is_read=True, is_reported=True,
    subject=DialogSubject("choice", "Which parts?"),
)  # fmt: skip


class Dialog:
    """A dialog with boxes that takes keys as Claude Code does."""

    def __init__(self, ticked: str = "", answers: int = 1, deaf: str = "") -> None:
        self.ticked, self.answers, self.deaf = set(ticked), answers, deaf
        self.text, self.pressed = "Which parts?", ""
        self.torn, self.torn_reads = 0, 0
        self.screen = QuestionScreen(QUESTION, self.read, self.press)

    def read(self) -> ScreenQuestion | None:
        """What the screen shows; after a key it may be half drawn for some reads."""
        if self.torn_reads:
            self.torn_reads -= 1
            return None
        if self.text == "review":
            choices = (ScreenChoice("1", "Submit answers", ("1",)), ScreenChoice("2", "Cancel", ("2",)))  # fmt: skip
            return ScreenQuestion("Submit?", "● Which parts?\n→ A", choices, answers=self.answers)  # fmt: skip
        shown = tuple(ScreenChoice(key, key, (key,), key in self.ticked) for key in "123")
        return (
            ScreenQuestion(self.text, "", shown, above=("☐ Parts", self.text), next_keys=("Right",))
            if self.text
            else None
        )

    def press(self, keys: tuple[str, ...]) -> None:
        """Take a key."""
        (key,) = keys
        self.pressed += key[0]
        self.torn_reads = self.torn
        if key in self.deaf:
            return
        if key == "Right":
            self.text = "review"
        elif self.text == "review":
            self.text = ""
        else:
            self.ticked ^= {key}


@pytest.mark.parametrize(
    ("ticked", "wanted", "pressed"),
    [("", "13", "13R1"), ("2", "1", "12R1"), ("12", "12", "R1"), ("3", "1", "13R1")],
)
def test_exactly_the_chosen_boxes_are_ticked(ticked: str, wanted: str, pressed: str) -> None:
    """Others are unticked, the dialog goes on, and the only answer is sent."""
    dialog = Dialog(ticked)
    tick_boxes(dialog.screen, wanted)

    assert (dialog.ticked, dialog.pressed, dialog.text) == (set(wanted), pressed, "")


def test_a_half_drawn_screen_is_looked_at_again() -> None:
    """It is neither another dialog nor the end of this one: what was chosen is sent."""
    dialog = Dialog("2")
    dialog.torn = 2
    tick_boxes(dialog.screen, "13")

    assert (dialog.pressed, dialog.text) == ("123R1", "")


def test_the_answers_to_several_questions_are_not_sent_unseen() -> None:
    """Their review stays: it is a question of its own."""
    dialog = Dialog(answers=2)
    tick_boxes(dialog.screen, "1")

    assert (dialog.pressed, dialog.text) == ("1R", "review")


@pytest.mark.parametrize(("deaf", "pressed"), [("2", "12"), ("Right", "12R")])
def test_a_key_that_is_not_taken_ends_it(
    deaf: str, pressed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No key is pressed twice, and none behind it."""
    monkeypatch.setattr(answers, "TAKEN_SECONDS", 0.2)
    dialog = Dialog(deaf=deaf)
    tick_boxes(dialog.screen, "12")

    assert (dialog.pressed, dialog.text) == (pressed, "Which parts?")


@pytest.mark.parametrize("text", ["Which colours?", "review", ""])
def test_nothing_is_pressed_in_another_dialog(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody answered in the terminal in between."""
    monkeypatch.setattr(answers, "TAKEN_SECONDS", 0.2)
    dialog = Dialog()
    dialog.text = text

    with pytest.raises(NotPossible, match="something else by now"):
        tick_boxes(dialog.screen, "1")
    assert dialog.pressed == ""


PROGRAM = """
import sys, termios, tty
tty.setcbreak(0, termios.TCSANOW)
print(open(sys.argv[1]).read(), flush=True)
sys.stdin.read(1)
print("\\033[2J\\033[Hanother page", flush=True)
sys.stdin.read(1)
"""
"""Shows a dialog, and something else once a key was pressed."""


@pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed")
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_question_whose_boxes_were_not_sent_is_open_again(
    database: FleetDatabase, terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The screen showed something else after the first key: the agent still waits."""
    monkeypatch.setattr(answers, "TAKEN_SECONDS", 0.3)
    screen = Path(__file__).parents[1] / "fixtures" / "questions" / "claude-several.txt"
    command = shlex.join((sys.executable, "-c", PROGRAM, str(screen)))
    terminal.run(("new-session", "-d", "-s", "own", "-x", "120", "-y", "50", command))
    pane, pid = terminal.run(("list-panes", "-a", "-F", "#{pane_id} #{pane_pid}")).split()
    terminal.shows(pane, "Chat about this")
    choices = (QuestionChoice("1", "A a"), QuestionChoice("2", "B b"))
    question = msgspec.structs.replace(QUESTION, choices=choices)
    agent = records.agent(
        database, state="waiting", pane=pane, pid=int(pid), ordered_at=1.0, question=dump_question(question),
    )  # fmt: skip
    delivery = PromptDelivery(database, TmuxPanes(terminal, tmp_path / "locks"), ChangeFeed())

    with pytest.raises(NotPossible, match="something else by now"):
        answer_question(database, delivery, agent, QuestionAnswer("m1", choices=["1"]))
    assert "another page" in terminal.capture_screen(pane).text
    assert queries.load_agent(database, agent).question == question
