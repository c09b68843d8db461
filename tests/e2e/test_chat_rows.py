"""More rows of the mission with real agents in `tasuki chat`: A2, A4, A6, A12, A13 and A15."""

import shlex
import subprocess
from pathlib import Path

import pytest
from acp_agents import AGENTS
from agents import PROGRAMS
from conftest import World
from fakes.model_server import ModelRule, ModelStep
from test_chat import DOCUMENT, OLD, TASUKI, asked, chat, chatting, enter, say

from tasuki.session.pi_store.manager import SessionManager, list_sessions
from tasuki.vault import Vault

__all__ = ["chatting"]

pytestmark = pytest.mark.e2e

ASKED = "Write a handoff document"
CHECKED = "Your handoff document was checked"


def scripted(world: World, name: str, *lines: str) -> "subprocess.CompletedProcess[str]":
    """A chat with one agent without a terminal, whatever comes of it."""
    agent = shlex.join(AGENTS[name].prepare(world))
    return subprocess.run(
        [TASUKI, "chat", "--agent", agent], input="\n".join(lines), cwd=world.project,
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_a2_before_the_first_message(chatting: World) -> None:
    """Nothing is asked, nothing is opened; a script is told by the exit code that it was refused."""
    done = scripted(chatting, "pi-acp", "/handoff finish the tests")

    told = [line for line in done.stderr.splitlines() if not line.startswith("Waiting for pi ")]
    assert told == ["Nothing to hand off (no messages yet)"]
    assert done.returncode == 3
    assert chatting.model.find_requests(ASKED) == []


@pytest.mark.long
def test_a4_chatter_before_a_tool_is_no_part_of_the_document(chatting: World) -> None:
    """The document is the newest message of the turn, whatever the agent does before it."""
    (chatting.project / "notes.txt").write_text("tabs")
    chatter = ModelStep("Let me look. MARKER-CHATTER", calls=(PROGRAMS["pi"].call(),))
    chatting.model.rules = (ModelRule(ASKED, (chatter, ModelStep(DOCUMENT))), *chatting.model.rules)

    done = scripted(chatting, "pi-acp", OLD, "/handoff", "and then what?")

    assert "New session started with handoff context" in done.stderr
    request = asked(chatting, "and then what")
    assert request.count_text("MARKER-DOCUMENT") == 1
    assert request.count_text("MARKER-CHATTER") == 0


@pytest.mark.long
def test_a6_words_typed_meanwhile_wait_unsent_in_the_successor(chatting: World) -> None:
    """What the user types while Gemini writes goes into the new input line, and to nobody."""
    chatting.model.rules = (
        ModelRule("HALF", (ModelStep(DOCUMENT, delay=4),)),
        *chatting.model.rules,
    )
    pane = chat(chatting)
    say(chatting, pane, OLD, "MARKER-ANSWER")
    enter(chatting, pane, "/handoff HALF")
    asked(chatting, ASKED)
    enter(chatting, pane, "then update the changelog")

    chatting.shows(pane, "New session started with handoff context")
    chatting.shows(pane, "> then update the changelog")
    chatting.until_quiet(pane)
    assert chatting.model.find_requests("update the changelog") == []


@pytest.mark.long
def test_a12_an_empty_answer_is_a_failure_after_one_retry(chatting: World) -> None:
    """It is never called a cancellation, and the old session goes on."""
    empty = ModelRule(f"{ASKED}|held no text", (ModelStep(""),))
    chatting.model.rules = (empty, *chatting.model.rules)

    done = scripted(chatting, "pi-acp", OLD, "/handoff")

    assert "Handoff failed: The agent answered without text" in done.stderr
    assert "cancelled" not in done.stderr
    assert done.returncode == 1
    assert len(chatting.model.find_requests("held no text")) == 1
    assert len(list_sessions(chatting.project)) == 1


@pytest.mark.long
def test_a13_a_missing_section_is_repaired(chatting: World) -> None:
    """The session is told what its document lacks, and adds it."""
    short = DOCUMENT.partition("\n\n## Key Decisions")[0]
    repair = "## Key Decisions\n- MARKER-REPAIR\n\n## Critical Context\n- (none)\n\n## Next Steps\n- (none)"
    chatting.model.rules = (
        ModelRule(CHECKED, (ModelStep(repair),)),
        ModelRule(ASKED, (ModelStep(short),)),
        *chatting.model.rules,
    )
    scripted(chatting, "pi-acp", OLD, "/handoff", "and then what?")

    (told,) = chatting.model.find_requests(CHECKED)
    assert "- the section ## Key Decisions" in told.prompt
    request = asked(chatting, "and then what")
    assert request.count_text("MARKER-REPAIR") == 1
    assert request.count_text("MARKER-DOCUMENT") == 1


@pytest.mark.long
def test_a15_the_old_session_stays_readable_from_the_new_one(chatting: World) -> None:
    """By its lineage, and by the references that stand in the handoff."""
    scripted(chatting, "pi-acp", OLD, "/handoff", "and then what?")

    newest = SessionManager.open(Path(list_sessions(chatting.project)[0].path))
    (old,) = newest.find_lineage()
    assert "MARKER-ANSWER" in old.read_text()
    (handoff,) = Vault().list_handoffs()
    command = [TASUKI, "read", f"{handoff.id[:8]}#1-2"]
    read = subprocess.run(
        command, cwd=chatting.project, capture_output=True, text=True, check=True, timeout=30
    )
    assert "MARKER-OLD" in read.stdout
    assert "MARKER-ANSWER" in read.stdout
    assert f"tasuki read {handoff.id[:8]}#n" in str(newest.get_branch()[0]["content"])
