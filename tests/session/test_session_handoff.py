"""Rows A2 to A15 of the mission, at the session: a handoff inside a running session, step by step."""

import asyncio
from pathlib import Path

import pytest
from fakes.session_backend import BackendRule, ScriptedTurn
from session_files import make_artifact
from sessions import DOCUMENT, FIRST, READ, REQUEST, Make, lines, messages, says

from tasuki.config import settings
from tasuki.draft import pipeline
from tasuki.errors import (
    AgentFailed,
    AuthorFailed,
    NothingToHandOff,
)
from tasuki.harness import registry
from tasuki.model import Goal
from tasuki.session.agent_session.backend import (
    NOTHING_MESSAGE,
    AgentPlan,
    AgentTodo,
    QueueChanged,
    SessionSwitched,
    TextPiece,
    ThoughtPiece,
)
from tasuki.session.pi_store.manager import SessionManager
from tasuki.session.pi_store.messages import (
    build_assistant_message,
    build_text_block,
    build_user_message,
)


async def test_a2_fewer_than_two_messages_are_nothing_to_hand_off(desk: Make) -> None:
    """The session layer raises before anything is asked; the count is that of message entries."""
    fresh = desk()
    await fresh.session.start()

    with pytest.raises(
        NothingToHandOff, match=NOTHING_MESSAGE.replace("(", r"\(").replace(")", r"\)")
    ):
        await fresh.session.handoff()
    assert fresh.backend.log == []
    assert not fresh.session.is_generating_handoff


async def test_a3_the_request_names_the_six_sections_and_the_focus(desk: Make) -> None:
    """The fixed request goes to the old session to the letter, with `Additional focus: …` at its end."""
    at = await desk(says(DOCUMENT)).worked()

    await at.session.handoff("finish the tests")

    asked = at.backend.log[1]
    headings = [line for line in asked.prompt.splitlines() if line.startswith("## ")]
    assert headings == ["## Goal", "## Constraints & Preferences", "## Progress", "## Key Decisions",
                        "## Critical Context", "## Next Steps"]  # fmt: skip
    assert asked.prompt.endswith("\n\nAdditional focus: finish the tests")
    assert asked.session == "agent-session-1"
    assert FIRST in asked.shown


async def test_a3_without_a_focus_none_is_mentioned(desk: Make) -> None:
    """An empty focus leaves the request as it is."""
    at = await desk(says(DOCUMENT)).worked()

    await at.session.handoff()

    assert "Additional focus" not in at.backend.log[1].prompt


async def test_a3_the_request_is_not_expanded_and_a_prompt_is(desk: Make) -> None:
    """Templates fill in what the user says, and never what the session itself asks."""
    at = await desk(says(DOCUMENT)).worked()
    at.session.templates = {"review": "Review $ARGUMENTS with care.", "This": "expanded!"}

    await at.session.prompt("/review src/parser.py")
    await at.session.prompt("/review src/parser.py", expand=False)
    await at.session.handoff("/review $ARGUMENTS")

    said = [asked.prompt for asked in at.backend.log]
    assert said[1:3] == ["Review src/parser.py with care.", "/review src/parser.py"]
    assert said[3].endswith("Additional focus: /review $ARGUMENTS")


async def test_a4_the_document_is_the_newest_message_of_that_very_turn(desk: Make) -> None:
    """Text blocks are joined by newlines; thoughts, tools and chatter before a tool are not in it."""
    parts = DOCUMENT.split("\n\n")
    told = (TextPiece("Let me look once more."), ThoughtPiece("hm"), READ,
            TextPiece("\n\n".join(parts[:3]), "m1"), TextPiece("\n\n".join(parts[3:]), "m2"))  # fmt: skip
    at = await desk(BackendRule(REQUEST, (ScriptedTurn(told),))).worked()

    outcome = await at.session.handoff()

    assert outcome is not None
    assert outcome.document.startswith("\n\n".join(parts[:3]) + "\n" + parts[3])
    assert "once more" not in outcome.document


async def test_a4_a_turn_without_text_does_not_fall_back_on_an_older_answer(desk: Make) -> None:
    """The seed's newest assistant message would be the work before; here it is a failure."""
    silent = BackendRule(REQUEST, (ScriptedTurn((READ,)), ScriptedTurn()))
    at = await desk(silent).worked()

    with pytest.raises(AuthorFailed, match="without text"):
        await at.session.handoff()


