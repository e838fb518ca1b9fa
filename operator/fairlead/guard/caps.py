"""The caps of senders, followed in the status of the jobs that own them, which only the operator writes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Set
from dataclasses import dataclass
from typing import Any

from fairlead.api.shared.quantity import RateError, parse_rate
from fairlead.guard.senders import JobRef

PAUSE_SECONDS = 2.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StatedCap:
    """A cap in bit/s as a job's status has it; None for no cap."""

    cap_bps: int | None


def stated_cap(job: Mapping[str, Any]) -> StatedCap | None:
    """The cap of a job's status; None while it says nothing of bandwidth, or what is no rate."""
    bandwidth = (job.get("status") or {}).get("bandwidth")
    if bandwidth is None:
        return None
    text = bandwidth.get("allocated")
    try:
        return StatedCap(None if text is None else parse_rate(str(text)))
    except RateError:
        return None


class JobCaps:
    """A watch for each job that has a sender here. Caps stay as they were while the API server is away."""

    def __init__(
        self,
        *,
        versions: Callable[[JobRef], AsyncIterator[Mapping[str, Any]]],
        changed: Callable[[], Awaitable[None]],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        """`versions` yields the job as it is, then each change, until the watch ends."""
        self._versions, self._changed, self._sleep = versions, changed, sleep
        self._watches: dict[JobRef, asyncio.Task[None]] = {}
        self._stated: dict[JobRef, StatedCap] = {}

    def stated(self, job: JobRef) -> StatedCap | None:
        """What the job's status says; None until it says something."""
        return self._stated.get(job)

    def follow(self, jobs: Set[JobRef]) -> None:
        """Watches these jobs and no others."""
        for job in self._watches.keys() - jobs:
            self._watches.pop(job).cancel()
            self._stated.pop(job, None)
        for job in jobs - self._watches.keys():
            self._watches[job] = asyncio.create_task(self._watch(job))

    async def _watch(self, job: JobRef) -> None:
        now = asyncio.get_running_loop().time
        while True:
            begun_s = now()
            try:
                async for body in self._versions(job):
                    await self._take(job, body)
            except Exception as error:
                logger.warning("the cap of %s/%s is not followed for now: %s: %s", job.namespace, job.name, type(error).__name__, error)
                await self._sleep(PAUSE_SECONDS)
            else:
                # A watch ends after some minutes; where a server ends each one at once, it is not asked without a pause.
                if now() < begun_s + PAUSE_SECONDS:
                    await self._sleep(PAUSE_SECONDS)

    async def _take(self, job: JobRef, body: Mapping[str, Any]) -> None:
        stated = stated_cap(body)
        if stated is None or body["metadata"].get("uid") != job.uid or stated == self._stated.get(job):
            return
        self._stated[job] = stated
        await self._changed()
