"""What one branch of a job's life concludes: a state with its reason, and everything that shall be done and written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import Enum, auto
from typing import Any

from fairlead.api.reasons import ConditionType
from fairlead.api.shared.fields import ConditionStatus
from fairlead.core.observed import MoverPod
from fairlead.core.plan import AnnotatePod, CreateCredentials, CreatePod, DeletePod, EmitEvent
from fairlead.core.verdicts import is_live


class JobState(Enum):
    """Where a job is in its life. `conclusion.py` derives the conditions `MoversReady`, `Reconciling` and `Stalled` from it."""

    UNCHANGED = auto()
    """Nothing new: the conditions stay as they are."""
    WAITING = auto()
    """Something outside the job keeps it from running, and may change by itself."""
    BLOCKED = auto()
    """Somebody has to act before the job can run."""
    SUSPENDED = auto()
    CLEARING = auto()
    """The next attempt waits until the pods of the one before are gone."""
    STARTING = auto()
    """An attempt is under way, and its movers are not up yet."""
    RUNNING = auto()
    """An attempt is under way, and both movers have come up."""
    UNDER_WAY = auto()
    """An attempt is under way, and nothing is new about its movers."""
    HALF_FAILED = auto()
    """An attempt is under way: one end has failed, and the other end may still explain why."""
    BACKING_OFF = auto()
    """An attempt has failed, and the next one starts after a pause."""
    REFUSED = auto()
    """The API server refuses to create a pod."""
    SUCCEEDED = auto()
    FAILED = auto()
    DELETING = auto()


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a condition shall be."""

    status: ConditionStatus
    reason: str
    message: str


Judgements = Mapping[ConditionType, Judgement | None]
"""Conditions by type; None removes one."""


@dataclass(frozen=True, slots=True)
class JobEffects:
    """What shall be done besides writing the status, see `Plan`."""

    finalizer: bool | None = None
    credentials: tuple[CreateCredentials, ...] = ()
    deletes: tuple[DeletePod, ...] = ()
    creates: tuple[CreatePod, ...] = ()
    annotations: tuple[AnnotatePod, ...] = ()
    events: tuple[EmitEvent, ...] = ()
    delete_job: bool = False
    proofs: tuple[DeletePod, ...] = ()

    def then(self, later: JobEffects) -> JobEffects:
        """Both; each pod is deleted once."""
        return JobEffects(
            finalizer=self.finalizer if later.finalizer is None else later.finalizer,
            credentials=self.credentials + later.credentials,
            deletes=tuple({delete.uid: delete for delete in (*self.deletes, *later.deletes)}.values()),
            creates=self.creates + later.creates,
            annotations=self.annotations + later.annotations,
            events=self.events + later.events,
            delete_job=self.delete_job or later.delete_job,
            proofs=self.proofs + later.proofs,
        )


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """The conclusion of one pass.

    `reason` and `message` explain `state`. `status` has the fields of the status that change, by their Python names, without conditions;
    `judgements` has the conditions that do not follow from `state`. `wake_after` is when to reconcile again, None for not at all.
    """

    state: JobState = JobState.UNCHANGED
    reason: str = ""
    message: str = ""
    status: Mapping[str, Any] = field(default_factory=dict)
    judgements: Judgements = field(default_factory=dict)
    effects: JobEffects = field(default_factory=JobEffects)
    wake_after: timedelta | None = None
    asks_for_links: bool = False

    def then(self, later: JobOutcome) -> JobOutcome:
        """Both: what `later` concludes takes precedence, its state unless it is UNCHANGED. The earlier of both wake times counts."""
        known = self if later.state is JobState.UNCHANGED else later
        return JobOutcome(
            state=known.state,
            reason=known.reason,
            message=known.message,
            status={**self.status, **later.status},
            judgements={**self.judgements, **later.judgements},
            effects=self.effects.then(later.effects),
            wake_after=earliest(self.wake_after, later.wake_after),
            asks_for_links=self.asks_for_links or later.asks_for_links,
        )

    def waking_after(self, delay: timedelta | None) -> JobOutcome:
        """The same with another pass after `delay` at the latest."""
        return replace(self, wake_after=earliest(self.wake_after, delay))


def earliest(*delays: timedelta | None) -> timedelta | None:
    """The shortest delay, None without any."""
    return min((delay for delay in delays if delay is not None), default=None)


def deletes(pods: Iterable[MoverPod]) -> tuple[DeletePod, ...]:
    """Removes pods, except those that are being removed already."""
    return tuple(DeletePod(pod.name, pod.uid, pod.resource_version) for pod in pods if not pod.deleting)


def stops(movers: Iterable[MoverPod]) -> JobEffects:
    """Stops senders and receivers. Pods that have ended stay, so that their logs can be read."""
    return JobEffects(deletes=deletes(pod for pod in movers if is_live(pod)))
