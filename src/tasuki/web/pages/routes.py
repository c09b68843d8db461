"""The routes of the dashboard: public ones, and those that need a session."""

from typing import Any

from litestar import Router
from litestar.di import Provide
from litestar.handlers import HTTPRouteHandler
from msgspec.structs import fields

from tasuki.errors import TasukiError
from tasuki.fleet.orders.order import ORDERS, HostOrder
from tasuki.web import page_news
from tasuki.web.api import forms
from tasuki.web.handlers import (
    AnyRequest,
    FormFields,
    PathId,
    TheFleet,
    list_handlers,
    take_form,
)
from tasuki.web.pages import figures, hosts, login, personas, settings, undo, web_app
from tasuki.web.pages.agent import (
    first_start,
    goal_templates,
    mute,
    peek,
    queue,
    terminal,
)
from tasuki.web.pages.agent.terminal import SentMessage, redirect_with_result
from tasuki.web.pages.fleet import (
    agent_threads,
    agents,
    alert_pages,
    bulk,
    changes,
    handoff_form,
    handoffs,
    palette,
)
from tasuki.web.pages.fleet import routes as fleet
from tasuki.web.pages.lineage import routes as lineage
from tasuki.web.pages.threads import briefs, drafts
from tasuki.web.pages.threads import routes as threads
from tasuki.web.security.sessions import require_session
from tasuki.web.views import templates
from tasuki.web.views.templates import PageResponse


def build_public_router() -> Router:
    """Build the routes for a browser that is not signed in."""
    return Router(
        "/",
        route_handlers=list_handlers(templates, web_app, login),
        exception_handlers=login.PAGE_EXCEPTION_HANDLERS,
        include_in_schema=False,
    )


def build_router() -> Router:
    """Build the routes of the pages, and those of the forms of orders without a page of their own."""
    pages = list_handlers(
        fleet, alert_pages, bulk, palette, page_news, agents, terminal, mute, peek, queue, first_start, goal_templates,
        changes, figures, undo, agent_threads, handoff_form, hosts, handoffs, lineage, personas, settings, threads, drafts, briefs,
    )  # fmt: skip
    taken = {path for page in pages if "POST" in page.http_methods for path in page.paths}
    orders = [order for order in ORDERS.values() if order.at.startswith("/agents/{id:int}/")]
    return Router(
        "/",
        route_handlers=[*pages, *(_build_route(one) for one in orders if one.at not in taken)],
        dependencies={"form": Provide(forms.read_fields), "fields": Provide(forms.read_all_fields)},
        exception_handlers=login.PAGE_EXCEPTION_HANDLERS,
        guards=[require_session],
        include_in_schema=False,
    )


def _build_route(order: HostOrder[Any, ..., Any]) -> HTTPRouteHandler:
    def give_order(
        request: AnyRequest, fleet: TheFleet, id: PathId, form: FormFields
    ) -> PageResponse:
        try:
            words = {}
            if body := order.types.get("data"):
                known = {field.encode_name for field in fields(body)}
                words["data"] = forms.fill_body(body, {n: v for n, v in form.items() if n in known})
            order(fleet, id=id, **words)
        except TasukiError as error:
            return redirect_with_result(request, id, SentMessage(refused=str(error)))
        return templates.redirect(request, templates.find_way_back(request, f"/agents/{id}"))

    give_order.__name__ = order.name
    return take_form(order.at)(give_order)
