"""A clock that stands still until a test moves it."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable


class FakeHandle:
    """A scheduled call."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class FakeTimers:
    """Has the two methods of an event loop that the queue uses."""

    def __init__(self) -> None:
        self._now = 1000.0
        self._calls: list[tuple[float, int, FakeHandle]] = []
        self._order = itertools.count()

    def time(self) -> float:
        return self._now

    def call_at(self, when: float, callback: Callable[[], None], /) -> FakeHandle:
        handle = FakeHandle(callback)
        heapq.heappush(self._calls, (when, next(self._order), handle))
        return handle

    def advance(self, seconds: float) -> None:
        """Lets time pass; calls that fall due are made at their own moment."""
        end = self._now + seconds
        while self._calls and self._calls[0][0] <= end:
            when, _, handle = heapq.heappop(self._calls)
            self._now = max(self._now, when)
            if handle.callback is not None:
                handle.callback()
        self._now = end
