"""How late the event loop is: with more to do than it can, it misses answers that came in time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

LOOK_SECONDS = 0.1
KEPT_SECONDS = 5.0
LATE_PART = 0.25
"""An answer that takes four turns of the loop comes too late where so much of its time went to other work."""


class LoopLag:
    """Looks all the time how much later than asked for it is called. `monotonic` is a clock in seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._late: deque[tuple[float, float]] = deque()
        """When it was called, and how many seconds late."""

    async def watch(self) -> None:
        """Looks until it is cancelled."""
        while True:
            due = self._monotonic() + LOOK_SECONDS
            await asyncio.sleep(LOOK_SECONDS)
            self.note(self._monotonic() - due)

    def note(self, late_seconds: float) -> None:
        """Takes in that a call came so late just now."""
        now = self._monotonic()
        self._late.append((now, max(0.0, late_seconds)))
        while self._late[0][0] < now - KEPT_SECONDS:
            self._late.popleft()

    def was_late(self, seconds: float) -> bool:
        """Whether the loop had other work for much of the last `seconds`."""
        since = self._monotonic() - seconds
        return sum(late for at, late in self._late if at >= since) >= LATE_PART * seconds
