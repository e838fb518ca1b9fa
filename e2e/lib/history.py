"""What the versions of a job say about its life: pure functions over what a watch saw."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import pairwise

from access.kubectl import Object
from access.watch import Change

RUNNING = ("Probing", "Transferring", "Verifying")


def condition(job: Object, kind: str) -> Object | None:
    """The job's condition of that type."""
    found: list[Object] = [c for c in job.get("status", {}).get("conditions", []) if c["type"] == kind]
    return found[0] if found else None


def is_true(job: Object, kind: str) -> bool:
    """Whether the condition of that type is True."""
    found = condition(job, kind)
    return found is not None and found["status"] == "True"


def condition_with_reason(job: Object, reason: str) -> Object | None:
    """A condition that names `reason`."""
    found: list[Object] = [c for c in job.get("status", {}).get("conditions", []) if c["reason"] == reason]
    return found[0] if found else None


def phase(job: Object) -> str:
    """The phase, empty before the first status."""
    return str(job.get("status", {}).get("phase", ""))


def phases(versions: Iterable[Object]) -> list[str]:
    """The phases a job went through, each turn once."""
    seen: list[str] = []
    for version in versions:
        if phase(version) and (not seen or seen[-1] != phase(version)):
            seen.append(phase(version))
    return seen


def seconds_until(job: Object, condition_found: Object) -> float:
    """From the job's creation to the condition's last transition, in whole seconds as the API server keeps them."""
    created = datetime.fromisoformat(job["metadata"]["creationTimestamp"])
    return (datetime.fromisoformat(condition_found["lastTransitionTime"]) - created).total_seconds()


def status_writes(changes: Sequence[Change]) -> list[Change]:
    """The changes at which the status was different from the version before."""
    return [now for _, now in _writes_with_versions_before(changes)]


def routine_intervals_s(changes: Sequence[Change]) -> list[float]:
    """Seconds between the status writes of a running job that leave its phase as it was; a turn of the phase is told at once."""
    routine = [now for before, now in _writes_with_versions_before(changes) if _is_routine(before.object, now.object)]
    return [now.at_s - before.at_s for before, now in pairwise(routine)]


def _writes_with_versions_before(changes: Sequence[Change]) -> list[tuple[Change, Change]]:
    return [(before, now) for before, now in pairwise(changes) if before.object.get("status") != now.object.get("status")]


def _is_routine(before: Object, now: Object) -> bool:
    return phase(before) == phase(now) and phase(now) in RUNNING
