"""Which pods are a job's: those whose UIDs its status has, as the API server gave them when the operator created the pods.

Nothing else on a pod proves where it comes from: whoever may create pods can write labels, owner, name and annotations. A new pod has a
scheduling gate, which the operator removes after its UID is in the status. If the operator ends in between, or the answer to the creation
is lost, the pod never runs, and another one is created.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fairlead.api.names import GATE_RECORDED
from fairlead.api.transferjob import TransferJobStatus
from fairlead.api.transferjob.status import MOST_PODS, EndpointsStatus, EndpointStatus, PodRecord
from fairlead.core.observed import MoverPod, Observed
from fairlead.core.plan import ReleasePod

_ENDS = {"sender": "source", "receiver": "destination"}
"""The field of `endpoints` for each role."""


def record_of(observed: Observed, latest_attempt: int) -> tuple[PodRecord, ...] | None:
    """What the status records: pods that exist, and of the latest attempt, which may begin with this pass, the last one of each role even
    if it is gone; None for none."""
    before, pods = observed.job.status.pods or (), {pod.uid: pod for pod in observed.pods}
    known = {record.uid for record in before}
    added = [_record(pod) for uid, pod in pods.items() if uid not in known]
    last = {(record.role, record.attempt): record.uid for record in (*before, *added)}
    kept = [
        record
        for record in before
        if record.uid in pods or (record.attempt >= latest_attempt and last[record.role, record.attempt] == record.uid)
    ]
    return _bounded([*kept, *added])


def with_created(status: TransferJobStatus, created: Iterable[PodRecord]) -> TransferJobStatus:
    """The status with pods that were created after it was decided, and movers among them as the ends that they are."""
    added = [record for record in created if record.uid not in status.pod_uids]
    if not added:
        return status
    ends = {_ENDS[record.role]: EndpointStatus(pod=record.name) for record in added if record.role in _ENDS}
    endpoints = (status.endpoints or EndpointsStatus()).model_copy(update=ends) if ends else status.endpoints
    return status.model_copy(update={"pods": _bounded([*(status.pods or ()), *added]), "endpoints": endpoints})


def releases_of(observed: Observed, removed: Iterable[str]) -> tuple[ReleasePod, ...]:
    """Pods that were recorded and still have the gate, without those whose UIDs are `removed`."""
    recorded, gone = {record.uid for record in record_of(observed, observed.latest_attempt) or ()}, set(removed)
    return tuple(
        ReleasePod(pod.name, pod.uid, tuple(gate for gate in pod.gates if gate != GATE_RECORDED))
        for pod in observed.pods
        if GATE_RECORDED in pod.gates and not pod.deleting and pod.uid in recorded and pod.uid not in gone
    )


def _record(pod: MoverPod) -> PodRecord:
    return PodRecord(uid=pod.uid, name=pod.name, role=pod.role.value, attempt=pod.attempt)


def _bounded(records: Sequence[PodRecord]) -> tuple[PodRecord, ...] | None:
    return tuple(records[-MOST_PODS:]) or None
