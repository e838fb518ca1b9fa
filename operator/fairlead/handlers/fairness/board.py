"""What job workers and the fairness loop tell each other. The loop decides, the workers alone write to jobs and their pods."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from fairlead.core.cap_excess import CapExcess, excess_after
from fairlead.core.fairness.meter import KEPT_SECONDS, Meter
from fairlead.core.fairness.model import Participant
from fairlead.core.fairness.rules import InterfaceKey
from fairlead.core.model import Admission, Standing
from fairlead.handlers.cache import ObjectKey

MEASURED_SECONDS = 13.0
"""Movers report a mean over 10 seconds, of which a look may be some seconds old: an earlier cap shows for so long."""

_NOT_DECIDED = Standing(Admission.UNDECIDED, hold=True)
_AS_WITHOUT_POLICY = Standing(Admission.ADMITTED, hold=True)


class Board:
    """Jobs as the workers saw them last, and their standings. `wake` asks the loop for a round. Everything happens on one event loop."""

    def __init__(self, wake: Callable[[], None] = lambda: None) -> None:
        self._wake = wake
        self._jobs: dict[ObjectKey, Participant] = {}
        self._meters: dict[str, Meter] = {}
        self._interfaces: dict[InterfaceKey, Meter] = {}
        self._asked: dict[str, tuple[tuple[float, float], ...]] = {}
        self._excess: dict[str, CapExcess] = {}
        self._seen: set[ObjectKey] = set()
        self._standings: Mapping[str, Standing] | None = None
        self._unknown = _NOT_DECIDED
        self._frozen = False

    def note(self, key: ObjectKey, job: Participant | None, now: float) -> None:
        """Takes in how a worker found a job; None if it neither has nor asks for a share."""
        self._seen.add(key)
        before = self._jobs.get(key)
        if job is None:
            if before is not None:
                del self._jobs[key]
                self._forget(before.uid)
                self._wake()
            return
        if before is not None and before.uid != job.uid:
            self._forget(before.uid)
        if before is not None and before.asked_at < job.asked_at and before.uid == job.uid:
            job = replace(job, asked_at=before.asked_at)
        self._jobs[key] = job
        self._measure(before, job, now)
        if before is None or _claims(before) != _claims(job):
            self._wake()

    def drop(self, key: ObjectKey, now: float) -> None:
        """Forgets a job that is gone."""
        self.note(key, None, now)
        self._seen.discard(key)

    def seen(self) -> frozenset[ObjectKey]:
        """Every job that a worker has looked at, as long as it exists."""
        return frozenset(self._seen)

    def jobs(self) -> Mapping[ObjectKey, Participant]:
        """The jobs that have or ask for a share."""
        return dict(self._jobs)

    def meters(self) -> Mapping[str, Meter]:
        """What jobs have sent, by UID."""
        return dict(self._meters)

    def interfaces(self, now: float) -> Mapping[InterfaceKey, Meter]:
        """What interfaces have carried. Those that nobody reports any more are forgotten."""
        self._interfaces = {key: meter for key, meter in self._interfaces.items() if meter.samples[-1].at > now - KEPT_SECONDS}
        return dict(self._interfaces)

    def publish(self, standings: Mapping[str, Standing] | None) -> frozenset[str]:
        """Puts the loop's conclusions in force, None without a policy. Returns the UIDs of jobs for which they are new."""
        before, self._standings, self._frozen = self._standings or {}, standings, False
        after = standings or {}
        return frozenset(uid for uid in before.keys() | after.keys() if before.get(uid) != after.get(uid))

    def freeze(self, *, starts: bool) -> None:
        """Leaves every cap as it is: a policy exists, but what it means is not known. `starts`: whether new jobs start nevertheless."""
        self._frozen = True
        self._unknown = _AS_WITHOUT_POLICY if starts else _NOT_DECIDED

    def standing(self, uid: str) -> Standing | None:
        """What the policy means for a job, None without one."""
        if self._frozen:
            return (self._standings or {}).get(uid, self._unknown)
        return None if self._standings is None else self._standings.get(uid, _NOT_DECIDED)

    def asked_bps(self, uid: str, now: float) -> float | None:
        """The highest cap that was in force while the present rate was measured; None for a job that no worker has seen."""
        changes = self._asked.get(uid)
        if changes is None:
            return None
        ends = [*(since for since, _ in changes[1:]), math.inf]
        return max(cap for (_, cap), end in zip(changes, ends, strict=True) if end >= now - MEASURED_SECONDS)

    def excess(self, uid: str) -> CapExcess | None:
        """By how much what arrived was ahead of the job's caps when a worker looked last; None before its receiver reported."""
        return self._excess.get(uid)

    def _measure(self, before: Participant | None, job: Participant, now: float) -> None:
        if before is not None and before.attempt != job.attempt:
            self._meters.pop(job.uid, None)
        if job.sent is not None:
            self._meters[job.uid] = self._meters.get(job.uid, Meter()).noted(job.sent.at, job.sent.count)
        for count in job.counts:
            key = (count.node, count.interface, count.direction)
            self._interfaces[key] = self._interfaces.get(key, Meter()).noted(count.total.at, count.total.count)
        cap_bps = math.inf if job.cap_bps is None else job.cap_bps
        changes = self._asked.get(job.uid, ())
        if not changes or changes[-1][1] != cap_bps:
            recent = tuple(change for number, change in enumerate(changes) if _end(changes, number) >= now - MEASURED_SECONDS)
            self._asked[job.uid] = (*recent, (now, cap_bps))
        asked_bps = self.asked_bps(job.uid, now)
        excess = excess_after(self._excess.get(job.uid), job.arrived, math.inf if asked_bps is None else asked_bps)
        if excess is not None:
            self._excess[job.uid] = excess

    def _forget(self, uid: str) -> None:
        self._meters.pop(uid, None)
        self._asked.pop(uid, None)
        self._excess.pop(uid, None)


def _end(changes: tuple[tuple[float, float], ...], number: int) -> float:
    return changes[number + 1][0] if number + 1 < len(changes) else math.inf


def _claims(job: Participant) -> Participant:
    """The job without what changes all the time and needs no round of its own."""
    return replace(job, sent=None, counts=(), arrived=None, cap_bps=None, asked_at=0.0)
