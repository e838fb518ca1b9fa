"""The plan of one pass while it is being made: facts at hand, the status as it shall be, and the effects so far."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from fairlead.api import names
from fairlead.api.reasons import ConditionType
from fairlead.api.transferjob import TransferJobStatus
from fairlead.core.conditions import Conditions
from fairlead.core.lifecycle.events import events_between
from fairlead.core.model import AnnotatePod, DeletePod, MoverPod, Observed, Plan, Role
from fairlead.core.status import is_worth_writing, phase_of
from fairlead.core.verdicts import is_live

_SOON = timedelta(milliseconds=100)


class Draft:
    """Collects what a pass decides. Local to one call of `decide`, which stays pure."""

    def __init__(self, observed: Observed, now: datetime) -> None:
        self.observed = observed
        self.job = observed.job
        self.settings = observed.settings
        self.now = now
        self.stored_now = now.replace(microsecond=0)
        self.status = observed.job.status
        self.conditions = Conditions(self.status.conditions, generation=self.job.metadata.generation, now=self.stored_now)
        self.effects = Plan()
        self._wake_after: timedelta | None = None

    def pods(self, *roles: Role) -> tuple[MoverPod, ...]:
        """The job's pods of these roles, of every attempt."""
        return tuple(pod for pod in self.observed.pods if pod.role in roles)

    def movers(self) -> tuple[MoverPod, ...]:
        """Senders and receivers of every attempt."""
        return self.pods(Role.SENDER, Role.RECEIVER)

    def mover(self, role: Role, attempt: int) -> MoverPod | None:
        """The attempt's pod of that role, None if there is none in sight."""
        return next((pod for pod in self.pods(role) if pod.attempt == attempt), None)

    def child_name(self, role: Role, attempt: int) -> str:
        """The name that the attempt's pod of that role has."""
        return names.child_name(self.job.metadata.name, self.job.metadata.uid, role.value, attempt)

    def holds_finalizer(self) -> bool:
        """Whether the job is held until its partial files are gone."""
        return names.FINALIZER in self.job.metadata.finalizers

    def change(self, **fields: Any) -> None:
        """Sets fields of the status by their Python names."""
        unknown = fields.keys() - TransferJobStatus.model_fields.keys()
        if unknown:
            raise TypeError(f"status has no field {', '.join(sorted(unknown))}")
        self.status = self.status.model_copy(update=fields)

    def delete(self, pods: Iterable[MoverPod]) -> None:
        """Removes pods, except those that are being removed."""
        planned = {delete.uid for delete in self.effects.deletes}
        deletes = tuple(DeletePod(pod.name, pod.uid, pod.resource_version) for pod in pods if not pod.deleting and pod.uid not in planned)
        self.add(deletes=self.effects.deletes + deletes)

    def delete_live_movers(self) -> None:
        """Stops every sender and receiver. Pods that have ended stay: their logs tell the story."""
        self.delete(pod for pod in self.movers() if is_live(pod))

    def annotate(self, change: AnnotatePod) -> None:
        """Sets annotations of a pod, beside those of others."""
        self.add(annotations=(*self.effects.annotations, change))

    def add(self, **effects: Any) -> None:
        """Sets effects of the plan by the names of its fields."""
        self.effects = replace(self.effects, **effects)

    def wake_after(self, delay: timedelta) -> None:
        """Asks for another pass after `delay`; the earliest wish counts."""
        delay = max(delay, _SOON)
        self._wake_after = delay if self._wake_after is None else min(self._wake_after, delay)

    def wake_at(self, moment: datetime) -> None:
        """Asks for another pass at `moment`."""
        self.wake_after(moment - self.now)

    def kstatus(self, *, reconciling: bool, stalled: bool, reason: str, message: str) -> None:
        """Sets the two conditions that kstatus reads."""
        self.conditions.set(ConditionType.RECONCILING, "True" if reconciling else "False", reason, message)
        self.conditions.set(ConditionType.STALLED, "True" if stalled else "False", reason, message)

    def plan(self) -> Plan:
        """The finished plan; the status is left out unless it is worth a write."""
        before = self.job.status
        after = self.status.model_copy(
            update={"conditions": self.conditions.build(), "observed_generation": self.job.metadata.generation},
        )
        after = after.model_copy(update={"phase": phase_of(after)})
        news = is_worth_writing(before, after, self.now, self.settings.status_interval)
        return replace(
            self.effects,
            status=after if news else None,
            # What is not written would be told again in the next pass.
            events=(events_between(before, after) if news else ()) + self.effects.events,
            requeue_after=self._wake_after,
        )
