"""Handoffs of agents: the list, and a live page of one with its steps and the operator's orders."""

import os
from collections.abc import Mapping, Sequence
from typing import Annotated

from litestar import Response
from litestar.params import FromPath, FromQuery, QueryParameter
from msgspec import Struct
from msgspec.structs import replace

from tasuki.draft.facts import earlier_handoffs
from tasuki.fleet.agents.personas import find_later_agent
from tasuki.fleet.exchange.host_list import read_labels
from tasuki.fleet.exchange.shared_files import load_document
from tasuki.fleet.handoff import documents, workflow
from tasuki.fleet.orders import handoffs as orders
from tasuki.fleet.service import Fleet
from tasuki.fleet.store import queries
from tasuki.fleet.store.models import FleetAgent, FleetHandoff, MovePlan
from tasuki.web.handlers import AnyRequest, PathWord, TheFleet, show_page, take_form
from tasuki.web.views import display, templates
from tasuki.web.views.display import StateBadge
from tasuki.web.views.handoff_steps import (
    ADDED_ANCHOR,
    StepRow,
    build_rows,
    fill_row,
    list_findings,
    read_step_logs,
)
from tasuki.web.views.hosts import find_absence
from tasuki.web.views.templates import PageResponse


class OrderChoice(Struct, frozen=True):
    """An order that the operator can give; `refused` says why it is not possible now."""

    order: str
    word: str
    meaning: str
    refused: str = ""
    primary: bool = False
    href: str = ""


SKIP = OrderChoice("skip", "Skip", "Finish without waiting for the new agent to confirm.")


class HandoffTimeline(Struct, frozen=True):
    """Everything that the page of a handoff shows of it."""

    handoff: FleetHandoff
    """Without secrets."""
    shown: StateBadge
    since: float
    who: tuple[str, ...]
    agent: FleetAgent
    successor: FleetAgent | None
    rows: tuple[StepRow, ...]
    safe: tuple[tuple[bool, str], ...]
    choices: tuple[OrderChoice, ...]
    route: tuple[str, ...] = ()
    """The names of the hosts, where it goes from one to another."""
    work: tuple[str, ...] = ()
    """Where the agent's work goes on another host, and what does not travel, as sentences."""
    undone: str = ""
    """What was undone of a move after a failure."""
    host_note: str = ""
    """Why the host that carries it out does not go on now."""
    failed_line: int = 0
    """The id of the line of the log that says how it failed; 0 for none."""
    is_about_document: bool = False
    """Its failure is."""

    @property
    def short(self) -> str:
        """The beginning of its id, its name everywhere."""
        return self.handoff.id[:8]


def build_timeline(fleet: Fleet, id: str, document: str | None = None) -> HandoffTimeline:
    """Build the timeline of a handoff by the beginning of its id. Raises HandoffNotFound.

    `document` is its text, empty for none; with None its steps have no lines of the log.
    """
    with fleet.database.read() as connection:
        stored = queries.load_handoff(connection, id)
        agent = queries.load_agent(connection, stored.agent_id)
        successor = other = None
        if stored.successor_id is not None:
            successor = queries.load_agent(connection, stored.successor_id)
        if stored.state in ("failed", "uncertain"):
            other = find_later_agent(connection, stored)
    handoff = display.redact_row(stored)
    move = handoff.move
    labels = _read_labels(fleet, handoff, agent)
    runs = queries.list_steps(fleet.database, handoff.id)
    rows = _name_hosts(build_rows(handoff, runs), handoff, agent, labels)
    if document is not None:
        logs = read_step_logs(fleet.database, handoff, runs)
        findings = list_findings(handoff, has_addition=documents.ADDED in document)
        rows = tuple(fill_row(row, logs, findings) for row in rows)
    return HandoffTimeline(
        handoff=handoff, shown=_choose_shape(handoff, rows), since=handoff.finished_at or handoff.created_at,
        who=(display.get_harness_title(agent.harness), os.path.basename(agent.cwd.rstrip("/")) or "/"),
        agent=agent, successor=successor, rows=rows,
        safe=_describe_safe(handoff, agent, successor, _measure_size(fleet, handoff)),
        choices=_build_choices(handoff, agent, other),
        route=(labels[agent.host], labels[handoff.target_host]) if move else (),
        work=_describe_work(move) if move else (), undone=move.undone if move else "",
        host_note=find_absence(fleet.database, handoff.host) if handoff.state == "running" else "",
        failed_line=next((row.log.failed_line for row in rows if row.kind == "bad" and row.step == handoff.step), 0),
        is_about_document=handoff.failure is not None and handoff.failure.code.startswith("document_"),
    )  # fmt: skip


