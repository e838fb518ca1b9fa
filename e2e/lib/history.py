"""What the versions of a job say about its life: pure functions over what a watch saw."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from itertools import pairwise

from fairlead_dev.clients.kubectl import Object

TOLD_AFTER = "told after, in seconds"
"""A property of a test: how long its job took to tell what is wrong. Printed at the end of a run, and never judged."""

RUNNING = ("Probing", "Transferring", "Verifying")


def condition(job: Object, kind: str) -> Object | None:
    """The job's condition of that type."""
    found: list[Object] = [c for c in job.get("status", {}).get("conditions", []) if c["type"] == kind]
    return found[0] if found else None


def is_true(job: Object, kind: str) -> bool:
    """Whether the condition of that type is True."""
    found = condition(job, kind)
    return found is not None and found["status"] == "True"


def has_ended(job: Object) -> bool:
    """Whether the job has succeeded or failed."""
    return is_true(job, "Succeeded") or is_true(job, "Failed")


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


def status_writes(versions: Iterable[Object]) -> list[Object]:
    """The versions whose status is different from that of the version before."""
    return [now for before, now in pairwise(versions) if before.get("status") != now.get("status")]


def progress_intervals_s(versions: Iterable[Object]) -> list[float]:
    """How long progress had been told, by the operator's own clock, whenever a running job was written again for progress alone."""
    return [
        (_progress_time(now) - _progress_time(before)).total_seconds()
        for before, now in pairwise(versions)
        if phase(now) in RUNNING and _percent(now) > _percent(before) >= 0 and _news(now) == _news(before)
    ]


def _progress_time(version: Object) -> datetime:
    return datetime.fromisoformat(version["status"]["progress"]["lastProgressTime"])


def _percent(version: Object) -> int:
    """How much has arrived, -1 before anything has."""
    progress = version.get("status", {}).get("progress", {})
    return int(progress.get("percent", 0)) if "lastProgressTime" in progress else -1


def _news(version: Object) -> Object:
    """The status without progress and what follows from it: the measured rate, and whether a cap is kept, unless it is not."""
    status = version.get("status", {})
    bandwidth = {name: value for name, value in status.get("bandwidth", {}).items() if name not in ("measured", "enforcedBy")}
    conditions = [c for c in status.get("conditions", []) if c["type"] != "CapEnforced" or c["status"] == "False"]
    return {**status, "progress": None, "bandwidth": bandwidth, "conditions": conditions}
