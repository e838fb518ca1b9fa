"""When jobs are polled, and that a pass never waits for it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import cast

import pytest
from fake_timers import FakeTimers
from handler_objects import job_body, pod_body

from fairlead.api.transferjob import TransferJob
from fairlead.core.observed import MoverPod
from fairlead.core.poll_wishes import MOST_POLLS_A_SECOND
from fairlead.core.reports import MoverEndpoint, Reports
from fairlead.handlers.cache import ObjectKey
from fairlead.handlers.polling import FORGOTTEN_SECONDS, ReportPoller
from fairlead.kube.observe.pods import read_owned_pod
from fairlead.kube.observe.reports import ReportReader

pytestmark = pytest.mark.asyncio

KEY = ObjectKey("lab", "job")
JOB = TransferJob.from_object(job_body())
BEGUN = FakeTimers().time()
UP = datetime(2026, 1, 1, tzinfo=UTC)
"""When movers have become ready, in the moment in which a test begins."""
OLD = timedelta(hours=5)
ENDPOINT = MoverEndpoint("data0", "198.19.0.2", 24000)


class FakeReader:
    """Answers a poll when the test lets it."""

    def __init__(self) -> None:
        self.polls: list[tuple[str, tuple[str, ...], str]] = []
        self.forgotten: list[str] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.failures: list[Exception] = []
        self.unheard: dict[str, float] = {}
        """For how long the movers of jobs have been asked in vain, by UID."""
        self.unknown: set[str] = set()
        """UIDs of the jobs whose receiver's endpoint is not known."""

    async def read(self, job_uid: str, pods: Sequence[MoverPod], tenant: str) -> Reports:
        self.polls.append((job_uid, tuple(pod.uid for pod in pods), tenant))
        await self.may_answer.wait()
        if self.failures:
            raise self.failures.pop()
        return Reports()

    def known(self, job_uid: str, pods: Sequence[MoverPod]) -> Reports:
        return Reports(
            receiver_endpoint=None if job_uid in self.unknown else ENDPOINT,
            advisor_silent_seconds=float(len(self.polls)),
            sender_unheard_seconds=self.unheard.get(job_uid),
        )

    def forget(self, job_uid: str) -> None:
        self.forgotten.append(job_uid)


class Bench:
    def __init__(self, most_a_second: float = MOST_POLLS_A_SECOND) -> None:
        self.timers = FakeTimers()
        self.reader = FakeReader()
        self.read: list[ObjectKey] = []
        self.competing: set[str] = set()
        self.poller = ReportPoller(
            cast(ReportReader, self.reader),
            self.timers,
            3.0,
            self.read.append,
            now=lambda: UP + timedelta(seconds=self.timers.time() - BEGUN),
            competes=lambda uid: uid in self.competing,
            most_a_second=most_a_second,
        )

    async def advance(self, seconds: float) -> None:
        for _ in range(round(seconds * 10)):
            self.timers.advance(0.1)
            await settle()

    def look(self, *pods: MoverPod, uid: str = "job-uid", namespace: str = "lab") -> Reports:
        metadata = JOB.metadata.model_copy(update={"uid": uid, "namespace": namespace, "name": uid})
        return self.poller.latest(JOB if uid == "job-uid" else JOB.model_copy(update={"metadata": metadata}), pods)

    async def carry_on(self, seconds: float, *pods: MoverPod) -> Counter[str]:
        """Lets time pass, with a pass over each job as soon as it was polled, and returns how often each was."""
        before = len(self.reader.polls)
        for _ in range(round(seconds * 10)):
            self.timers.advance(0.1)
            await settle()
            read, self.read[:] = list(self.read), []
            for key in read:
                self.look(*pods, uid=key.name, namespace=key.namespace)
        return Counter(uid for uid, _, _ in self.reader.polls[before:])


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def mover(role: str = "receiver", uid: str = "pod-uid", *, ready: bool = True, phase: str = "Running") -> MoverPod:
    owned = read_owned_pod(pod_body(role, uid=uid, phase=phase))
    assert owned is not None
    return replace(owned.pod, ready=ready, ready_since=UP)


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


