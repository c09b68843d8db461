"""The routes of orders that ask for no page of their own: a form is sent, and the browser goes back."""

from collections.abc import Collection
from typing import Any

from litestar.handlers import HTTPRouteHandler
from msgspec.structs import fields

from tasuki.errors import TasukiError
from tasuki.fleet.orders.order import ORDERS, HostOrder
from tasuki.web.api.forms import fill_body
from tasuki.web.handlers import AnyRequest, FormFields, PathId, TheFleet, take_form
from tasuki.web.pages.agent.terminal import SentMessage, redirect_with_result
from tasuki.web.views import templates
from tasuki.web.views.templates import PageResponse


def build_routes(taken: Collection[str]) -> list[HTTPRouteHandler]:
    """Build the form's route of each order for an agent whose address is not taken by a page."""
    orders = [order for order in ORDERS.values() if order.at.startswith("/agents/{id:int}/")]
    return [_build_route(order) for order in orders if order.at not in taken]


def _build_route(order: HostOrder[Any, ..., Any]) -> HTTPRouteHandler:
    def give_order(
        request: AnyRequest, fleet: TheFleet, id: PathId, form: FormFields
    ) -> PageResponse:
        try:
            words = {}
            if body := order.types.get("data"):
                known = {field.encode_name for field in fields(body)}
                words["data"] = fill_body(body, {n: v for n, v in form.items() if n in known})
            order(fleet, id=id, **words)
        except TasukiError as error:
            return redirect_with_result(request, id, SentMessage(refused=str(error)))
        return templates.redirect(request, templates.find_way_back(request, f"/agents/{id}"))

    give_order.__name__ = order.name
    return take_form(order.at)(give_order)
