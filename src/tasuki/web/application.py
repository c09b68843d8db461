"""The fleet's HTTP application: its routes, its gate, its live events."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from litestar import Litestar, Response, Router, get
from litestar.datastructures import State
from litestar.di import Provide
from litestar.exceptions import HTTPException
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme

from tasuki import __version__
from tasuki.config.outside import parse_public_url
from tasuki.config.settings import Settings
from tasuki.fleet.orders.order import ORDERS
from tasuki.fleet.service import Fleet
from tasuki.fleet.store.models import FleetEvent
from tasuki.interpreter import prepare_structs
from tasuki.web.api import fleet as fleet_api
from tasuki.web.api import goals, operator
from tasuki.web.api import hosts as hosts_api
from tasuki.web.api.error_answers import EXCEPTION_HANDLERS
from tasuki.web.api.hooks import (
    MOST_BODY_BYTES,
    FleetApplication,
    ServerMetrics,
    receive_hook,
    show_metrics,
)
from tasuki.web.handlers import AnyRequest, TheFleet, list_handlers
from tasuki.web.live import LogStreams
from tasuki.web.page_news import HOST_SECONDS, NewsWatch, PageStreams
from tasuki.web.pages import login as pages_login
from tasuki.web.pages import routes
from tasuki.web.pages.threads.files import LOOK_SECONDS, ThreadNews
from tasuki.web.security.access import RequestGate, ServerHosts, ServerTokens, require_operator
from tasuki.web.security.proxy import open_proxy
from tasuki.web.security.sessions import BrowserSessions
from tasuki.web.views import templates
from tasuki.web.views.display import redact_answer
from tasuki.web.views.notices import PageNotices
from tasuki.web.views.shared_answers import SharedAnswers

LOGGED_KINDS = frozenset({"agent", "handoff", "alarm", "persona", "threshold", "veto"})
"""Kinds of lines that also go into the server's own log."""

_TAGS = {
    "lineage": "personas", "alerts": "operator", "settings": "operator", "log": "events",
    "sessions": "login",
}  # fmt: skip
"""The tags of routes of the API whose paths begin with another word."""

logger = logging.getLogger("tasuki.web")


@get("/health")
async def show_health(fleet: TheFleet) -> Response[dict[str, Any]]:
    """Show whether the server works. Needs no token, and reveals nothing about the agents."""
    look = fleet.list_faults  # of PostgreSQL it asks nothing: no thread waits for that
    faults = await asyncio.to_thread(look) if fleet.database.is_sqlite else look()
    status = {"status": "degraded", "why": " ".join(faults)} if faults else {"status": "ok"}
    return Response(status, status_code=503 if faults else 200)


def name_hosts(settings: Settings, tokens: ServerTokens, host: str) -> ServerHosts:
    """Return the names of a server that listens on `host`."""
    public = parse_public_url(settings.public_url) if settings.public_url else None
    return ServerHosts(host, tokens.dashboard_host, public)


def create_application(fleet: Fleet, tokens: ServerTokens, host: str = "127.0.0.1") -> Litestar:
    """Create the application of a launched fleet, for a server that listens on `host`."""
    live_pages, threads = PageStreams(fleet), ThreadNews()
    watches = [NewsWatch(live_pages, threads.find_news, LOOK_SECONDS)]
    if not fleet.database.is_sqlite:
        watches.append(NewsWatch(live_pages, live_pages.find_host_news, HOST_SECONDS))

    def on_event(event: FleetEvent) -> None:
        if event.kind in LOGGED_KINDS:
            level = logging.WARNING if event.kind == "alarm" else logging.INFO
            logger.log(level, "%s", event.text, extra={"redacted": True})
        live_pages.take_event(event)

    live = LogStreams(fleet.database, on_event)
    metrics = ServerMetrics(fleet, live)
    fleet.changes.on_any_log(live.notify)

    @asynccontextmanager
    async def run_live(_: Litestar) -> AsyncIterator[None]:
        await live.start()
        for watch in watches:
            watch.start()
        try:
            yield
        finally:
            for watch in watches:
                watch.close()
            live_pages.close()
            await live.close()

    hosts = name_hosts(fleet.loaded.settings, tokens, host)
    sessions = BrowserSessions(fleet.database, tokens, fleet.host)
    sessions.load()
    hooks = Router("/api/hooks", route_handlers=[receive_hook], tags=["hooks"])
    app = FleetApplication(
        route_handlers=[
            show_health, show_metrics, hooks, *_build_api_routers(),
            routes.build_public_router(), routes.build_router(),
        ],
        before_request=_note_place,
        after_request=redact_answer,
        dependencies={"fleet": Provide(_get_fleet, sync_to_thread=False)},
        exception_handlers={**EXCEPTION_HANDLERS, HTTPException: pages_login.handle_anywhere},
        lifespan=[run_live],
        logging_config=None,
        middleware=[RequestGate],
        openapi_config=_build_openapi_config(),
        request_max_body_size=MOST_BODY_BYTES,
        state=State({
            "fleet": fleet, "live": live, "metrics": metrics, "tokens": tokens, "sessions": sessions, "hosts": hosts, "proxy": open_proxy(fleet.loaded.settings),
            "live_pages": live_pages, "thread_news": threads, "notices": PageNotices(), "shared": SharedAnswers(lambda: fleet.changes.generation),
        }),
    )  # fmt: skip
    app.hosts = hosts
    prepare_structs()
    return app


async def _note_place(request: AnyRequest) -> None:
    templates.note_place(request)  # Litestar would call it in a thread, were it not async


def _get_fleet(state: State) -> Any:
    return state.fleet


def _build_api_routers() -> list[Router]:
    built = [fleet_api.build_route(order) for order in ORDERS.values() if order.at]
    tagged: dict[str, list[HTTPRouteHandler]] = {}
    for handler in (*built, *list_handlers(fleet_api, operator, goals, hosts_api)):
        first = min(handler.paths).split("/")[1]
        tagged.setdefault(_TAGS.get(first, first), []).append(handler)
    return [
        Router("/api", route_handlers=handlers, guards=[require_operator], tags=[tag])
        for tag, handlers in tagged.items()
    ]


def _build_openapi_config() -> OpenAPIConfig:
    return OpenAPIConfig(
        title="tasuki fleet",
        version=__version__,
        use_handler_docstrings=True,
        components=Components(
            security_schemes={"token": SecurityScheme(type="http", scheme="bearer")}
        ),
        security=[{"token": []}],
        openapi_router=Router("/schema", route_handlers=[], guards=[require_operator]),
        render_plugins=[JsonRenderPlugin(path="/openapi.json")],
    )
