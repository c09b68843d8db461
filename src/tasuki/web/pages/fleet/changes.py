"""What an agent changed: in short on its own page, and whole on a page for that alone."""

from typing import Annotated

from litestar.params import FromQuery, QueryParameter
from msgspec.structs import replace

from tasuki.errors import TasukiError
from tasuki.fleet.changes.pull_requests import PullRequest
from tasuki.fleet.changes.records import ChangedFile, FileDiff, Since, WorkChanges
from tasuki.fleet.changes.work import find_document_time
from tasuki.fleet.orders.agents import find_pull_request, read_changes
from tasuki.fleet.service import Fleet
from tasuki.fleet.store import queries
from tasuki.fleet.store.models import FleetAgent
from tasuki.web.handlers import AnyRequest, PathId, TheFleet, show_page
from tasuki.web.views import display, templates
from tasuki.web.views.hosts import find_absence
from tasuki.web.views.templates import PageResponse

MOST_OPEN_LINES = 600
"""Lines of the files that are unfolded from the start."""


@show_page("/agents/{id:int}/changes")
def show_changes(
    request: AnyRequest,
    fleet: TheFleet,
    id: PathId,
    since: FromQuery[Since] = "start",
    file: Annotated[str, QueryParameter(max_length=40)] = "",
) -> PageResponse:
    """Show commits, files and every line that differs; of one file alone where it is named."""
    agent = queries.load_agent(fleet.database, id)
    changes = _read(fleet, agent, since, file or "all")
    return templates.render_page(
        request, "agent_changes.html", agent=display.redact_row(agent), of=changes,
        name=display.format_agent_name(agent), live=f"agent:{id}", file_key=file,
        diffs=_pair(changes, unfold=bool(file)),
        has_document=find_document_time(fleet.database, id) is not None,
    )  # fmt: skip


@show_page("/agents/{id:int}/changes/summary")
def show_summary(request: AnyRequest, fleet: TheFleet, id: PathId) -> PageResponse:
    """Show the newest commits and the files, as a piece of the agent's page."""
    changes = _read(fleet, queries.load_agent(fleet.database, id), "start", "")
    return templates.render_page(request, "changes_summary.html", of=changes, id=id)


@show_page("/agents/{id:int}/pull-request")
def show_pull_request(request: AnyRequest, fleet: TheFleet, id: PathId) -> PageResponse:
    """Show the pull request of its branch, and the checks."""
    try:
        found = find_pull_request(fleet, id)
    except TasukiError as error:
        found = PullRequest(note=str(error))
    return templates.render_page(request, "pull_request.html", of=found)


def _read(fleet: Fleet, agent: FleetAgent, since: Since, diff: str) -> WorkChanges:
    """Read what an agent changed; where its host does not answer, that is the problem."""
    absence = find_absence(fleet.database, agent.host) if agent.host != fleet.host else ""
    try:
        if not absence:
            return read_changes(fleet, agent.id, since, diff)
    except TasukiError as error:
        absence = str(error)
    return replace(WorkChanges(agent.id, 0.0), since=since, problem=absence)


def _pair(changes: WorkChanges, *, unfold: bool) -> list[tuple[ChangedFile, FileDiff, bool]]:
    """Pair files with their differences, and say which are unfolded: the first ones."""
    by_key = {file.key: file for file in changes.files}
    pairs, lines = [], 0
    for diff in changes.diffs:
        lines += len(diff.lines)
        if file := by_key.get(diff.key):
            pairs.append((file, diff, unfold or lines <= MOST_OPEN_LINES))
    return pairs
