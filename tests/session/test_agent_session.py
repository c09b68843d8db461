"""A running session: goals, failures, other authors, queues, and what is told meanwhile."""

import asyncio
from pathlib import Path

import pytest
from fakes.session_backend import BackendRule, ScriptedBackend, ScriptedTurn
from sessions import DOCUMENT, FIRST, REQUEST, WORKED, Desk, Make, messages, says

from tasuki.config import settings
from tasuki.errors import (
    AgentFailed,
    GoalHasSecret,
    GoalTooVague,
    StoreFailed,
    UsageError,
)
from tasuki.harness import registry
from tasuki.session.agent_session.backend import AgentPlan, AgentTodo, HandoffPhase, TextPiece
from tasuki.session.agent_session.session import AgentSession
from tasuki.session.pi_store.manager import SessionManager
from tasuki.session.pi_store.messages import Json, build_user_message

SILENT = BackendRule("was checked against the record", (ScriptedTurn((TextPiece("- (none)"),)),))

# -- with a goal ---------------------------------------------------------------------------


async def test_with_a_goal_the_goal_waits_unsent_and_the_past_is_in_the_context(desk: Make) -> None:
    """Ruling 5: the custom message holds the past, the unsent text holds the goal, to the letter."""
    at = await desk(says(DOCUMENT)).worked()
    goal = "add the missing test for tabs\n  in `tests/`"

    outcome = await at.session.handoff(goal=goal)

    assert outcome is not None
    assert outcome.prefill == goal
    assert goal not in outcome.message
    assert at.vault.get(outcome.handoff.id).goal.text == goal
    assert at.vault.load_brief(outcome.handoff.id).endswith(f"## Next Goal (verbatim)\n{goal}")
    assert at.backend.log[1].prompt.endswith(f"Additional focus: {goal}")


async def test_a_vague_goal_and_one_with_a_secret_are_refused_before_anything_is_asked(
    desk: Make,
) -> None:
    """The goal rules of B hold inside a session too."""
    at = await desk(says(DOCUMENT)).worked()

    with pytest.raises(GoalTooVague, match="Be specific"):
        await at.session.handoff(goal="continue")
    with pytest.raises(GoalHasSecret):
        await at.session.handoff(goal="deploy with AKIAIOSFODNN7EXAMPLE and secret "
                                      "ghp_16C7e42F292c6912E7710c838347Ae178B4a")  # fmt: skip
    assert len(at.backend.log) == 1


# -- order, failures, other authors ----------------------------------------------------------


async def test_nothing_is_switched_where_the_agent_opens_no_fresh_session(desk: Make) -> None:
    """The old session goes on, on disk and in the agent; no half successor is left behind."""
    at = await desk(says(DOCUMENT), refuses="no more sessions").worked()
    before = at.manager.path

    with pytest.raises(AgentFailed, match="no more sessions"):
        await at.session.handoff()

    assert at.manager.path == before
    assert list(before.parent.glob("*.jsonl")) == [before]
    await at.session.prompt("go on")
    assert messages(before)[-2:] == [("user", "go on"), ("assistant", "OK.")]


