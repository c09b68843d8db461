"""What programs send and read: the events of agents' hooks, and figures for a monitor.

Most events take a short way past the framework. The figures are in the text format of Prometheus.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

import sqlalchemy as sa
from litestar import Litestar, Request, Response, get, post
from litestar.datastructures import State
from litestar.enums import ScopeType
from litestar.exceptions import NotFoundException
from litestar.types import (
    HTTPReceiveMessage,
    HTTPResponseBodyEvent,
    HTTPResponseStartEvent,
    HTTPScope,
    LifeSpanScope,
    Receive,
    Scope,
    Send,
)
from prometheus_client import CollectorRegistry, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tasuki.errors import NotPossible
from tasuki.fleet.hooks import spool
from tasuki.fleet.service import Fleet
from tasuki.fleet.store import tables
from tasuki.harness import registry as harnesses
from tasuki.web.handlers import PathWord
from tasuki.web.live import LogStreams
from tasuki.web.security.access import (
    HOOKS_PREFIX,
    ServerHosts,
    is_bearer,
    require_hook_token,
    require_operator,
)

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class ServerMetrics(Collector):
    """The figures of one server; the database is asked for those of the fleet only at a scrape."""

    def __init__(self, fleet: Fleet, live: LogStreams) -> None:
        self.fleet = fleet
        self.live = live
        self.registry = CollectorRegistry()
        self.hooks = Histogram(
            "tasuki_hook_seconds",
            "Time from a hook's request to its answer.",
            buckets=BUCKETS,
            registry=self.registry,
        )
        self.registry.register(self)
        ProcessCollector(namespace="tasuki", registry=self.registry)

    def collect(self) -> Iterator[Metric]:
        intake = self.fleet.intake
        yield CounterMetricFamily("tasuki_events", "Events of hooks taken in.", intake.taken)
        yield GaugeMetricFamily("tasuki_events_waiting", "Events that wait.", intake.waiting)
        yield GaugeMetricFamily(
            "tasuki_streams", "Open streams of live events.", len(self.live.streams)
        )
        yield CounterMetricFamily("tasuki_streams_cut_off", "Readers too slow.", self.live.cut_off)
        running = tables.agents.c.ended_at.is_(None)
        agents = (tables.agents.c.harness, tables.agents.c.state)
        yield self._build_gauge("tasuki_agents", "Agents that run.", agents, running)
        states = (tables.handoffs.c.state,)
        yield self._build_gauge("tasuki_handoffs", "Handoffs by state.", states, sa.true())

    def _build_gauge(
        self,
        name: str,
        description: str,
        columns: tuple[sa.Column[Any], ...],
        condition: sa.ColumnElement[bool],
    ) -> Metric:
        family = GaugeMetricFamily(name, description, labels=[column.name for column in columns])
        query = sa.select(*columns, sa.func.count()).where(condition).group_by(*columns)
        with self.fleet.database.read() as connection:
            for *labels, count in connection.execute(query):
                family.add_metric(list(map(str, labels)), count)
        return family


@get("/metrics", guards=[require_operator], sync_to_thread=True)
def show_metrics(state: State) -> Response[bytes]:
    """Show the figures in the text format of Prometheus."""
    return Response(generate_latest(state.metrics.registry), media_type=CONTENT_TYPE)


MOST_BODY_BYTES = 1 << 20


@post(
    "/{harness:str}",
    guards=[require_hook_token],
    status_code=200,
    request_max_body_size=MOST_BODY_BYTES,
)
async def receive_hook(harness: PathWord, request: Request[Any, Any, Any]) -> Response[str]:
    """Take an event of a hook.

    The body is the payload of the harness's hook, at most 1 MiB. Headers: `X-Tasuki-Agent` (the
    agent's token), `-Event` (an id; one that was seen is dropped), `-Time` (seconds since
    1970), `-Pane`, `-Socket`, `-Pid`. The answer is what the hook prints; its header `X-Tasuki`
    proves that this server gave it, and no other program on its port. Needs the hooks' own
    token.
    """
    if harness not in harnesses.list_names():
        raise NotFoundException
    body = await request.body()
    output, headers = await take_hook_event(
        request.app.state, harness, request.scope["headers"], body
    )
    return Response(output, media_type="text/plain", headers=headers)


async def take_hook_event(
    state: State, harness: str, headers: Iterable[tuple[bytes, bytes]], body: bytes
) -> tuple[str, dict[str, str]]:
    """Take in what a hook of this harness sent; return the answer and its headers.

    Raises IntakeOverloaded, NotPossible.
    """
    began = time.perf_counter()
    fleet: Fleet = state.fleet  # a dependency would cost a task group for each request
    metrics: ServerMetrics = state.metrics
    fields = {
        k.decode("latin-1"): v.decode("latin-1") for k, v in headers if k.startswith(b"x-tasuki-")
    }
    event = spool.build_post({**fields, "harness": harness}, body, spooled=False)
    if event is None:
        raise NotPossible("That is not an event of a hook.")
    output = await fleet.intake.take(event)
    metrics.hooks.observe(time.perf_counter() - began)
    return output, {"X-Tasuki": state.tokens.proof}


_DIGITS = len(str(MOST_BODY_BYTES))


class FleetApplication(Litestar):
    """The framework's application, with the shortcut in front. `hosts` are its own names."""

    hosts: ServerHosts

    async def __call__(self, scope: Scope | LifeSpanScope, receive: Any, send: Any) -> None:
        """Answer a request."""
        http = cast("HTTPScope", scope)
        if http["type"] == ScopeType.HTTP and (harness := self._find_hook_harness(http)):
            await self._answer_hook(harness, http, receive, send)
        else:
            await super().__call__(scope, receive, send)

    def _find_hook_harness(self, scope: HTTPScope) -> str:
        """Find the harness of a hook's request; empty where the framework must take it."""
        path = scope["path"]
        if not path.startswith(HOOKS_PREFIX) or scope["method"] != "POST":
            return ""
        headers = dict(scope["headers"])
        length = headers.get(b"content-length", b"")
        is_acceptable = (
            length.isdigit()
            and len(length) <= _DIGITS
            and int(length) <= MOST_BODY_BYTES
            and b"transfer-encoding" not in headers
            and b"origin" not in headers
            and self.hosts.has_name(headers.get(b"host", b"").decode("latin-1"))
            and is_bearer(headers.get(b"authorization", b""), self.state.tokens.hook)
        )
        harness = path[len(HOOKS_PREFIX) :]
        return harness if is_acceptable and harness in harnesses.list_names() else ""

    async def _answer_hook(
        self, harness: str, scope: HTTPScope, receive: Receive, send: Send
    ) -> None:
        body = b""
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return  # the client went away
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        try:
            output, extra_headers = await take_hook_event(
                self.state, harness, scope["headers"], body
            )
        except Exception:
            await super().__call__(scope, _replay_body(body, receive), send)
            return  # It has answered with the error.
        await _send_answer(send, output.encode("utf-8", "replace"), extra_headers)


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """Return the same body once more, then what follows it."""
    whole: HTTPReceiveMessage = {"type": "http.request", "body": body, "more_body": False}
    messages = [whole]

    async def receive_again() -> HTTPReceiveMessage:
        return messages.pop() if messages else cast("HTTPReceiveMessage", await receive())

    return receive_again


async def _send_answer(send: Send, body: bytes, extra_headers: Mapping[str, str]) -> None:
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", b"%d" % len(body)),
        *((name.lower().encode(), value.encode()) for name, value in extra_headers.items()),
    ]
    start: HTTPResponseStartEvent = {
        "type": "http.response.start", "status": 200, "headers": headers,
    }  # fmt: skip
    await send(start)
    whole: HTTPResponseBodyEvent = {"type": "http.response.body", "body": body, "more_body": False}
    await send(whole)
