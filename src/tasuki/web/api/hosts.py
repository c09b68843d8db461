"""`/api/hosts`: hosts join the fleet, and leave it."""

from typing import Any

import msgspec
from litestar import Router, post
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, JSONBody

from tasuki.fleet.membership import retirement, tokens
from tasuki.fleet.service import Fleet
from tasuki.web.api.bodies import NewHostToken
from tasuki.web.security.access import require_operator


@post("/hosts/tokens", status_code=200, sync_to_thread=True)
def create_token(fleet: NamedDependency[Fleet], data: JSONBody[NewHostToken]) -> dict[str, Any]:
    """Create a token with which another host joins, once, within `seconds`.

    `url` holds its password: it is what `tasuki host join` takes. `certificates` is PEM of the
    authority by which this server verifies PostgreSQL, where its URL names a file.
    """
    token = tokens.create_token(
        fleet.database, data.label, data.database_host, allow_unverified=data.unverified
    )
    text = (
        f"A token was made with which a host{f' ({token.label})' if token.label else ''} may join."
    )
    fleet.note("host", text, data={"role": token.role})
    answer: dict[str, Any] = msgspec.to_builtins(token)
    return answer


@post("/hosts/{name:str}/retire", status_code=200, sync_to_thread=True)
def retire_host(fleet: NamedDependency[Fleet], name: FromPath[str]) -> dict[str, Any]:
    """Retire a host, by its id, its label or the beginning of either.

    400 while agents of it have not ended. `role` tells what became of its role of PostgreSQL:
    `dropped`, `disabled`, or `shared` where it used one that is not its own.
    """
    retired = retirement.retire_host(fleet.database, name, fleet.host)
    fleet.changes.notify()
    return retired


HANDLERS: dict[str, list[HTTPRouteHandler]] = {"hosts": [create_token, retire_host]}
ROUTERS = [
    Router("/api", route_handlers=handlers, guards=[require_operator], tags=[tag])
    for tag, handlers in HANDLERS.items()
]
