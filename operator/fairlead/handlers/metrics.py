"""The operator's own metrics, in a registry of their own so that several operators can live in one process (tests)."""

from __future__ import annotations

import asyncio
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from fairlead.api.shared.errors import ReconcileError
from fairlead.handlers.job_metrics import JobMetrics
from fairlead.handlers.known_job import KnownJob
from fairlead.handlers.worker import NotHealthyError
from fairlead.kube.observe import agents, reports
from fairlead.metrics import MetricCatalogue

PHASES = ("Pending", "Probing", "Transferring", "Verifying", "Succeeded", "Failed", "Suspended")
OPERATOR_METRICS: Final = MetricCatalogue("fairlead_operator")
_RECONCILE_SECONDS = OPERATOR_METRICS.histogram(
    "reconcile_duration_seconds", "Time from taking a job from the queue to the end of its pass; its count is that of passes."
)
_WAIT_SECONDS = OPERATOR_METRICS.histogram("queue_wait_duration_seconds", "How long jobs waited in the queue for a worker.")
_ERRORS = OPERATOR_METRICS.counter("reconcile_errors_total", "Passes that failed, by kind of error.", "kind")
_WRITES = OPERATOR_METRICS.counter("api_writes_total", "Requests that change something on the API server.", "verb", "resource")
_REPORT_FAILURES = OPERATOR_METRICS.counter("report_failures_total", "Polls of movers that got no usable answer, by path.", "path")
_LAST_LIST = OPERATOR_METRICS.gauge("last_list_timestamp_seconds", "When all jobs and pods were last listed, in Unix time.")
_PHANTOMS = OPERATOR_METRICS.counter("phantoms_swept_total", "Objects that lists showed to be gone although no watch had said so.")
_QUEUE_DEPTH = OPERATOR_METRICS.gauge("queue_depth", "Jobs that wait for a worker.")
_QUEUE_SCHEDULED = OPERATOR_METRICS.gauge("queue_scheduled", "Jobs that wait for their next look.")
_QUEUE_WORKING = OPERATOR_METRICS.gauge("queue_working", "Jobs that workers have.")
_QUEUE_OLDEST = OPERATOR_METRICS.gauge(
    "queue_oldest_seconds", "How long the first job in the queue has waited; new ones since one was last begun."
)
_POLLS_DUE = OPERATOR_METRICS.gauge("polls_due", "Jobs that are due to be polled, and wait since only so many are in a second.")
_POLLS_WORKING = OPERATOR_METRICS.gauge("polls_working", "Polls of movers and advisors under way.")
_POLLS_WAITING = OPERATOR_METRICS.gauge("polls_waiting", "Polls of movers and advisors that wait for their turn.")
_POLLS_SILENT = OPERATOR_METRICS.gauge("polls_silent", "Movers and advisors that did not answer the last time.")
_LEADING = OPERATOR_METRICS.gauge("leading", "1 if this operator leads, 0 while another one does and this one stands by.")
_JOBS = OPERATOR_METRICS.gauge("jobs", "TransferJobs by phase.", "phase")
_LIVE = (
    *(_QUEUE_DEPTH, _QUEUE_SCHEDULED, _QUEUE_WORKING, _QUEUE_OLDEST),
    *(_POLLS_DUE, _POLLS_WORKING, _POLLS_WAITING, _POLLS_SILENT, _LEADING, _JOBS),
)
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
    """The metrics of `OPERATOR_METRICS`, and those of jobs."""

    def __init__(self, *, process: bool = False) -> None:
        self.registry = CollectorRegistry()
        if process:
            ProcessCollector(registry=self.registry)
            PlatformCollector(registry=self.registry)
            GCCollector(registry=self.registry)
        self.reconcile_seconds = _RECONCILE_SECONDS.histogram(self.registry, _LATENCY_BUCKETS)
        self.wait_seconds = _WAIT_SECONDS.histogram(self.registry, _LATENCY_BUCKETS)
        self.last_list_timestamp_seconds = _LAST_LIST.gauge(self.registry)
        self._leads: Callable[[], bool] = lambda: True
        self.jobs = JobMetrics(self.registry, self._shows_jobs)
        self._errors = _ERRORS.counter(self.registry, zip(sorted(ReconcileError.kinds())))
        self._writes = _WRITES.counter(self.registry)
        self._unanswered = _REPORT_FAILURES.counter(self.registry, zip((*reports.PATHS, agents.PATH)))
        self._phantoms = _PHANTOMS.counter(self.registry)

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

    def watch(
        self,
        queue: QueueFigures,
        polls: PollFigures,
        due: Callable[[], int],
        jobs: Callable[[], Iterable[KnownJob]],
        leads: Callable[[], bool] = lambda: True,
    ) -> None:
        """Shows the queue, the polls of movers with the number of jobs that are due to be polled, and the number of jobs by phase at every
        scrape, and whether this operator leads. One that does not shows nothing of jobs: they would be there twice."""
        self._leads = leads
        self.registry.register(_LiveFigures(queue, polls, due, jobs, leads))

    def _shows_jobs(self) -> bool:
        return self._leads()

    def page(self, names: Sequence[str] = ()) -> bytes:
        """The exposition in Prometheus' text format; with `names` of these metrics alone. May run in a thread of its own."""
        return generate_latest(self.registry.restricted_registry(names) if names else self.registry)


