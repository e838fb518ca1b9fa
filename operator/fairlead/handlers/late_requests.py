"""Attempts that are cleaned up after twice, since an operator that led before may have asked for a pod or credentials late."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from fairlead.api.transferjob import TransferJob
from fairlead.core.plan import DeleteCredentials
from fairlead.handlers.cache import ObjectKey


@dataclass(frozen=True, slots=True)
class _Ended:
    """Attempts of a job that ended while late requests could arrive."""

    job_uid: str
    attempts: frozenset[int]


class LateRequests:
    """Attempts of which what nobody knows is removed once more, by job.

    A request that the operator before has sent may be carried out up to `late_seconds` after this one leads. If the attempt has ended by
    then, it leaves a Secret or a pod for which no other pass would look.
    """

    def __init__(self, late_seconds: float) -> None:
        self._late = timedelta(seconds=late_seconds)
        self._leads_since: datetime | None = None
        self._ended: dict[ObjectKey, _Ended] = {}

    def begin(self, now: datetime) -> None:
        """From now on this operator leads."""
        self._leads_since = now

    def note(self, key: ObjectKey, job: TransferJob, removed: tuple[DeleteCredentials, ...], now: datetime) -> None:
        """Takes in the credentials that a pass of `now` has removed."""
        if self._leads_since is None:
            return
        if now >= self._leads_since + self._late:
            self.drop(key)
        elif removed and job.metadata.creation_timestamp <= self._leads_since:
            known = self._ended.get(key)
            before = known.attempts if known is not None and known.job_uid == job.metadata.uid else frozenset()
            self._ended[key] = _Ended(job.metadata.uid, before | {ended.attempt for ended in removed})

    def due(self, key: ObjectKey, job: TransferJob, now: datetime) -> tuple[int, ...]:
        """The attempts that a pass of `now` is to clean up after once more."""
        known = self._ended.get(key)
        if self._leads_since is None or now < self._leads_since + self._late or known is None or known.job_uid != job.metadata.uid:
            return ()
        return tuple(sorted(known.attempts))

    def wait(self, key: ObjectKey, now: datetime) -> timedelta | None:
        """How long until something is due; None if nothing will be."""
        if self._leads_since is None or key not in self._ended:
            return None
        return max(self._leads_since + self._late - now, timedelta())

    def drop(self, key: ObjectKey) -> None:
        """Forgets a job."""
        self._ended.pop(key, None)
