"""What job workers and the fairness loop exchange. The loop decides, the workers alone write to jobs and their pods."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from fairlead.core.cap_excess import Arrived, CapExcess, CapHistory, excess_after
from fairlead.core.fairness.lanes import lane_uid
from fairlead.core.fairness.meter import KEPT_SECONDS, Meter
from fairlead.core.fairness.model import Admission, Contact, JobShare, Lane, Participant
from fairlead.core.fairness.rules import InterfaceKey
from fairlead.handlers.cache import ObjectKey

_NOT_DECIDED = JobShare(Admission.UNDECIDED, hold=True)
_AS_WITHOUT_POLICY = JobShare(Admission.ADMITTED, hold=True)


class ShareStore:
    """Jobs as the workers saw them last, their counters and their shares. `wake` asks for a round. Used from one event loop only."""

    def __init__(self, wake: Callable[[], None] = lambda: None) -> None:
        self._wake = wake
        self._jobs: dict[ObjectKey, Participant] = {}
        self._meters: dict[str, Meter] = {}
        self._interfaces: dict[str, dict[InterfaceKey, Meter]] = {}
        self._caps: dict[str, CapHistory] = {}
        self._excess: dict[str, CapExcess] = {}
        self._seen: set[ObjectKey] = set()
        self._shares: Mapping[str, JobShare] | None = None
        self._open_bps: Mapping[tuple[str, str], float] = {}
        self._unknown = _NOT_DECIDED
        self._frozen = False
        self._urgent: frozenset[str] = frozenset()

    def note(self, key: ObjectKey, job: Participant | None, now: float) -> None:
        """Takes in the job as a worker observed it; None if it neither has nor asks for a share."""
        self._seen.add(key)
        before = self._jobs.get(key)
        if job is None:
            if before is not None:
                del self._jobs[key]
                self._forget(before)
                self._wake()
            return
        if before is not None and before.uid != job.uid:
            self._forget(before)
        if before is not None and before.asked_at < job.asked_at and before.uid == job.uid:
            job = replace(job, asked_at=before.asked_at)
        if before is not None and before.uid == job.uid and before.annotated is not None and job.annotated is not None:
            unchanged = before.annotated.bps == job.annotated.bps
            job = replace(job, annotated=before.annotated) if unchanged else job
        if before is not None and before.uid == job.uid and len(before.lanes) == len(job.lanes):
            job = replace(job, lanes=tuple(_known_since(known, lane) for known, lane in zip(before.lanes, job.lanes, strict=True)))
        self._jobs[key] = job
        self._measure(before, job, now)
        if before is None or _claims(before) != _claims(job):
            self._wake()

    def drop(self, key: ObjectKey, now: float) -> None:
        """Forgets a job that is gone."""
        self.note(key, None, now)
        self._seen.discard(key)

    def seen(self) -> frozenset[ObjectKey]:
        """Every job that a worker has reconciled, as long as it exists."""
        return frozenset(self._seen)

    def jobs(self) -> Mapping[ObjectKey, Participant]:
        """The jobs that have or ask for a share."""
        return dict(self._jobs)

    def meters(self) -> Mapping[str, Meter]:
        """What jobs have sent, by UID."""
        return dict(self._meters)

    def interfaces(self, now: float) -> Mapping[InterfaceKey, Mapping[str, Meter]]:
        """What interfaces have carried, by the UID of the job whose mover reports it. What nobody reports any more is left out."""
        found: dict[InterfaceKey, dict[str, Meter]] = defaultdict(dict)
        for job in self._jobs.values():
            for key, meter in _reported(self._interfaces.get(job.uid, {}), job, now).items():
                found[key][job.uid] = meter
        return found

    @property
    def open_bps(self) -> Mapping[tuple[str, str], float]:
        """By node and interface, what shared links leave to all jobs, as of the last round; empty without a policy."""
        return self._open_bps

    def publish(
        self, shares: Mapping[str, JobShare] | None, open_bps: Mapping[tuple[str, str], float] = MappingProxyType({})
    ) -> frozenset[str]:
        """Puts the loop's conclusions in force, None without a policy. Returns the UIDs of jobs for which they are new."""
        self._open_bps = open_bps
        before, self._shares, self._frozen = self._shares or {}, shares, False
        after = shares or {}
        news = frozenset(uid for uid in before.keys() | after.keys() if before.get(uid) != after.get(uid))
        self._urgent = frozenset(uid for uid in news if uid in after and _is_urgent(before.get(uid), after[uid]))
        return news

    @property
    def urgent(self) -> frozenset[str]:
        """Of the jobs for which the last publication was new, those that may start or have less than before: others wait for that."""
        return self._urgent

    def freeze(self, *, starts: bool) -> None:
        """Leaves every cap as it is: a policy exists, but what it means is not known. `starts`: whether new jobs start nevertheless."""
        self._frozen = True
        self._unknown = _AS_WITHOUT_POLICY if starts else _NOT_DECIDED

    def share(self, uid: str) -> JobShare | None:
        """The share of a job, None without a policy."""
        if self._frozen:
            return (self._shares or {}).get(uid, self._unknown)
        return None if self._shares is None else self._shares.get(uid, _NOT_DECIDED)

    def competes(self, uid: str) -> bool:
        """Whether the job's rate decides what others get: a link or its tenant's limit there bounds it, and not its own limit."""
        share = (self._shares or {}).get(uid)
        return share is not None and share.bound is not None and share.bound.by != "JobLimit"

    def asked_bps(self, uid: str, now: float) -> float | None:
        """The highest cap that was in force while the present rate was measured, and since the report before; None for a job that no worker
        has seen."""
        history = self._caps.get(uid)
        return None if history is None else history.highest_bps(now, self._last_arrived(uid))

    def excess(self, uid: str) -> CapExcess | None:
        """By how much what arrived was ahead of the job's caps in a worker's last pass; None before its receiver reported."""
        return self._excess.get(uid)

    def _measure(self, before: Participant | None, job: Participant, now: float) -> None:
        if before is not None and (before.attempt != job.attempt or len(before.lanes) != len(job.lanes)):
            self._forget_meters(before)
        sent = {job.uid: job.sent} | {lane_uid(job.uid, number): lane.sent for number, lane in enumerate(job.lanes)}
        for uid, reading in sent.items():
            if reading is not None:
                self._meters[uid] = self._meters.get(uid, Meter()).noted(reading.at, reading.count, reading.quiet_seconds)
        meters = _reported(self._interfaces.get(job.uid, {}), job, now)
        for count in job.counts:
            key = (count.node, count.interface, count.direction)
            meters[key] = meters.get(key, Meter()).noted(count.total.at, count.total.count)
        self._interfaces[job.uid] = meters
        cap_bps, last = math.inf if job.cap_bps is None else job.cap_bps, self._last_arrived(job.uid)
        history = self._caps.get(job.uid, CapHistory()).noted(now, cap_bps, last)
        self._caps[job.uid] = history
        excess = excess_after(self._excess.get(job.uid), job.arrived, history.highest_bps(now, last))
        if excess is not None:
            self._excess[job.uid] = excess

    def _last_arrived(self, uid: str) -> Arrived | None:
        excess = self._excess.get(uid)
        return None if excess is None else excess.last

    def _forget_meters(self, job: Participant) -> None:
        for uid in (job.uid, *(lane_uid(job.uid, number) for number in range(len(job.lanes)))):
            self._meters.pop(uid, None)

    def _forget(self, job: Participant) -> None:
        self._forget_meters(job)
        uid = job.uid
        self._caps.pop(uid, None)
        self._excess.pop(uid, None)
        self._interfaces.pop(uid, None)


