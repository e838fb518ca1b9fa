"""Which jobs write into which directories, and which of two that write into the same one goes first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from fairlead.api.names import CONTROLLER
from fairlead.api.reasons import ConditionType

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

    def overlaps(self, other: DestinationWriter) -> bool:
        """Whether one directory is the other, or lies in it."""
        return self.claim == other.claim and all(one == two for one, two in zip(self.directory, other.directory, strict=False))

    @property
    def age(self) -> tuple[str, str]:
        """Sorts the older job first."""
        return self.created_at, self.uid


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
    )


def writer_before(own: DestinationWriter, others: Iterable[DestinationWriter]) -> DestinationWriter | None:
    """The job that `own` has to wait for before it begins an attempt, None if it need not wait.

    An attempt under way is always waited for. Of jobs between two attempts the older one goes first, so that no two wait for each other.
    """
    ahead = [
        other
        for other in others
        if own.overlaps(other) and (other.attempt_under_way or (other.has_begun and (not own.has_begun or other.age < own.age)))
    ]
    return min(ahead, key=lambda other: (not other.attempt_under_way, other.age), default=None)
