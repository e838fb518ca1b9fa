"""Every metric of the operator itself, by its value after what is known to have happened."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

import pytest
from fake_timers import FakeTimers
from handler_objects import job_body
from metric_samples import value_of
from prometheus_client.parser import text_string_to_metric_families

from fairlead.api.shared.errors import InvalidResourceError
from fairlead.api.transferjob import TransferJob
from fairlead.core.observed import Observed
from fairlead.handlers.cache import ObjectKey
from fairlead.handlers.fairness.metrics import SHARING_METRICS, FairnessMetrics
from fairlead.handlers.job_metrics import JOB_COUNTERS, JOB_METRICS
from fairlead.handlers.known_job import KnownJob
from fairlead.handlers.metrics import OPERATOR_METRICS, PHASES, OperatorMetrics, Pages
from fairlead.handlers.queue import WorkQueue
from fairlead.handlers.worker import response_to
from fairlead.kube.client import KubeObject
from fairlead.kube.errors import RefusedError, ThrottledError
from fairlead.kube.objects.build import BuildError
from fairlead.kube.observe.turns import PollTarget, PollTurns

pytestmark = pytest.mark.asyncio
ALL: Mapping[str, str] = {}


class Page:
    """The operator's metrics beside a real queue and real turns, by a clock that stands still until a test moves it."""

    def __init__(self) -> None:
        self.metrics = OperatorMetrics()
        self.timers = FakeTimers()
        self.queue: WorkQueue[ObjectKey] = WorkQueue(self.timers, on_wait=self.metrics.wait_seconds.observe)
        self.turns = PollTurns(self.timers.time, most_on_node=1)
        self.jobs: list[KubeObject] = []
        self.leads = True
        self.due = 0
        self.metrics.watch(self.queue, self.turns, lambda: self.due, lambda: map(KnownJob.of, self.jobs), lambda: self.leads)

    def value(self, name: str, labels: Mapping[str, str] = ALL) -> float | None:
        return value_of(self.metrics.page().decode(), name, labels)


@pytest.fixture
def page() -> Page:
    return Page()


def key(name: str) -> ObjectKey:
    return ObjectKey("lab", name)


def target(name: str) -> PollTarget:
    return PollTarget(name, 24001, is_ready=True, node="dtn-a", tenant="lab")


async def test_one_page_is_made_at_a_time_and_those_who_ask_meanwhile_get_the_same() -> None:
    made: list[tuple[str, ...]] = []
    may_end = threading.Event()

    class SlowMetrics(OperatorMetrics):
        def page(self, names: Sequence[str] = ()) -> bytes:
            made.append(tuple(names))
            assert may_end.wait(10.0)
            return f"page {len(made)}".encode()

    pages = Pages(SlowMetrics())
    asked = [asyncio.create_task(pages.page(names)) for names in ((), (), ("a",), ("a",))]
    gives_up = asyncio.create_task(pages.page(()))
    await asyncio.sleep(0)
    gives_up.cancel()
    await asyncio.sleep(0)
    may_end.set()
    assert await asyncio.gather(*asked) == [b"page 1", b"page 1", b"page 2", b"page 2"]
    assert made == [(), ("a",)]
    await pages.close()


QUEUE = (
    "fairlead_operator_queue_depth",
    "fairlead_operator_queue_scheduled",
    "fairlead_operator_queue_working",
    "fairlead_operator_queue_oldest_seconds",
)
POLLS = (
    "fairlead_operator_polls_due",
    "fairlead_operator_polls_working",
    "fairlead_operator_polls_waiting",
    "fairlead_operator_polls_silent",
)


async def test_the_queue_shows_who_waits_for_how_long_who_works_and_who_comes_later(page: Page) -> None:
    page.queue.add(key("first"))
    page.timers.advance(2)
    page.queue.add(key("second"))
    page.queue.add(key("third"))
    page.queue.add_after(key("later"), 60)
    page.timers.advance(3)
    assert [page.value(name) for name in QUEUE] == [3, 1, 0, 5]
    assert await page.queue.get() == key("first")
    page.timers.advance(1)
    assert [page.value(name) for name in QUEUE] == [2, 1, 1, 4]
    assert await page.queue.get() == key("second")
    assert page.value("fairlead_operator_queue_wait_duration_seconds_count") == 2
    assert page.value("fairlead_operator_queue_wait_duration_seconds_sum") == 5 + 4
    assert page.value("fairlead_operator_queue_wait_duration_seconds_bucket", {"le": "2.5"}) == 0
    assert page.value("fairlead_operator_queue_wait_duration_seconds_bucket", {"le": "5.0"}) == 2


