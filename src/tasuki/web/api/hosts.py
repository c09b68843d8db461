"""`/api/hosts`: the hosts of the fleet; how they join it, and leave it."""

from typing import Any

import msgspec
from litestar import get, patch, post
from litestar.params import FromQuery, JSONBody

from tasuki.fleet.exchange import host_list
from tasuki.fleet.membership import retirement, tokens
from tasuki.fleet.orders.bodies import HostLabel, NewHostToken
from tasuki.fleet.store import queries
from tasuki.web.handlers import PathWord, TheFleet
from tasuki.web.views import display


@get("/hosts", sync_to_thread=True)
def list_hosts(fleet: TheFleet, retired: FromQuery[bool] = False) -> dict[str, Any]:
    """List the hosts of the fleet by label, with their state and what they report of themselves.

    `here` is the host that answers; `alive` was seen within a minute, `away` was not; `off`: its
    server was stopped. `seen_seconds` is the age of its last sign of life.
    """
    if fleet.database.is_sqlite:  # no other host reads what this one would report all the time
        fleet.heartbeat.beat()
    return {"hosts": msgspec.to_builtins(host_list.list_hosts(fleet.database, retired=retired))}


@get("/hosts/{name:str}", sync_to_thread=True)
def show_host(fleet: TheFleet, name: PathWord) -> dict[str, Any]:
    """Show a host, by its id, its label or the beginning of either, and its agents."""
    host = host_list.find_host(fleet.database, name)
    agents = queries.list_agents(fleet.database, ended=False, host=host.id)
    return {**msgspec.to_builtins(host), "agents": list(map(display.redact_agent, agents))}


@patch("/hosts/{name:str}", sync_to_thread=True)
def label_host(fleet: TheFleet, name: PathWord, data: JSONBody[HostLabel]) -> dict[str, Any]:
    """Give a host a name, which it keeps; an empty one is that of its machine."""
    host = host_list.find_host(fleet.database, name)
    labelled = host_list.label_host(fleet.database, host.id, data.label)
    fleet.changes.notify()
    return dict(msgspec.to_builtins(labelled))


@post("/hosts/{name:str}/give-up", status_code=200, sync_to_thread=True)
def give_host_up(fleet: TheFleet, name: PathWord) -> dict[str, Any]:
    """Give a host up that is away for good: its agents are lost, and can be handed off elsewhere.

    400 while it is alive. `agents` are those that were lost by it, each with whether its thread is
    in the database; hand one off with `to_host`.
    """
    given_up = retirement.give_host_up(fleet.database, name)
    fleet.changes.notify(agent.id for agent, _ in given_up.agents)
    return {
        "host": msgspec.to_builtins(given_up.host),
        "agents": [
            {"agent": display.redact_agent(agent), "has_thread": has_thread}
            for agent, has_thread in given_up.agents
        ],
    }


@post("/hosts/tokens", status_code=200, sync_to_thread=True, after_request=display.keep_answer)
def create_token(fleet: TheFleet, data: JSONBody[NewHostToken]) -> dict[str, Any]:
    """Create a token with which another host joins, once, within `seconds`.

    `url` holds its password: it is what `tasuki host join` takes. `certificates` is PEM of the
    authority by which this server verifies PostgreSQL, where its URL names a file.
    """
    token = tokens.create_token(
        fleet.database, data.label, data.database_host, allow_unverified=data.unverified
    )
    label = f" ({token.label})" if token.label else ""
    text = f"A token was made with which a host{label} may join."
    fleet.note("host", text, data={"role": token.role})
    return dict(msgspec.to_builtins(token))


@post("/hosts/{name:str}/retire", status_code=200, sync_to_thread=True)
def retire_host(fleet: TheFleet, name: PathWord) -> dict[str, Any]:
    """Retire a host, by its id, its label or the beginning of either.

    400 while agents of it have not ended. `role` tells what became of its role of PostgreSQL:
    `dropped`, `disabled`, or `shared` where it used one that is not its own.
    """
    retired = retirement.retire_host(fleet.database, name, fleet.host)
    fleet.changes.notify()
    return retired