async def test_a_job_that_is_gone_is_forgotten_at_once_and_one_of_its_name_is_polled_as_another() -> None:
    bench = Bench()
    bench.look(mover())
    bench.poller.drop(KEY)
    bench.poller.drop(KEY)
    assert bench.reader.forgotten == ["job-uid"]
    await bench.advance(10.0)
    assert bench.reader.polls == []
    bench.look(mover())
    await bench.advance(0.1)
    assert len(bench.reader.polls) == 1


async def test_a_job_whose_passes_fail_is_polled_on_for_minutes() -> None:
    bench = Bench()
    bench.look(mover())
    await bench.advance(300.0)
    assert (len(bench.reader.polls) >= 95, bench.reader.forgotten) == (True, [])


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


def old(role: str = "receiver") -> MoverPod:
    return replace(mover(role), ready_since=UP - OLD)


async def test_few_jobs_are_polled_in_each_interval_however_old_they_are() -> None:
    bench = Bench()
    for number in range(30):
        bench.look(old(), uid=f"job-{number}")
    await bench.carry_on(30.0, old())
    polls = await bench.carry_on(30.0, old())
    assert (len(polls), min(polls.values()) >= 9, max(polls.values()) <= 10) == (30, True, True)


MANY = range(200)
"""So many jobs that each has its turn in 20 seconds where ten are polled in one."""
BUDGET = 10.0


async def beside_many(competing: Collection[int] = ()) -> Bench:
    """Jobs whose movers were up long before the operator began, and of which not all can be polled in each interval, after two minutes."""
    bench = Bench(BUDGET)
    bench.competing = {f"job-{number}" for number in competing}
    for number in MANY:
        bench.look(old(), uid=f"job-{number}")
    await bench.carry_on(120.0, old())
    return bench


async def test_after_a_change_of_the_operator_many_jobs_are_polled_evenly_within_the_budget() -> None:
    bench = Bench(BUDGET)
    for number in MANY:
        bench.look(old(), uid=f"job-{number}")
    for _ in range(20):
        assert (await bench.carry_on(1.0, old())).total() == pytest.approx(BUDGET, abs=3)
    polls = await bench.carry_on(60.0, old())
    assert (polls.total(), len(polls), set(polls.values())) == (pytest.approx(60 * BUDGET, abs=2), len(MANY), {3})
    assert bench.poller.due > 100


async def test_where_not_all_can_be_polled_those_come_first_whose_rate_decides_what_others_get() -> None:
    competing = range(12)
    bench = await beside_many(competing)
    polls = await bench.carry_on(120.0, old())
    assert min(polls[f"job-{number}"] for number in competing) >= 35
    assert min(polls[f"job-{number}"] for number in MANY) >= 3


async def test_a_mover_that_has_just_come_up_is_polled_at_once_beside_many() -> None:
    bench = await beside_many()
    bench.look(replace(mover(), ready_since=UP + timedelta(seconds=120)), uid="new")
    assert (await bench.carry_on(0.2, old()))["new"] == 1


async def test_a_receiver_whose_first_poll_was_in_vain_is_asked_again_in_each_interval_beside_many() -> None:
    bench = await beside_many()
    bench.reader.unknown = {"new"}
    bench.look(replace(mover(), ready_since=UP + timedelta(seconds=120)), uid="new")
    assert (await bench.carry_on(10.0, old()))["new"] >= 3


async def test_a_namespace_with_many_jobs_takes_no_polls_from_another_one() -> None:
    bench = await beside_many()
    bench.look(old(), uid="other", namespace="other")
    assert (await bench.carry_on(30.0, old()))["other"] >= 9


async def test_a_mover_that_has_just_fallen_silent_is_asked_again_before_those_that_answer() -> None:
    bench = await beside_many()
    bench.reader.unheard["job-7"] = 0.0
    bench.look(old(), uid="job-7")
    assert (await bench.carry_on(20.0, old()))["job-7"] >= 5


async def test_a_job_that_is_polled_once_in_minutes_is_not_taken_for_one_that_is_gone() -> None:
    bench = Bench(1.0)
    for number in MANY:
        bench.look(old(), uid=f"job-{number}")
    polls = await bench.carry_on(450.0, old())
    assert (len(polls), set(polls.values()), bench.reader.forgotten) == (200, {2, 3}, [])


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
