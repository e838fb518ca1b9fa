"""A job that this version cannot read, as of a later version's definition: it is told so, its movers run on, and it can be deleted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from fairlead.api.names import FINALIZER
from fairlead.api.reasons import ConditionType, EventReason, Reason
from fairlead.api.shared.fields import Condition
from fairlead.api.transferjob import TransferJob, TransferJobStatus
from fairlead.core.conditions import Conditions
from fairlead.core.lifecycle.events import event_of
from fairlead.core.lifecycle.outcome import deletes
from fairlead.core.observed import MoverPod
from fairlead.core.plan import Plan
from fairlead.core.verdicts import is_live

_LOOK_AGAIN = timedelta(seconds=3)
_ANY_END = {"volume": {"persistentVolumeClaim": {"claimName": "unknown"}}}


def stand_in(body: Mapping[str, Any]) -> TransferJob:
    """The job's metadata as a job, for what needs no more. Raises InvalidResourceError."""
    return TransferJob.from_object({**body, "spec": {"source": _ANY_END, "destination": _ANY_END}, "status": {}})


def dismantle(job: TransferJob, pods: Iterable[MoverPod]) -> Plan:
    """What deletion takes: its pods go, then its finalizer. Where its partial files are nobody can tell."""
    pods = tuple(pods)
    if any(is_live(pod) for pod in pods):
        return Plan(deletes=deletes(pods), requeue_after=_LOOK_AGAIN)
    message = (
        f"the job cannot be read, so nothing was removed from its destination: a directory .fairlead-{job.metadata.uid} may be left there;"
        " remove it by hand"
    )
    skipped = event_of(EventReason.CLEANUP_SKIPPED, message, warning=True)
    return Plan(deletes=deletes(pods), events=(skipped,), finalizer=False) if job.holds_finalizer else Plan(deletes=deletes(pods))


def conditions_after(body: Mapping[str, Any], problem: str, now: datetime) -> list[dict[str, Any]] | None:
    """The conditions that say so, as the status has them; None if they are there. Others stay as far as they can be read."""
    before = [condition for raw in _listed(body) if (condition := _readable(raw)) is not None]
    conditions = Conditions(before, generation=int(body["metadata"].get("generation") or 0), now=now.replace(microsecond=0))
    message = f"the operator cannot read the job: {problem}. Movers that run go on; correct the field, or delete the job"
    conditions.set(ConditionType.ACCEPTED, "False", Reason.INVALID_SPEC, message)
    conditions.set(ConditionType.RECONCILING, "False", Reason.INVALID_SPEC, message)
    conditions.set(ConditionType.STALLED, "True", Reason.INVALID_SPEC, message)
    after = conditions.build()
    if after == tuple(before):
        return None
    told: list[dict[str, Any]] = TransferJobStatus(conditions=after).to_object()["conditions"]
    return told


def is_held(body: Mapping[str, Any]) -> bool:
    """Whether it is being deleted and waits for this operator."""
    metadata = body["metadata"]
    return metadata.get("deletionTimestamp") is not None and FINALIZER in (metadata.get("finalizers") or [])


def _listed(body: Mapping[str, Any]) -> list[Any]:
    status = body.get("status")
    conditions = status.get("conditions") if isinstance(status, Mapping) else None
    return conditions if isinstance(conditions, list) else []


def _readable(raw: object) -> Condition | None:
    try:
        return Condition.model_validate(raw)
    except ValueError:
        return None
