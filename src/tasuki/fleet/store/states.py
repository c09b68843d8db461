"""How an event changes an agent: one function from an agent's row and an event to the changed row.

    starting ──started──▶ idle ──prompt──▶ busy ──idle──▶ idle
    starting ──started, with its first prompt──▶ busy
                                           busy ──waiting──▶ waiting ──busy, prompt, idle──▶ …
                                           busy ──idle, at an error──▶ limited, failed ──prompt──▶ …
             busy ──nothing of it moves──▶ stuck ──any event, or anything that moves──▶ …
                                     busy, idle ──compacting──▶ compacting ──compacted──▶ …
    any ──ended──▶ ended            any ──its pane is gone──▶ lost

A row is changed in place. An event that is reported late (from the spool) changes no state
that is newer.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from tasuki.draft.redact.redactor import Redactor
from tasuki.fleet.store.models import AgentState
from tasuki.fleet.store.questions import (
    add_question,
    build_question,
    drop_child,
    dump_question,
    keep_of_children,
    load_question,
)
from tasuki.harness.protocol import AgentEvent
from tasuki.harness.reading.turn_failures import find_failure
from tasuki.model import TurnFailure
from tasuki.text_safety import clean_for_display

SWITCH_REASONS = frozenset({"clear", "resume", "new", "fork", "switch"})
"""Reasons for which a session ends while its program continues with another one."""
AFTER_COMPACTION = {"manual": "idle", "auto": "busy"}
WORKING = frozenset({"busy", "stuck"})
MARGIN_PERCENT = 5.0
"""Percent by which the use must fall below a threshold before it can be crossed again."""

LAST_WORDS_CHARACTERS = 300
"""Characters of an agent's last answer that are kept."""

Row = dict[str, Any]


def has_ended(agent: Row) -> bool:
    """Whether an agent has ended."""
    return agent["ended_at"] is not None


def has_running_turn(agent: Row) -> bool:
    """Whether a turn runs whose prompt was reported.

    That an agent shows itself busy says less. Claude Code does so as soon as Enter is pressed,
    well before its hook reports the prompt.
    """
    return agent["state"] in WORKING and agent["turn_at"] is not None


def apply_event(
    agent: Row,
    event: AgentEvent,
    happened_at: float,
    *,
    spooled: bool,
    takes_start: bool,
    is_alive: Callable[[Row], bool] = lambda _agent: False,
) -> None:
    """Change an agent's row according to an event.

    `at` is when it happened; `spooled` means that it is reported late. `takes_start`: the
    harness fires its session start with the program, so the agent is ready then. `is_alive` tells
    whether an agent's program lives: its end is believed once it does not.
    """
    _apply_identity(agent, event)
    _apply_context(agent, event, happened_at)
    if has_ended(agent):
        return
    if agent["state"] == "stuck" and not (spooled and happened_at < agent["state_at"]):
        agent.update(state="busy", state_at=happened_at, stuck_at=None, stuck_with="")
    if event.kind == "ended":
        reason = event.text or "it ended"
        if event.text in SWITCH_REASONS:
            return
        if is_alive(agent):
            agent["end_reason"] = Redactor().redact_line(reason, 300)
        else:
            end_agent(agent, "ended", happened_at, reason)
        return
    if event.kind in ("child_started", "child_ended"):
        _apply_children(agent, event)
        return
    if spooled and happened_at < agent["state_at"]:
        return
    _apply_state(agent, event, happened_at, takes_start)


def end_agent(agent: Row, state: str, ended_at: float, reason: str) -> None:
    """Set an agent's row to its end."""
    agent.update(
        state=state, state_at=ended_at, ended_at=ended_at, end_reason=Redactor().redact_line(reason, 300), children=[],
        waiting_for="", question=None, stuck_at=None, stuck_with="",
    )  # fmt: skip


def _apply_identity(agent: Row, event: AgentEvent) -> None:
    for name, value in (
        ("thread", event.path),
        ("model", event.model),
        ("permission", event.permission),
    ):
        if value:
            agent[name] = value
    if event.cwd and event.kind == "started":
        agent["cwd"] = event.cwd


