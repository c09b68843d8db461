"""`tasuki chat` in a real terminal, with a scripted agent as a child process."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from fakes import FAKE
from fakes.acp_agent import AcpRule, AcpScript, AcpStep
from selection import by_default
from sessions import DOCUMENT
from terminals import Terminal
from waiting import children, retry_until, runs

from tasuki.launch.tmux.server import wait_until_settled
from tasuki.session.pi_store.manager import SessionManager, list_sessions

TASUKI = str(Path(sys.executable).with_name("tasuki"))
STARTED = "New session started with handoff context"
TEXT = "# Found\n\nThe **parser** reads tabs.\n\n- one\n- two\n"
PLAN = {
    "sessionUpdate": "plan",
    "entries": [
        {"content": "Read it", "status": "completed"},
        {"content": "Test it", "status": "in_progress"},
    ],
}
RULES = (
    AcpRule("Write a handoff document.*SLOWLY", (AcpStep(say="## Goal\n- a\n"), AcpStep(wait=60))),
    AcpRule("Write a handoff document.*HALF", (AcpStep(say=DOCUMENT), AcpStep(wait=2))),
    AcpRule("Write a handoff document", (AcpStep(say=DOCUMENT),)),
    AcpRule("handoff document was checked", (AcpStep(say="## Corrections\n- (none)"),)),
    AcpRule(r"look at it\Z", (AcpStep(say=TEXT),)),
    AcpRule("plan", (AcpStep(update=PLAN), AcpStep(say="planned"))),
    AcpRule("may", (AcpStep(ask=("allow_once", "allow_always", "reject_once")), AcpStep(say="got {got}"))),
    AcpRule("slow", (AcpStep(say="I begin"), AcpStep(wait=60))),
    AcpRule("short", (AcpStep(say="I begin"), AcpStep(wait=1.5), AcpStep(say=" and end"))),
    AcpRule("fill", (AcpStep(update={"sessionUpdate": "usage_update", "used": 90, "size": 100}), AcpStep(say="full"))),
)  # fmt: skip


class Chat:
    """A chat in a pane."""

    def __init__(
        self, terminal: Terminal, folder: Path, command: Sequence[str], width: int
    ) -> None:
        self.terminal, self.folder = terminal, folder
        self.pane = terminal.open(command, folder, width, 40)
        self.shows("/help")

    @property
    def screen(self) -> str:
        """What is on the screen, without blank lines."""
        lines = self.terminal.capture_screen(self.pane).text.splitlines()
        return "\n".join(line.rstrip() for line in lines if line.strip())

    def shows(self, text: str, seconds: float = 10.0) -> str:
        """The screen once a text is on it."""
        return retry_until(lambda: text in self.screen and self.screen, seconds) or ""

    def gone(self, text: str) -> None:
        """Wait until a text is no longer on the screen."""
        retry_until(lambda: text not in self.screen)

    def type(self, text: str) -> None:
        """Type a text, and wait until it stands there."""
        self.terminal.run(("send-keys", "-t", self.pane, "-l", text))
        self.shows(text)

    def keys(self, *keys: str) -> None:
        self.terminal.keys(self.pane, *keys)

    def say(self, text: str, answer: str) -> str:
        """Type and send a text, and wait for what is shown then."""
        self.type(text)
        self.keys("Enter")
        self.shows(answer)
        wait_until_settled(self.terminal, self.pane, 5.0)
        return self.screen

    def ended(self) -> str:
        """How the program ended."""
        return self.shows("[ended ").rpartition("[ended ")[2].rstrip("]\n ")


Make = Callable[..., Chat]


@pytest.fixture
def chat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Opens chats in panes of a terminal of their own."""
    (tmp_path / "proj" / "src").mkdir(parents=True)
    monkeypatch.setenv("TASUKI_DATA", str(tmp_path / "data"))
    terminal = Terminal(tmp_path, {"TASUKI_DATA": str(tmp_path / "data")})

    def opened(*arguments: str, width: int = 100, **script: object) -> Chat:
        path = tmp_path / "script.json"
        log = str(tmp_path / "log.jsonl")
        path.write_bytes(msgspec.json.encode(AcpScript(RULES, log=log, **script)))  # type: ignore[arg-type]
        agent = f"{sys.executable} {FAKE} acp_agent {path}"
        return Chat(
            terminal, tmp_path / "proj", [TASUKI, "chat", "--agent", agent, *arguments], width
        )

    yield opened
    terminal.end()


def prompts(tmp_path: Path) -> list[str]:
    """What the agent was asked."""
    lines = map(msgspec.json.decode, (tmp_path / "log.jsonl").read_bytes().splitlines())
    asked = [line["params"]["prompt"] for line in lines if line.get("method") == "session/prompt"]
    return ["\n".join(block["text"] for block in blocks) for blocks in asked]


