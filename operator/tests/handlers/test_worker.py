"""The one worker of jobs, paths and fairness: what an error's properties lead to, and how it is started, checked and stopped."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta

import pytest
from fake_timers import FakeTimers

from fairlead.api.shared.errors import InvalidResourceError
from fairlead.handlers.queue import Backoff, WorkQueue
from fairlead.handlers.worker import STUCK_SECONDS, BackgroundLoop, ErrorPolicy, ErrorResponse, NotHealthyError, Worker, response_to
from fairlead.kube.errors import ConflictError, ForbiddenError, InvalidError, RefusedError, ThrottledError, UnavailableError
from fairlead.kube.objects.build import BuildError


@pytest.mark.parametrize(
    ("error", "response"),
    [
        (ConflictError("old"), ErrorResponse("Conflict", logging.DEBUG)),
        (ThrottledError("later", retry_after_seconds=17), ErrorResponse("Throttled", logging.DEBUG, delay_seconds=17.0)),
        (ThrottledError("later"), ErrorResponse("Throttled", logging.DEBUG, delay_seconds=5.0)),
        (UnavailableError("down", retry_after_seconds=17), ErrorResponse("Unavailable", logging.WARNING)),
        (ForbiddenError("no right"), ErrorResponse("Forbidden", logging.WARNING)),
        (RefusedError("quota"), ErrorResponse("Refused", logging.WARNING)),
        (InvalidError("no such field"), ErrorResponse("Invalid", logging.ERROR)),
        (InvalidResourceError("spec.network"), ErrorResponse("InvalidResource", logging.ERROR, retries=False)),
        (BuildError("no endpoint"), ErrorResponse("Build", logging.ERROR, is_defect=True)),
        (ZeroDivisionError(), ErrorResponse("Internal", logging.ERROR, is_defect=True)),
    ],
)
def test_an_error_is_answered_by_its_own_properties(error: Exception, response: ErrorResponse) -> None:
    assert response_to(error) == response


class Bench:
    """A worker whose passes fail with what the test puts into `failures`."""

    def __init__(self, *, count: int = 1) -> None:
        self.timers = FakeTimers()
        self.queue: WorkQueue[str] = WorkQueue(self.timers, Backoff(1.0, 8.0))
        self.failures: list[Exception] = []
        self.again: timedelta | None = None
        self.counted: list[str] = []
        self.remembered: list[tuple[str, Exception]] = []
        policy: ErrorPolicy[str] = ErrorPolicy(lambda key: f"job {key}", self.counted.append, self._remember)
        self.worker = Worker("worker", self.queue, self._reconcile, policy, count=count, busy_with="a worker has been busy")

    async def _reconcile(self, key: str) -> timedelta | None:
        if self.failures:
            raise self.failures.pop(0)
        return self.again

    async def _remember(self, key: str, error: Exception) -> None:
        self.remembered.append((key, error))


@pytest.mark.asyncio
async def test_a_failed_pass_is_counted_remembered_and_tried_again_after_the_back_off() -> None:
    bench, error = Bench(), UnavailableError("down")
    bench.failures = [error]
    await bench.worker.handle("one")
    assert (bench.counted, bench.remembered) == (["Unavailable"], [("one", error)])
    bench.timers.advance(0.9)
    assert bench.queue.depth == 0
    bench.timers.advance(0.2)
    assert bench.queue.depth == 1


@pytest.mark.asyncio
async def test_a_pass_that_went_well_comes_again_when_it_asks_to() -> None:
    bench = Bench()
    bench.again = timedelta(seconds=3)
    await bench.worker.handle("one")
    bench.timers.advance(3.1)
    assert (bench.queue.depth, bench.counted) == (1, [])


@pytest.mark.asyncio
async def test_an_object_that_cannot_be_read_waits_for_an_event() -> None:
    bench = Bench()
    bench.failures = [InvalidResourceError("spec.network")]
    await bench.worker.handle("one")
    assert (bench.queue.depth, bench.queue.scheduled, bench.counted) == (0, 0, ["InvalidResource"])


@pytest.mark.asyncio
async def test_a_pass_that_is_stuck_makes_the_process_unhealthy() -> None:
    bench = Bench()
    bench.queue.add("one")
    await bench.queue.get()
    assert bench.worker.check() == {}
    bench.timers.advance(STUCK_SECONDS + 1)
    with pytest.raises(NotHealthyError, match="a worker has been busy for 601 s"):
        bench.worker.check()


@pytest.mark.asyncio
async def test_a_worker_that_is_stopped_ends_all_its_tasks() -> None:
    bench = Bench(count=2)
    bench.worker.start()
    await asyncio.sleep(0)
    assert bench.worker.ended() == []
    await bench.worker.stop()
    assert bench.worker.ended() == ["worker 0", "worker 1"]


@pytest.mark.asyncio
async def test_a_loop_that_ends_by_itself_is_known_by_name() -> None:
    async def run() -> None:
        return

    loop = BackgroundLoop("sweeper", run, lambda: {"last_list_seconds": 1.0})
    loop.start()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (loop.ended(), loop.check()) == (["sweeper"], {"last_list_seconds": 1.0})
    await loop.stop()