async def test_polls_under_way_waiting_and_silent_are_shown(page: Page) -> None:
    def shown() -> list[float | None]:
        return [page.value(name) for name in POLLS]

    async def poll(name: str) -> None:
        async with page.turns.turn(target(name)):
            pass

    page.due = 7
    page.turns.was_silent(target("deaf"))
    # The node takes one poll at a time.
    async with page.turns.turn(target("asked")):
        others = [asyncio.create_task(poll(name)) for name in ("b", "c")]
        await asyncio.sleep(0)
        assert shown() == [7, 1, 2, 1]
    page.turns.answered(target("deaf"))
    page.due = 0
    await asyncio.gather(*others)
    assert shown() == [0, 0, 0, 0]


async def test_jobs_are_counted_by_phase_those_without_one_as_pending(page: Page) -> None:
    phases = {"a": "Transferring", "b": "Transferring", "c": "Failed"}
    page.jobs = [job_body("new"), *({**job_body(name), "status": {"phase": phase}} for name, phase in phases.items())]
    shown = {phase: page.value("fairlead_operator_jobs", {"phase": phase}) for phase in PHASES}
    assert shown == dict.fromkeys(PHASES, 0) | {"Pending": 1, "Transferring": 2, "Failed": 1}


COUNTED: Mapping[str, tuple[Callable[[OperatorMetrics], None], Mapping[str, str], float | None]] = {
    # By what is counted, and what is shown before.
    "fairlead_operator_reconcile_errors_total": (lambda metrics: metrics.count_error("Conflict"), {"kind": "Conflict"}, 0),
    "fairlead_operator_api_writes_total": (
        lambda metrics: metrics.count_write("patch", "pods"),
        {"verb": "patch", "resource": "pods"},
        None,
    ),
    "fairlead_operator_report_failures_total": (lambda metrics: metrics.count_unanswered("/v1/progress"), {"path": "/v1/progress"}, 0),
    "fairlead_operator_phantoms_swept_total": (lambda metrics: metrics.count_phantoms(1), ALL, 0),
}


@pytest.mark.parametrize("name", COUNTED)
async def test_what_happens_is_counted_from_nought_where_the_labels_are_known(page: Page, name: str) -> None:
    count, labels, before = COUNTED[name]
    assert page.value(name, labels) == before
    count(page.metrics)
    count(page.metrics)
    assert page.value(name, labels) == 2


async def test_the_last_list_is_a_time(page: Page) -> None:
    page.metrics.last_list_timestamp_seconds.set(1.75e9)
    assert page.value("fairlead_operator_last_list_timestamp_seconds") == 1.75e9


async def test_the_page_has_no_series_that_is_not_described(page: Page) -> None:
    FairnessMetrics(page.metrics.registry).show(None, None)
    shown = {family.name for family in text_string_to_metric_families(page.metrics.page().decode()) if family.samples}
    described = {each.name.removesuffix("_total") for each in (*OPERATOR_METRICS, *JOB_METRICS, *JOB_COUNTERS, *SHARING_METRICS)}
    assert shown - described == set()
    assert "fairlead_operator_reconcile_errors" in shown


async def test_a_page_of_named_metrics_has_these_alone(page: Page) -> None:
    names = ("fairlead_operator_polls_due", "fairlead_operator_reconcile_duration_seconds_count", "fairlead_operator_link_jobs")
    FairnessMetrics(page.metrics.registry).show(None, None)
    samples = [each for family in text_string_to_metric_families(page.metrics.page(names).decode()) for each in family.samples]
    assert {sample.name for sample in samples} == set(names[:2])


async def test_every_kind_of_error_and_every_page_is_shown_before_the_first_failure(page: Page) -> None:
    for error in (RefusedError, ThrottledError, InvalidResourceError, BuildError):
        assert page.value("fairlead_operator_reconcile_errors_total", {"kind": error.kind}) == 0
    assert page.value("fairlead_operator_reconcile_errors_total", {"kind": response_to(ZeroDivisionError()).kind}) == 0
    for path in ("/v1/endpoint", "/v1/progress", "/v1/decision", "/v1/node"):
        assert page.value("fairlead_operator_report_failures_total", {"path": path}) == 0


async def test_a_standby_says_so_and_shows_no_jobs_as_the_one_that_leads_does(page: Page) -> None:
    page.jobs = [{**job_body("job"), "status": {"phase": "Pending"}}]
    assert page.value("fairlead_operator_leading") == 1
    assert page.value("fairlead_operator_jobs", {"phase": "Pending"}) == 1
    page.leads = False
    assert page.value("fairlead_operator_leading") == 0
    assert page.value("fairlead_operator_jobs", {"phase": "Pending"}) is None


async def test_an_operator_that_leads_no_more_shows_no_series_of_a_job(page: Page) -> None:
    page.metrics.jobs.note(Observed(job=TransferJob.from_object(job_body("job"))), None, datetime(2026, 1, 1, tzinfo=UTC))
    job = {"namespace": "lab", "transferjob": "job"}
    assert page.value("fairlead_job_attempts", job) == 0
    page.leads = False
    assert page.value("fairlead_job_attempts", job) is None
