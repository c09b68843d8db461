"""A running session against odds: agents, listeners, disks and threads that misbehave."""

import asyncio
from pathlib import Path

import pytest
from fakes.session_backend import BackendRule, ScriptedBackend, ScriptedTurn
from session_files import make_artifact
from sessions import DOCUMENT, FIRST, REQUEST, WORKED, Desk, Make, lines, messages, says

from tasuki.config import settings
from tasuki.draft.authors.answer import MAX_ANSWER
from tasuki.draft.authors.session_document import MAX_FAULTS, MAX_WISHES
from tasuki.errors import (
    AgentFailed,
    AuthorFailed,
    NothingToHandOff,
    StoreFailed,
    TasukiError,
    UsageError,
)
from tasuki.harness import registry
from tasuki.session.agent_session import handoff as session_handoff
from tasuki.session.agent_session.backend import (
    NOTHING_MESSAGE,
    HandoffPhase,
    QueueChanged,
    SessionEvent,
    SessionSwitched,
    TextPiece,
    TurnEnded,
    TurnStarted,
)
from tasuki.session.agent_session.handoff import MOST_LINES
from tasuki.session.agent_session.session import AgentSession
from tasuki.session.pi_store.manager import SessionManager
from tasuki.session.pi_store.messages import build_user_message

SILENT = BackendRule("was checked against the record", (ScriptedTurn((TextPiece("- (none)"),)),))


async def test_the_thread_of_another_conversation_is_not_taken_for_the_agents_own(
    tmp_path: Path,
) -> None:
    """A file that does not hold what the user said last tells nothing of this session."""
    other = SessionManager.create(tmp_path, tmp_path / "agents")
    for text in (FIRST, "Now something about databases, and never use an index."):
        other.append_message(build_user_message(text))
    other.flush()
    backend = ScriptedBackend(
        (says(DOCUMENT), WORKED), own=(registry.get_harness("pi"), other.path)
    )
    at = await Desk(tmp_path, backend, settings.load_with_sources(tmp_path)).worked()
    await at.session.prompt("Also accept form feeds.")

    outcome = await at.session.handoff()

    assert outcome is not None
    assert at.vault.get(outcome.handoff.id).predecessor.path != str(other.path)
    assert "databases" not in outcome.message


async def test_what_was_asked_for_a_handoff_never_becomes_the_users_words(desk: Make) -> None:
    """Also not those of a handoff before, which failed: the next one quotes the user alone."""
    at = await desk(
        SILENT,
        BackendRule(
            REQUEST, (ScriptedTurn(fails="overloaded"), ScriptedTurn((TextPiece("## Goal\n- x"),)))
        ),
    ).worked()
    with pytest.raises(AgentFailed):
        await at.session.handoff("look at the tokenizer")

    outcome = await at.session.handoff()

    assert outcome is not None
    asked = [item.text for item in at.vault.get(outcome.handoff.id).draft.asked]
    assert asked == [f'"{FIRST}"']
    assert "use no tools" not in outcome.message
    record = [
        line for line in lines(Path(outcome_path(at, outcome.handoff.id))) if "message" in line
    ]
    ours = [r["message"] for r in record if r["message"].get("attribution") == "agent"]
    assert len(ours) == 3


def outcome_path(at: Desk, id: str) -> str:
    """The file of the session that a handoff came from."""
    return at.vault.get(id).predecessor.path


async def test_a_listener_that_raises_stops_neither_a_turn_nor_a_switch(desk: Make) -> None:
    """Its error goes to the event loop; the other listeners hear, and the user's words are kept."""
    at = await desk(says(DOCUMENT)).worked()
    failed: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, about: failed.append(about))

    def bad(event: SessionEvent) -> None:
        if isinstance(event, TurnStarted | TurnEnded | QueueChanged | SessionSwitched):
            raise ValueError("a bad listener")

    leave = at.session.subscribe(bad)
    later: list[SessionEvent] = []
    at.session.subscribe(later.append)
    assert await at.session.prompt("go on") == "end_turn"
    at.session.follow_up("my own words")
    outcome = await at.session.handoff()
    leave()
    leave()

    assert outcome is not None
    assert outcome.prefill == "my own words"
    assert any(isinstance(event, SessionSwitched) for event in later)
    assert str(failed[0]["exception"]) == "a bad listener"
    assert await at.session.prompt("go on") == "end_turn"


