"""The routes of the dashboard: public ones, and those that need a session."""

from litestar import Router
from litestar.di import Provide

from tasuki.web import page_news
from tasuki.web.api import forms
from tasuki.web.handlers import list_handlers
from tasuki.web.pages import figures, hosts, login, personas, settings, undo, web_app
from tasuki.web.pages.agent import (
    first_start,
    goal_templates,
    mute,
    order_forms,
    peek,
    queue,
    terminal,
)
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
    return Router(
        "/",
        route_handlers=[*pages, *order_forms.build_routes(taken)],
        dependencies={"form": Provide(forms.read_fields), "fields": Provide(forms.read_all_fields)},
        exception_handlers=login.PAGE_EXCEPTION_HANDLERS,
        guards=[require_session],
        include_in_schema=False,
    )
