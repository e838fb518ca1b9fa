"""Keeps the kernel's rules as the node's pods need them: a list, then a watch, and a list again when the watch ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from fairlead.core.fairness.settle import OBEYED_SECONDS
from fairlead.guard.ruleset import HeldSender, no_rules, ruleset
from fairlead.guard.senders import held_sender

Pod = Mapping[str, Any]
Change = tuple[str, Pod]
"""`ADDED`, `MODIFIED` or `DELETED`, and the pod."""

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0

logger = logging.getLogger(__name__)


class RulesRefusedError(Exception):
    """The kernel or `nft` would not take the rules. The node's administrator is to blame; the message has what `nft` printed."""


class Guard:
    """The rules of one node. `install` gives a script to `nft`, `pods` lists the node's movers, `changes` follows them until it ends."""

    def __init__(
        self,
        *,
        pods: Callable[[], Awaitable[list[Pod]]],
        changes: Callable[[], AsyncIterator[Change]],
        install: Callable[[str], Awaitable[None]],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._list, self._changes, self._install, self._sleep = pods, changes, install, sleep
        self._held: dict[str, HeldSender] = {}
        self._falls: dict[str, asyncio.Task[None]] = {}
        self._installed = ""
        self._turn = asyncio.Lock()

    async def run(self) -> None:
        """Until it is cancelled; then the node is left without rules. While the API server is away, rules stay.

        Raises RulesRefusedError.
        """
        pause_seconds = FIRST_PAUSE_SECONDS
        try:
            while True:
                try:
                    await self._follow()
                    pause_seconds = FIRST_PAUSE_SECONDS
                except RulesRefusedError:
                    raise
                except Exception as error:
                    logger.warning("the node's pods are not known, again in %.0f s: %s: %s", pause_seconds, type(error).__name__, error)
                    await self._sleep(pause_seconds)
                    pause_seconds = min(2 * pause_seconds, LONGEST_PAUSE_SECONDS)
        finally:
            for fall in self._falls.values():
                fall.cancel()
            await self._install(no_rules())

    async def _follow(self) -> None:
        pods = {str(pod["metadata"]["uid"]): pod for pod in await self._list()}
        for uid in self._held.keys() - pods.keys():
            self._set(uid, None)
        for uid, pod in pods.items():
            self._take(uid, held_sender(pod))
        await self._apply()
        async for kind, pod in self._changes():
            self._take(str(pod["metadata"]["uid"]), None if kind == "DELETED" else held_sender(pod))
            await self._apply()

    def _take(self, uid: str, after: HeldSender | None) -> None:
        before = self._held.get(uid)
        if before is None or after is None or replace(before, cap_bps=after.cap_bps) != after or after.cap_bps >= before.cap_bps:
            self._set(uid, after)
            return
        # The mover may not have read its new cap yet: one that obeys must not lose packets.
        self._stop_fall(uid)
        self._falls[uid] = asyncio.create_task(self._fall(uid, after))

    async def _fall(self, uid: str, after: HeldSender) -> None:
        await self._sleep(OBEYED_SECONDS)
        del self._falls[uid]
        self._set(uid, after)
        try:
            await self._apply()
        except RulesRefusedError as error:
            # The next change gives them to the kernel again, and ends the guard if that is still in vain.
            logger.error("a lower cap is not held: %s", error)

    def _set(self, uid: str, after: HeldSender | None) -> None:
        self._stop_fall(uid)
        if after is None:
            self._held.pop(uid, None)
        else:
            self._held[uid] = after

    def _stop_fall(self, uid: str) -> None:
        fall = self._falls.pop(uid, None)
        if fall is not None:
            fall.cancel()

    async def _apply(self) -> None:
        async with self._turn:
            script = ruleset(set(self._held.values()))
            if script != self._installed:
                await self._install(script)
                self._installed = script
                logger.info("%d senders are held to their caps", len(self._held))