def test_a_conversation(chat: Make, tmp_path: Path) -> None:
    """The user's words, then the answer, its Markdown readable; the prompt stands below."""
    here = chat()
    screen = here.say("look at it", "two")

    assert screen.splitlines()[1:-1] == [
        "› look at it", "Found", "The parser reads tabs.", "• one", "• two", ">",
    ]  # fmt: skip
    assert prompts(tmp_path) == ["look at it"]


@pytest.mark.long
def test_what_is_typed_behind_enter_stays(chat: Make, tmp_path: Path) -> None:
    """Keys that come together with Enter are the beginning of the next words."""
    here = chat()
    here.terminal.run(("send-keys", "-t", here.pane, "-l", "look at it\rand then"))
    here.shows("two")
    here.shows("> and then")
    here.keys("Enter")
    retry_until(lambda: prompts(tmp_path) == ["look at it", "and then"])


def test_a1_the_inline_hint(chat: Make) -> None:
    """A1: `[focus instructions]` stands behind the command while it is typed, and goes with a word."""
    here = chat()
    here.type("/hand")
    here.shows("hand the work to a fresh session")
    here.type("off")
    here.shows("> /handoff [focus instructions]")
    here.type(" x")
    here.gone("[focus instructions]")


def test_a2_nothing_to_hand_off(chat: Make, tmp_path: Path) -> None:
    """A2: the warning is shown, and the input line is empty."""
    here = chat()
    screen = here.say("/handoff", "Nothing to hand off (no messages yet)")

    assert ">" in screen.splitlines()
    assert not (tmp_path / "log.jsonl").read_text().count("session/prompt")


@pytest.mark.parametrize("width", by_default([80, 120], 80))
def test_a10_a_handoff(chat: Make, tmp_path: Path, width: int) -> None:
    """A8, A10: the document is shown as the new session's, which the next words reach with it."""
    here = chat(width=width)
    here.say("look at it", "two")
    screen = here.say("/handoff the tests", STARTED)

    assert "• Tabs count as one blank" in screen
    assert max(map(len, screen.splitlines())) <= width
    here.say("hello", "[session-2 ")
    last = prompts(tmp_path)[-1]
    assert last.startswith("<handoff-context>")
    assert last.endswith("hello")
    assert "look at it" not in last.replace('"look at it"', "")
    assert any("Additional focus: the tests" in prompt for prompt in prompts(tmp_path))


def test_a11_escape_cancels_a_handoff(chat: Make, tmp_path: Path) -> None:
    """A11: while it is written; the old session goes on, and no other one was begun."""
    here = chat()
    here.say("look at it", "two")
    here.type("/handoff SLOWLY")
    here.keys("Enter")
    here.shows("Escape cancels")
    here.shows("• a")
    here.keys("Escape")
    here.shows("Handoff cancelled")

    here.say("hello", "[session-1 ")
    assert len(list_sessions(tmp_path / "proj")) == 1


def test_a6_words_typed_meanwhile_stand_in_the_new_input_line(chat: Make, tmp_path: Path) -> None:
    """A6: they are shown as waiting, then unsent in the successor's input line."""
    here = chat()
    here.say("look at it", "two")
    here.type("/handoff HALF")
    here.keys("Enter")
    here.shows("Next Steps")
    here.type("and then this")
    here.keys("Enter")
    here.shows("waiting: and then this")
    here.shows(STARTED)

    here.shows("> and then this")
    assert "waiting" not in here.screen
    assert "and then this" not in "".join(prompts(tmp_path))


def test_escape_cancels_a_turn(chat: Make) -> None:
    """The turn ends, what waited is given back, and the next words are heard."""
    here = chat()
    here.type("slow")
    here.keys("Enter")
    here.shows("I begin")
    here.type("then this")
    here.keys("Enter")
    here.shows("waiting: then this")
    here.keys("Escape")

    here.shows("Cancelled")
    here.shows("> then this")
    here.keys("Enter")
    here.shows("[session-1 ")


def test_words_wait_for_the_end_of_the_turn(chat: Make, tmp_path: Path) -> None:
    """They are sent when it is over."""
    here = chat()
    here.type("short")
    here.keys("Enter")
    here.shows("I begin")
    here.type("look at it")
    here.keys("Enter")
    here.shows("waiting: look at it")

    here.shows("• two")
    assert prompts(tmp_path) == ["short", "look at it"]


@pytest.mark.parametrize(
    ("key", "got"),
    by_default(
        [("Enter", "id-reject_once"), ("1", "id-allow_once"), ("2", "id-allow_always"), ("Escape", "cancelled")],
        ("Enter", "id-reject_once"), ("2", "id-allow_always"),
    ),
)  # fmt: skip
def test_permission(chat: Make, key: str, got: str) -> None:
    """A number answers, Enter takes the careful answer, Escape gives none."""
    here = chat()
    here.type("may I")
    here.keys("Enter")
    screen = here.shows("3 reject_once  (Enter)")
    assert "asks: rm -rf build" in screen
    here.keys(key)

    here.shows(f"got {got}")
    assert "Press a number" not in here.screen


