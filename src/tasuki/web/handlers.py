"""What the handlers of routes are made with: their parameters by name, and a page and its form."""

from functools import partial
from typing import Any

from litestar import Request, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath

from tasuki.fleet.service import Fleet

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
take_form = partial(post, sync_to_thread=True)
"""Make a function the handler of a form that a page sends."""
