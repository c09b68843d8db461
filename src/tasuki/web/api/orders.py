"""The routes of orders: built from the function of each one that has an address."""

import operator
from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Annotated, Any

from litestar import post
from litestar.handlers import HTTPRouteHandler
from litestar.params import HeaderParameter, JSONBody

from tasuki.fleet.orders.order import ORDERS, HostOrder
from tasuki.fleet.service import Fleet
from tasuki.fleet.store.models import FleetAgent, FleetHandoff
from tasuki.web.handlers import PathId, TheFleet
from tasuki.web.views import display

KeyHeader = Annotated[str, HeaderParameter(name="Idempotency-Key", max_length=200)]


def build_route(order: HostOrder[Any, ..., Any]) -> HTTPRouteHandler:
    """Build the route of an order: `id` is in its path, `data` its body, `key` a header."""

    def give_order(fleet: Fleet, **words: Any) -> dict[str, Any]:
        return show_result(order(fleet, **words))

    kinds: dict[str, Any] = {"fleet": TheFleet, "id": PathId, "key": KeyHeader}
    if "data" in order.types:
        kinds["data"] = operator.getitem(JSONBody, order.types["data"])
    taken = {name: kinds[name] for name in order.signature.parameters if name in kinds}
    give_order.__name__, give_order.__doc__ = order.name, describe(order.function)
    give_order.__annotations__ = {**taken, "return": dict[str, Any]}
    parameters = [
        Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind, default="" if name == "key" else Parameter.empty)
        for name, kind in taken.items()
    ]  # fmt: skip
    vars(give_order)["__signature__"] = Signature(parameters)
    return post(order.at, status_code=200, sync_to_thread=True)(give_order)


def describe(function: Callable[..., Any]) -> str:
    """Return what an order does, for the schema; what it raises is in the answers."""
    return (function.__doc__ or "").partition("Raises ")[0].rstrip()


def show_result(result: Any) -> dict[str, Any]:
    """Return the result of an order as the API shows it, without secrets."""
    if isinstance(result, FleetAgent):
        return display.redact_agent(result)
    if isinstance(result, FleetHandoff):
        return {"status": "initiated", **display.redact_handoff(result)}
    return dict(result)


HANDLERS = [build_route(order) for order in ORDERS.values() if order.at]
