"""The operator's own metrics, in a registry of their own so that several operators can live in one process (tests)."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable
from typing import Protocol

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, Counter, Gauge, GCCollector, Histogram, PlatformCollector, ProcessCollector
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from fairlead.handlers.worker import NotHealthyError
from fairlead.kube.client import KubeObject

PREFIX = "fairlead_operator"
PHASES = ("Pending", "Probing", "Transferring", "Verifying", "Succeeded", "Failed", "Suspended")
_LATENCY_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class QueueFigures(Protocol):
    """What is shown of the work queue."""

    @property
    def depth(self) -> int:
        """Keys that wait for a worker."""

    @property
    def scheduled(self) -> int:
        """Keys that wait for their time."""

    @property
    def working(self) -> int:
        """Keys that workers have."""

    def oldest_wait_seconds(self) -> float:
        """How long the first key has waited."""


class PollFigures(Protocol):
    """What is shown of the polls of movers."""

    @property
    def under_way(self) -> int:
        """Polls under way."""

    @property
    def waiting(self) -> int:
        """Polls that wait for their turn."""

    @property
    def silent(self) -> int:
        """Servers that did not answer the last time."""


class OperatorMetrics:
    """Counters and gauges named `fairlead_operator_*`."""

    def __init__(self, *, process: bool = False) -> None:
        self.registry = CollectorRegistry()
        if process:
            ProcessCollector(registry=self.registry)
            PlatformCollector(registry=self.registry)
            GCCollector(registry=self.registry)
        self.reconcile_seconds = Histogram(
            f"{PREFIX}_reconcile_duration_seconds",
            "Time from taking a job from the queue to the end of its pass.",
            buckets=_LATENCY_BUCKETS,
            registry=self.registry,
        )
        self._errors = Counter(f"{PREFIX}_reconcile_errors", "Passes that failed, by kind of error.", ["kind"], registry=self.registry)
        self._writes = Counter(
            f"{PREFIX}_api_writes", "Requests that change something on the API server.", ["verb", "resource"], registry=self.registry
        )
        self._unanswered = Counter(
            f"{PREFIX}_report_failures", "Polls of movers that got no usable answer, by path.", ["path"], registry=self.registry
        )
        self.last_list_timestamp_seconds = Gauge(
            f"{PREFIX}_last_list_timestamp_seconds", "When all jobs and pods were last listed.", registry=self.registry
        )
        self._phantoms = Counter(
            f"{PREFIX}_phantoms_swept", "Objects that lists showed to be gone although no watch had said so.", registry=self.registry
        )

    def count_error(self, kind: str) -> None:
        """One more failed pass."""
        self._errors.labels(kind).inc()

    def count_write(self, verb: str, resource: str) -> None:
        """One more write request."""
        self._writes.labels(verb, resource).inc()

    def count_unanswered(self, path: str) -> None:
        """One more poll without a usable answer."""
        self._unanswered.labels(path).inc()

    def count_phantoms(self, number: int) -> None:
        """Objects swept from the cache."""
        self._phantoms.inc(number)

    def watch(self, queue: QueueFigures, polls: PollFigures, jobs: Callable[[], Iterable[KubeObject]]) -> None:
        """Shows the queue, the polls of movers and the number of jobs by phase at every scrape."""
        self.registry.register(_LiveFigures(queue, polls, jobs))

    def page(self) -> web.Response:
        """The exposition in Prometheus' text format."""
        return web.Response(body=generate_latest(self.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})


class _LiveFigures(Collector):
    def __init__(self, queue: QueueFigures, polls: PollFigures, jobs: Callable[[], Iterable[KubeObject]]) -> None:
        self._queue = queue
        self._polls = polls
        self._jobs = jobs

    def collect(self) -> Iterable[Metric]:
        queue = self._queue
        yield GaugeMetricFamily(f"{PREFIX}_queue_depth", "Jobs that wait for a worker.", value=queue.depth)
        yield GaugeMetricFamily(f"{PREFIX}_queue_scheduled", "Jobs that wait for their next look.", value=queue.scheduled)
        yield GaugeMetricFamily(f"{PREFIX}_queue_working", "Jobs that workers have.", value=queue.working)
        yield GaugeMetricFamily(
            f"{PREFIX}_queue_oldest_seconds", "How long the first job in the queue has waited.", value=queue.oldest_wait_seconds()
        )
        polls = self._polls
        yield GaugeMetricFamily(f"{PREFIX}_polls_working", "Polls of movers and advisors under way.", value=polls.under_way)
        yield GaugeMetricFamily(f"{PREFIX}_polls_waiting", "Polls of movers and advisors that wait for their turn.", value=polls.waiting)
        yield GaugeMetricFamily(f"{PREFIX}_polls_silent", "Movers and advisors that did not answer the last time.", value=polls.silent)
        jobs = GaugeMetricFamily(f"{PREFIX}_jobs", "TransferJobs by phase.", labels=["phase"])
        tally = Tally((body.get("status") or {}).get("phase") or "Pending" for body in self._jobs())
        for phase in PHASES:
            jobs.add_metric([phase], tally[phase])
        yield jobs


def metrics_app(metrics: OperatorMetrics) -> web.Application:
    """`GET /metrics`."""

    async def show(_: web.Request) -> web.Response:
        return metrics.page()

    app = web.Application()
    app.router.add_get("/metrics", show)
    return app


def health_app(check: Callable[[], dict[str, float]]) -> web.Application:
    """`GET /healthz`: the figures of `check`, or 500 with its NotHealthyError."""

    async def show(_: web.Request) -> web.Response:
        try:
            return web.json_response({"operator": check()})
        except NotHealthyError as error:
            return web.json_response({"operator": str(error)}, status=500)

    app = web.Application()
    app.router.add_get("/healthz", show)
    return app
