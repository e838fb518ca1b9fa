"""Polls the movers of every job beside the workers, which never wait for one: a pass takes the last good reports."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairlead.api.transferjob import TransferJob
from fairlead.core.observed import MoverPod, running_movers
from fairlead.core.reports import Reports
from fairlead.handlers.cache import ObjectKey
from fairlead.handlers.queue import TimerHandle, Timers
from fairlead.handlers.worker import BackgroundService
from fairlead.kube.observe.reports import ReportReader

DECIDING_SECONDS = 1.0
"""How often a job is polled until its advisor has decided: a small transfer ends soon after it."""
FORGOTTEN_SECONDS = 60.0
"""A job that no worker has looked at for so long is gone."""
_EARLY = 0.9
"""The part of the interval after which the next poll begins, so that its answers are there when the next pass is due."""

logger = logging.getLogger(__name__)


@dataclass
class _Polled:
    """A job with running movers. `seen` has its pods' UIDs, and whether each was ready."""

    key: ObjectKey
    uid: str
    pods: Sequence[MoverPod] = ()
    seen: frozenset[tuple[str, bool]] = frozenset()
    looked_at: float = 0.0
    due: float = 0.0
    timer: TimerHandle | None = None
    task: asyncio.Task[None] | None = None
    is_changed: bool = False
    """Its pods changed while it was being polled."""
    reports: Reports = field(default_factory=Reports)


class ReportPoller(BackgroundService):
    """Polls each job with running movers once in `interval_seconds`, and gives its key to `on_read` after each poll.

    How many polls are under way, and how often the silent are asked, is bounded by the reader. Used from one event loop only.
    """

    def __init__(self, reader: ReportReader, timers: Timers, interval_seconds: float, on_read: Callable[[ObjectKey], None]) -> None:
        super().__init__()
        self._reader = reader
        self._timers = timers
        self._interval_seconds = interval_seconds
        self._on_read = on_read
        self._jobs: dict[str, _Polled] = {}
        self._stopped = False

    def latest(self, job: TransferJob, pods: Sequence[MoverPod]) -> Reports:
        """The last good reports of the job's running pods. Sees to it that they are polled: at once where one is new or newly ready."""
        uid, movers = job.metadata.uid, [pod for pod in running_movers(pods) if pod is not None]
        reports = self._reader.known(uid, pods)
        if not movers or self._stopped:
            self._forget(uid)
            return reports
        polled = self._jobs.setdefault(uid, _Polled(ObjectKey(job.metadata.namespace, job.metadata.name), uid))
        seen = frozenset((pod.uid, pod.ready) for pod in movers)
        is_new = bool(seen - polled.seen)
        polled.pods, polled.seen, polled.looked_at, polled.reports = tuple(pods), seen, self._timers.time(), reports
        if polled.task is not None:
            polled.is_changed = polled.is_changed or is_new
        else:
            self._poll_after(polled, 0.0 if is_new else _EARLY * self._pause_seconds(polled))
        return reports

    async def stop(self) -> None:
        """Ends all polls at once."""
        self._stopped = True
        tasks = [polled.task for polled in self._jobs.values() if polled.task is not None]
        for uid in list(self._jobs):
            self._forget(uid)
        await asyncio.gather(*tasks, return_exceptions=True)

    def _work(self) -> list[tuple[str, Coroutine[Any, Any, None]]]:
        return []

    def _pause_seconds(self, polled: _Polled) -> float:
        _, sender = running_movers(polled.pods)
        awaits_decision = sender is not None and polled.reports.decision is None
        return min(self._interval_seconds, DECIDING_SECONDS) if awaits_decision else self._interval_seconds

    def _poll_after(self, polled: _Polled, delay_seconds: float) -> None:
        """Of several such wishes the earliest counts."""
        due = self._timers.time() + delay_seconds
        if polled.timer is not None:
            if polled.due <= due:
                return
            polled.timer.cancel()
        polled.due, polled.timer = due, self._timers.call_at(due, lambda: self._begin(polled))

    def _begin(self, polled: _Polled) -> None:
        polled.timer = None
        if self._timers.time() - polled.looked_at > FORGOTTEN_SECONDS:
            self._forget(polled.uid)
            return
        polled.task = asyncio.get_running_loop().create_task(self._poll(polled), name=f"poll {polled.key.namespace}/{polled.key.name}")

    async def _poll(self, polled: _Polled) -> None:
        try:
            await self._reader.read(polled.uid, polled.pods, polled.key.namespace)
        except Exception:
            logger.exception("TransferJob %s/%s: a defect of the operator in polling its movers", polled.key.namespace, polled.key.name)
        polled.task = None
        if self._jobs.get(polled.uid) is not polled:
            self._reader.forget(polled.uid)
            return
        # A pass takes up what was read and asks for the next poll. This one is for a job whose pass fails.
        self._poll_after(polled, 0.0 if polled.is_changed else self._interval_seconds)
        polled.is_changed = False
        self._on_read(polled.key)

    def _forget(self, uid: str) -> None:
        polled = self._jobs.pop(uid, None)
        if polled is None:
            return
        if polled.timer is not None:
            polled.timer.cancel()
        if polled.task is not None:
            polled.task.cancel()
        self._reader.forget(uid)
