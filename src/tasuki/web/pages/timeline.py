"""A handoff as it is followed: its steps with their times, what is safe, and what can be done."""

import os
import time
from collections.abc import Callable, Sequence

import sqlalchemy as sa
from msgspec import Struct

from tasuki import harness as harnesses
from tasuki.fleet import reading, workflow
from tasuki.fleet.rows import Agent, Failure, FleetHandoff, StepRun
from tasuki.fleet.service import Fleet
from tasuki.fleet.vacancies import worked_since
from tasuki.web import views
from tasuki.web.pages import shapes
from tasuki.web.pages.shapes import Shown

_ICONS = {"ok": ("done", "done"), "failed": ("fail", "fail"), "skipped": ("drop", "rest")}


class Row(Struct, frozen=True):
    """A step: to come, under way, or over. `left` and `width` are percent of the whole."""

    step: str
    name: str
    why: str
    kind: str
    """ok, bad, now, skipped or todo."""
    icon: str
    tone: str
    started_at: float | None = None
    seconds: float | None = None
    left: float = 0.0
    width: float = 0.0
    attempt: int = 1


class Choice(Struct, frozen=True):
    """Something the operator can do; `refused` says why it cannot be done now."""

    order: str
    word: str
    meaning: str
    refused: str = ""
    primary: bool = False
    href: str = ""


class Timeline(Struct, frozen=True):
    """Everything the page of a handoff shows of it."""

    id: str
    name: str
    shown: Shown
    state: str
    since: float
    reason: str
    context: str
    who: tuple[str, ...]
    agent: Agent
    successor: Agent | None
    created_at: float
    automatic: bool
    rows: tuple[Row, ...]
    failure: Failure | None
    safe: tuple[tuple[bool, str], ...]
    choices: tuple[Choice, ...]
    notes: tuple[str, ...]
    file_path: str
    file_bytes: int | None
    author: str
    recorded_at: float | None
    acknowledged_at: float | None

    @property
    def short(self) -> str:
        """The beginning of its id, which everything names it by."""
        return self.id[:8]


def timeline(fleet: Fleet, id: str) -> Timeline:
    """A handoff by the beginning of its id. Raises HandoffNotFound."""
    with fleet.database.read() as connection:
        found = reading.handoff_in(connection, id)
        agent = reading.agent_in(connection, found.agent_id)
        successor = (
            reading.agent_in(connection, found.successor_id)
            if found.successor_id is not None
            else None
        )
        other = _other(connection, found)
    of = views.redacted(found)
    rows = _rows(of, reading.steps(fleet.database, of.id))
    size = _size(of.file_path)
    return Timeline(
        id=of.id,
        name=of.persona,
        shown=_shown(of, rows),
        state=of.state,
        since=of.finished_at or of.created_at,
        reason=of.reason,
        context=of.context,
        who=(harnesses.get(agent.harness).title, os.path.basename(agent.cwd.rstrip("/")) or "/"),
        agent=agent,
        successor=successor,
        created_at=of.created_at,
        automatic=of.automatic,
        rows=rows,
        failure=of.failure,
        safe=_safe(of, agent, successor, size),
        choices=_choices(of, agent, other),
        notes=of.notes,
        file_path=of.file_path,
        file_bytes=size,
        author=of.author,
        recorded_at=of.recorded_at,
        acknowledged_at=of.acknowledged_at,
    )


def linked(of: Timeline) -> Callable[[int], str]:
    """Where the entries of the thread are that its document cites."""
    return lambda ref: f"/agents/{of.agent.id}/thread?entry={ref}"


def _other(connection: sa.Connection, of: FleetHandoff) -> int | None:
    return worked_since(connection, of) if of.state in ("failed", "uncertain") else None


def _shown(of: FleetHandoff, rows: Sequence[Row]) -> Shown:
    shown = shapes.OF_HANDOFF[of.state]
    number = next((n for n, row in enumerate(rows, 1) if row.step == of.step), len(rows))
    if of.state == "running":
        return Shown(shown.icon, f"Step {number} of {len(rows)}", shown.tone)
    if of.state in ("failed", "uncertain"):
        return Shown(shown.icon, f"{shown.word} at step {number} of {len(rows)}", shown.tone)
    if of.state == "done" and of.acknowledged_at:
        return Shown(shown.icon, "Acknowledged", shown.tone)
    return shown


# -- the steps -------------------------------------------------------------------------


