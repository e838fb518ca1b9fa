"""What job workers and the path service exchange. The workers note what they observe, the service alone writes NetworkPaths."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from fairlead.api.networkpath import NetworkPath, NetworkPathStatus
from fairlead.core.observed import Observed, Role, latest_attempt_of
from fairlead.core.paths.assignment import assignment_of, knowledge_of
from fairlead.core.paths.engines import evidence_in, is_open
from fairlead.core.paths.evidence import own_ends
from fairlead.core.paths.merge import age_of, merge, with_pending
from fairlead.core.paths.model import EngineEvidence, Lease, Measurement, PathEnds, PathEvidence, ProbeAssignment
from fairlead.core.paths.objects import choose, ends_of_spec
from fairlead.handlers.cache import ObjectKey, Versions, cluster_key

Nodes = tuple[str, str]


class PathStore:
    """Jobs on their paths as the workers saw them last, and the NetworkPaths. `wake` asks the path service to reconcile a path.

    Everything happens on one event loop, so that a sender that is about to start holds the path before another worker can ask.
    """

    def __init__(self, wake: Callable[[PathEnds], None] = lambda ends: None) -> None:
        self._wake = wake
        self._paths: Versions[NetworkPath] = Versions()
        self._between: dict[Nodes, dict[ObjectKey, NetworkPath]] = defaultdict(dict)
        """The same by their nodes: each pass over a job looks for its path, of thousands where many nodes send to many."""
        self._listed = False
        self._nodes_of: dict[ObjectKey, Nodes] = {}
        self._evidence: dict[Nodes, dict[ObjectKey, PathEvidence]] = defaultdict(dict)
        self._pending: dict[Nodes, dict[PathEnds, dict[tuple[str, int], Measurement]]] = defaultdict(dict)

    def note(self, key: ObjectKey, evidence: PathEvidence | None) -> None:
        """Takes in what a worker observed of a job's path; None if it is on none and has measured none."""
        before = self._drop(key)
        if evidence is not None:
            self._nodes_of[key] = evidence.ends.nodes
            self._evidence[evidence.ends.nodes][key] = evidence
            if evidence.measurement is not None and evidence != before:
                pending, flowing = self._pending[evidence.ends.nodes], self._flowing(evidence.ends, evidence.measurement.job)
                own = tuple(sorted(other.congestion_control for other in flowing if other.congestion_control))
                known = pending.get(evidence.ends, {})
                pending[evidence.ends] = with_pending(known, evidence.measurement, beside_own=bool(flowing), own=own)
        if before is not None and (evidence is None or evidence.ends != before.ends):
            self._wake(before.ends)
        if evidence is not None and evidence != before:
            self._wake(evidence.ends)

    def drop(self, key: ObjectKey) -> None:
        """Forgets a job that is gone; what it measured stays until it is written."""
        self.note(key, None)

    def assignment(self, observed: Observed, now: datetime) -> ProbeAssignment | None:
        """How the sender that is to be started probes; None where there is none to start, or its nodes are not known."""
        attempt = latest_attempt_of(observed.pods)
        roles = {pod.role for pod in observed.pods if pod.attempt == attempt}
        ends = own_ends(observed, attempt) if roles == {Role.RECEIVER} else None
        if ends is None:
            return None
        path, namespace = self.path_for(ends), observed.job.metadata.namespace
        others = [other for other in self._on(ends) if other.job != observed.job.metadata.uid]
        # What another namespace's job finds is not handed on, so that there is nothing to wait for.
        own = [other for other in self._on(ends, namespace) if other.job != observed.job.metadata.uid]
        return assignment_of(
            knowledge_of(self._knowledge(ends, path), namespace, now),
            path.spec.capacity_bps if path else None,
            [other.lease for other in own if other.lease is not None],
            busy=any(other.flowing for other in others),
            beside_own=any(other.live for other in others),
            competes=path is not None and path.spec.competes,
            shares=path.spec.shares if path else 1,
            now=now,
        )

    def engines(self, observed: Observed, now: datetime) -> EngineEvidence | None:
        """What the job's namespace knows of the transport protocols on its path; None unless it leaves the choice and is about to start.

        The receiver may not have told its interface yet. Then what is known is used where only one path fits.
        """
        if observed.attempt_under_way or observed.job.status.finished or not is_open(observed.job):
            return None
        ends = own_ends(observed, observed.latest_attempt + 1)
        if ends is None:
            return None
        fitting = {there for path in self._paths_between(ends.nodes) if (there := ends_of_spec(path.spec)).may_be(ends)}
        if len(fitting) > 1 and None in (ends.source_interface, ends.destination_interface):
            return None
        known = self._knowledge(ends, self.path_for(ends))
        return evidence_in(knowledge_of(known, observed.job.metadata.namespace, now), now)

    def is_live(self, ends: PathEnds) -> bool:
        """Whether a transfer on the path may still report something."""
        return any(evidence.live for evidence in self._on(ends))

    def lease(self, ends: PathEnds, now: datetime) -> Lease | None:
        """The lease that ends last, None if nobody probes."""
        held = (evidence.lease for evidence in self._on(ends) if evidence.lease is not None)
        return max((lease for lease in held if lease.expires_at > now), key=lambda lease: (lease.expires_at, lease.job), default=None)

    def pending(self, ends: PathEnds, path: NetworkPath | None) -> tuple[Measurement, ...]:
        """What was measured between `ends` and belongs to `path`, but is not written yet, oldest first."""
        pending = self._pending.get(ends.nodes, {})
        fitting = [known for known in pending if known.may_be(ends) and self.path_for(known) is path]
        return tuple(sorted((measurement for known in fitting for measurement in pending[known].values()), key=age_of))

    def unwritten(self) -> tuple[PathEnds, ...]:
        """The paths of which something is not written yet."""
        return tuple(ends for pending in self._pending.values() for ends in pending)

    def settle(self, written: Iterable[Measurement]) -> None:
        """Forgets measurements that are written, unless there is more of the same job by now."""
        done = {(measurement.job, measurement.attempt): measurement for measurement in written}
        for nodes, pending in list(self._pending.items()):
            left = {
                ends: {key: measurement for key, measurement in by_job.items() if done.get(key) != measurement}
                for ends, by_job in pending.items()
            }
            self._pending[nodes] = {ends: by_job for ends, by_job in left.items() if by_job}
            if not self._pending[nodes]:
                del self._pending[nodes]

    def put_path(self, body: Mapping[str, Any]) -> NetworkPath:
        """Takes in a version of a NetworkPath. Raises InvalidResourceError."""
        path, key = NetworkPath.from_object(body), cluster_key(body)
        before = self._paths.get(key)
        if self._paths.put(key, path.metadata.uid, path.metadata.resource_version, path):
            self._forget(key, before)
            self._between[ends_of_spec(path.spec).nodes][key] = path
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
            self._forget(key, self._paths.drop(key, uid))

    def snapshot(self) -> Mapping[ObjectKey, object]:
        """The paths that are known now, for `keep_paths`."""
        return self._paths.snapshot()

    def path_for(self, ends: PathEnds) -> NetworkPath | None:
        """The NetworkPath that describes `ends`."""
        return choose(self._paths_between(ends.nodes), ends)

    def _paths_between(self, nodes: Nodes) -> Iterable[NetworkPath]:
        return self._between.get(nodes, {}).values()

    def _forget(self, key: ObjectKey, path: NetworkPath | None) -> None:
        """Takes a path that is gone, or has a newer version, from between its nodes."""
        if path is None:
            return
        nodes = ends_of_spec(path.spec).nodes
        del self._between[nodes][key]
        if not self._between[nodes]:
            del self._between[nodes]

    def _knowledge(self, ends: PathEnds, path: NetworkPath | None) -> NetworkPathStatus:
        status = path.status if path else NetworkPathStatus()
        for measurement in self.pending(ends, path):
            status = merge(status, measurement)
        return status

    def _flowing(self, ends: PathEnds, job: str) -> list[PathEvidence]:
        """The other jobs whose data flow on the path."""
        return [other for other in self._on(ends) if other.flowing and other.job != job]

    def _on(self, ends: PathEnds, namespace: str | None = None) -> list[PathEvidence]:
        """The jobs on the path, those of one namespace alone if it is given."""
        on_nodes = self._evidence.get(ends.nodes, {}).items()
        return [each for key, each in on_nodes if each.ends.may_be(ends) and namespace in (None, key.namespace)]

    def _drop(self, key: ObjectKey) -> PathEvidence | None:
        nodes = self._nodes_of.pop(key, None)
        if nodes is None:
            return None
        evidence = self._evidence[nodes].pop(key)
        if not self._evidence[nodes]:
            del self._evidence[nodes]
        return evidence
