"""Jobs that Kueue queues: what has to be done for a job and its Workload, the object by which Kueue gives out a link's bandwidth.

Kueue alone decides when such a job runs; it says so by the Workload's conditions, and the operator follows with `spec.suspend`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from fairlead.api import names
from fairlead.api.reasons import ConditionType
from fairlead.api.transferjob import TransferJob

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
BANDWIDTH = f"{names.GROUP}/bandwidth"
"""The resource of a ClusterQueue: bits per second of a link."""


class QueueStep(Enum):
    """What is due for a queued job."""

    NOTHING = auto()
    SUSPEND = auto()
    RESUME = auto()
    CREATE = auto()
    """Ask Kueue for its bandwidth."""
    RELEASE = auto()
    """Give back the bandwidth that Kueue wants: the movers have stopped."""
    FINISH = auto()
    """Tell Kueue that the job has ended."""


@dataclass(frozen=True, slots=True)
class WorkloadFacts:
    """What a Workload's status says."""

    admitted: bool = False
    evicted: bool = False
    holds_quota: bool = False
    finished: bool = False
    active: bool = True


def is_queued(job: TransferJob) -> bool:
    """Whether Kueue decides when the job runs."""
    return bool(job.metadata.labels.get(QUEUE_LABEL)) and job.spec.managed_by == names.CONTROLLER and not job.deleting


def step_of(job: TransferJob, workload: WorkloadFacts | None) -> QueueStep:
    """What is due now; the next look finds what is due after it."""
    if job.status.finished:
        return QueueStep.FINISH if workload is not None and not workload.finished else QueueStep.NOTHING
    if workload is not None and workload.admitted and not workload.evicted and workload.active:
        return QueueStep.RESUME if job.spec.suspend else QueueStep.NOTHING
    if not job.spec.suspend:
        return QueueStep.SUSPEND
    if not job.status.is_true(ConditionType.SUSPENDED):
        return QueueStep.NOTHING
    if workload is None:
        return QueueStep.CREATE
    return QueueStep.RELEASE if workload.evicted and workload.holds_quota else QueueStep.NOTHING


def rate_of(job: TransferJob) -> str | None:
    """The bandwidth that the job asks Kueue for: its limit, or what it is guaranteed; None if it names neither."""
    wanted = job.spec.bandwidth
    return None if wanted is None else wanted.limit or wanted.guarantee


def facts_of(workload: Mapping[str, Any]) -> WorkloadFacts:
    """What the object says."""
    status = workload.get("status") or {}
    true = {each.get("type") for each in status.get("conditions") or [] if each.get("status") == "True"}
    return WorkloadFacts(
        admitted="Admitted" in true,
        evicted="Evicted" in true,
        holds_quota=status.get("admission") is not None,
        finished="Finished" in true,
        active=(workload.get("spec") or {}).get("active") is not False,
    )


def workload_of(job: TransferJob, rate: str) -> dict[str, Any]:
    """The Workload by which the job asks for its bandwidth. The pod is Kueue's unit of asking and never made."""
    owner = {"apiVersion": names.API_VERSION, "kind": names.KIND, "name": job.metadata.name, "uid": job.metadata.uid, "controller": True}
    container = {"name": "link", "image": "none", "resources": {"requests": {BANDWIDTH: rate}, "limits": {BANDWIDTH: rate}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": workload_name(job),
            "namespace": job.metadata.namespace,
            "labels": {names.LABEL_JOB_UID: job.metadata.uid},
            "ownerReferences": [owner],
        },
        "spec": {
            "active": True,
            "queueName": job.metadata.labels[QUEUE_LABEL],
            "priority": job.spec.priority,
            "podSets": [{"name": "main", "count": 1, "template": template}],
        },
    }


def workload_name(job: TransferJob) -> str:
    """The name of the job's Workload; another job of the same name has another one."""
    return f"transferjob-{job.metadata.uid}"


def released(conditions: Iterable[Mapping[str, Any]], now: str) -> list[dict[str, Any]]:
    """The conditions of a Workload that has given back its bandwidth and asks for it again."""
    again = "asks for its bandwidth again"
    changes = {
        "QuotaReserved": ("False", "Pending", "the movers have stopped"),
        "Admitted": ("False", "NoReservation", "the movers have stopped"),
        "Requeued": ("True", "Preempted", again),
    }
    return _with(conditions, changes, now)


def ended(conditions: Iterable[Mapping[str, Any]], job: TransferJob, now: str) -> list[dict[str, Any]]:
    """The conditions of a Workload whose job has ended."""
    succeeded = job.status.is_true(ConditionType.SUCCEEDED)
    condition = job.status.condition(ConditionType.SUCCEEDED if succeeded else ConditionType.FAILED)
    told = "" if condition is None else condition.message
    return _with(conditions, {"Finished": ("True", "Succeeded" if succeeded else "Failed", told)}, now)


def _with(conditions: Iterable[Mapping[str, Any]], changes: Mapping[str, tuple[str, str, str]], now: str) -> list[dict[str, Any]]:
    kept = [dict(each) for each in conditions if each.get("type") not in changes]
    return kept + [
        {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": now}
        for kind, (status, reason, message) in changes.items()
    ]