def _rows(of: FleetHandoff, runs: Sequence[StepRun]) -> tuple[Row, ...]:
    newest = {run.step: run for run in runs}
    order = workflow.steps(from_thread=of.from_thread)
    took = {name: _seconds(newest[name]) for name in order if name in newest}
    whole, left = max(sum(took.values()), 0.1), 0.0
    rows = []
    for name in order:
        run = newest.get(name)
        is_old = run is not None and run.attempt < of.attempt and run.outcome != "ok"
        if run is None or is_old:
            rows.append(Row(name, *shapes.STEPS[name], "todo", "todo", "rest"))
            continue
        width = 100 * took[name] / whole
        rows.append(_row(of, run, left, width, took[name]))
        left += width
    return tuple(rows)


def _row(of: FleetHandoff, run: StepRun, left: float, width: float, seconds: float) -> Row:
    name, waits_for = shapes.STEPS[run.step]
    is_now = not run.outcome and of.state == "running"
    icon, tone = _ICONS.get(run.outcome, ("now", "run") if is_now else ("drop", "rest"))
    kinds = {"ok": "ok", "failed": "bad", "skipped": "skipped"}
    return Row(
        run.step, name, run.note or (waits_for if is_now else ""),
        kinds.get(run.outcome, "now" if is_now else "skipped"), icon, tone, run.started_at, seconds,
        round(min(left, 98.5), 1), round(max(width, 1.5), 1), run.attempt,
    )  # fmt: skip


def _seconds(run: StepRun) -> float:
    return max(0.0, (run.ended_at or time.time()) - run.started_at)


# -- what is safe, and what can be done ------------------------------------------------


def _safe(
    of: FleetHandoff, agent: Agent, successor: Agent | None, size: int | None
) -> tuple[tuple[bool, str], ...]:
    """What is kept and who lives, as sentences; False marks what is not as it should be."""
    found: list[tuple[bool, str]] = []
    if size:
        found.append((True, f"Document, {size:,} bytes: {of.file_path}"))
    if of.recorded_at is not None:
        found.append((True, f"Record {of.id[:8]} with the prompt for the successor"))
    if agent.thread:
        found.append((True, f"Thread of agent {agent.id}, unchanged"))
    if agent.ended_at is None:
        found.append((True, f"Agent {agent.id} is alive and usable"))
    elif successor is None or successor.ended_at is not None:
        found.append((False, f"Agent {agent.id} has ended; nobody works on this task"))
    else:
        found.append(
            (True, f"Agent {agent.id} has ended; its successor, agent {successor.id}, runs")
        )
    return tuple(found)


def _choices(of: FleetHandoff, agent: Agent, other: int | None) -> tuple[Choice, ...]:
    if of.state == "running":
        skip = (_skip(),) if of.step == "acknowledge" else ()
        return (*skip, _cancel(agent))
    if of.state not in ("failed", "uncertain"):
        return ()
    made = [_retry(of, other)]
    if of.recorded_at is None and other is None:
        made.append(_anew(of, agent))
    if of.step == "acknowledge" and of.state == "failed":
        made.append(_skip())
    alive = agent.ended_at is None
    refused = f"Not yet: agent {agent.id} has not ended, so nothing was handed on." if alive else ""
    made.append(Choice("finish", "Finish by hand", "You did the rest, or saw that the prompt arrived: the handoff is done.", refused))  # fmt: skip
    return (*made, _cancel(agent))


def _retry(of: FleetHandoff, other: int | None) -> Choice:
    code = of.failure.code if of.failure else ""
    first = workflow.resumed_at(of.step, code, from_thread=of.from_thread)
    meaning = (
        f"Goes on at “{shapes.STEPS[first][0].lower()}”. What is done and stands is not done again."
    )
    refused = f"Agent {other} has worked as {of.persona} since: what this hands on is old." if other else ""  # fmt: skip
    return Choice("retry", "Retry", meaning, refused, primary=not other)


def _anew(of: FleetHandoff, agent: Agent) -> Choice:
    from_thread = agent.ended_at is not None or not agent.pane
    query = "?from=thread" if from_thread else ""
    meaning = (
        "From its thread: the document is written without the agent."
        if from_thread
        else "With another reason, with force, or from its thread."
    )
    return Choice("anew", "Begin anew …", meaning, href=f"/agents/{agent.id}/handoff{query}")


def _skip() -> Choice:
    return Choice("skip", "Skip", "Goes without the acknowledgement: the handoff is done.")


def _cancel(agent: Agent) -> Choice:
    meaning = (
        "Ends it where it is. The agent works on as before."
        if agent.ended_at is None
        else "Keeps document and record. No successor is started or told any more."
    )
    return Choice("cancel", "Cancel", meaning)


def _size(path: str) -> int | None:
    """Bytes of a document; None where none is there, or something else stands in its place."""
    try:
        return os.lstat(path).st_size if path and os.path.isfile(path) else None
    except OSError:
        return None
