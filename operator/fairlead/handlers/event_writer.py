"""Writes events beside the workers: no pass waits for what is best effort."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from fairlead.handlers.worker import BackgroundService
from fairlead.kube.client import KubeObject

LINES = 4
"""Events written at a time. Those of one object are in one line, so that they come in their order."""
MOST_IN_LINE = 250
DRAIN_SECONDS = 5.0
"""How long those that wait are still written for when the operator stops."""

logger = logging.getLogger(__name__)


class EventWriter(BackgroundService):
    """A bounded number of events that wait for `write`. Used from one event loop only."""

    def __init__(self, write: Callable[[KubeObject], Awaitable[None]]) -> None:
        super().__init__()
        self._write = write
        self._lines: list[asyncio.Queue[KubeObject]] = [asyncio.Queue(MOST_IN_LINE) for _ in range(LINES)]
        self._stopped = False

    def post(self, event: KubeObject) -> bool:
        """Takes an event that will be written soon; False if too many wait, or none is taken any more."""
        if self._stopped:
            return False
        try:
            self._lines[hash(event["involvedObject"]["uid"]) % LINES].put_nowait(event)
        except asyncio.QueueFull:
            return False
        return True

    async def stop(self) -> None:
        """Writes what waits, for a while, and ends."""
        self._stopped = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                await asyncio.gather(*(line.join() for line in self._lines))
        await self._cancel()

    def _work(self) -> list[tuple[str, Coroutine[Any, Any, None]]]:
        return [(f"event writer {number}", self._run(line)) for number, line in enumerate(self._lines)]

    async def _run(self, line: asyncio.Queue[KubeObject]) -> None:
        while True:
            event = await line.get()
            try:
                await self._write(event)
            except Exception:
                logger.exception("event %s: a defect of the operator in writing it", event["reason"])
            finally:
                line.task_done()
