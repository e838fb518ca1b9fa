"""What job workers and the paths' keeper tell each other. The workers note what they see, the keeper alone writes NetworkPaths."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from fairlead.api.networkpath import NetworkPath, NetworkPathStatus
from fairlead.core.model import Observed, PathStanding, Role, latest_attempt_of
from fairlead.core.paths.merge import merge
from fairlead.core.paths.model import Ends, Lease, Measurement, Probe, Sighting
from fairlead.core.paths.objects import choose
from fairlead.core.paths.sighting import own_ends
from fairlead.core.paths.standing import standing_of
from fairlead.handlers.cache import ObjectKey, Versions, cluster_key

MOST_PENDING = 64
"""Measurements of one path that wait to be written; the oldest are dropped first."""

Nodes = tuple[str, str]


class PathBoard:
    """Jobs on their paths as the workers saw them last, and the NetworkPaths. `wake` asks the keeper to look at a path.

    Everything happens on one event loop, so that a sender that is about to start holds the path before another worker can ask.
    """

    def __init__(self, wake: Callable[[Ends], None] = lambda ends: None) -> None:
        self._wake = wake
        self._paths: Versions[NetworkPath] = Versions()
        self._listed = False
        self._nodes_of: dict[ObjectKey, Nodes] = {}
        self._sightings: dict[Nodes, dict[ObjectKey, Sighting]] = defaultdict(dict)
        self._pending: dict[Ends, dict[tuple[str, int], Measurement]] = defaultdict(dict)

    def note(self, key: ObjectKey, sighting: Sighting | None) -> None:
        """Takes in how a worker found a job; None if it is on no path and has no news of one."""
        before = self._drop(key)
        if sighting is not None:
            self._nodes_of[key] = sighting.ends.nodes
            self._sightings[sighting.ends.nodes][key] = sighting
            if sighting.measurement is not None and sighting != before:
                self._remember(sighting.ends, sighting.measurement)
        if before is not None and (sighting is None or sighting.ends != before.ends):
            self._wake(before.ends)
        if sighting is not None and sighting != before:
            self._wake(sighting.ends)

    def drop(self, key: ObjectKey) -> None:
        """Forgets a job that is gone; what it measured stays until it is written."""
        self.note(key, None)

    def standing(self, observed: Observed, now: datetime) -> PathStanding | None:
        """What the path means for the sender that is to be started; None where there is none to start, or its nodes are not known."""
        attempt = latest_attempt_of(observed.pods)
        roles = {pod.role for pod in observed.pods if pod.attempt == attempt}
        ends = own_ends(observed, attempt) if roles == {Role.RECEIVER} else None
        if ends is None:
            return None
        path = self.path_for(ends)
        others = [other for other in self._on(ends) if other.job != observed.job.metadata.uid]
        return standing_of(
            self._knowledge(ends, path),
            path.spec.capacity_bps if path else None,
            [other.lease for other in others if other.lease is not None],
            busy=any(other.flowing for other in others),
            beside_own=any(other.live for other in others),
            competes=path is not None and path.spec.other_traffic == "Compete",
            now=now,
        )

    def is_live(self, ends: Ends) -> bool:
        """Whether a transfer on the path may still have something to tell."""
        return any(sighting.live for sighting in self._on(ends))

    def lease(self, ends: Ends, now: datetime) -> Lease | None:
        """The lease that ends last, None if nobody probes."""
        held = (sighting.lease for sighting in self._on(ends) if sighting.lease is not None)
        return max((lease for lease in held if lease.expires_at > now), key=lambda lease: (lease.expires_at, lease.job), default=None)

    def pending(self, ends: Ends, path: NetworkPath | None) -> tuple[Measurement, ...]:
        """What was measured between `ends` and is for `path` to tell, but not written yet, oldest first."""
        fitting = [known for known in self._pending if known.may_be(ends) and self.path_for(known) is path]
        return tuple(sorted((measurement for known in fitting for measurement in self._pending[known].values()), key=_age))

    def unwritten(self) -> tuple[Ends, ...]:
        """The paths of which something is not written yet."""
        return tuple(self._pending)

    def settle(self, written: Iterable[Measurement]) -> None:
        """Forgets measurements that are written, unless there is more of the same job by now."""
        done = {(measurement.job, measurement.attempt): measurement for measurement in written}
        for ends, by_job in list(self._pending.items()):
            left = {key: measurement for key, measurement in by_job.items() if done.get(key) != measurement}
            if left:
                self._pending[ends] = left
            else:
                del self._pending[ends]

    def put_path(self, body: Mapping[str, Any]) -> NetworkPath:
        """Takes in a version of a NetworkPath. Raises InvalidResourceError."""
        path = NetworkPath.from_object(body)
        self._paths.put(cluster_key(body), path.metadata.uid, path.metadata.resource_version, path)
        return path

    @property
    def listed(self) -> bool:
        """Whether the paths have been listed at least once: before, a path that is not known may exist."""
        return self._listed

    def paths(self) -> tuple[NetworkPath, ...]:
        """The NetworkPaths that are known."""
        return tuple(self._paths.values())

    def keep_paths(self, before: Mapping[ObjectKey, object], listed: Mapping[ObjectKey, str]) -> None:
        """Forgets the paths that a list, begun at `before`, has not shown."""
        self._listed = True
        for key, uid in self._paths.unlisted(before, listed):
            self._paths.drop(key, uid)

    def snapshot(self) -> Mapping[ObjectKey, object]:
        """The paths that are known now, for `keep_paths`."""
        return self._paths.snapshot()

    def path_for(self, ends: Ends) -> NetworkPath | None:
        """The NetworkPath that stands for `ends`."""
        return choose(self._paths.values(), ends)

    def _knowledge(self, ends: Ends, path: NetworkPath | None) -> NetworkPathStatus:
        status = path.status if path else NetworkPathStatus()
        for measurement in self.pending(ends, path):
            status = merge(status, measurement)
        return status

    def _is_busy(self, ends: Ends, job: str) -> bool:
        """Whether another job's data flow on the path."""
        return any(other.flowing for other in self._on(ends) if other.job != job)

    def _on(self, ends: Ends) -> list[Sighting]:
        return [sighting for sighting in self._sightings.get(ends.nodes, {}).values() if sighting.ends.may_be(ends)]

    def _drop(self, key: ObjectKey) -> Sighting | None:
        nodes = self._nodes_of.pop(key, None)
        if nodes is None:
            return None
        sighting = self._sightings[nodes].pop(key)
        if not self._sightings[nodes]:
            del self._sightings[nodes]
        return sighting

    def _remember(self, ends: Ends, measurement: Measurement) -> None:
        by_job = self._pending[ends]
        key = measurement.job, measurement.attempt
        earlier = by_job.get(key)
        if measurement.probe is not None:
            known = earlier.probe if earlier is not None else None
            # As it was when the probe was first heard of: whoever ran beside it may have ended since.
            same = known is not None and _found(known) == _found(measurement.probe)
            beside = known.beside_own if known is not None and same else self._is_busy(ends, measurement.job)
            measurement = replace(measurement, probe=replace(measurement.probe, beside_own=beside))
        by_job[key] = measurement if earlier is None else measurement.completed_by(earlier)
        if len(by_job) > MOST_PENDING:
            oldest = min(by_job.values(), key=_age)
            del by_job[oldest.job, oldest.attempt]


def _found(probe: Probe) -> tuple[float, float, float | None]:
    """What a probe is known by: a decision that is told anew comes with the same measurement at another time."""
    return probe.rtt_seconds, probe.rtt_minimum_seconds, probe.loss_ratio


def _age(measurement: Measurement) -> tuple[float, str, int]:
    latest = measurement.latest
    return latest.timestamp() if latest else 0.0, measurement.job, measurement.attempt
