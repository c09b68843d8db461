"""Rows A1, A2, A6, A10 and A11 of the mission, at the interface: what a submitted text does."""

import asyncio
from pathlib import Path

import pytest
from chats import Chatting
from fakes.session_backend import BackendRule, ScriptedTurn
from sessions import DOCUMENT, FIRST, REQUEST, says

from tasuki.session.agent_session.backend import (
    CANCELLED_MESSAGE,
    NOTHING_MESSAGE,
    STARTED_MESSAGE,
    TextPiece,
)
from tasuki.session.chat.controllers import BUSY_MESSAGE
from tasuki.session.pi_store.manager import SessionManager

HELD = BackendRule("^wait", (ScriptedTurn((TextPiece("I wait."),), hold=True),))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with a source folder."""
    (tmp_path / "src").mkdir()
    return tmp_path


async def held(chat: Chatting, text: str) -> "asyncio.Task[None]":
    """A submitted text whose turn the agent holds."""
    task = asyncio.get_running_loop().create_task(chat.said(text))
    await chat.backend.holding.wait()
    return task


@pytest.mark.parametrize(
    "text", ["/handoff", "/handoff finish the tests", "  /handoff  ", "/handoff\nall"]
)
async def test_a1_handoff_never_reaches_the_model(folder: Path, text: str) -> None:
    """A1: the text is taken out, and the input line is cleared."""
    chat = Chatting(folder, says(DOCUMENT))
    await chat.said(FIRST, text)

    assert chat.prompts == [FIRST]
    assert chat.view.input == ""
    assert chat.view.shown[-1] == ("note", STARTED_MESSAGE)


@pytest.mark.parametrize("text", ["/handoffs", "/handoff-now", "please /handoff", "/own words"])
async def test_a1_other_texts_are_prompts(folder: Path, text: str) -> None:
    """A1: what merely looks like it goes to the agent, and so do the agent's own commands."""
    chat = Chatting(folder)
    await chat.said(FIRST, text)

    assert chat.prompts == [FIRST, text]
    assert chat.view.input == ""


async def test_a1_the_words_after_it_are_the_focus(folder: Path) -> None:
    """A1, A3: they are in the request for the document."""
    chat = Chatting(folder, says(DOCUMENT))
    await chat.said(FIRST, "/handoff finish the tests")

    (request,) = [a.prompt for a in chat.backend.log if REQUEST in a.prompt]
    assert "Additional focus: finish the tests" in request


async def test_a2_nothing_to_hand_off_yet(folder: Path) -> None:
    """A2: below two messages the user is warned, and nothing is asked of the agent."""
    chat = Chatting(folder)
    await chat.said("/handoff")

    assert chat.view.shown == [("warn", "Nothing to hand off (no messages yet)")]
    assert NOTHING_MESSAGE == "Nothing to hand off (no messages yet)"
    assert chat.backend.log == []


async def test_a10_after_a_handoff_the_chat_is_built_anew(folder: Path) -> None:
    """A10: the new session's one message is shown, then that it began."""
    chat = Chatting(folder, says(DOCUMENT))
    await chat.said(FIRST, "/handoff")

    shown = chat.view.shown
    assert shown[0] == ("rebuilt", "1 messages, 0 todos")
    assert shown[-1] == ("note", "New session started with handoff context")
    assert len(chat.backend.sessions) == 2


async def test_a10_a_failure_says_why(folder: Path) -> None:
    """A10, A12: an answer without words is a failure, and the old session goes on."""
    chat = Chatting(folder, says("", ""))
    await chat.said(FIRST)
    old = chat.conversation.session.session_id
    await chat.said("/handoff")

    ((kind, text),) = chat.view.shown
    assert kind == "error 1"
    assert text.startswith("Handoff failed: ")
    assert chat.conversation.session.session_id == old
    await chat.said("go on")
    assert chat.backend.log[-1].session == "agent-session-1"


