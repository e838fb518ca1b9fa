"""Which jobs write into which directories, and which of two that write into the same one goes first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from fairlead.api.names import CONTROLLER
from fairlead.api.reasons import ConditionType, Reason

_TERMINAL = frozenset({ConditionType.SUCCEEDED.value, ConditionType.FAILED.value})


@dataclass(frozen=True, slots=True)
class DestinationWriter:
    """A job and the directory that it writes into, by its object."""

    name: str
    uid: str
    created_at: str
    """RFC 3339, as the API server has it, so that it sorts by time."""
    claim: str
    directory: tuple[str, ...]
    """The names of the path in the volume; empty for its root."""
    attempt_under_way: bool = False
    has_begun: bool = False
    """An attempt was begun, and others will be: what the job has written so far must not be published over by somebody else."""
    waits: bool = False
    """The directory is all that the job waits for, so that jobs which came after it do not go first."""

    def overlaps(self, other: DestinationWriter) -> bool:
        """Whether one directory is the other, or lies in it."""
        return self.claim == other.claim and all(one == two for one, two in zip(self.directory, other.directory, strict=False))

    @property
    def age(self) -> tuple[str, str]:
        """Sorts the older job first."""
        return self.created_at, self.name


def writer_of(body: Mapping[str, Any]) -> DestinationWriter | None:
    """What a job's object shows; None for a job that writes nothing: it only checks, or is another controller's."""
    metadata, spec, status = body["metadata"], body.get("spec") or {}, body.get("status") or {}
    side = spec.get("destination") or {}
    claim = ((side.get("volume") or {}).get("persistentVolumeClaim") or {}).get("claimName")
    if claim is None or spec.get("preflightOnly") or spec.get("managedBy", CONTROLLER) != CONTROLLER:
        return None
    conditions = status.get("conditions") or ()
    finished = any(condition.get("type") in _TERMINAL and condition.get("status") == "True" for condition in conditions)
    goes_on = not finished and not spec.get("suspend") and "deletionTimestamp" not in metadata
    return DestinationWriter(
        name=metadata["name"],
        uid=metadata["uid"],
        created_at=str(metadata.get("creationTimestamp", "")),
        claim=claim,
        directory=PurePosixPath(side.get("path") or "").parts,
        attempt_under_way=not finished and bool(status.get("attemptStartTime")),
        has_begun=goes_on and bool(status.get("attempts")),
        waits=goes_on and _waits(conditions),
    )


def _waits(conditions: Iterable[Mapping[str, Any]]) -> bool:
    """A job that is not accepted waits for something else, though its Scheduled condition is still the one of before."""
    by_type = {condition.get("type"): condition for condition in conditions}
    scheduled, accepted = by_type.get(ConditionType.SCHEDULED, {}), by_type.get(ConditionType.ACCEPTED, {})
    in_use = scheduled.get("status") == "False" and scheduled.get("reason") == Reason.DESTINATION_IN_USE
    return in_use and accepted.get("status") == "True"


def writer_before(own: DestinationWriter, others: Iterable[DestinationWriter]) -> DestinationWriter | None:
    """The job that `own` has to wait for before it begins an attempt, None if it need not wait.

    An attempt under way is always waited for. A job between two attempts goes before those that have begun none. Of several of either kind
    the older one goes first, so that no two wait for each other.
    """
    ahead = [other for other in others if own.overlaps(other) and _goes_before(other, own)]
    return min(ahead, key=lambda other: (not other.attempt_under_way, not other.has_begun, other.age), default=None)


def _goes_before(other: DestinationWriter, own: DestinationWriter) -> bool:
    if other.attempt_under_way or other.has_begun != own.has_begun:
        return other.attempt_under_way or other.has_begun
    return (other.has_begun or other.waits) and other.age < own.age