def _apply_context(agent: Row, event: AgentEvent, happened_at: float) -> None:
    has_use = event.used is not None or event.tokens is not None
    if not has_use or happened_at < (agent["context_at"] or 0.0):
        return
    source = "status line" if event.kind == "context" else "hook"
    agent.update(
        context_used=event.used,
        context_tokens=event.tokens,
        context_window=event.window or agent["context_window"],
        context_at=happened_at,
        context_source=source,
    )


def _apply_children(agent: Row, event: AgentEvent) -> None:
    named = Redactor().redact(event.child)
    children = [child for child in agent["children"] if child != named]
    if event.kind == "child_started":
        children.append(named)
    agent["children"] = children
    if event.kind == "child_ended" and (question := load_question(agent["question"])):
        agent["question"] = dump_question(drop_child(question, event.child))


def _apply_failure(agent: Row, event: AgentEvent, happened_at: float) -> AgentState:
    """Keep the error with which a turn ended, or forget the last one; return the state."""
    failure = find_failure(event.error, happened_at, code=event.error_code)
    if failure is None and event.interrupted:
        return name_state(load_failure(agent["failure"]))
    set_failure(agent, failure)
    return name_state(failure)


def name_state(failure: TurnFailure | None) -> AgentState:
    """Return the state of an agent whose turn has ended, with this error or with none."""
    if failure is None:
        return "idle"
    return "limited" if failure.kind == "limit" else "failed"


def load_failure(value: Any) -> TurnFailure | None:
    """Return the error of a turn from its column."""
    return msgspec.convert(value, TurnFailure) if value else None


def set_failure(agent: Row, failure: TurnFailure | None) -> None:
    """Set the error with which the last turn of an agent ended; None for none."""
    text = Redactor().redact(clean_for_display(failure.text)) if failure else ""
    is_limit = failure is not None and failure.kind == "limit"
    agent.update(
        failure=msgspec.to_builtins(replace(failure, text=text)) if failure else None,
        limit_text=text if is_limit else "",
        limited_until=failure.resets_at if failure and is_limit else None,
    )


def _apply_state(agent: Row, event: AgentEvent, happened_at: float, takes_start: bool) -> None:
    now = {
        "started": _choose_first_state(agent, event) if takes_start else "",
        "prompt": "busy",
        "busy": "busy",
        "idle": "idle",
        "waiting": "waiting",
        "compacting": "compacting",
        "compacted": AFTER_COMPACTION.get(event.source, "busy"),
    }.get(event.kind, "")
    if event.kind in ("started", "prompt"):  # the rest may have been on its way at the end
        agent["end_reason"] = ""
    if event.kind == "prompt":
        agent["turn_at"] = happened_at
    if event.kind == "started" and now:
        set_failure(agent, None)
    if event.kind == "idle":
        agent["turn_at"] = None
        if event.running is not None:  # the harness itself lists what still runs
            agent["children"] = list(map(Redactor().redact, event.running))
        now = _apply_failure(agent, event, happened_at)
    was = agent["state"]
    if now and now != agent["state"]:
        agent.update(state=now, state_at=happened_at, stuck_at=None, stuck_with="")
    if event.kind == "idle" and event.text:
        agent["last_words"] = Redactor().redact_line(event.text, LAST_WORDS_CHARACTERS)
    if now == "waiting":
        _apply_question(agent, event, happened_at, is_new=was != "waiting")
    elif now:
        kept = keep_of_children(load_question(agent["question"]))
        agent.update(waiting_for="", question=dump_question(kept))


def _choose_first_state(agent: Row, event: AgentEvent) -> str:
    """Choose the state of a session that begins: busy where its first prompt is on its way."""
    if event.source == "compact":
        return ""
    is_new = event.source not in SWITCH_REASONS
    return "busy" if is_new and agent["turn_at"] is not None else "idle"


def _apply_question(agent: Row, event: AgentEvent, happened_at: float, *, is_new: bool) -> None:
    """Keep what it asks; a reminder that does not say what never replaces that."""
    if event.question is None and not is_new and agent["question"]:
        return
    question = add_question(load_question(agent["question"]), build_question(event, happened_at))
    agent["question"] = dump_question(question)
    agent["waiting_for"] = Redactor().redact_line(event.text, 200)
    agent["state_at"] = happened_at