def _read_labels(fleet: Fleet, handoff: FleetHandoff, agent: FleetAgent) -> dict[str, str]:
    """Read the names of the hosts of a move, by their ids."""
    if not handoff.move:
        return {}
    ids = {agent.host, handoff.target_host}
    return {**{id: id for id in ids}, **read_labels(fleet.database, ids)}


def _name_hosts(
    rows: Sequence[StepRow], handoff: FleetHandoff, agent: FleetAgent, labels: Mapping[str, str]
) -> tuple[StepRow, ...]:
    """Name the host of the first step of each leg of a move."""
    named, last = [], ""
    for row in rows:
        host = labels.get(workflow.find_step_host(handoff, row.step, agent.host), "")
        named.append(replace(row, host=host if host != last else ""))
        last = host
    return tuple(named)


def _describe_work(move: MovePlan) -> tuple[str, ...]:
    """Describe where the work of an agent goes on another host."""
    sentences = []
    if move.folder:
        kind = "the checkout itself" if move.in_place else "a worktree"
        how = f" ({kind})" if move.place else ""
        sentences.append(f"Its work goes on in {move.folder}{how}.")
    if move.place_branch:
        sentences.append(f"Branch: {move.place_branch}.")
    return (*sentences, *move.left_out)


def _choose_shape(handoff: FleetHandoff, rows: Sequence[StepRow]) -> StateBadge:
    shown = display.get_handoff_shape(handoff)
    number = next((n for n, row in enumerate(rows, 1) if row.step == handoff.step), len(rows))
    if handoff.state == "running":
        return StateBadge(shown.icon, f"Step {number} of {len(rows)}", shown.tone)
    if handoff.state in ("failed", "uncertain"):
        return StateBadge(shown.icon, f"{shown.word} at step {number} of {len(rows)}", shown.tone)
    if handoff.state == "done" and handoff.acknowledged_at:
        return StateBadge(shown.icon, shown.word.replace("Done", "Confirmed"), shown.tone)
    return shown


# -- what is safe, and possible orders -------------------------------------------------


def _describe_safe(
    handoff: FleetHandoff, agent: FleetAgent, successor: FleetAgent | None, size: int | None
) -> tuple[tuple[bool, str], ...]:
    """Describe what is kept and which agents live; False marks what is wrong."""
    sentences: list[tuple[bool, str]] = []
    if size:
        sentences.append((True, f"Document, {size:,} bytes: {handoff.file_path}"))
    if handoff.recorded_at is not None:
        sentences.append((True, f"Record {handoff.id[:8]} with the prompt for the successor"))
    if agent.thread:
        sentences.append((True, f"Thread of agent {agent.id}, unchanged"))
    if agent.ended_at is None:
        sentences.append((True, f"Agent {agent.id} is alive and usable"))
    elif successor is None or successor.ended_at is not None:
        sentences.append((False, f"Agent {agent.id} has ended; no agent works on this task"))
    else:
        sentences.append(
            (True, f"Agent {agent.id} has ended; its successor, agent {successor.id}, runs")
        )
    return tuple(sentences)


def _build_choices(
    handoff: FleetHandoff, agent: FleetAgent, other: int | None
) -> tuple[OrderChoice, ...]:
    if handoff.state == "running":
        skip = (SKIP,) if handoff.step == "acknowledge" else ()
        return (*skip, _build_cancel(agent))
    if handoff.state not in ("failed", "uncertain"):
        return ()
    choices = [_build_retry(handoff, other)]
    if handoff.recorded_at is None and other is None and not handoff.fork:
        choices.append(_build_new_handoff(agent))
    if handoff.step == "acknowledge" and handoff.state == "failed":
        choices.append(SKIP)
    refused = ""
    if agent.ended_at is None and not handoff.fork:
        refused = f"Not yet: agent {agent.id} has not ended, so nothing was handed off."
    choices.append(OrderChoice("finish", "Finish by hand", "You did the rest, or saw that the prompt arrived: the handoff is done.", refused))  # fmt: skip
    return (*choices, _build_cancel(agent))


def _build_retry(handoff: FleetHandoff, other: int | None) -> OrderChoice:
    code = handoff.failure.code if handoff.failure else ""
    first = workflow.choose_resume_step(handoff.step, code, workflow.find_shape(handoff))
    step = display.STEP_WORDS[first][0].lower()
    meaning = f"Continues at “{step}”. Finished steps are not repeated."
    refused = f"Agent {other} has worked as {handoff.persona} since, so this handoff is out of date." if other else ""  # fmt: skip
    return OrderChoice("retry", "Retry", meaning, refused, primary=not other)


