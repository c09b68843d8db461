"""The routes of the dashboard: those that anybody may ask for, and those that need a session."""

from litestar import Router
from litestar.di import Provide

from tasuki.web.assets import asset
from tasuki.web.pages import (
    agents,
    alerts,
    briefs,
    drafting,
    errors,
    fleet,
    forms,
    handoffs,
    lineage,
    live,
    login,
    personas,
    settings,
    threads,
)  # fmt: skip
from tasuki.web.sessions import signed_in


def public() -> Router:
    """What a browser is given before it is signed in."""
    handlers = [asset, login.login, login.logout]
    return Router("/", route_handlers=handlers, exception_handlers=errors.HANDLERS)


def router() -> Router:
    """The pages."""
    return Router(
        "/",
        route_handlers=[
            fleet.fleet_page, fleet.more_cards, fleet.summary, live.live, *agents.HANDLERS, handoffs.handoffs_page,
            handoffs.handoff_page, handoffs.raw, handoffs.order, *lineage.HANDLERS, *personas.HANDLERS,
            *alerts.HANDLERS, *settings.HANDLERS, *threads.HANDLERS, *drafting.HANDLERS, *briefs.HANDLERS,
        ],
        dependencies={"form": Provide(forms.fields), "fields": Provide(forms.all_fields)},
        exception_handlers=errors.HANDLERS,
        guards=[signed_in],
        include_in_schema=False,
    )  # fmt: skip