@pytest.mark.long
def test_the_plan_stands_above_the_prompt(chat: Make) -> None:
    """As it is now, also when the turn is over."""
    here = chat()
    screen = here.say("plan it", "planned")

    assert screen.splitlines()[-4:-1] == ["☑ Read it", "◐ Test it", ">"]


def test_a_handoff_is_suggested_once(chat: Make) -> None:
    """When the context passes the threshold, in a sentence and in the bottom line."""
    here = chat()
    screen = here.say("fill it", "The context is 90 % full. /handoff continues in a fresh session.")
    assert "context 90 of 100 (90 %) · /handoff" in screen
    screen = here.say("fill it again", "full\n")

    assert screen.count("The context is 90 % full") == 1


@pytest.mark.long
def test_several_lines(chat: Make, tmp_path: Path) -> None:
    """Alt-Enter begins a line; a paste of several lines is not sent before Enter."""
    here = chat()
    here.type("one")
    here.keys("M-Enter")
    here.type("two")
    here.keys("Enter")
    here.shows("n=1]")
    here.terminal.paste(here.pane, "three\nfour")
    here.shows("four")
    wait_until_settled(here.terminal, here.pane, 5.0)
    assert prompts(tmp_path) == ["one\ntwo"]
    here.keys("Enter")
    here.shows("n=2]")

    assert prompts(tmp_path) == ["one\ntwo", "three\nfour"]


@pytest.mark.long
def test_the_history(chat: Make) -> None:
    """Prompts of an earlier run come back with the arrow, and are found by a part of them."""
    here = chat()
    here.say("first prompt", "n=1]")
    here.say("second prompt", "n=2]")
    here.keys("C-d")
    assert here.ended() == "0"

    again = chat()
    again.keys("Up")
    again.shows("> second prompt")
    again.keys("C-c")
    again.gone("second prompt")
    again.keys("C-r")
    again.type("first")
    again.shows("> first prompt")


def test_ctrl_c(chat: Make) -> None:
    """Once cancels, twice leaves; a text is cleared first."""
    here = chat()
    here.type("some text")
    here.keys("C-c")
    here.gone("some text")
    here.type("slow")
    here.keys("Enter")
    here.shows("I begin")
    here.keys("C-c")
    here.shows("Cancelled")
    here.shows("Ctrl-C again leaves")
    here.keys("C-c")

    assert here.ended() == "0"


@pytest.mark.long
def test_typed_while_the_agent_starts(chat: Make, tmp_path: Path) -> None:
    """What was sent before the agent was ready is sent then."""
    here = chat(slow=1.5)
    here.shows("Starting")
    here.type("look at it")
    here.keys("Enter")
    here.shows("waiting: look at it")

    here.shows("• two")
    assert prompts(tmp_path) == ["look at it"]


def test_resume(chat: Make, tmp_path: Path) -> None:
    """`--resume` shows what was said; the agent gets it with the next words."""
    here = chat()
    here.say("look at it", "two")
    here.keys("C-d")
    here.ended()

    again = chat("--resume")
    again.shows("› look at it")
    again.say("hello", "[session-1 ")
    assert "User: look at it\n\nAssistant: # Found" in prompts(tmp_path)[-1]
    (head,) = list_sessions(tmp_path / "proj")
    assert SessionManager.open(Path(head.path)).count_messages() == 4


def test_the_terminal_is_left_as_it_was(chat: Make) -> None:
    """After an agent that cannot be opened the error is on the screen, and the code is 1."""
    terminal = chat(sessions=0)

    assert terminal.ended() == "1"
    assert "Authentication required" in terminal.screen


def test_a_closed_terminal_ends_it(chat: Make, tmp_path: Path) -> None:
    """The agent and what it started end with the chat, in the middle of a turn too."""
    here = chat(child=str(tmp_path / "child"), linger=True)
    here.type("slow")
    here.keys("Enter")
    here.shows("I begin")
    child = int((tmp_path / "child").read_text())
    here.terminal.run(("kill-pane", "-t", here.pane))

    retry_until(lambda: not runs(child))


@pytest.mark.long
def test_a_second_order_to_end_leaves_nothing_behind(chat: Make, tmp_path: Path) -> None:
    """A hang-up that comes while the chat closes already does not keep the agent alive."""
    here = chat(child=str(tmp_path / "child"), linger=True)
    here.type("slow")
    here.keys("Enter")
    here.shows("I begin")
    child = int((tmp_path / "child").read_text())
    shell = int(here.terminal.run(("display", "-p", "-t", here.pane, "#{pane_pid}")))
    (program,) = children(shell)
    os.kill(program, signal.SIGHUP)
    while runs(program):
        with suppress(ProcessLookupError):
            os.kill(program, signal.SIGHUP)
        time.sleep(0.02)

    assert not runs(child)
