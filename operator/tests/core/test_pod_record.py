"""Which pods a job's status records, and which of them may be placed."""

from __future__ import annotations

import pytest
from job_builders import NOW, cleaner, make_job, observe, receiver, sender

from fairlead.api.names import GATE_RECORDED
from fairlead.api.transferjob import TransferJobStatus
from fairlead.api.transferjob.status import MOST_PODS, EndpointsStatus, EndpointStatus, PodRecord
from fairlead.core.lifecycle import decide
from fairlead.core.observed import MoverPod, PodPhase
from fairlead.core.plan import ReleasePod
from fairlead.core.pod_record import record_of, releases_of, with_created


def _record(pod: MoverPod) -> PodRecord:
    return PodRecord(uid=pod.uid, name=pod.name, role=pod.role.value, attempt=pod.attempt)


def _status(*pods: MoverPod, attempts: int = 1) -> TransferJobStatus:
    return TransferJobStatus(attempts=attempts, pods=tuple(map(_record, pods)) or None)


FIRST, SECOND, NEXT = receiver(), sender(), receiver(attempt=2, uid="next")
CLEANER, AGAIN = cleaner(uid="cleaner"), cleaner(uid="again")


@pytest.mark.parametrize(
    ("what", "before", "attempts", "present", "after"),
    [
        ("nothing at first", (), 1, (), ()),
        ("a pod whose record was not written", (), 1, (FIRST,), (FIRST,)),
        ("a pod of the latest attempt that is gone, so that it can be missed", (FIRST,), 1, (), (FIRST,)),
        ("both ends", (FIRST,), 1, (FIRST, SECOND), (FIRST, SECOND)),
        ("no pod of an earlier attempt that is gone", (FIRST, NEXT), 2, (NEXT,), (NEXT,)),
        ("a pod of an earlier attempt that is still there", (FIRST,), 2, (FIRST, NEXT), (FIRST, NEXT)),
        ("the last cleaner alone", (CLEANER,), 1, (AGAIN,), (AGAIN,)),
        ("two cleaners while both are there", (CLEANER,), 1, (CLEANER, AGAIN), (CLEANER, AGAIN)),
    ],
)
def test_the_record_has(
    what: str, before: tuple[MoverPod, ...], attempts: int, present: tuple[MoverPod, ...], after: tuple[MoverPod, ...]
) -> None:
    recorded = record_of(observe(make_job(status=_status(*before, attempts=attempts)), *present), attempts)
    assert recorded == (tuple(map(_record, after)) or None), what


def test_the_record_is_bounded_and_keeps_the_last() -> None:
    pods = [receiver(attempt=number, uid=f"uid-{number}") for number in range(1, MOST_PODS + 4)]
    recorded = record_of(observe(make_job(), *pods), 1) or ()
    assert [record.uid for record in recorded] == [f"uid-{number}" for number in range(4, MOST_PODS + 4)]


def test_pods_created_in_a_pass_come_after_the_others_and_once() -> None:
    status = with_created(with_created(_status(FIRST), [_record(SECOND)]), [_record(SECOND)])
    assert status.pods == (_record(FIRST), _record(SECOND))
    assert with_created(status, []) is status


def test_movers_created_in_a_pass_are_the_ends_from_then_on_and_a_cleaner_is_none() -> None:
    status = with_created(with_created(_status(), [_record(FIRST)]), [_record(SECOND)])
    assert status.endpoints == EndpointsStatus(source=EndpointStatus(pod=SECOND.name), destination=EndpointStatus(pod=FIRST.name))
    again = with_created(status, [_record(NEXT), _record(CLEANER)])
    assert again.endpoints == EndpointsStatus(source=EndpointStatus(pod=SECOND.name), destination=EndpointStatus(pod=NEXT.name))


@pytest.mark.parametrize(
    ("what", "pod", "removed", "released"),
    [
        ("a pod with the gate", receiver(gates=(GATE_RECORDED,)), (), (ReleasePod(FIRST.name, FIRST.uid),)),
        ("the gates of others", receiver(gates=("a", GATE_RECORDED, "b")), (), (ReleasePod(FIRST.name, FIRST.uid, ("a", "b")),)),
        ("a pod without it", receiver(gates=("a",)), (), ()),
        ("a pod that is being deleted", receiver(gates=(GATE_RECORDED,), deleting=True), (), ()),
        ("a pod that this pass deletes", receiver(gates=(GATE_RECORDED,)), (FIRST.uid,), ()),
    ],
)
def test_is_released(what: str, pod: MoverPod, removed: tuple[str, ...], released: tuple[ReleasePod, ...]) -> None:
    assert releases_of(observe(make_job(), pod), removed) == released, what


def test_a_pass_after_a_crash_records_what_the_pass_before_created_and_lets_it_be_placed() -> None:
    held = receiver(phase=PodPhase.PENDING, ready=False, node=None, gates=(GATE_RECORDED,))
    plan = decide(observe(make_job(finalizer=True, status=TransferJobStatus(attempts=1, attempt_start_time=NOW)), held), NOW)
    assert plan.status is not None
    assert plan.status.pods == (_record(held),)
    assert plan.releases == (ReleasePod(held.name, held.uid),)


def test_an_attempt_that_begins_drops_the_record_of_the_one_before_in_the_same_write() -> None:
    resumed = make_job(status=TransferJobStatus(attempts=1, start_time=NOW, pods=(_record(SECOND),)))
    status = decide(observe(resumed), NOW).status
    assert status is not None
    assert (status.attempts, status.pods) == (2, None)
