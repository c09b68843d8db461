"""What the handlers of routes are made with: their parameters by name, and a page and its form."""

from collections.abc import Callable, Mapping
from functools import partial, wraps
from inspect import signature
from types import ModuleType
from typing import Any

from litestar import Request, get, post
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath
from msgspec import Struct

from tasuki.errors import TasukiError
from tasuki.fleet.service import Fleet
from tasuki.web.api.error_answers import get_status

AnyRequest = Request[Any, Any, Any]
TheFleet = NamedDependency[Fleet]
PathId = FromPath[int]
PathWord = FromPath[str]
FormFields = NamedDependency[dict[str, str]]
"""The fields of a form, the last value of each."""
FormValues = NamedDependency[dict[str, list[str]]]
"""The fields of a form with every value, in order."""

show_page = partial(get, sync_to_thread=True)
"""Make a function the handler of a page."""


class FormRefusal(Struct, frozen=True):
    """Why a form was refused, for its page, which is shown again with what was typed."""

    sentence: str = ""
    status: int = 200
    values: Mapping[str, str] = {}
    form: str = ""
    """Which form of the page; empty where it has one."""


def take_form(
    path: str, refused: HTTPRouteHandler | None = None, form: str = ""
) -> Callable[[Callable[..., Any]], HTTPRouteHandler]:
    """Make a function the handler of a form that a page sends.

    Where it raises TasukiError, the page `refused` is shown again, which finds a `FormRefusal`.
    That page gets the parameters that both have. `form` names the form on it.
    """

    def make_handler(function: Callable[..., Any]) -> HTTPRouteHandler:
        if refused is None:
            return post(path, sync_to_thread=True)(function)
        show_again, known = refused.fn, signature(refused.fn).parameters

        @wraps(function)
        def handle(request: AnyRequest, **words: Any) -> Any:
            try:
                return function(request=request, **words)
            except TasukiError as error:
                typed = words.get("form") or take_last(words.get("fields", {}))
                refusal = FormRefusal(str(error), get_status(error), typed, form)
                request.state.form_refusal = refusal
                return show_again(request=request, **{n: v for n, v in words.items() if n in known})

        return post(path, sync_to_thread=True)(handle)

    return make_handler


def take_last(fields: Mapping[str, list[str]]) -> dict[str, str]:
    """Take the last value of each field."""
    return {name: values[-1] for name, values in fields.items()}


def find_refusal(request: AnyRequest) -> FormRefusal:
    """Find why the form of a page was refused; an empty one where none was."""
    refusal: FormRefusal = request.state.get("form_refusal", FormRefusal())
    return refusal


def list_handlers(*modules: ModuleType) -> list[HTTPRouteHandler]:
    """List the handlers that modules define, in their order."""
    return [
        handler
        for module in modules
        for handler in vars(module).values()
        if isinstance(handler, HTTPRouteHandler) and handler.fn.__module__ == module.__name__
    ]
