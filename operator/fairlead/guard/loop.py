"""Keeps the caps of the node's senders in force: a list of pods, then a watch, and a list again when the watch ends."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from fairlead.core.fairness.settle import OBEYED_SECONDS
from fairlead.guard.caps import JobCaps
from fairlead.guard.holds import Holds
from fairlead.guard.senders import JobRef, Sender, read_sender

Pod = Mapping[str, Any]
Change = tuple[str, Pod]
"""`ADDED`, `MODIFIED` or `DELETED`, and the pod."""

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0
RENEW_SECONDS = 10.0
STARTING_SECONDS = 0.05
"""So often a control group is looked for that is about to be made: containers start later than that."""
ALIVE_SECONDS = 60.0

logger = logging.getLogger(__name__)


class Guard:
    """The senders of one node. `pods` lists the node's movers, `changes` follows its pods from there until it ends; `jobs` follows one
    job likewise.
    """

    def __init__(
        self,
        *,
        pods: Callable[[], Awaitable[list[Pod]]],
        changes: Callable[[], AsyncIterator[Change]],
        jobs: Callable[[JobRef], AsyncIterator[Mapping[str, Any]]],
        holds: Holds,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._list, self._changes, self._holds, self._sleep = pods, changes, holds, sleep
        self._caps = JobCaps(versions=jobs, changed=self._apply, sleep=sleep)
        self._senders: dict[str, Sender] = {}
        self._annotated_bps: dict[str, int | None] = {}
        """As first seen: who may change pods could change it later."""
        self._in_force_bps: dict[str, int | None] = {}
        self._falls: dict[str, asyncio.Task[None]] = {}
        self._turn = asyncio.Lock()
        self._renewed_at = time.monotonic()
        self._pause_seconds = FIRST_PAUSE_SECONDS
        self.is_synced = False
        """Whether the node's senders are known and their caps were put in force."""

    @property
    def is_alive(self) -> bool:
        """Whether caps were renewed lately."""
        return time.monotonic() < self._renewed_at + ALIVE_SECONDS

    async def run(self) -> None:
        """Until it is cancelled. Caps stay in force then, and while the API server is away."""
        upkeep = asyncio.create_task(self._keep_up())
        try:
            await self._follow_always()
        finally:
            self._caps.follow(set())
            for task in (upkeep, *self._falls.values()):
                task.cancel()

    async def _follow_always(self) -> None:
        while True:
            try:
                await self._follow()
            except Exception as error:
                pause_seconds = self._pause_seconds
                self._pause_seconds = min(2 * pause_seconds, LONGEST_PAUSE_SECONDS)
                logger.warning("the node's pods are not followed, again in %.0f s: %s: %s", pause_seconds, type(error).__name__, error)
                await self._sleep(pause_seconds)

    async def _follow(self) -> None:
        pods = {str(pod["metadata"]["uid"]): pod for pod in await self._list()}
        for uid in self._senders.keys() - pods.keys():
            self._take(uid, None)
        for uid, pod in pods.items():
            self._take(uid, _read(pod))
        await self._apply()
        self.is_synced = True
        # Only what comes before this shows that the API server is away; watches end for many reasons.
        self._pause_seconds = FIRST_PAUSE_SECONDS
        async for kind, pod in self._changes():
            uid, sender = str(pod["metadata"]["uid"]), None if kind == "DELETED" else _read(pod)
            # Most of a node's pods are no senders.
            if sender is not None or uid in self._senders:
                self._take(uid, sender)
                await self._apply()

    async def _keep_up(self) -> None:
        while True:
            try:
                if self._holds.is_waiting:
                    await self._apply()
                if time.monotonic() >= self._renewed_at + RENEW_SECONDS:
                    self._holds.renew()
                    # Before that it would take the rules of an earlier guard away.
                    if self.is_synced:
                        await self._apply()
                    self._renewed_at = time.monotonic()
            except Exception:
                logger.exception("caps could not be renewed; again in %.0f s", FIRST_PAUSE_SECONDS)
                await asyncio.sleep(FIRST_PAUSE_SECONDS)
            await asyncio.sleep(STARTING_SECONDS)

    def _take(self, uid: str, sender: Sender | None) -> None:
        if sender is None:
            self._senders.pop(uid, None)
            self._annotated_bps.pop(uid, None)
        else:
            self._senders[uid] = sender
            self._annotated_bps.setdefault(uid, sender.annotated_bps)
        self._caps.follow({each.job for each in self._senders.values()})

    def _cap_bps(self, sender: Sender) -> int | None:
        stated = self._caps.stated(sender.job)
        return stated.cap_bps if stated is not None else self._annotated_bps[sender.uid]

    async def _apply(self) -> None:
        async with self._turn:
            for uid in self._in_force_bps.keys() - self._senders.keys():
                self._set(uid, None)
                del self._in_force_bps[uid]
            for uid, sender in self._senders.items():
                self._settle(uid, self._cap_bps(sender))
            caps = [(sender, self._in_force_bps[uid]) for uid, sender in self._senders.items()]
            # While nothing is known of a cap, that of an earlier guard stays in force.
            await self._holds.apply([cap for cap in caps if cap[1] is not None or self._caps.stated(cap[0].job) is not None])

    def _settle(self, uid: str, cap_bps: int | None) -> None:
        before_bps = self._in_force_bps.get(uid)
        if before_bps is None or cap_bps is None or cap_bps >= before_bps:
            self._set(uid, cap_bps)
        elif uid not in self._falls:
            # The mover may not have read its new cap yet: one that obeys must not lose packets. Further changes do not put it off.
            self._falls[uid] = asyncio.create_task(self._fall(uid))

    async def _fall(self, uid: str) -> None:
        await self._sleep(OBEYED_SECONDS)
        del self._falls[uid]
        if uid in self._senders:
            self._in_force_bps[uid] = self._cap_bps(self._senders[uid])
            await self._apply()

    def _set(self, uid: str, cap_bps: int | None) -> None:
        fall = self._falls.pop(uid, None)
        if fall is not None:
            fall.cancel()
        self._in_force_bps[uid] = cap_bps


def _read(pod: Pod) -> Sender | None:
    """The sender; None also for a pod that cannot be read, which must not keep the others from being held."""
    try:
        return read_sender(pod)
    except (KeyError, TypeError, ValueError) as error:
        metadata = pod.get("metadata") or {}
        logger.error("pod %s/%s is not understood: %s: %s", metadata.get("namespace"), metadata.get("name"), type(error).__name__, error)
        return None
