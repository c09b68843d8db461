"""The page of the hosts: what each reports of itself, and how one is named, given up, retired."""

from tasuki.fleet.exchange import host_list
from tasuki.fleet.exchange.host_list import HostHarness
from tasuki.fleet.exchange.thread_copies import load_stored
from tasuki.fleet.membership import retirement
from tasuki.fleet.orders.bodies import HostLabel
from tasuki.fleet.service import Fleet
from tasuki.fleet.store import queries
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.models import FleetAgent
from tasuki.web.api import forms
from tasuki.web.handlers import (
    AnyRequest,
    FormFields,
    PathWord,
    TheFleet,
    find_refusal,
    show_page,
    take_form,
)
from tasuki.web.views import display, templates
from tasuki.web.views.display import get_harness_title
from tasuki.web.views.hosts import list_fleet_hosts, show_host
from tasuki.web.views.templates import PageResponse

MOST_AGENTS, MOST_STRANDED = 100, 200


StrandedAgent = tuple[FleetAgent, float | None]
"""An agent of a host that is gone, and when its thread was stored; None for never."""


def find_stranded_agents(database: FleetDatabase, host_id: str) -> list[StrandedAgent]:
    """Find the lost agents of a host that have a persona and no handoff that goes on."""
    ended = queries.list_agents(database, ended=True, host=host_id, limit=MOST_STRANDED)
    stranded = []
    for agent in (one for one in ended if one.state == "lost" and one.persona):
        own = queries.list_handoffs(database, agent_id=agent.id, fork=False)
        if not any(handoff.state in ("running", "done") for handoff in own):
            stranded.append(_build_stranded(database, agent))
    return stranded


def _build_stranded(database: FleetDatabase, agent: FleetAgent) -> StrandedAgent:
    stored = load_stored(database, agent.id)
    return display.redact_row(agent), stored.record.kept if stored else None


@show_page("/hosts")
def show_hosts(request: AnyRequest, fleet: TheFleet) -> PageResponse:
    """Show the hosts of the fleet; at one whose new name was refused, why."""
    hosts = list_fleet_hosts(fleet.database, alone=True)
    at = request.path_params.get("id", "")
    if at:  # of a form that was refused: the host may not exist
        host_list.load_host(fleet.database, at)
    return templates.render_page(
        request, "hosts.html", live="hosts agents", hosts=hosts, at=at, typed=find_refusal(request).values.get("label", ""),
        harnesses={host.id: [(one, get_harness_title(one.name), *_describe_harness(one)) for one in host.row.details.harnesses if one.program] for host in hosts},
        agents={host.id: _list_agents(fleet, host.id) for host in hosts}, on_sqlite=fleet.database.is_sqlite,
    )  # fmt: skip


def _describe_harness(harness: HostHarness) -> tuple[bool, str]:
    """Describe whether agents of a harness can be started there, and what it lacks."""
    if not harness.hooks:
        return False, "without the fleet\u2019s hooks"
    login = {"yes": "", "no": "no login found", "unknown": "login not known"}[harness.login]
    return harness.login != "no", login


def _list_agents(fleet: Fleet, host_id: str) -> list[tuple[int, str]]:
    living = queries.list_agents(fleet.database, ended=False, host=host_id, limit=MOST_AGENTS)
    return [(agent.id, display.format_agent_name(agent)) for agent in living]


@take_form("/hosts/{id:str}/label", refused=show_hosts)
def label_host(
    request: AnyRequest, fleet: TheFleet, id: PathWord, form: FormFields
) -> PageResponse:
    """Give a host another name; an empty one is that of its machine."""
    host = host_list.load_host(fleet.database, id)
    body = forms.fill_body(HostLabel, {"label": form.get("label", "")})
    host_list.label_host(fleet.database, host.id, body.label)
    fleet.changes.notify()
    return templates.redirect(request, f"/hosts#{host.id}")


@show_page("/hosts/{id:str}/give-up")
def show_give_up_form(request: AnyRequest, fleet: TheFleet, id: PathWord) -> PageResponse:
    """Ask whether to give a host up, and show what would be lost."""
    host, refused = host_list.load_host(fleet.database, id), find_refusal(request).sentence
    if host.is_reachable and not refused:
        refused = f"The host {host.label} is alive. Hand its agents off to another host while it is; to take it out of the fleet, retire it."  # fmt: skip
    living = queries.list_agents(fleet.database, ended=False, host=host.id, limit=MOST_STRANDED)
    return templates.render_page(
        request, "give_up_form.html", host=show_host(host), refused=refused,
        agents=[_build_stranded(fleet.database, agent) for agent in living],
    )  # fmt: skip


@take_form("/hosts/{id:str}/give-up", refused=show_give_up_form)
def give_host_up(request: AnyRequest, fleet: TheFleet, id: PathWord) -> PageResponse:
    """Give a host up that is away for good; show which agents can be handed off."""
    host = host_list.load_host(fleet.database, id)
    given_up = retirement.give_host_up(fleet.database, host.id)
    fleet.changes.notify(agent.id for agent, _ in given_up.agents)
    return templates.redirect(request, "/agents/recover" if given_up.agents else "/hosts")


@show_page("/hosts/{id:str}/retire")
def show_retire_form(request: AnyRequest, fleet: TheFleet, id: PathWord) -> PageResponse:
    """Ask whether to retire a host."""
    host = show_host(host_list.load_host(fleet.database, id))
    return templates.render_page(request, "host_retire_form.html", host=host)


@take_form("/hosts/{id:str}/retire", refused=show_retire_form)
def retire_host(request: AnyRequest, fleet: TheFleet, id: PathWord) -> PageResponse:
    """Retire a host: its server starts no more, and its role of PostgreSQL is taken away."""
    host = host_list.load_host(fleet.database, id)
    retirement.retire_host(fleet.database, host.id, fleet.host)
    fleet.changes.notify()
    return templates.redirect(request, "/hosts")