async def test_nothing_is_switched_where_the_new_session_cannot_be_kept(
    desk: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk is a failure of the handoff, not of the conversation."""
    at = await desk(says(DOCUMENT)).worked()
    before, whole = at.manager.path, SessionManager.flush

    def full(manager: SessionManager) -> None:
        if manager.path != before:
            raise StoreFailed("the disk is full")
        whole(manager)

    monkeypatch.setattr(SessionManager, "flush", full)
    with pytest.raises(StoreFailed, match="full"):
        await at.session.handoff()

    assert at.manager.path == before
    assert list(at.backend.sessions) == ["agent-session-1"]
    await at.session.prompt("go on")


async def test_the_author_of_the_configuration_writes_instead(desk: Make, tmp_path: Path) -> None:
    """With `author` set by the user the session is not asked at all."""
    at = await desk(loaded=settings.load_with_sources(tmp_path, {"author": "offline"})).worked()

    outcome = await at.session.handoff("finish the tests")

    assert outcome is not None
    assert len(at.backend.log) == 1
    assert outcome.document == ""
    assert outcome.message.startswith("<handoff-context>\n# Handoff Context")
    assert "keep the public API as it is" in outcome.message


async def test_a_turn_and_a_handoff_exclude_each_other(desk: Make) -> None:
    """Either says what to do; words for later can always be left."""
    at = await desk(
        BackendRule("hold", (ScriptedTurn(hold=True),)),
        BackendRule(REQUEST, (ScriptedTurn(hold=True),)),
    ).worked()
    turn = asyncio.create_task(at.session.prompt("hold"))
    await at.backend.holding.wait()
    with pytest.raises(UsageError, match="still running"):
        await at.session.handoff()
    at.session.follow_up("later")
    await at.session.abort_turn()
    assert await turn == "cancelled"

    handoff = asyncio.create_task(at.session.handoff())
    await at.backend.holding.wait()
    with pytest.raises(UsageError, match="in progress"):
        await at.session.prompt("now")
    at.session.abort_handoff()
    await handoff
    assert at.session.queues.waiting == ("later",)


async def test_what_waits_goes_to_the_agent_in_order_once_it_is_done(desk: Make) -> None:
    """Steering first, then what follows up; a note goes along in front of the next words."""
    at = await desk().worked()
    at.session.follow_up("third")
    at.session.steer("second")
    at.session.add_note("a note")

    await at.session.prompt("first")

    said = ("a note", "first", "OK.", "second", "OK.", "third")
    assert at.backend.log[-1].shown[-6:] == said


async def test_open_todos_are_called_to_mind_a_few_times_at_most(desk: Make) -> None:
    """A reminder goes along with the next prompt, and the count starts anew once all is done."""
    open_plan, done = (
        AgentPlan((AgentTodo("write the test", s),)) for s in ("pending", "completed")
    )
    rules = (
        BackendRule("plan", (ScriptedTurn((open_plan,)),)),
        BackendRule("finish", (ScriptedTurn((done,)),)),
    )
    at = await desk(*rules, todo_reminders=1).worked()
    await at.session.prompt("plan")

    await at.session.prompt("one")
    await at.session.prompt("two")
    await at.session.prompt("finish")

    reminders = [text for text in at.backend.log[-1].shown if text.startswith("Still open")]
    assert reminders == ["Still open in your todo list:\n- write the test"]
    assert at.session.reminder_count == 0


async def test_the_agents_own_thread_is_read_where_it_has_the_whole_conversation(
    tmp_path: Path,
) -> None:
    """Facts come from the richer file; after a resume only the session's own has everything."""
    other = SessionManager.create(tmp_path, tmp_path / "agents")
    for text in (FIRST, "b"):
        other.append_message(build_user_message(text))
    other.flush()
    backend = ScriptedBackend(
        (says(DOCUMENT), WORKED), own=(registry.get_harness("pi"), other.path)
    )
    at = await Desk(tmp_path, backend, settings.load_with_sources(tmp_path)).worked()

    first = await at.session.handoff()

    assert first is not None
    assert at.vault.get(first.handoff.id).predecessor.path == str(other.path)
    await at.session.prompt("go on")
    at.manager.close()
    resumed = AgentSession(
        SessionManager.open(at.manager.path),
        backend,
        settings.load_with_sources(tmp_path),
        vault=at.vault,
    )
    await resumed.start()
    second = await resumed.handoff()
    assert second is not None
    assert at.vault.get(second.handoff.id).predecessor.path == str(at.manager.path)


async def test_phases_are_told_while_it_is_written(desk: Make) -> None:
    """A person who waits sees what happens."""
    at = await desk(says(DOCUMENT)).worked()

    await at.session.handoff()

    assert [event.label for event in at.of(HandoffPhase)] == [
        "Analyzing conversation...",
        "Extracting relevant context...",
        "Writing handoff document...",
        "Assembling handoff prompt...",
    ]


async def test_words_that_wait_stay_in_the_queue_until_they_are_kept(
    desk: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk between two turns loses nobody's words; a template in them is filled in as in any."""
    at = await desk().worked()
    at.session.templates = {"review": "Review $ARGUMENTS with care."}
    whole = SessionManager.append_message

    def full(manager: SessionManager, message: Json) -> str:
        if "Review" in str(message):
            raise StoreFailed("the disk is full")
        return whole(manager, message)

    at.session.follow_up("/review src/parser.py")
    monkeypatch.setattr(SessionManager, "append_message", full)
    with pytest.raises(StoreFailed):
        await at.session.prompt("first")
    assert at.session.queues.waiting == ("/review src/parser.py",)

    monkeypatch.undo()
    await at.session.prompt("second")
    assert at.backend.log[-1].prompt == "Review src/parser.py with care."
    assert at.session.queues.waiting == ()