async def test_a5_an_aborted_handoff_returns_nothing_and_leaves_everything(desk: Make) -> None:
    """`abort_handoff` ends the agent's turn; the old session is still in use, the signal is cleared."""
    at = await desk(
        BackendRule(REQUEST, (ScriptedTurn((TextPiece("## Goal"),), hold=True),))
    ).worked()
    before = at.session.session_id
    task = asyncio.create_task(at.session.handoff())
    await at.backend.holding.wait()
    assert at.session.is_generating_handoff

    at.session.abort_handoff()

    assert await task is None
    assert not at.session.is_generating_handoff
    assert at.session.session_id == before
    assert list(at.backend.sessions) == ["agent-session-1"]
    assert await at.session.prompt("go on then") == "end_turn"
    assert FIRST in at.backend.log[-1].everything


async def test_a5_the_signal_is_cleared_after_a_failure_too(desk: Make) -> None:
    """A handoff that failed can be tried again, and then works."""
    at = await desk(
        BackendRule(
            REQUEST,
            (ScriptedTurn(fails="the model is overloaded"), ScriptedTurn((TextPiece(DOCUMENT),))),
        )
    ).worked()

    with pytest.raises(AgentFailed, match="overloaded"):
        await at.session.handoff()

    assert not at.session.is_generating_handoff
    assert await at.session.handoff() is not None


async def test_a5_abort_without_a_handoff_does_nothing(desk: Make) -> None:
    """Escape at rest is harmless."""
    at = await desk().worked()

    at.session.abort_handoff()

    assert await at.session.prompt("go on") == "end_turn"


async def test_a6_the_new_session_is_fresh_and_the_queues_are_empty(desk: Make) -> None:
    """A new header, one entry, another id; notes and reminders are gone."""
    at = await desk(says(DOCUMENT), todo_reminders=3).worked()
    old, old_file = at.session.session_id, at.manager.path
    at.session.add_note("a note of the machine")
    at.session.reminder_count = 2

    await at.session.handoff()

    header, *entries = lines(at.manager.path)
    assert at.session.session_id == header["id"] != old
    assert at.manager.path != old_file
    assert [entry["type"] for entry in entries] == ["custom_message"]
    assert entries[0]["parentId"] is None
    assert at.session.queues.waiting == ()
    assert at.session.queues.notes == []
    assert at.session.reminder_count == 0
    assert at.session.backend_session == "agent-session-2"
    assert at.of(SessionSwitched) == [SessionSwitched(at.session.session_id, at.manager.path)]


async def test_a6_the_users_queued_words_move_unsent_into_the_input_line(desk: Make) -> None:
    """What the user typed meanwhile is neither lost nor sent."""
    at = await desk(says(DOCUMENT)).worked()
    at.session.follow_up("then update the changelog")
    at.session.steer("use spaces")

    outcome = await at.session.handoff()

    assert outcome is not None
    assert outcome.prefill == "use spaces\nthen update the changelog"
    assert at.of(QueueChanged)[-1] == QueueChanged(())
    assert not any("changelog" in asked.prompt for asked in at.backend.log)


async def test_a7_the_document_is_wrapped_and_kept_as_a_custom_message(desk: Make) -> None:
    """`customType: handoff`, shown, in the model's context, in the seed's wrapping."""
    at = await desk(says(DOCUMENT)).worked()

    outcome = await at.session.handoff()

    assert outcome is not None
    entry = lines(at.manager.path)[1]
    assert entry["customType"] == "handoff"
    assert entry["display"] is True
    assert entry["content"] == outcome.message
    assert entry["content"].startswith(f"<handoff-context>\n{DOCUMENT}")
    assert entry["content"].endswith(
        "\n</handoff-context>\n\nThe above is a handoff document from a previous session. "
        "Use this context to continue the work seamlessly."
    )
    assert entry["details"]["handoff"] == outcome.handoff.id


async def test_a8_the_successor_sees_the_handoff_and_not_the_old_transcript(desk: Make) -> None:
    """The context is built from the new session: the next prompt is the second text in view."""
    at = await desk(says(DOCUMENT)).worked()
    outcome = await at.session.handoff()

    await at.session.prompt("Write the test.")

    assert outcome is not None
    assert [m["role"] for m in at.session.messages[:2]] == ["custom", "user"]
    asked = at.backend.log[-1]
    assert asked.session == "agent-session-2"
    assert asked.shown == (outcome.message, "Write the test.")
    assert "I will look at the parser" not in asked.everything


async def test_a9_the_old_session_keeps_the_document_as_an_answer(desk: Make) -> None:
    """Both sessions are on disk: the old one with request and document, the new one with the message."""
    at = await desk(says(DOCUMENT)).worked()
    old = at.manager.path

    await at.session.handoff()

    *_, (role, request), (answerer, document) = messages(old)
    assert (role, answerer, document) == ("user", "assistant", DOCUMENT)
    assert request.startswith("This conversation is about to be handed")
    assert messages(at.manager.path) == []