def _build_new_handoff(agent: FleetAgent) -> OrderChoice:
    from_thread = agent.ended_at is not None or not agent.pane
    query = "?from=thread" if from_thread else ""
    meaning = "With another reason, with force, or from its thread."
    if from_thread:
        meaning = "From its thread: the document is written without the agent."
    return OrderChoice("again", "Begin again …", meaning, href=f"/agents/{agent.id}/handoff{query}")


def _build_cancel(agent: FleetAgent) -> OrderChoice:
    meaning = "Keeps document and record. No successor is started or prompted."
    if agent.ended_at is None:
        meaning = "Ends it where it is. The agent continues as before."
    return OrderChoice("cancel", "Cancel", meaning)


def _measure_size(fleet: Fleet, handoff: FleetHandoff) -> int | None:
    """Measure the bytes of a document; None where it is missing or no file.

    Where the file is on another host it is that of its copy in the database.
    """
    path = handoff.file_path
    try:
        if path and os.path.isfile(path):
            return os.lstat(path).st_size
    except OSError:
        return None
    if not path or fleet.database.is_sqlite:
        return None
    content = load_document(fleet.database, handoff.id)
    return None if content is None else len(content.encode("utf-8", "replace"))


TABS = {
    "open": ("Open", ("running", "failed", "uncertain")),
    "failed": ("Failed", ("failed", "uncertain")),
    "done": ("Done", ("done",)),
    "cancelled": ("Cancelled", ("cancelled",)),
}
MOST_SHOWN = 12
"""Most handoffs that are shown with all their steps; the others are lines of a table."""
LISTED_PER_PAGE = 100
"""Handoffs of one page."""


@show_page("/handoffs")
def show_handoffs(
    request: AnyRequest,
    fleet: TheFleet,
    show: FromQuery[str] = "open",
    page: Annotated[int, QueryParameter(ge=1, le=100_000)] = 1,
) -> PageResponse:
    """Show handoffs by state; the open ones with their steps, failed ones first."""
    show = show if show in TABS else "open"
    by_state = queries.count_handoffs(fleet.database)
    counts = {
        key: sum(by_state.get(state, 0) for state in shown) for key, (_, shown) in TABS.items()
    }
    listed = queries.list_handoff_page(
        fleet.database, TABS[show][1], limit=LISTED_PER_PAGE, skip=(page - 1) * LISTED_PER_PAGE
    )
    detailed = listed[:MOST_SHOWN] if show in ("open", "failed") and page == 1 else []
    return templates.render_page(
        request, "handoffs.html", live="handoffs", show=show,
        page=page, pages=max(1, -(-counts[show] // LISTED_PER_PAGE)),
        tabs=[(key, word, counts[key]) for key, (word, _) in TABS.items()],
        panels=[build_timeline(fleet, handoff.id) for handoff in detailed],
        rows=[(display.redact_row(of), display.get_handoff_shape(of), display.get_step_name(of)) for of in listed[len(detailed):]],
    )  # fmt: skip


@show_page("/handoffs/{id:str}")
def show_handoff(request: AnyRequest, fleet: TheFleet, id: PathWord) -> PageResponse:
    """Show one handoff: its steps as they happen, and its document."""
    stored = queries.load_handoff(fleet.database, id)
    text = display.read_shared_document(fleet.database, stored)
    view = build_timeline(fleet, stored.id, text or "")
    return templates.render_page(
        request, "handoff.html", live=f"handoff:{stored.id} agents", of=view, text=text,
        linked=lambda ref: f"/agents/{view.agent.id}/thread?entry={ref}#e{ref}", anchors={earlier_handoffs.ADDED_HEADING: ADDED_ANCHOR},
    )  # fmt: skip


@show_page("/handoffs/{id:str}/document.md")
def show_document(
    fleet: TheFleet, id: PathWord, download: FromQuery[bool] = False
) -> Response[bytes]:
    """Show the document of a handoff unchanged, but without secrets."""
    handoff = queries.load_handoff(fleet.database, id)
    text = display.read_shared_document(fleet.database, handoff) or ""
    return templates.build_text_response(text, f"handoff-{handoff.id[:8]}.md", download=download)


@take_form("/handoffs/{id:str}/{order:str}")
def order_handoff(
    request: AnyRequest, fleet: TheFleet, id: PathWord, order: FromPath[orders.HandoffOrder]
) -> PageResponse:
    """Retry, cancel, finish or skip; then show the handoff again."""
    return templates.redirect(request, f"/handoffs/{orders.order_handoff(fleet, id, order).id}")