async def test_a11_a_handoff_is_cancelled_by_its_own_channel(folder: Path) -> None:
    """A10, A11: `Handoff cancelled` is shown, and the old session goes on."""
    chat = Chatting(
        folder, BackendRule(REQUEST, (ScriptedTurn((TextPiece("## Goal"),), hold=True),))
    )
    await chat.said(FIRST)
    task = await held(chat, "/handoff")
    assert await chat.conversation.interrupt()
    await task

    assert chat.view.shown == [("error 130", CANCELLED_MESSAGE)]
    assert CANCELLED_MESSAGE == "Handoff cancelled"
    await chat.said("go on")
    assert chat.backend.log[-1].session == "agent-session-1"


async def test_a11_also_between_its_questions(folder: Path) -> None:
    """A11: while nothing is asked of the agent, because the thread is read, it is cancelled too."""
    chat = Chatting(folder, says(DOCUMENT))
    await chat.said(FIRST)
    task = asyncio.get_running_loop().create_task(chat.said("/handoff"))
    await asyncio.sleep(0)
    session = chat.conversation.session
    assert (session.is_generating_handoff, session.is_streaming) == (True, False)
    assert await chat.conversation.interrupt()
    await task

    assert chat.view.shown == [("error 130", CANCELLED_MESSAGE)]
    assert len(chat.backend.sessions) == 1


async def test_words_typed_while_the_agent_works_wait(folder: Path) -> None:
    """They go to the agent when the turn is over, in order."""
    chat = Chatting(folder, HELD)
    await chat.said(FIRST)
    task = await held(chat, "wait for it")
    await chat.said("second", "third")
    assert chat.conversation.session.queues.waiting == ("second", "third")
    chat.backend._cancelled.set()
    chat.backend._cancelled.clear()
    await task

    assert chat.prompts == [FIRST, "wait for it", "second", "third"]


async def test_a6_words_typed_during_a_handoff_wait_unsent(folder: Path) -> None:
    """A6: they stand in the successor's input line; neither session's model got them."""
    chat = Chatting(
        folder, BackendRule(REQUEST, (ScriptedTurn((TextPiece(DOCUMENT),), hold=True),))
    )
    await chat.said(FIRST)
    task = await held(chat, "/handoff")
    await chat.said("and then this")
    chat.backend._cancelled.set()
    chat.backend._cancelled.clear()
    await task

    assert chat.view.input == "and then this"
    assert chat.prompts == [FIRST]
    assert chat.view.shown[-1] == ("note", STARTED_MESSAGE)


async def test_words_that_waited_for_a_cancelled_turn_are_given_back(folder: Path) -> None:
    """After Escape nobody knows whether they still fit: they stand in the input line, unsent."""
    chat = Chatting(folder, HELD)
    await chat.said(FIRST)
    task = await held(chat, "wait for it")
    await chat.said("then this")
    assert await chat.conversation.interrupt()
    await task

    assert chat.view.input == "then this"
    assert chat.view.shown == [("warn", "Cancelled")]
    assert chat.conversation.session.queues.waiting == ()


async def test_a_handoff_waits_for_the_turn(folder: Path) -> None:
    """While the agent works `/handoff` is not taken; its words stay in the input line."""
    chat = Chatting(folder, HELD)
    await chat.said(FIRST)
    task = await held(chat, "wait for it")
    await chat.said("/handoff the tests")

    assert chat.view.shown == [("warn", BUSY_MESSAGE.format("/handoff"))]
    assert chat.view.input == "/handoff the tests"
    await chat.conversation.interrupt()
    await task


async def test_a_failed_turn_is_shown(folder: Path) -> None:
    """The agent's own sentence is shown, and the next words reach it again."""
    chat = Chatting(
        folder, BackendRule("^break", (ScriptedTurn(fails="Scripted failed: out of tokens"),))
    )
    await chat.said(FIRST, "break it", "go on")

    assert chat.view.shown == [("error 1", "Scripted failed: out of tokens")]
    assert chat.prompts == [FIRST, "break it", "go on"]


