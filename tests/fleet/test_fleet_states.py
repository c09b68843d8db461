"""What events make of an agent's row."""

import time
from typing import Any

import msgspec
import pytest
from fleet_rows import agent

from tasuki.fleet.store import states
from tasuki.harness.protocol import AgentEvent, EventKind
from tasuki.harness.questions import AskedQuestion


def row(**values: Any) -> states.Row:
    """The row of an idle agent."""
    made: states.Row = msgspec.to_builtins(agent(**values))
    return made | {"turn_at": None}


def after(given: states.Row, *told: AgentEvent, at: float = 200.0, **how: Any) -> states.Row:
    """The row once events were told, a second apart."""
    for number, event in enumerate(told):
        states.apply_event(
            given, event, at + number, **{"spooled": False, "takes_start": True, **how}
        )
    return given


def event(kind: EventKind, **values: Any) -> AgentEvent:
    """An event of the agent's session."""
    return AgentEvent(kind, "5e55104d", **values)


@pytest.mark.parametrize(
    ("told", "state"),
    [
        (("started",), "idle"),
        (("prompt",), "busy"),
        (("prompt", "busy"), "busy"),
        (("prompt", "idle"), "idle"),
        (("prompt", "waiting"), "waiting"),
        (("prompt", "waiting", "busy"), "busy"),
        (("prompt", "waiting", "idle"), "idle"),
        (("compacting",), "compacting"),
        (("prompt", "context"), "busy"),
        (("prompt", "child_started", "child_ended"), "busy"),
        (("ended",), "ended"),
        (("ended", "prompt"), "ended"),
    ],
)
def test_the_state_follows_the_events(told: tuple[EventKind, ...], state: str) -> None:
    """Each event leads to the state that is drawn in the module."""
    assert after(row(state="starting"), *map(event, told))["state"] == state


@pytest.mark.parametrize(("source", "state"), [("manual", "idle"), ("auto", "busy")])
def test_behind_a_compaction_it_is_where_it_was(source: str, state: str) -> None:
    """`/compact` ends idle; an automatic compaction happens within a turn."""
    told = (event("compacting", source=source), event("compacted", source=source))

    assert after(row(), *told)["state"] == state


def test_a_session_start_behind_a_compaction_is_no_end_of_the_turn() -> None:
    """Claude Code starts its session anew behind a compaction, in the middle of a turn."""
    assert after(row(state="busy"), event("started", source="compact"))["state"] == "busy"


def test_clear_does_not_end_the_agent() -> None:
    """`/clear` ends a session, not the program."""
    assert after(row(), event("ended", text="clear"))["ended_at"] is None


def test_a_stale_event_changes_no_state() -> None:
    """What is told from the spool and is older than the state changes nothing."""
    given = after(row(), event("prompt"), at=300.0)

    assert after(given, event("idle"), at=250.0, spooled=True)["state"] == "busy"


def test_a_clock_that_jumps_back_holds_nothing_up() -> None:
    """What is told now is now, whatever the clock says."""
    given = after(row(), event("prompt"), at=10_000.0)

    assert after(given, event("idle"), at=200.0)["state"] == "idle"


def test_children_are_known_while_they_run() -> None:
    """Sub-agents are there from their start to their end."""
    given = after(row(), event("child_started", child="a"), event("child_started", child="b"))
    given = after(given, event("child_ended", child="a"))

    assert given["children"] == ["b"]


def test_the_harness_own_list_of_what_runs_counts() -> None:
    """At a turn's end the harness's list of background work stands for everything."""
    given = after(row(), event("child_started", child="a"), event("idle", running=("npm test",)))

    assert given["children"] == ["npm test"]


def test_the_newest_context_use_counts() -> None:
    """An older figure never replaces a newer one; a figure that is not told stays unknown."""
    given = after(row(), event("context", used=70.0), at=300.0)
    after(given, event("context", used=10.0), at=200.0)

    assert (given["context_used"], given["context_source"]) == (70.0, "status line")
    assert after(row(), event("idle"))["context_used"] is None


def test_what_it_waits_for_is_known_while_it_waits() -> None:
    """The reason goes with the state."""
    given = after(row(), event("waiting", text="permission to run rm"))
    said = given["waiting_for"]

    assert (said, after(given, event("busy"))["waiting_for"]) == ("permission to run rm", "")


def test_a_reminder_does_not_replace_the_question() -> None:
    """It does not say what is asked; another question does, and an agent that works on asks nothing."""
    asked = AskedQuestion("Allow Bash?", "rm -rf build")
    given = after(row(), event("waiting", text="permission for Bash", question=asked))
    first = given["question"]
    after(given, event("waiting", text="Claude needs your permission"), at=206.0)
    reminded = (given["question"], given["waiting_for"], given["state_at"])
    after(given, event("waiting", text="permission", question=asked), at=210.0)

    assert reminded == (first, "permission for Bash", 200.0)
    assert first["detail"] == given["question"]["detail"] == "rm -rf build"
    assert first["mark"] != given["question"]["mark"]
    for kind in ("busy", "idle", "ended"):
        again = after(row(), event("waiting", text="x", question=asked), event(kind))
        assert again["question"] is None


def test_what_sub_agents_ask_outlives_a_turn_of_the_agent() -> None:
    """Their dialogs stay on its screen until each has ended."""
    asks = [event("waiting", question=AskedQuestion("Allow Bash?", name), child=name) for name in ("one", "two")]  # fmt: skip
    given = after(row(), *asks, event("prompt"), event("idle"))
    details = [given["question"]["detail"], given["question"]["behind"][0]["detail"]]
    after(given, event("child_ended", child="two"))
    left = given["question"]["detail"]

    assert (given["state"], given["waiting_for"]) == ("idle", "")
    assert (details, left) == (["two", "one"], "one")
    assert after(given, event("child_ended", child="one"))["question"] is None


def test_an_end_is_written_once() -> None:
    """The first end stays; later events change nothing of it."""
    given = after(row(), event("ended", text="prompt_input_exit"), at=time.time())
    ended = given["ended_at"]

    assert after(given, event("ended", text="other"))["ended_at"] == ended


@pytest.mark.parametrize("late", ["context", "idle", "child_ended"])
def test_what_is_reported_behind_the_end_does_not_hide_why_it_ended(late: EventKind) -> None:
    """Only a prompt or a new session shows that the program goes on; the rest was on its way."""
    given = after(row(), event("ended", text="logout"), event(late), is_alive=lambda _: True)

    assert (given["ended_at"], given["end_reason"]) == (None, "logout")
    assert after(given, event("prompt"), at=300.0)["end_reason"] == ""


def test_a_new_session_does_not_inherit_the_error_of_the_last_turn() -> None:
    """`/clear` and `/resume` leave it behind: the next failure is news again."""
    failed = event("idle", error="Prompt is too long")
    given = after(row(), failed, event("started", source="clear"))

    assert (given["state"], given["failure"]) == ("idle", None)
