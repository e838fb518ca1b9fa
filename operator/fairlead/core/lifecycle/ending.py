"""What happens to a job that has ended or is being deleted: movers stop, partial files go, the finalizer goes last."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import Enum, auto

from fairlead.api.reasons import ConditionType, EventReason, Reason
from fairlead.core.lifecycle.draft import Draft
from fairlead.core.model import CreatePod, EmitEvent, MoverPod, Role
from fairlead.core.verdicts import has_cleaned, has_ended, is_live, proven_success

_LAST_WORDS = timedelta(seconds=10)
"""How long the sender of a job that succeeded may take to end by itself."""

_NO_PORTS = 0


class _Cleaning(Enum):
    DONE = auto()
    UNDER_WAY = auto()
    GIVEN_UP = auto()


def finish(draft: Draft) -> None:
    """A job that has succeeded or failed, and that nobody deletes: its record stays as it is."""
    status, spec = draft.status, draft.job.spec
    completed = status.completion_time or draft.stored_now
    if status.is_true(ConditionType.SUCCEEDED) and draft.now < completed + _LAST_WORDS:
        if any(is_live(pod) for pod in draft.movers()):
            draft.wake_at(completed + _LAST_WORDS)
    else:
        draft.delete_live_movers()
    if draft.holds_finalizer():
        cleaning = _clean(draft, since=completed)
        if cleaning is _Cleaning.DONE:
            _let_go(draft)
        elif cleaning is _Cleaning.GIVEN_UP:
            # The finalizer stays: deletion tries again, and the destination may be back by then.
            draft.delete(pod for pod in draft.pods(Role.CLEANER))
    if spec.ttl_seconds_after_finished is not None:
        expires = completed + timedelta(seconds=spec.ttl_seconds_after_finished)
        if draft.now >= expires:
            draft.add(delete_job=True)
        else:
            draft.wake_at(expires)


def dismantle(draft: Draft, requested: datetime) -> None:
    """A job that somebody deletes, in whatever state it is."""
    draft.delete(draft.movers())
    if not draft.holds_finalizer():
        return
    cleaning = _clean(draft, since=requested)
    if cleaning is _Cleaning.GIVEN_UP:
        draft.add(events=(EmitEvent(EventReason.CLEANUP_SKIPPED.value, _left_behind(draft), warning=True),))
    if cleaning is not _Cleaning.UNDER_WAY:
        _let_go(draft)
        return
    message = "the job is being deleted: its movers are stopped, then its partial files are removed from the destination"
    draft.kstatus(reconciling=True, stalled=False, reason=Reason.DELETING, message=message)


def _let_go(draft: Draft) -> None:
    draft.delete(draft.pods(Role.CLEANER))
    draft.add(finalizer=False)


def _clean(draft: Draft, *, since: datetime) -> _Cleaning:
    """Runs a cleaner at the destination until one says that the partial files are gone, at most for the time an administrator allows."""
    uid, cleaners = draft.job.metadata.uid, draft.pods(Role.CLEANER)
    arrived = any(proven_success(pod, uid) for pod in draft.pods(Role.RECEIVER))
    if arrived or draft.status.is_true(ConditionType.SUCCEEDED) or any(has_cleaned(pod, uid) for pod in cleaners):
        return _Cleaning.DONE
    claim = draft.observed.claims.get(_destination_claim(draft))
    if (claim is not None and not claim.exists) or draft.now >= since + draft.settings.cleanup_timeout:
        return _Cleaning.GIVEN_UP
    draft.wake_at(since + draft.settings.cleanup_timeout)
    draft.wake_after(draft.settings.poll_interval)
    if any(is_live(pod) for pod in draft.movers()):
        return _Cleaning.UNDER_WAY
    if not cleaners:
        attempt = max((pod.attempt for pod in draft.movers()), default=draft.status.attempts or 1)
        draft.add(creates=(CreatePod(Role.CLEANER, attempt, _destination_node(draft), _NO_PORTS),))
    else:
        draft.delete(pod for pod in cleaners if _failed_a_while_ago(draft, pod))
    return _Cleaning.UNDER_WAY


def _failed_a_while_ago(draft: Draft, cleaner: MoverPod) -> bool:
    return has_ended(cleaner) and draft.now >= cleaner.created_at + draft.settings.backoff_first


def _destination_claim(draft: Draft) -> str:
    return draft.job.spec.destination.volume.persistent_volume_claim.claim_name


def _destination_node(draft: Draft) -> str | None:
    endpoints = draft.status.endpoints
    last = endpoints.destination.node if endpoints and endpoints.destination else None
    claim = draft.observed.claims.get(_destination_claim(draft))
    return draft.job.spec.destination.node or last or (claim.node if claim else None)


def _left_behind(draft: Draft) -> str:
    path = draft.job.spec.destination.path.rstrip("/")
    directory = f"{path}/" if path else ""
    return (
        f"partial files may be left in {directory}.fairlead-{draft.job.metadata.uid} on claim {_destination_claim(draft)}"
        f" (node {_destination_node(draft) or 'unknown'}): they could not be removed in time; remove that directory by hand"
    )
