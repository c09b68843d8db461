"""The thread of an agent, of whatever host: read there, or from the copy in the database."""

from litestar import Response

from tasuki.errors import HostAway, StoreFailed, TasukiError, ThreadNotFound
from tasuki.files import explain_error
from tasuki.fleet.exchange.thread_copies import load_stored, restore_thread
from tasuki.fleet.service import Fleet
from tasuki.fleet.store import queries
from tasuki.fleet.store.models import FleetAgent
from tasuki.web.api import error_answers, forms
from tasuki.web.handlers import AnyRequest, FormFields, PathId, TheFleet, show_page, take_form
from tasuki.web.pages.agent.terminal import SentMessage, redirect_with_result
from tasuki.web.pages.threads import page_query, remote
from tasuki.web.pages.threads.files import build_thread_address, find_thread_file
from tasuki.web.pages.threads.page_query import ReadingQuery, ThreadLinks
from tasuki.web.views import display, templates
from tasuki.web.views.hosts import find_absence, list_fleet_hosts
from tasuki.web.views.templates import PageResponse


@show_page("/agents/{id:int}/thread")
def show_thread(
    request: AnyRequest,
    fleet: TheFleet,
    id: PathId,
    entry: page_query.RefQuery = 0,
    start: page_query.RefQuery = 0,
    at: page_query.TimeQuery = "",
    since: page_query.TimeQuery = "",
    find: page_query.WordQuery = "",
    who: page_query.WordQuery = "",
) -> PageResponse:
    """Show its thread: the part that is asked for, or its end.

    That of this host is on the page of threads; that of another one is asked for.
    """
    agent = queries.load_agent(fleet.database, id)
    query = ReadingQuery(entry, start, at, since, find, who)
    wanted, here = query.parse(), f"/agents/{id}/thread"
    if not agent.session:
        return templates.render_page(
            request, "thread_unknown.html", agent=display.redact_row(agent),
            host=_get_label(fleet, agent), live=f"agent:{agent.id}",
            handoffs=queries.list_handoffs(fleet.database, agent_id=agent.id)[:1],
        )  # fmt: skip
    if agent.host == fleet.host or fleet.database.is_sqlite:
        if missing := _explain_missing(agent):
            return redirect_with_result(request, id, SentMessage(refused=missing))
        links = ThreadLinks(build_thread_address(agent.harness, agent.session), query)
        times = {"start": start, "at": at, "since": since}
        address = links.build(entry, **times)
        is_end = not any((entry, find, *times.values()))
        return templates.redirect(request, f"{address}#thread-end" if is_end else address)
    try:
        found = remote.read_thread_part(fleet, id, wanted)
    except TasukiError as error:
        return _render_absence(request, fleet, agent, error, entry)
    links = ThreadLinks(here, query)
    if fixed := links.find_fixed(found.part):
        return templates.redirect(request, fixed)
    return templates.render_page(
        request, "agent_thread.html", agent=display.redact_row(agent), thread=found.thread,
        kept=found.kept, host=_get_label(fleet, agent), agent_ids=[], live="" if find else f"agent:{id}",
        **page_query.build_context(links, found.part, [], here),
    )  # fmt: skip


def _explain_missing(agent: FleetAgent) -> str:
    """Return why an agent of this host has no thread to be read; empty where it has one."""
    try:
        remote.check_session(agent)
        find_thread_file(agent.harness, agent.session, agent.thread)
    except ThreadNotFound:
        return f"Agent {agent.id} has no thread to read: it took no turn yet, or its harness deleted it."
    except TasukiError as error:
        return str(error)
    return ""


def _get_label(fleet: Fleet, agent: FleetAgent) -> str:
    labels = {host.id: host.label for host in list_fleet_hosts(fleet.database)}
    return labels.get(agent.host, agent.host)


def _render_absence(
    request: AnyRequest, fleet: Fleet, agent: FleetAgent, error: TasukiError, entry: int = 0
) -> PageResponse:
    """Say why the thread cannot be shown, and offer the copy of it where there is one."""
    stored = load_stored(fleet.database, agent.id)
    sentence = find_absence(fleet.database, agent.host) or str(error)
    return templates.render_page(
        request, "thread_absent.html", error_answers.get_status(error), agent=display.redact_row(agent), sentence=sentence,
        copied_at=stored.record.kept if stored else None, host=_get_label(fleet, agent), entry=entry,
        is_away=isinstance(error, HostAway),
    )  # fmt: skip


@take_form("/agents/{id:int}/thread/copy")
def open_copy(request: AnyRequest, fleet: TheFleet, id: PathId, form: FormFields) -> PageResponse:
    """Write the copy that the database has of its thread on this host, and show it."""
    agent = queries.load_agent(fleet.database, id)
    entry = forms.parse_number(form.get("entry", ""))
    try:
        restore_thread(fleet.database, agent)
    except TasukiError as error:
        return _render_absence(request, fleet, agent, error, entry)
    except OSError as error:
        failure = StoreFailed(f"The copy cannot be written on this host: {explain_error(error)}.")
        return _render_absence(request, fleet, agent, failure, entry)
    address = build_thread_address(agent.harness, agent.session, agent.thread, entry=entry)
    return templates.redirect(request, f"{address}#e{entry}" if entry else address)


@show_page("/agents/{id:int}/thread/entries/{ref:int}")
def show_whole_entry(fleet: TheFleet, id: PathId, ref: PathId) -> Response[bytes]:
    """Show one entry in full, without secrets, as text."""
    agent = queries.load_agent(fleet.database, id)
    if agent.host == fleet.host:
        text = remote.read_entry(*remote.find_agent_thread(fleet, id), ref)
    else:
        text = remote.read_thread_entry(fleet, agent.id, ref)
    return templates.build_text_response(text, f"entry-{ref}.txt", download=False)
