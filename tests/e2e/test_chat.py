"""`tasuki chat` with the real Gemini CLI and a scripted model, in a terminal: rows A1 to A16."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from acp_agents import AGENTS
from conftest import World
from fakes.model_server import ModelRequest, ModelRule, ModelStep, ScriptedCall
from waiting import retry_until

from tasuki.session.pi_store.manager import SessionManager, list_sessions
from tasuki.vault import Vault

pytestmark = pytest.mark.e2e

TASUKI = str(Path(sys.executable).with_name("tasuki"))
DOCUMENT = """\
## Goal
- Make the parser in `src/parser.py` accept tabs (MARKER-DOCUMENT)

## Constraints & Preferences
- keep the public API as it is

## Progress
### Done
- Looked at the parser
### In Progress
- (none)
### Blocked
- (none)

## Key Decisions
- Tabs count as one blank

## Critical Context
- The parser is in `src/parser.py`

## Next Steps
- Write the tests"""
OLD = "the parser in src/parser.py must accept tabs, keep the public API as it is, MARKER-OLD"


@pytest.fixture
def chatting(with_gemini: World) -> World:
    """A world whose model writes a handoff document, slowly where the focus says so."""
    with_gemini.model.rules = (
        ModelRule("SLOWLY", (ModelStep(DOCUMENT, delay=20),)),
        ModelRule("Write a handoff document", (ModelStep(DOCUMENT),)),
        ModelRule("Your handoff document was checked", (ModelStep("## Corrections\n- (none)"),)),
        *with_gemini.model.rules,
        ModelRule("MARKER-OLD", (ModelStep("I look at it. MARKER-ANSWER"),)),
    )
    with_gemini.set(TASUKI_DATA=str(with_gemini.home / "data"))
    return with_gemini


def chat(world: World, *arguments: str, width: int = 100) -> str:
    """The chat with Gemini in a pane, ready."""
    pane = world.run([TASUKI, "chat", "--agent", "gemini --acp", *arguments], width=width)
    world.shows(pane, "Gemini CLI ·", 30)
    return pane


def say(world: World, pane: str, text: str, answer: str) -> None:
    """Type a prompt, and wait for the answer."""
    world.terminal.paste(pane, text)
    world.shows(pane, text[-30:])
    world.terminal.keys(pane, "Enter")
    world.shows(pane, answer)
    world.shows(pane, "> ")
    world.until_quiet(pane)


def enter(world: World, pane: str, text: str) -> None:
    """Type a prompt of one line, and submit it once it stands in the input."""
    world.terminal.paste(pane, text)
    world.shows(pane, f"> {text}")
    world.terminal.keys(pane, "Enter")


def asked(world: World, text: str) -> ModelRequest:
    """The newest request whose prompt holds a text."""
    return retry_until(lambda: world.model.find_requests(text), 20)[-1]


def test_a_handoff_in_a_real_conversation(chatting: World) -> None:
    """A1, A3, A8, A10, A16: the old session writes; the next prompt reaches a fresh one, which holds
    the document and not the old transcript."""
    pane = chat(chatting)
    say(chatting, pane, OLD, "MARKER-ANSWER")
    say(chatting, pane, "/handoff finish the tests", "New session started with handoff context")

    request = asked(chatting, "Write a handoff document")
    assert request.count_text("MARKER-OLD") >= 1
    assert "Additional focus: finish the tests" in request.prompt
    assert not chatting.model.find_requests("^/handoff")

    say(chatting, pane, "and then what?", "A second answer.")
    after = asked(chatting, "and then what")
    assert after.count_text("MARKER-DOCUMENT") == 1
    assert "<handoff-context>" in str(after.body)
    assert after.count_text("MARKER-ANSWER") == 0
    assert "assistant" not in [turn.role for turn in after.turns]


@pytest.mark.long
def test_the_sessions_are_kept(chatting: World) -> None:
    """A7, A9, A14: the old session holds the document as the agent's words, the new one as its
    custom message, and names the old one as its parent."""
    pane = chat(chatting)
    say(chatting, pane, OLD, "MARKER-ANSWER")
    say(chatting, pane, "/handoff", "New session started with handoff context")
    say(chatting, pane, "and then what?", "A second answer.")
    chatting.terminal.keys(pane, "C-d")
    chatting.shows(pane, "[ended 0]")

    newest, oldest = (
        SessionManager.open(Path(head.path)) for head in list_sessions(chatting.project)
    )
    assert newest.parent == str(oldest.path)
    first = newest.get_branch()[0]
    assert (first["type"], first["customType"], first["display"]) == (
        "custom_message",
        "handoff",
        True,
    )
    assert "MARKER-DOCUMENT" in first["content"]
    assert "MARKER-ANSWER" not in newest.path.read_text()
    assert first["details"]["predecessor"]["harness"] == "gemini"
    messages = [e["message"] for e in oldest.get_branch() if e["type"] == "message"]
    (written,) = [m for m in messages if "MARKER-DOCUMENT" in str(m["content"])]
    assert written["role"] == "assistant"


@pytest.mark.long
def test_permission(chatting: World) -> None:
    """A tool of Gemini's that needs leave is asked for with its change; what is allowed is done."""
    file = chatting.project / "new.py"
    call = ScriptedCall("write_file", {"file_path": str(file), "content": "print(1)\n"})
    written = ModelRule(
        "write a file", (ModelStep("I write.", calls=(call,)), ModelStep("It is there."))
    )
    chatting.model.rules = (written, *chatting.model.rules)
    pane = chat(chatting, width=80)
    enter(chatting, pane, "write a file")
    screen = chatting.shows(pane, "3 Reject  (Enter)")
    assert "Gemini CLI asks: Writing to new.py" in screen
    assert "+ print(1)" in screen
    assert not file.exists()
    chatting.terminal.keys(pane, "2")

    chatting.shows(pane, "✓ Writing to new.py")
    chatting.shows(pane, "It is there.")
    assert file.read_text() == "print(1)\n"