class _LiveFigures(Collector):
    def __init__(
        self,
        queue: QueueFigures,
        polls: PollFigures,
        due: Callable[[], int],
        jobs: Callable[[], Iterable[KnownJob]],
        leads: Callable[[], bool],
    ) -> None:
        self._queue = queue
        self._polls = polls
        self._due = due
        self._jobs = jobs
        self._leads = leads

    def describe(self) -> Iterable[Metric]:
        return [described.gauges() for described in _LIVE]

    def collect(self) -> Iterable[Metric]:
        for described, value in (
            (_QUEUE_DEPTH, self._queue.depth),
            (_QUEUE_SCHEDULED, self._queue.scheduled),
            (_QUEUE_WORKING, self._queue.working),
            (_QUEUE_OLDEST, self._queue.oldest_wait_seconds()),
            (_POLLS_DUE, self._due()),
            (_POLLS_WORKING, self._polls.under_way),
            (_POLLS_WAITING, self._polls.waiting),
            (_POLLS_SILENT, self._polls.silent),
            (_LEADING, leads := self._leads()),
        ):
            figure = described.gauges()
            figure.add_metric([], value)
            yield figure
        if not leads:
            return
        jobs = _JOBS.gauges()
        tally = Tally(job.phase or "Pending" for job in self._jobs())
        for phase in PHASES:
            jobs.add_metric([phase], tally[phase])
        yield jobs


class Pages:
    """Makes one page at a time, in a thread of its own: ten thousand jobs have ten megabytes, for which neither passes nor rounds may wait.

    Who asks for a page that is being made gets that one.
    """

    def __init__(self, metrics: OperatorMetrics) -> None:
        self._metrics = metrics
        self._maker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="metrics")
        self._under_way: dict[tuple[str, ...], asyncio.Future[bytes]] = {}

    async def page(self, names: tuple[str, ...]) -> bytes:
        """The exposition with these metrics, all without any."""
        under_way = self._under_way.get(names)
        if under_way is None:
            under_way = asyncio.get_running_loop().run_in_executor(self._maker, self._metrics.page, names)
            self._under_way[names] = under_way
            under_way.add_done_callback(lambda _: self._under_way.pop(names))
        # Whoever gives up must not take the page from the others.
        return await asyncio.shield(under_way)

    async def close(self, _: web.Application | None = None) -> None:
        """Makes no more pages."""
        self._maker.shutdown(wait=False, cancel_futures=True)


def metrics_app(metrics: OperatorMetrics) -> web.Application:
    """`GET /metrics`, with `?name[]=…` of these metrics alone, as Prometheus' own clients have it."""
    pages = Pages(metrics)

    async def show(request: web.Request) -> web.Response:
        body = await pages.page(tuple(sorted(set(request.query.getall("name[]", [])))))
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.router.add_get("/metrics", show)
    app.on_cleanup.append(pages.close)
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
