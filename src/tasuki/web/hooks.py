"""Hooks of agents post their events here: the payload as it is, what the hook prints as the answer."""

import time
from collections.abc import Iterable
from typing import Any

from litestar import Request, Response, post
from litestar.datastructures import State
from litestar.exceptions import NotFoundException
from litestar.params import FromPath

from tasuki import harness as harnesses
from tasuki.errors import NotPossible
from tasuki.fleet import spool
from tasuki.fleet.service import Fleet
from tasuki.web.auth import hooks_only
from tasuki.web.metrics import Metrics

MOST_BYTES = 1 << 20


@post("/{harness:str}", guards=[hooks_only], status_code=200, request_max_body_size=MOST_BYTES)
async def hook(harness: FromPath[str], request: Request[Any, Any, Any]) -> Response[str]:
    """Take an event of a hook in.

    The body is the payload of the harness's hook, at most 1 MiB. Headers: `X-Tasuki-Agent` (the
    agent's token), `-Event` (an id; one that was seen is dropped), `-Time` (seconds since 1970),
    `-Pane`, `-Socket`, `-Pid`. The answer is what the hook prints; its header `X-Tasuki` proves
    that this server gave it, and no other program on its port. Needs the hooks' own token.
    """
    if harness not in harnesses.names():
        raise NotFoundException
    body = await request.body()
    said, headers = await taken_in(request.app.state, harness, request.scope["headers"], body)
    return Response(said, media_type="text/plain", headers=headers)


async def taken_in(
    state: State, harness: str, headers: Iterable[tuple[bytes, bytes]], body: bytes
) -> tuple[str, dict[str, str]]:
    """Take in what a hook of this harness sent; the answer and its headers.

    Raises Overloaded, NotPossible.
    """
    began = time.perf_counter()
    fleet: Fleet = state.fleet  # a dependency would cost a task group for each request
    metrics: Metrics = state.metrics
    fields = {
        k.decode("latin-1"): v.decode("latin-1") for k, v in headers if k.startswith(b"x-tasuki-")
    }
    event = spool.of_headers({**fields, "harness": harness}, body, spooled=False)
    if event is None:
        raise NotPossible("That is no event of a hook.")
    said = await fleet.hook(event)
    metrics.hooks.observe(time.perf_counter() - began)
    return said, {"X-Tasuki": state.tokens.proof}