async def test_an_agent_that_ended_is_started_again(folder: Path) -> None:
    """The next words start it, with the conversation so far as its context."""
    chat = Chatting(folder)
    await chat.said(FIRST)
    chat.backend.has_ended = True
    await chat.said("go on")

    assert "is restarted" in chat.view.shown[0][1]
    assert FIRST in chat.backend.sessions["agent-session-2"]
    assert chat.backend.log[-1].session == "agent-session-2"


async def test_new_begins_afresh(folder: Path) -> None:
    """`/new` leaves the old session as it is, and the next words reach a session without it."""
    chat = Chatting(folder)
    await chat.said(FIRST, "/new", "hello")

    assert chat.view.shown == [("note", "New session started")]
    assert chat.backend.sessions["agent-session-2"] == ["hello", "OK."]
    assert len(list((folder / "sessions").glob("*.jsonl"))) == 2


async def test_resume_goes_back(folder: Path) -> None:
    """`/resume` lists the other sessions; the chosen one goes on with what was said in it."""
    chat = Chatting(folder)
    await chat.said(FIRST)
    old = chat.conversation.session.manager.path
    chat.view.answer = 0
    await chat.said("/new", "/resume")

    (choice,) = chat.view.choices
    assert "accept tabs" in choice.options[0]
    assert chat.conversation.session.manager.path == old
    assert chat.view.shown[-2][0] == "rebuilt"
    await chat.said("go on")
    assert FIRST in chat.backend.log[-1].shown
    assert SessionManager.open(old).count_messages() == 4 + 2


async def test_resume_asks_the_agent_for_its_own_session(folder: Path) -> None:
    """The agent is told which of its sessions it was, if the user said something in it."""
    chat = Chatting(folder)
    await chat.said(FIRST)
    old = chat.conversation.session.manager
    await chat.said("/new")
    assert chat.backend.resume == ""
    await chat.said(f"/resume {old.id[:20]}")

    assert chat.backend.resume == "agent-session-1"


async def test_a_handoff_that_nobody_answered_is_sent_again(folder: Path) -> None:
    """The agent's own session has not heard of it: it is not loaded, and gets the document."""
    chat = Chatting(folder, says(DOCUMENT))
    await chat.said(FIRST, "/handoff")
    successor = chat.conversation.session.manager
    await chat.said("/new", f"/resume {successor.id[:20]}")

    assert chat.backend.resume == ""
    assert "<handoff-context>" in chat.backend.sessions["agent-session-4"][0]


async def test_words_typed_while_a_session_is_resumed_wait(folder: Path) -> None:
    """They are still there when it is open."""
    before, chat = Chatting(folder), Chatting(folder)
    await before.said(FIRST)
    await before.conversation.close()
    await chat.input.submit("typed early")
    await chat.conversation.resume(before.conversation.session.manager.path)

    assert chat.conversation.take_waiting_words() == "typed early"


async def test_resume_of_a_session_in_use(folder: Path) -> None:
    """A session that another chat writes is refused, and the one in use stays in use."""
    chat, other = Chatting(folder), Chatting(folder)
    await other.said(FIRST)
    await chat.said("hello", f"/resume {other.conversation.session.session_id[:20]}", "and on")

    assert "is being written by another process" in chat.view.shown[0][1]
    assert chat.prompts == ["hello", "and on"]
    assert chat.backend.log[-1].session == "agent-session-1"


async def test_resume_of_nothing(folder: Path) -> None:
    """Where there is no such session the user is told so, and nothing changes."""
    chat = Chatting(folder)
    await chat.said("/resume", "/resume 1234")

    assert [text for _, text in chat.view.shown] == [
        "This folder has no other session yet.",
        "No session of this folder begins with '1234'. See them all: /resume",
    ]


async def test_help_and_quit(folder: Path) -> None:
    """`/help` lists every command and key; `/quit` leaves."""
    chat = Chatting(folder)
    await chat.said("/help", "/quit")

    ((_, text),) = chat.view.shown
    assert "/handoff [focus instructions]" in text
    assert "Escape" in text
    assert chat.view.has_left
    assert chat.backend.log == []
