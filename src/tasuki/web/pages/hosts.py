"""The page of the hosts: what each reports of itself, and how one is named, given up, retired."""

from tasuki.errors import TasukiError
from tasuki.fleet.exchange import host_list
from tasuki.fleet.exchange.host_list import HostHarness
from tasuki.fleet.membership import retirement
from tasuki.fleet.orders.bodies import HostLabel
from tasuki.fleet.service import Fleet
from tasuki.fleet.store import queries
from tasuki.web.api import error_answers, forms
from tasuki.web.handlers import AnyRequest, FormFields, PathWord, TheFleet, show_page, take_form
from tasuki.web.pages.fleet.given_up import list_living_agents
from tasuki.web.views import display, templates
from tasuki.web.views.hosts import list_fleet_hosts, show_host
from tasuki.web.views.templates import PageResponse, get_harness_title

MOST_AGENTS = 100


@show_page("/hosts")
def show_hosts(request: AnyRequest, fleet: TheFleet) -> PageResponse:
    """Show the hosts of the fleet."""
    return _render_hosts(request, fleet)


def _render_hosts(
    request: AnyRequest, fleet: Fleet, *, at: str = "", refused: str = "", typed: str = "", status: int = 200
) -> PageResponse:  # fmt: skip
    hosts = list_fleet_hosts(fleet.database, alone=True)
    return templates.render_page(
        request, "hosts.html", status, live="hosts agents", hosts=hosts, at=at, refused=refused, typed=typed,
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
    return [
        (agent.id, display.format_agent_name(agent, get_harness_title(agent.harness)))
        for agent in living
    ]


@take_form("/hosts/{id:str}/label")
def label_host(
    request: AnyRequest, fleet: TheFleet, id: PathWord, form: FormFields
) -> PageResponse:
    """Give a host another name; an empty one is that of its machine."""
    host, typed = host_list.load_host(fleet.database, id), form.get("label", "")
    try:
        body = forms.fill_body(HostLabel, {"label": typed})
        host_list.label_host(fleet.database, host.id, body.label)
    except TasukiError as error:
        return _render_hosts(
            request, fleet, at=host.id, refused=str(error), typed=typed, status=error_answers.get_status(error)
        )  # fmt: skip
    fleet.changes.notify()
    return templates.redirect(request, f"/hosts#{host.id}")


# -- give up, retire -------------------------------------------------------------------


@show_page("/hosts/{id:str}/give-up")
def show_give_up_form(request: AnyRequest, fleet: TheFleet, id: PathWord) -> PageResponse:
    """Ask whether to give a host up, and show what would be lost."""
    return _render_give_up(request, fleet, id)


def _render_give_up(
    request: AnyRequest, fleet: Fleet, id: str, *, refused: str = "", status: int = 200
) -> PageResponse:
    host = host_list.load_host(fleet.database, id)
    if host.is_reachable and not refused:
        refused = f"The host {host.label} is alive. Hand its agents off to another host while it is; to take it out of the fleet, retire it."  # fmt: skip
    return templates.render_page(
        request, "give_up_form.html", status, host=show_host(host), refused=refused,
        agents=list_living_agents(fleet.database, host.id),
    )  # fmt: skip


@take_form("/hosts/{id:str}/give-up")
def give_host_up(request: AnyRequest, fleet: TheFleet, id: PathWord) -> PageResponse:
    """Give a host up that is away for good; show which agents can be handed off."""
    host = host_list.load_host(fleet.database, id)
    try:
        given_up = retirement.give_host_up(fleet.database, host.id)
    except TasukiError as error:
        return _render_give_up(
            request, fleet, host.id, refused=str(error), status=error_answers.get_status(error)
        )
    fleet.changes.notify(agent.id for agent, _ in given_up.agents)
    return templates.redirect(request, "/agents/recover" if given_up.agents else "/hosts")


@show_page("/hosts/{id:str}/retire")
def show_retire_form(request: AnyRequest, fleet: TheFleet, id: PathWord) -> PageResponse:
    """Ask whether to retire a host."""
    return _render_retire(request, fleet, id)


def _render_retire(
    request: AnyRequest, fleet: Fleet, id: str, *, refused: str = "", status: int = 200
) -> PageResponse:
    host = host_list.load_host(fleet.database, id)
    return templates.render_page(
        request, "host_retire_form.html", status, host=show_host(host), refused=refused
    )


@take_form("/hosts/{id:str}/retire")
def retire_host(request: AnyRequest, fleet: TheFleet, id: PathWord) -> PageResponse:
    """Retire a host: its server starts no more, and its role of PostgreSQL is taken away."""
    host = host_list.load_host(fleet.database, id)
    try:
        retirement.retire_host(fleet.database, host.id, fleet.host)
    except TasukiError as error:
        return _render_retire(
            request, fleet, host.id, refused=str(error), status=error_answers.get_status(error)
        )
    fleet.changes.notify()
    return templates.redirect(request, "/hosts")


HANDLERS = (
    show_hosts, label_host, show_give_up_form, give_host_up, show_retire_form, retire_host,
)  # fmt: skip