def _is_urgent(before: JobShare | None, after: JobShare) -> bool:
    """Whether the job may start now, or has less than before."""
    if after.admission is Admission.ADMITTED and (before is None or before.admission is not Admission.ADMITTED):
        return True
    before_bps = None if before is None else before.cap_bps
    if after.cap_bps is not None and (before_bps is None or after.cap_bps < before_bps):
        return True
    paths_before = before.path_caps_bps if before is not None else ()
    if len(paths_before) != len(after.path_caps_bps):
        return any(cap is not None for cap in after.path_caps_bps)
    return any(now is not None and (was is None or now < was) for was, now in zip(paths_before, after.path_caps_bps, strict=True))


def _reported(meters: Mapping[InterfaceKey, Meter], job: Participant, now: float) -> dict[InterfaceKey, Meter]:
    """Those that the job's last reports have, or that were read lately: a mover may name another interface every time."""
    named = {(count.node, count.interface, count.direction) for count in job.counts}
    return {key: meter for key, meter in meters.items() if key in named or meter.samples[-1].at > now - KEPT_SECONDS}


def _claims(job: Participant) -> Participant:
    """The job without what changes all the time and needs no round of its own."""
    lanes = tuple(Lane(lane.source, lane.destination) for lane in job.lanes)
    calm: dict[str, Any] = {"sent": None, "contact": Contact.HEARD, "counts": (), "arrived": None, "cap_bps": None, "annotated": None}
    return replace(job, **calm, asked_at=0.0, lanes=lanes)


def _known_since(before: Lane, lane: Lane) -> Lane:
    """The lane, with since when its pod is known to have the cap that it has."""
    unchanged = before.annotated is not None and lane.annotated is not None and before.annotated.bps == lane.annotated.bps
    return replace(lane, annotated=before.annotated) if unchanged else lane