async def test_a_turn_whose_end_cannot_be_kept_is_told_to_be_over(
    desk: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk raises, and whoever shows that the agent works hears that it does no more."""
    at = await desk().worked()

    def full(manager: SessionManager) -> None:
        if at.backend.log[-1].prompt == "go on":
            raise StoreFailed("the disk is full")

    monkeypatch.setattr(SessionManager, "flush", full)
    with pytest.raises(StoreFailed):
        await at.session.prompt("go on")

    assert isinstance(at.events[-1], TurnEnded)
    assert not at.session.is_streaming


async def test_a_handoff_is_cancelled_also_while_the_fresh_session_is_opened(
    desk: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that does not open one cannot hold up Escape: nothing is switched, nothing left."""
    at = await desk(says(DOCUMENT)).worked()
    before, opening = at.manager.path, asyncio.Event()

    async def never(*_: object) -> str:
        opening.set()
        await asyncio.Event().wait()
        return ""

    monkeypatch.setattr(at.backend, "open", never)
    task = asyncio.create_task(at.session.handoff())
    await opening.wait()
    at.session.abort_handoff()

    assert await asyncio.wait_for(task, 10) is None
    assert list(before.parent.glob("*.jsonl")) == [before]
    await at.session.prompt("go on")
    assert messages(before)[-2:] == [("user", "go on"), ("assistant", "OK.")]


async def test_an_agent_that_cannot_be_told_to_stop_does_not_hold_up_the_cancellation(
    desk: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe that nobody reads is left to itself."""
    monkeypatch.setattr(session_handoff, "CANCEL_SECONDS", 0.05)
    at = await desk(BackendRule(REQUEST, (ScriptedTurn(hold=True),))).worked()

    async def stuck() -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(at.backend, "cancel", stuck)
    task = asyncio.create_task(at.session.handoff())
    await at.backend.holding.wait()
    at.session.abort_handoff()

    assert await asyncio.wait_for(task, 10) is None
    assert not at.session.is_streaming


async def test_a_task_that_is_cancelled_from_outside_leaves_the_session_usable(desk: Make) -> None:
    """The agent is told to stop, the signal is cleared, and the old session goes on."""
    at = await desk(BackendRule(REQUEST, (ScriptedTurn(hold=True),))).worked()
    before = at.session.session_id
    task = asyncio.create_task(at.session.handoff())
    await at.backend.holding.wait()

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert not at.session.is_generating_handoff
    assert not at.session.is_streaming
    assert at.session.session_id == before
    assert await at.session.prompt("go on") == "end_turn"


async def test_an_agent_that_is_not_done_in_time_is_told_to_stop(
    desk: Make, tmp_path: Path
) -> None:
    """The setting bounds each answer; the message names it, and the old session goes on."""
    quick = settings.load_with_sources(tmp_path, {"author_seconds": 1})
    at = await desk(BackendRule(REQUEST, (ScriptedTurn(hold=True),)), loaded=quick).worked()

    with pytest.raises(AuthorFailed, match="author_seconds"):
        await at.session.handoff()
    assert await at.session.prompt("go on") == "end_turn"


async def test_the_plan_of_another_program_is_no_plan(desk: Make) -> None:
    """What an extension keeps under the same name in a file that was resumed does no harm."""
    at = await desk(says(DOCUMENT)).worked()
    for data in ({"todos": [{"content": "x", "status": "odd"}]}, ["x"], {"mode": "on"}):
        at.manager.append_custom_entry("plan", data)
        assert at.session.todos == ()

    assert await at.session.handoff() is not None


async def test_a_secret_in_the_focus_is_kept_nowhere(desk: Make) -> None:
    """The focus becomes the goal of the record in the vault, and is redacted there."""
    key = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
    at = await desk(says(DOCUMENT)).worked()

    outcome = await at.session.handoff(f"use {key} \ud800")

    assert outcome is not None
    stored = (at.vault.root / outcome.handoff.id / "handoff.json").read_text()
    assert key not in stored + at.vault.load_brief(outcome.handoff.id) + outcome.message


async def test_many_files_that_were_made_are_counted(desk: Make) -> None:
    """A successor is told of the first ones, and how many there are."""
    at = await desk(says(DOCUMENT)).worked()
    for n in range(MOST_LINES + 3):
        make_artifact(at.manager, f"{n:03}.md", "x")

    outcome = await at.session.handoff()

    assert outcome is not None
    assert outcome.message.count(".md`") == MOST_LINES
    assert "- … and 3 more files" in outcome.message


async def test_eight_handoffs_in_a_row_do_not_grow_and_lose_no_wish(desk: Make) -> None:
    """The user's words reach the last session, the agent's stay the agent's, sizes are bounded."""
    claim = "Never touch the file `src/parser.py` again, says the agent."
    at = await desk(SILENT, says(DOCUMENT.replace("- (none)", f"- {claim}", 1))).worked()
    await at.session.prompt("Never use mocks in the tests.")
    sizes = []
    for n in range(8):
        outcome = await at.session.handoff()
        assert outcome is not None
        sizes.append(len(outcome.message))
        asked = [item.text for item in at.vault.get(outcome.handoff.id).draft.asked]
        assert not any("Never touch" in text for text in asked)
        await at.session.prompt(f"Do step {n} now.")

    assert "keep the public API as it is" in outcome.message
    assert "Never use mocks in the tests." in outcome.message
    assert max(sizes[2:]) < sizes[1] * 1.5


async def test_a_secret_of_the_thread_is_in_nothing_that_is_handed_on(desk: Make) -> None:
    """Neither in the facts behind the document nor in what the session made."""
    key = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
    at = await desk(SILENT, says("## Goal\n- x")).worked()
    await at.session.prompt(f"Never print the token {key} in a log.")
    at.manager.append_custom_entry(
        "plan", {"todos": [{"text": f"hide {key}", "status": "pending"}]}
    )

    outcome = await at.session.handoff()

    assert outcome is not None
    assert "Never print the token" in outcome.message
    assert "- [ ] hide" in outcome.message
    stored = (at.vault.root / outcome.handoff.id / "handoff.json").read_text()
    assert key not in stored + at.vault.load_brief(outcome.handoff.id) + outcome.message


async def test_a_configuration_that_names_the_agent_asks_the_session(
    desk: Make, tmp_path: Path
) -> None:
    """`author = "agent"` is what a running session is anyway."""
    at = await desk(
        says(DOCUMENT), loaded=settings.load_with_sources(tmp_path, {"author": "agent"})
    ).worked()

    outcome = await at.session.handoff()

    assert outcome is not None
    assert outcome.document == DOCUMENT


async def test_a_thread_of_the_agents_that_cannot_be_read_is_not_needed(tmp_path: Path) -> None:
    """The session's own file has the conversation too."""
    gone = (registry.get_harness("pi"), tmp_path / "gone.jsonl")
    backend = ScriptedBackend((says(DOCUMENT), WORKED), own=gone)
    at = await Desk(tmp_path, backend, settings.load_with_sources(tmp_path)).worked()
    old = at.manager.path

    outcome = await at.session.handoff()

    assert outcome is not None
    assert outcome_path(at, outcome.handoff.id) == str(old)


async def test_after_a_handoff_a_resumed_session_has_a_thread_of_the_agents_again(
    tmp_path: Path,
) -> None:
    """The fresh session of the agent holds the conversation from its beginning."""
    backend = ScriptedBackend((says(DOCUMENT), WORKED))
    at = await Desk(tmp_path, backend, settings.load_with_sources(tmp_path)).worked()
    at.manager.close()
    resumed = AgentSession(
        SessionManager.open(at.manager.path),
        backend,
        settings.load_with_sources(tmp_path),
        vault=at.vault,
    )
    await resumed.start()
    await resumed.handoff()
    own = SessionManager.create(tmp_path, tmp_path / "agents")
    await resumed.prompt("go on")
    for text in ("go on", "b"):
        own.append_message(build_user_message(text))
    own.flush()
    backend.own = (registry.get_harness("pi"), own.path)

    outcome = await resumed.handoff()

    assert outcome is not None
    assert outcome_path(at, outcome.handoff.id) == str(own.path)


async def test_one_message_is_nothing_to_hand_off(desk: Make) -> None:
    """Two are the least, and the sentence is the seed's to the letter."""
    at = desk()
    await at.session.start()
    at.manager.append_message(build_user_message("hello"))

    with pytest.raises(NothingToHandOff) as failure:
        await at.session.handoff()
    assert str(failure.value) == NOTHING_MESSAGE


async def test_cancelled_while_it_is_checked_nothing_is_opened(desk: Make) -> None:
    """Between the last answer and the switch the signal counts as well."""
    at = await desk(says(DOCUMENT)).worked()

    def cancel(event: SessionEvent) -> None:
        if isinstance(event, HandoffPhase) and event.label.startswith("Assembling"):
            at.session.abort_handoff()

    at.session.subscribe(cancel)

    assert await at.session.handoff() is None
    assert list(at.backend.sessions) == ["agent-session-1"]


async def test_cancelled_during_the_repair_nothing_is_handed_off(desk: Make) -> None:
    """A document that is there already does not turn a cancellation into a handoff."""
    held = BackendRule("was checked against the record", (ScriptedTurn(hold=True),))
    at = await desk(held, says("## Goal\n- x")).worked()
    task = asyncio.create_task(at.session.handoff())
    await at.backend.holding.wait()

    at.session.abort_handoff()

    assert await task is None
    assert list(at.backend.sessions) == ["agent-session-1"]
    assert at.vault.list_handoffs() == []


async def test_two_handoffs_at_once_are_one(desk: Make) -> None:
    """The second is refused and the first goes on."""
    at = await desk(says(DOCUMENT)).worked()

    first, second = await asyncio.gather(
        at.session.handoff(), at.session.handoff(), return_exceptions=True
    )

    assert isinstance(second, UsageError)
    assert not isinstance(first, BaseException)
    assert list(at.backend.sessions) == ["agent-session-1", "agent-session-2"]


async def test_a_vault_that_cannot_be_written_is_a_failure_and_switches_nothing(desk: Make) -> None:
    """A handoff that is kept nowhere is none; the conversation goes on."""
    at = await desk(says(DOCUMENT)).worked()
    at.vault.root.write_text("a file where a folder belongs")
    before = at.manager.path

    with pytest.raises(StoreFailed):
        await at.session.handoff()

    assert at.manager.path == before
    assert await at.session.prompt("go on") == "end_turn"


@pytest.mark.parametrize("deleted", [True, False])
async def test_a_session_file_that_another_program_took_is_a_failure(
    desk: Make, deleted: bool
) -> None:
    """Deleted or written to meanwhile: it is said, and no fresh session is begun beside it."""
    at = await desk(says(DOCUMENT)).worked()
    path = at.manager.path
    if deleted:
        path.unlink()
    else:
        path.write_text(path.read_text() + "{}\n")

    with pytest.raises(StoreFailed if not deleted else TasukiError):
        await at.session.handoff()

    assert at.manager.path == path
    assert list(at.backend.sessions) == ["agent-session-1"]


async def test_the_prompt_is_on_disk_before_the_agent_has_it(desk: Make) -> None:
    """A crash while the agent works loses no word of the user; the failure is told and kept."""
    at = desk(BackendRule("crash", (ScriptedTurn(fails="it died"),)))
    await at.session.start()
    seen: list[tuple[str, str]] = []
    at.session.subscribe(
        lambda e: (
            seen.extend(messages(at.manager.path)[-1:]) if isinstance(e, TurnStarted) else None
        )
    )

    with pytest.raises(AgentFailed):
        await at.session.prompt("crash now")

    assert seen == [("user", "crash now")]
    ended = at.events[-1]
    assert isinstance(ended, TurnEnded)
    assert ended.error == "it died"
    assert lines(at.manager.path)[-1]["message"]["errorMessage"] == "it died"


async def test_a_handoff_is_delivered_once(desk: Make) -> None:
    """The first prompt of the successor proves it; the second adds nothing."""
    at = await desk(says(DOCUMENT)).worked()
    outcome = await at.session.handoff()
    assert outcome is not None

    await at.session.prompt("one")
    await at.session.prompt("two")

    kinds = [event.kind for event in at.vault.load_events(outcome.handoff.id)]
    assert kinds.count("delivered") == 1


async def test_a_repair_is_checked_and_the_findings_are_bounded(desk: Make) -> None:
    """What a repair makes up is marked too; no more than a dozen findings are told, on a line each."""
    lies = "\n".join(f"- Reads `made/up_{n:02}.py`" for n in range(30))
    repair = "## Corrections\n- ok\n\n## Key Decisions\n- Uses `made/by_repair.py`"
    short = DOCUMENT.partition("\n\n## Key Decisions")[0]
    mended = BackendRule("was checked against the record", (ScriptedTurn((TextPiece(repair),)),))
    at = await desk(mended, says(short)).worked()
    first = await at.session.handoff()
    at.backend.rules = (SILENT, says(f"{DOCUMENT}\n\n## Critical Context\n{lies}"))
    await at.session.prompt("go on")
    second = await at.session.handoff()

    assert first is not None
    assert second is not None
    marked = "`made/by_repair.py` does not occur in the thread"
    assert marked in first.message
    assert second.message.count("does not occur in the thread") == MAX_FAULTS


async def test_an_endless_repair_is_none(desk: Make) -> None:
    """The document stands as it was."""
    endless = BackendRule(
        "was checked against the record",
        (ScriptedTurn((TextPiece("## Next Steps\n" + "x" * MAX_ANSWER),)),),
    )
    at = await desk(endless, says("## Goal\n- x")).worked()

    outcome = await at.session.handoff()

    assert outcome is not None
    assert outcome.document == "## Goal\n- x"


async def test_no_more_than_a_few_wishes_are_asked_for(desk: Make) -> None:
    """A thread full of rules does not become a questionnaire."""
    at = await desk(SILENT, says(DOCUMENT)).worked()
    for wish in (
        "Never use mocks in the tests.",
        "Always write the changelog in German.",
        "Do not touch the database schema.",
        "Please keep every function under forty lines.",
        "Don't add dependencies without asking me.",
        "You must sign all commits.",
        "Only support Python 3.12 from now on.",
    ):
        await at.session.prompt(wish)

    await at.session.handoff()

    assert at.backend.log[-1].prompt.count("the user's words:") == MAX_WISHES