async def test_a11_a_permission_that_is_asked_for_meanwhile_is_refused(desk: Make) -> None:
    """While it writes its document the agent may do nothing; nobody is asked."""
    at = await desk(
        BackendRule(REQUEST, (ScriptedTurn((TextPiece(DOCUMENT),), asks="rm -rf src"),))
    ).worked()

    assert await at.session.handoff() is not None
    assert at.backend.answers == ["no"]


async def test_a12_an_empty_answer_is_asked_for_once_more(desk: Make) -> None:
    """The second answer counts; the second request says what was wrong with the first."""
    at = await desk(says("  \n", DOCUMENT)).worked()

    outcome = await at.session.handoff("finish the tests")

    assert outcome is not None
    assert outcome.document == DOCUMENT
    again = at.backend.log[2].prompt
    assert again.startswith("Your last answer held no text.")
    assert again.endswith("Additional focus: finish the tests")


async def test_a12_an_answer_that_stays_empty_is_a_failure_and_no_cancellation(desk: Make) -> None:
    """It raises, and the old session stays in use."""
    at = await desk(says("", "")).worked()
    before = at.session.session_id

    with pytest.raises(AuthorFailed, match="without text, even when asked again"):
        await at.session.handoff()
    assert at.session.session_id == before


@pytest.mark.parametrize("stop", ["max_tokens", "refusal", "max_turn_requests"])
async def test_a12_a_turn_that_did_not_end_by_itself_is_a_failure(desk: Make, stop: str) -> None:
    """Half a document is none."""
    half = ScriptedTurn((TextPiece(DOCUMENT[:200]),), stop=stop)  # type: ignore[arg-type]
    at = await desk(BackendRule(REQUEST, (half,))).worked()

    with pytest.raises(AuthorFailed, match=stop):
        await at.session.handoff()
    assert at.session.backend_session == "agent-session-1"


async def test_a12_a_turn_that_the_agent_itself_breaks_off_is_a_cancellation(desk: Make) -> None:
    """The three outcomes stay apart: cancelled returns nothing."""
    at = await desk(
        BackendRule(REQUEST, (ScriptedTurn((TextPiece(DOCUMENT),), stop="cancelled"),))
    ).worked()

    assert await at.session.handoff() is None


async def test_a13_missing_sections_are_named_and_repaired_once(desk: Make) -> None:
    """What the repair brings stands under its own heading; nothing else of the document changes."""
    short = DOCUMENT.partition("\n\n## Key Decisions")[0]
    repair = ("## Key Decisions\n- Tabs count as one blank\n\n## Critical Context\n- (none)\n\n"
              "## Next Steps\n- Write tests/test_tabs.py")  # fmt: skip
    mended = BackendRule("was checked against the record", (ScriptedTurn((TextPiece(repair),)),))
    at = await desk(mended, says(short)).worked()

    outcome = await at.session.handoff()

    assert outcome is not None
    told = at.backend.log[2].prompt
    for name in ("Key Decisions", "Critical Context", "Next Steps"):
        assert f"- the section ## {name}" in told
    assert "the section ## Goal" not in told
    assert outcome.document == (
        f"{short}\n\n## Key Decisions\n- Tabs count as one blank\n\n"
        "## Next Steps\n- Write tests/test_tabs.py"
    )
    assert "The document above has no section Critical Context." in outcome.message
    assert len(at.backend.log) == 3


async def test_a13_what_does_not_stand_in_the_thread_is_told_and_marked(desk: Make) -> None:
    """The words stay to the letter; behind them stands what the thread does not bear."""
    wrong = DOCUMENT.replace("- Read `src/parser.py`", "- Changed `src/lexer.py`").replace(
        '"keep the public API as it is"', 'The user said "drop Python 3.8"'
    )
    silent = BackendRule(
        "was checked against the record", (ScriptedTurn((TextPiece("## Corrections\n- (none)"),)),)
    )
    at = await desk(silent, says(wrong)).worked()

    outcome = await at.session.handoff()

    assert outcome is not None
    assert (
        "Changed `src/lexer.py` — `src/lexer.py` does not occur in the thread"
        in at.backend.log[2].prompt
    )
    assert outcome.document == wrong
    checked = outcome.message.partition("## Checked against the thread")[2]
    assert "- Changed `src/lexer.py` — " in checked
    assert "the user did not write this" in checked
    assert "Write tests/test_tabs.py" not in checked.partition("What it leaves out")[0]


