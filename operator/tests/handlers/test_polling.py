"""When jobs are polled, and that a pass never waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import pytest
from fake_timers import FakeTimers
from handler_objects import job_body, pod_body

from fairlead.api.transferjob import TransferJob
from fairlead.core.observed import MoverPod
from fairlead.core.reports import Reports
from fairlead.handlers.cache import ObjectKey
from fairlead.handlers.polling import FORGOTTEN_SECONDS, ReportPoller
from fairlead.kube.observe.pods import read_owned_pod
from fairlead.kube.observe.reports import ReportReader

pytestmark = pytest.mark.asyncio

KEY = ObjectKey("lab", "job")
JOB = TransferJob.from_object(job_body())


class FakeReader:
    """Answers a poll when the test lets it."""

    def __init__(self) -> None:
        self.polls: list[tuple[str, tuple[str, ...], str]] = []
        self.forgotten: list[str] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.failures: list[Exception] = []

    async def read(self, job_uid: str, pods: Sequence[MoverPod], tenant: str) -> Reports:
        self.polls.append((job_uid, tuple(pod.uid for pod in pods), tenant))
        await self.may_answer.wait()
        if self.failures:
            raise self.failures.pop()
        return Reports()

    def known(self, job_uid: str, pods: Sequence[MoverPod]) -> Reports:
        return Reports(advisor_silent_seconds=float(len(self.polls)))

    def forget(self, job_uid: str) -> None:
        self.forgotten.append(job_uid)


class Bench:
    def __init__(self) -> None:
        self.timers = FakeTimers()
        self.reader = FakeReader()
        self.read: list[ObjectKey] = []
        self.poller = ReportPoller(cast(ReportReader, self.reader), self.timers, 3.0, self.read.append)

    async def advance(self, seconds: float) -> None:
        for _ in range(round(seconds * 10)):
            self.timers.advance(0.1)
            await settle()

    def look(self, *pods: MoverPod) -> Reports:
        return self.poller.latest(JOB, pods)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def mover(role: str = "receiver", uid: str = "pod-uid", *, ready: bool = True, phase: str = "Running") -> MoverPod:
    owned = read_owned_pod(pod_body(role, uid=uid, phase=phase))
    assert owned is not None
    return replace(owned.pod, ready=ready)


async def test_a_pass_gets_what_is_known_and_the_poll_that_it_asks_for_wakes_the_job() -> None:
    bench = Bench()
    bench.reader.may_answer.clear()
    assert bench.look(mover()).advisor_silent_seconds == 0.0
    await bench.advance(0.1)
    assert (bench.reader.polls, bench.read) == ([("job-uid", ("pod-uid",), "lab")], [])
    assert bench.look(mover()).advisor_silent_seconds == 1.0
    bench.reader.may_answer.set()
    await settle()
    assert bench.read == [KEY]


async def test_each_job_is_polled_once_in_an_interval_however_many_passes_look_at_it() -> None:
    bench = Bench()
    for _ in range(90):
        bench.look(mover())
        await bench.advance(0.1)
    assert 3 <= len(bench.reader.polls) <= 4
    assert len(bench.read) == len(bench.reader.polls)


async def test_until_its_advisor_has_decided_a_job_is_polled_every_second() -> None:
    bench = Bench()
    for _ in range(90):
        bench.look(mover(), mover("sender", "sender-uid"))
        await bench.advance(0.1)
    assert 9 <= len(bench.reader.polls) <= 11


@pytest.mark.parametrize("change", ["a new pod", "a pod that became ready"])
async def test_a_change_of_the_pods_is_polled_at_once_also_when_a_poll_is_under_way(change: str) -> None:
    bench, first = Bench(), mover(ready=change == "a new pod")
    second = mover(uid="other") if change == "a new pod" else mover()
    bench.look(first)
    await bench.advance(0.1)
    bench.look(second)
    await bench.advance(0.1)
    assert len(bench.reader.polls) == 2
    bench.reader.may_answer.clear()
    bench.look(first)
    await bench.advance(3.0)
    assert len(bench.reader.polls) == 3
    bench.look(mover(uid="third"))
    await bench.advance(3.0)
    assert len(bench.reader.polls) == 3
    bench.reader.may_answer.set()
    await bench.advance(0.2)
    assert bench.reader.polls[-1][1] == ("third",)


@pytest.mark.parametrize("pods", [(), (mover(phase="Pending"),), (mover(phase="Succeeded"),)])
async def test_a_job_without_running_movers_is_not_polled_and_what_it_reported_is_forgotten(pods: tuple[MoverPod, ...]) -> None:
    bench = Bench()
    bench.look(*pods)
    await bench.advance(10.0)
    assert not bench.reader.polls
    bench.look(mover())
    await bench.advance(0.1)
    bench.look(*pods)
    await bench.advance(10.0)
    assert (len(bench.reader.polls), bench.reader.forgotten) == (1, ["job-uid"])


async def test_a_job_that_no_pass_looks_at_any_more_is_forgotten() -> None:
    bench = Bench()
    bench.look(mover())
    await bench.advance(2 * FORGOTTEN_SECONDS)
    polls = len(bench.reader.polls)
    assert bench.reader.forgotten == ["job-uid"]
    await bench.advance(FORGOTTEN_SECONDS)
    assert len(bench.reader.polls) == polls


async def test_a_defect_in_one_poll_is_logged_and_polling_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.reader.failures = [RuntimeError("oh")]
    bench.look(mover())
    await bench.advance(0.1)
    assert "defect" in caplog.text
    bench.look(mover())
    await bench.advance(3.0)
    assert len(bench.reader.polls) == 2


async def test_stopping_ends_polls_under_way_and_begins_no_others() -> None:
    bench = Bench()
    bench.poller.start()
    bench.reader.may_answer.clear()
    bench.look(mover())
    await bench.advance(0.1)
    await bench.poller.stop()
    bench.look(mover())
    await bench.advance(10.0)
    assert (len(bench.reader.polls), bench.poller.ended(), bench.read) == (1, [], [])
