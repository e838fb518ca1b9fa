"""Which NetworkPath describes which ends, what its status is, and when that is worth a write."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta

from fairlead.api.networkpath import NetworkPath, NetworkPathSpec, NetworkPathStatus
from fairlead.api.networkpath.spec import PathEnd
from fairlead.api.networkpath.status import ProbeLease
from fairlead.api.reasons import PathConditionType, PathReason
from fairlead.core.conditions import Conditions
from fairlead.core.paths.merge import merge
from fairlead.core.paths.model import Lease, Measurement, PathEnds

REFRESH = timedelta(minutes=10)
"""The least time between two writes about a path on which transfers run; what they measure meanwhile is used, not written."""


def ends_of_spec(spec: NetworkPathSpec) -> PathEnds:
    """The ends that a NetworkPath names."""
    return PathEnds(spec.source.node, spec.source.interface, spec.destination.node, spec.destination.interface)


def spec_of(ends: PathEnds) -> NetworkPathSpec:
    """The spec of the NetworkPath that the operator makes for these ends."""
    return NetworkPathSpec(
        source=PathEnd(node=ends.source_node, interface=ends.source_interface),
        destination=PathEnd(node=ends.destination_node, interface=ends.destination_interface),
    )


def choose(paths: Iterable[NetworkPath], ends: PathEnds) -> NetworkPath | None:
    """The path that describes `ends`: of several the one that names most interfaces, of those the oldest."""
    fitting = [path for path in paths if ends_of_spec(path.spec).may_be(ends)]
    return min(fitting, key=lambda path: (-_named(path.spec), *_seniority(path)), default=None)


def _named(spec: NetworkPathSpec) -> int:
    return (spec.source.interface is not None) + (spec.destination.interface is not None)


def _seniority(path: NetworkPath) -> tuple[datetime, str]:
    return path.metadata.creation_timestamp, path.metadata.name


def twins(paths: Iterable[NetworkPath]) -> list[tuple[NetworkPath, NetworkPath]]:
    """Every path whose exact ends an older one has, with that one."""
    by_ends: dict[PathEnds, list[NetworkPath]] = defaultdict(list)
    for path in sorted(paths, key=_seniority):
        by_ends[ends_of_spec(path.spec)].append(path)
    return [(younger, same[0]) for same in by_ends.values() for younger in same[1:]]


def status_after(path: NetworkPath, news: Iterable[Measurement], lease: Lease | None, now: datetime) -> NetworkPathStatus:
    """The status of the path that is in use for its ends, with all that jobs have measured."""
    status = path.status
    for measurement in news:
        status = merge(status, measurement)
    conditions = _conditions(path, now)
    conditions.set(PathConditionType.ACCEPTED, "True", PathReason.IN_USE, "what jobs measure between these ends is kept here")
    if status.last_measured_time is None:
        conditions.set(PathConditionType.MEASURED, "False", PathReason.NOT_MEASURED, "no transfer has probed the path yet")
    else:
        conditions.set(PathConditionType.MEASURED, "True", PathReason.PROBED, "status.lastMeasuredTime says when")
    return status.model_copy(
        update={
            "conditions": conditions.build(),
            "lease": _lease(path.status.lease, lease, now),
            "observed_generation": path.metadata.generation,
        }
    )


def _conditions(path: NetworkPath, now: datetime) -> Conditions:
    return Conditions(path.status.conditions, generation=path.metadata.generation, now=now.replace(microsecond=0), kinds=PathConditionType)


def _lease(stored: ProbeLease | None, lease: Lease | None, now: datetime) -> ProbeLease | None:
    if lease is None or lease.expires_at <= now:
        return None
    if stored is not None and (stored.job, stored.attempt) == (lease.job, lease.attempt):
        return stored
    return ProbeLease(job=lease.job, attempt=lease.attempt, expiration_time=lease.expires_at.replace(microsecond=0))


def refused_status(path: NetworkPath, twin: NetworkPath, now: datetime) -> NetworkPathStatus:
    """The status of a path whose ends an older one has."""
    conditions = _conditions(path, now)
    message = f"NetworkPath {twin.metadata.name} has the same source and destination and is older: delete one of them"
    conditions.set(PathConditionType.ACCEPTED, "False", PathReason.OTHER_PATH_IN_USE, message)
    return path.status.model_copy(update={"conditions": conditions.build(), "observed_generation": path.metadata.generation})


def write_after(before: NetworkPathStatus, after: NetworkPathStatus, since: timedelta | None, *, busy: bool) -> timedelta | None:
    """When `after` is due to be written: at once, after a while, or (None) not at all. `since` is the age of our last write.

    A probe that begins is written at once, the rest when nothing runs on the path any more, or after some minutes: a transfer costs two
    writes, however often its advisor changes its mind.
    """
    if after == before:
        return None
    if not busy or since is None or (after.lease is not None and after.lease != before.lease):
        return timedelta()
    return max(timedelta(), REFRESH - since)