async def test_a_token_in_an_unsupported_claim_reaches_nobody(desk: Make) -> None:
    """What the thread does not bear out is listed without the secrets that the document holds."""
    token, password = "vcp_" + "aB3dE6gH" * 7, "Maple!kq7RtZ2w9"
    wrong = DOCUMENT.replace(
        "- Read `src/parser.py`",
        f"- Deployed with `deploy --key {token}` and used `{password[:11]}` in src/lexer.py",
    ).replace("- Tabs count as one blank", f"- The password is {password}")
    at = await desk(says(wrong, "- (none)"), says(wrong)).worked()

    outcome = await at.session.handoff()

    assert outcome is not None
    assert "does not bear out" in outcome.message
    kept = [path.read_text() for path in at.vault.root.rglob("*") if path.is_file()]
    successor = at.manager.path.read_text() if at.manager.path else ""
    for text in (outcome.message, outcome.document, successor, *kept):
        assert token[8:] not in text
        assert password[:11] not in text


async def test_a13_the_document_does_not_bear_itself_out(desk: Make) -> None:
    """The thread is read before the document is in it."""
    at = await desk(says(DOCUMENT + "\n- The port is `48151`")).worked()

    outcome = await at.session.handoff("the port 48151")

    assert outcome is not None
    assert "`48151` does not occur in the thread" not in outcome.document
    kept = at.vault.get(outcome.handoff.id)
    assert all("48151" not in citation.text for citation in kept.citations)


async def test_a14_the_new_session_names_its_parent(desk: Make) -> None:
    """`parentSession` is the old file; the vault knows the handoff and what became of it."""
    at = await desk(says(DOCUMENT)).worked()
    old = at.manager.path

    outcome = await at.session.handoff("finish the tests")
    await at.session.prompt("Write the test.")

    assert outcome is not None
    assert lines(at.manager.path)[0]["parentSession"] == str(old)
    kept = at.vault.get(outcome.handoff.id)
    assert kept.goal.text == "finish the tests"
    assert kept.predecessor.path == str(old)
    events = [event.kind for event in at.vault.load_events(outcome.handoff.id)]
    assert events == ["drafted", "started", "delivered"]


async def test_a15_what_the_old_session_made_stays_readable(desk: Make) -> None:
    """Plan, scratch files and todos are told, and open from the new session, also two handoffs on."""
    plan = AgentPlan((AgentTodo("accept tabs", "completed"), AgentTodo("write the test")))
    at = await desk(says(DOCUMENT), BackendRule("plan it", (ScriptedTurn((plan,)),))).worked()
    await at.session.prompt("plan it")
    make_artifact(at.manager, "plan.md", "1. tabs\n2. tests\n")

    first = await at.session.handoff()
    await at.session.prompt("go")
    second = await at.session.handoff()

    assert first is not None
    assert second is not None
    assert [(path.name, path.read_text()) for path in at.manager.list_artifacts()] == [
        ("plan.md", "1. tabs\n2. tests\n")
    ]
    assert at.session.todos == plan.todos
    for outcome in (first, second):
        made = outcome.message.partition("## Made by the previous session")[2]
        assert "plan.md`" in made
        assert "- [x] accept tabs" in made
        assert "- [ ] write the test" in made


async def test_a_second_handoff_folds_the_first_and_keeps_the_users_words_apart(
    desk: Make, tmp_path: Path
) -> None:
    """What an agent has in one prompt, the handoff and then the user's words, is read as both."""
    at = await desk(says(DOCUMENT)).worked()
    first = await at.session.handoff()
    assert first is not None
    merged = SessionManager.create(tmp_path, tmp_path / "agents")
    wish = "Keep the tests in tests/test_tabs.py small, and never use mocks."
    merged.append_message(build_user_message(f"{first.message}\n\n{wish}"))
    merged.append_message(build_assistant_message([build_text_block("Understood.")]))
    merged.flush()

    made = pipeline.make_handoff(
        registry.get_harness("pi"), merged.path, Goal(text="finish the tab tests"), settings.load_with_sources(tmp_path),
        handoff_id="0" * 32, to="pi",
    )  # fmt: skip

    asked = [item.text for item in made.handoff.draft.asked]
    assert f'"{wish}"' in asked
    assert not any("seamlessly" in text or "Tabs count" in text for text in asked)
    assert made.handoff.parent == first.handoff.id[:8]
    previous = [item.text for item in made.handoff.draft.previous]
    assert any("keep the public API as it is" in text for text in previous)
