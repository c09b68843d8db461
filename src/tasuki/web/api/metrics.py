"""Figures for a monitor, in the text format of Prometheus."""

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from litestar import Response, get
from litestar.di import NamedDependency
from prometheus_client import CollectorRegistry, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tasuki.fleet.service import Fleet
from tasuki.fleet.store import tables
from tasuki.web.live.log import LiveEvents
from tasuki.web.security.auth import require_operator

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class ServerMetrics:
    """The figures of one server."""

    def __init__(self, fleet: Fleet, live: LiveEvents) -> None:
        self.registry = CollectorRegistry()
        self.hooks = Histogram(
            "tasuki_hook_seconds",
            "Time from a hook's request to its answer.",
            buckets=BUCKETS,
            registry=self.registry,
        )
        self.registry.register(_FleetCollector(fleet, live))
        ProcessCollector(namespace="tasuki", registry=self.registry)


class _FleetCollector(Collector):
    """The figures that are counted on request."""

    def __init__(self, fleet: Fleet, live: LiveEvents) -> None:
        self.fleet = fleet
        self.live = live

    def describe(self) -> list[Metric]:
        """Return nothing ahead of time: the database is asked only at a scrape."""
        return []

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
def show_metrics(metrics: NamedDependency[ServerMetrics]) -> Response[bytes]:
    """Show the figures in the text format of Prometheus."""
    return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE)
