"""What happens to a job that has ended or is being deleted: movers stop, partial files go, the finalizer goes last."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from enum import Enum, auto

from fairlead.api.reasons import ConditionType, EventReason, Reason
from fairlead.core.lifecycle.admission import foreign_identity
from fairlead.core.lifecycle.events import event_of
from fairlead.core.lifecycle.outcome import JobEffects, JobOutcome, JobState, deletes, stops
from fairlead.core.lifecycle.placing import placed_end
from fairlead.core.observed import Observed, PodPhase, Role, latest_attempt_of
from fairlead.core.plan import CreatePod, DeletePod
from fairlead.core.verdicts import has_cleaned, has_ended, is_live, proven_success

_LAST_WORDS = timedelta(seconds=10)
"""How long the sender of a job that succeeded may take to end by itself."""

_NO_PORTS = 0

_NEVER_UP = frozenset({Reason.RECEIVER_NOT_READY, Reason.ATTACHMENT_FAILED})
"""Why an attempt fails whose receiver did not come up, before its sender is made."""


class _Cleaning(Enum):
    DONE = auto()
    UNDER_WAY = auto()
    GIVEN_UP = auto()


def finish(observed: Observed, now: datetime) -> JobOutcome:
    """A job that has succeeded or failed, and that nobody deletes: its record stays as it is."""
    job, outcome = observed.job, JobOutcome()
    completed = job.status.completion_time or now.replace(microsecond=0)
    if job.status.is_true(ConditionType.SUCCEEDED) and now < completed + _LAST_WORDS:
        if any(is_live(pod) for pod in observed.movers):
            outcome = outcome.waking_after(completed + _LAST_WORDS - now)
    else:
        outcome = JobOutcome(effects=stops(observed.movers))
    if job.holds_finalizer:
        cleaning, step = _clean(observed, completed, now)
        outcome = outcome.then(step)
        if cleaning is _Cleaning.DONE:
            outcome = outcome.then(_release(observed))
        elif cleaning is _Cleaning.GIVEN_UP:
            # The finalizer stays: deletion tries again, and the destination may be back by then.
            outcome = outcome.then(_without_cleaners(observed))
    else:
        outcome = outcome.then(_without_cleaners(observed))
    if job.spec.ttl_seconds_after_finished is None:
        return outcome
    expires = completed + timedelta(seconds=job.spec.ttl_seconds_after_finished)
    return outcome.then(JobOutcome(effects=JobEffects(delete_job=True))) if now >= expires else outcome.waking_after(expires - now)


def dismantle(observed: Observed, requested: datetime, now: datetime) -> JobOutcome:
    """A job that somebody deletes, in whatever state it is."""
    outcome = JobOutcome(effects=JobEffects(deletes=deletes(observed.movers)))
    if not observed.job.holds_finalizer:
        return outcome
    cleaning, step = _clean(observed, requested, now)
    outcome = outcome.then(step)
    if cleaning is _Cleaning.GIVEN_UP:
        skipped = event_of(EventReason.CLEANUP_SKIPPED, _left_behind(observed), warning=True)
        outcome = outcome.then(JobOutcome(effects=JobEffects(events=(skipped,))))
    if cleaning is not _Cleaning.UNDER_WAY:
        return outcome.then(_release(observed))
    message = "the job is being deleted: its movers are stopped, then its partial files are removed from the destination"
    return outcome.then(JobOutcome(JobState.DELETING, Reason.DELETING, message))


def _release(observed: Observed) -> JobOutcome:
    """Lets the job go, and its cleaners after it: the finalizer's removal may be refused, since others write to the job as well, and
    without their proof another cleaner would be needed."""
    cleaners = (pod for pod in observed.pods_of(Role.CLEANER) if not pod.deleting)
    # Their version may be another one by then: deletion without cascade takes away their owner.
    proofs = tuple(DeletePod(pod.name, pod.uid, resource_version=None) for pod in cleaners)
    return JobOutcome(effects=JobEffects(finalizer=False, proofs=proofs))


def _without_cleaners(observed: Observed) -> JobOutcome:
    return JobOutcome(effects=JobEffects(deletes=deletes(observed.pods_of(Role.CLEANER))))


def _clean(observed: Observed, since: datetime, now: datetime) -> tuple[_Cleaning, JobOutcome]:
    """Runs a cleaner at the destination until one reports that the partial files are gone, at most for the time an administrator allows."""
    uid, status, settings, cleaners = observed.job.metadata.uid, observed.job.status, observed.settings, observed.pods_of(Role.CLEANER)
    arrived = any(proven_success(pod, uid) for pod in observed.pods_of(Role.RECEIVER))
    if arrived or status.is_true(ConditionType.SUCCEEDED) or any(has_cleaned(pod, uid) for pod in cleaners) or _wrote_nothing(observed):
        return _Cleaning.DONE, JobOutcome()
    claim = observed.claims.get(observed.job.spec.destination.claim_name)
    left = since + settings.cleanup_timeout - now
    if (claim is not None and not claim.exists) or left <= timedelta() or foreign_identity(observed) is not None:
        return _Cleaning.GIVEN_UP, JobOutcome()
    step = JobOutcome().waking_after(left).waking_after(settings.poll_interval)
    if any(is_live(pod) for pod in observed.movers):
        return _Cleaning.UNDER_WAY, step
    if not cleaners:
        attempt = latest_attempt_of(observed.pods) or status.attempts or 1
        create = CreatePod(Role.CLEANER, attempt, _cleaner_node(observed), _NO_PORTS, on_host_network=False)
        return _Cleaning.UNDER_WAY, replace(step, effects=JobEffects(creates=(create,)))
    failed = (pod for pod in cleaners if has_ended(pod) and now >= pod.created_at + settings.backoff_first)
    return _Cleaning.UNDER_WAY, replace(step, effects=JobEffects(deletes=deletes(failed)))


def _wrote_nothing(observed: Observed) -> bool:
    """Whether no data can have arrived, as where the image never came: no receiver has started, and so no sender was made.

    A receiver without a sender removes what it made for itself.
    """
    status, receivers = observed.job.status, observed.pods_of(Role.RECEIVER)
    if not observed.pods and status.attempts is None and not status.pods and status.endpoints is None:
        # Whoever created a pod recorded it before it could run.
        return True
    if any(pod.phase is not PodPhase.PENDING or has_ended(pod) for pod in receivers):
        return False
    had_sender = bool(observed.pods_of(Role.SENDER)) or any(record.role == Role.SENDER.value for record in status.pods or ())
    if had_sender or (status.endpoints is not None and status.endpoints.source is not None):
        return False
    if status.last_failure is not None:
        return status.last_failure.reason in _NEVER_UP
    return bool(receivers) and latest_attempt_of(observed.pods) == 1


def _cleaner_node(observed: Observed) -> str | None:
    """Where a cleaner runs. Where the receiver was last is a hint alone: a volume that is tied to no node may be reached from elsewhere."""
    destination, node = observed.job.spec.destination, _destination_node(observed)
    facts = observed.nodes.get(node or "")
    is_tied = (destination.node or observed.claim_node(destination)) is not None
    return node if is_tied or facts is None or (facts.ready and facts.schedulable) else None


def _destination_node(observed: Observed) -> str | None:
    """Where the receiver wrote."""
    destination, placed = observed.job.spec.destination, placed_end(observed.job.status, Role.RECEIVER)
    last = observed.job.status.receiver_node
    return destination.node or last or observed.claim_node(destination) or (placed.node if placed else None)


def _left_behind(observed: Observed) -> str:
    """The path, which may be long, comes last: what must be known of it is in front."""
    destination = observed.job.spec.destination
    path = destination.path.rstrip("/")
    return (
        f"partial files may be left on claim {destination.claim_name} (node {_destination_node(observed) or 'unknown'}): they could not be"
        f" removed in time; remove by hand the directory .fairlead-{observed.job.metadata.uid} in {path or 'the root of the volume'}"
    )