@pytest.mark.long
def test_escape_cancels_a_handoff(chatting: World) -> None:
    """A5, A11: while the document is written Escape cancels it; the old session goes on."""
    pane = chat(chatting)
    say(chatting, pane, OLD, "MARKER-ANSWER")
    enter(chatting, pane, "/handoff SLOWLY")
    asked(chatting, "Write a handoff document")
    chatting.terminal.keys(pane, "Escape")

    chatting.shows(pane, "Handoff cancelled")
    say(chatting, pane, "and then what?", "A second answer.")
    assert asked(chatting, "and then what").count_text("MARKER-OLD") >= 1
    assert len(list_sessions(chatting.project)) == 1


@pytest.mark.long
def test_a_session_is_resumed(chatting: World) -> None:
    """A later run goes on with what was said, also with an agent that cannot load its session."""
    pane = chat(chatting)
    say(chatting, pane, OLD, "MARKER-ANSWER")
    chatting.terminal.keys(pane, "C-d")
    chatting.shows(pane, "[ended 0]")

    pane = chat(chatting, "--resume")
    chatting.shows(pane, "MARKER-OLD")
    say(chatting, pane, "and then what?", "A second answer.")

    assert asked(chatting, "and then what").count_text("MARKER-OLD") == 1


@pytest.mark.long
@pytest.mark.parametrize("name", ["gemini", "codex-acp", "pi-acp", "opencode"])
def test_a16_other_agents(chatting: World, name: str) -> None:
    """A16: with each agent, in a script: the session writes, the next prompt reaches a fresh one
    with the document; a later run goes on with it; facts come from the agent's own thread."""
    agent = shlex.join(AGENTS[name].prepare(chatting))
    lines = "\n".join([OLD, "/handoff finish the tests", "and then what?"])
    first = scripted(chatting, lines, "--agent", agent)
    assert "New session started with handoff context" in first.stderr
    assert first.stdout.rstrip().endswith("A second answer.")

    request = asked(chatting, "and then what")
    assert request.count_text("MARKER-ANSWER") == 0
    assert request.count_text("MARKER-DOCUMENT") >= 1
    (handoff,) = Vault().list_handoffs()
    assert handoff.predecessor.harness == AGENTS[name].program
    scripted(chatting, "what of it now?", "--resume")
    request = asked(chatting, "what of it now")
    assert request.count_text("MARKER-DOCUMENT") >= 1
    assert request.count_text("A second answer.") == 1


def scripted(world: World, lines: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """The chat without a terminal."""
    done = subprocess.run(
        [TASUKI, "chat", *arguments], input=lines, cwd=world.project,
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done
