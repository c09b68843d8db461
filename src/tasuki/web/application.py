"""The fleet's HTTP application: its routes, its gate, its live events."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from litestar import Litestar, Router, get
from litestar.datastructures import State
from litestar.di import NamedDependency, Provide
from litestar.exceptions import HTTPException
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme

from tasuki import __version__
from tasuki.fleet.rows import FleetEvent
from tasuki.fleet.service import Fleet
from tasuki.web import api_agents, api_events, api_handoffs, api_login, api_operator, api_personas
from tasuki.web.answers import HANDLERS
from tasuki.web.auth import Tokens, operator_only
from tasuki.web.gate import Gate, Hosts
from tasuki.web.hooks import MOST_BYTES, hook
from tasuki.web.live import Live
from tasuki.web.live_pages import LivePages
from tasuki.web.metrics import Metrics, metrics_page
from tasuki.web.pages import errors, routes
from tasuki.web.pages import live as pages_live
from tasuki.web.sessions import Sessions
from tasuki.web.shortcut import Application

OWN = frozenset({"agent", "handoff", "alarm", "persona", "threshold", "veto"})
"""Kinds of lines that the server's own log tells too."""

logger = logging.getLogger("tasuki.web")


@get("/health", sync_to_thread=True)
def health(fleet: NamedDependency[Fleet]) -> dict[str, Any]:
    """Whether the server works. Needs no token, and tells nothing of the agents."""
    return {"status": fleet.health()["status"]}


def application(fleet: Fleet, tokens: Tokens, host: str = "127.0.0.1") -> Litestar:
    """The application of a fleet that is launched, for a server that listens on `host`."""
    live_pages = LivePages(fleet, pages_live.made)

    def told(event: FleetEvent) -> None:
        _told(event)
        live_pages.told(event)

    live = Live(fleet.database, told)
    metrics = Metrics(fleet, live)
    fleet.on_change(live.changed)

    @asynccontextmanager
    async def running(_: Litestar) -> AsyncIterator[None]:
        await live.start()
        try:
            yield
        finally:
            live_pages.close()
            await live.close()

    hosts = Hosts(host, tokens.dashboard_host)
    sessions = Sessions(fleet.database, tokens, fleet.host)
    sessions.load()
    given = {"fleet": fleet, "live": live, "metrics": metrics}
    hooks = Router("/api/hooks", route_handlers=[hook], tags=["hooks"])
    made = Application(
        route_handlers=[
            health, metrics_page, hooks, api_personas.router, api_agents.router,
            api_handoffs.router, api_events.router, api_login.router, api_operator.router,
            routes.public(), routes.router(),
        ],
        dependencies={name: Provide(_giving(it), sync_to_thread=False) for name, it in given.items()},
        exception_handlers={**HANDLERS, HTTPException: errors.anywhere},
        lifespan=[running],
        logging_config=None,
        middleware=[partial(Gate, hosts=hosts)],
        openapi_config=_schema(),
        request_max_body_size=MOST_BYTES,
        state=State({
            "tokens": tokens, "sessions": sessions, "hosts": hosts, "live_pages": live_pages, **given,
        }),
    )  # fmt: skip
    made.hosts = hosts
    return made


def _giving(it: Any) -> Callable[[], Any]:
    return lambda: it


def _schema() -> OpenAPIConfig:
    return OpenAPIConfig(
        title="tasuki fleet",
        version=__version__,
        use_handler_docstrings=True,
        components=Components(
            security_schemes={"token": SecurityScheme(type="http", scheme="bearer")}
        ),
        security=[{"token": []}],
        openapi_router=Router("/schema", route_handlers=[], guards=[operator_only]),
        render_plugins=[JsonRenderPlugin(path="/openapi.json")],
    )


def _told(event: FleetEvent) -> None:
    if event.kind in OWN:
        level = logging.WARNING if event.kind == "alarm" else logging.INFO
        logger.log(level, "%s", event.text, extra={"redacted": True})
