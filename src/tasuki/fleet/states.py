"""What an event makes of an agent: one function from an agent's row and an event to the changed row.

    starting ──started──▶ idle ──prompt──▶ busy ──idle──▶ idle
                                           busy ──waiting──▶ waiting ──busy, prompt, idle──▶ …
                                  busy, idle ──compacting──▶ compacting ──compacted──▶ …
    any ──ended──▶ ended          any ──its pane is gone──▶ lost

A row is changed in place; what is told later than it happened (from the spool) changes no state
that is newer.
"""

from typing import Any

from tasuki.draft.redact import Redactor
from tasuki.harness.control import AgentEvent
from tasuki.plain import one_line, shown

SWITCHED = frozenset({"clear", "resume", "new", "fork", "switch"})
"""Reasons for which a session ends while its program goes on with another one."""
AFTER_COMPACTION = {"manual": "idle", "auto": "busy"}
MARGIN = 5.0
"""Percent by which the use must fall below a threshold before it can be passed again."""

LAST_WORDS = 300
"""Characters of an agent's last answer that are kept."""

Row = dict[str, Any]


def has_ended(agent: Row) -> bool:
    """Whether it is over with an agent."""
    return agent["ended_at"] is not None


def turn_runs(agent: Row) -> bool:
    """Whether a turn runs whose prompt was told; that an agent shows itself busy says less.

    Claude Code does so as soon as Enter is pressed, well before its hook tells the prompt.
    """
    return agent["state"] == "busy" and agent["turn_at"] is not None


def apply(agent: Row, event: AgentEvent, at: float, *, spooled: bool, takes_start: bool) -> None:
    """Change an agent's row as an event says.

    `at` is when it happened; `spooled`, that it is told later. `takes_start`: the harness fires its
    session start with the program, so that the agent is ready then.
    """
    _identity(agent, event)
    _context(agent, event, at)
    if has_ended(agent):
        return
    if event.kind == "ended":
        if event.text not in SWITCHED:
            end(agent, "ended", at, event.text or "it ended")
        return
    if event.kind in ("child_started", "child_ended"):
        _children(agent, event)
        return
    if spooled and at < agent["state_at"]:
        return
    _state(agent, event, at, takes_start)


def end(agent: Row, state: str, at: float, reason: str) -> None:
    """The agent is gone."""
    agent.update(
        state=state, state_at=at, ended_at=at, end_reason=one_line(reason, 300), children=[],
        waiting_for="",
    )  # fmt: skip


def _identity(agent: Row, event: AgentEvent) -> None:
    for name, value in (
        ("thread", event.path),
        ("model", event.model),
        ("permission", event.permission),
    ):
        if value:
            agent[name] = value
    if event.cwd and event.kind == "started":
        agent["cwd"] = event.cwd


def _context(agent: Row, event: AgentEvent, at: float) -> None:
    told = event.used is not None or event.tokens is not None
    if not told or at < (agent["context_at"] or 0.0):
        return
    source = "status line" if event.kind == "context" else "hook"
    agent.update(
        context_used=event.used,
        context_tokens=event.tokens,
        context_window=event.window or agent["context_window"],
        context_at=at,
        context_source=source,
    )


def _children(agent: Row, event: AgentEvent) -> None:
    children = [child for child in agent["children"] if child != event.child]
    if event.kind == "child_started":
        children.append(event.child)
    agent["children"] = children


def _state(agent: Row, event: AgentEvent, at: float, takes_start: bool) -> None:
    now = {
        "started": "idle" if takes_start and event.source != "compact" else "",
        "prompt": "busy",
        "busy": "busy",
        "idle": "idle",
        "waiting": "waiting",
        "compacting": "compacting",
        "compacted": AFTER_COMPACTION.get(event.source, "busy"),
    }.get(event.kind, "")
    if event.kind == "prompt":
        agent["turn_at"] = at
    if event.kind == "idle":
        agent["turn_at"] = None
        agent["children"] = [*(event.running or ()), *_sub_agents(agent, event)]
    if now and now != agent["state"]:
        agent.update(state=now, state_at=at)
    if event.kind == "idle" and event.text:
        agent["last_words"] = one_line(
            Redactor().redact(shown(event.text[: 4 * LAST_WORDS])), LAST_WORDS
        )
    if now:
        agent["waiting_for"] = one_line(event.text, 200) if now == "waiting" else ""


def _sub_agents(agent: Row, event: AgentEvent) -> list[str]:
    """Children that are still running behind a turn's end, as far as that is known.

    Where the harness lists what goes on itself, its word counts alone.
    """
    return [] if event.running is not None else list(agent["children"])
