"""When what an agent finds is worth a write: at 1,000 nodes the API server must barely notice."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from fairlead.api.datatransfernode.status import KernelStatus, NodeReport, StorageStatus
from fairlead.core.dtn import REPORT_INTERVAL

LEAST_INTERVAL: Final = timedelta(seconds=10)
"""Between two writes: a link that comes and goes all the time is not written each time."""
STORAGE_STEP: Final = 0.05
"""The part of a file system by which its free space must move."""
JITTER: Final = 0.1
"""The part of the interval by which it varies, so that agents that report together do not go on so."""


def interval_of(chance: float, *, first: bool) -> timedelta:
    """The time to the next report without news, by a `chance` from 0 to 1. The first one is anywhere in the interval: agents that were
    started together, or waited together for an API server, then report evenly.
    """
    return max(LEAST_INTERVAL, REPORT_INTERVAL * (chance if first else 1 - JITTER * chance))


def write_after(before: NodeReport | None, after: NodeReport, since: timedelta, interval: timedelta) -> timedelta:
    """How long to wait until `after` is to be written: nothing where it is news, else what is left of the interval.

    `before` is what was written last, `since` ago.
    """
    if before is None:
        return timedelta()
    if is_news(before, after):
        return max(timedelta(), LEAST_INTERVAL - since)
    return max(timedelta(), interval - since)


def is_news(before: NodeReport, after: NodeReport) -> bool:
    """Whether something has changed that anybody decides by: all but the time, free space by little, and where interrupts go, which a
    service moves about all the time.
    """
    return _without_amounts(before) != _without_amounts(after) or _space_moved(before.storage, after.storage)


def _without_amounts(report: NodeReport) -> NodeReport:
    kept = tuple(each.model_copy(update={"free_bytes": 0}) for each in report.storage)
    interfaces = tuple(each.model_copy(update={"interrupt_cpus": None}) for each in report.interfaces)
    return report.model_copy(update={"storage": kept, "interfaces": interfaces, "last_report_time": None})


def _space_moved(before: tuple[StorageStatus, ...], after: tuple[StorageStatus, ...]) -> bool:
    free = {each.path: each.free_bytes for each in before}
    return any(abs(each.free_bytes - free.get(each.path, 0)) >= STORAGE_STEP * each.total_bytes for each in after)


def status_patch(report: NodeReport) -> dict[str, Any]:
    """The merge patch of a status that leaves all of `report` and nothing that an agent wrote before: what is unknown now is removed."""
    written = _with_removals(report)
    written["kernel"] = None if report.kernel is None else _with_removals(report.kernel)
    written["agent"] = None if report.agent is None else _with_removals(report.agent)
    return {"status": written}


def _with_removals(part: NodeReport | KernelStatus | Any) -> dict[str, Any]:
    names = (field.alias or name for name, field in type(part).model_fields.items())
    return dict.fromkeys(names) | part.to_object()
