"""Waiting for sockets and for moments of a run's clock, in one thread."""

from __future__ import annotations

import heapq
import itertools
import select
import time
from collections.abc import Callable

_NS = 1_000_000_000


class AgentLoop:
    """Calls back when a descriptor is ready or a moment has come. Times are s of the run's clock: 0 is the start of the recording."""

    def __init__(self) -> None:
        self._start_ns = 0
        self._epoll = select.epoll()
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def start_at(self, start_ns: int) -> None:
        """Set the run's clock: its 0 is this moment of the monotonic clock."""
        self._start_ns = start_ns

    def now_s(self) -> float:
        """The run's clock."""
        return (time.monotonic_ns() - self._start_ns) / _NS

    def watch(self, descriptor: int, events: int, handler: Callable[[int], None]) -> None:
        """Call `handler` with the events of `descriptor`."""
        self._handlers[descriptor] = handler
        self._epoll.register(descriptor, events)

    def forget(self, descriptor: int) -> None:
        """Watch it no longer; call before it is closed."""
        if self._handlers.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)

    def at(self, moment_s: float, call: Callable[[], None]) -> None:
        """Call at that moment, or at once if it is past."""
        heapq.heappush(self._timers, (moment_s, next(self._order), call))

    def run_until(self, end_s: float) -> None:
        """Serve until the run's clock shows `end_s`; what is due until then is called, however late."""
        while True:
            now_s = self.now_s()
            if self._timers and self._timers[0][0] <= min(now_s, end_s):
                heapq.heappop(self._timers)[2]()
                continue
            if now_s >= end_s:
                return
            next_s = min(end_s, self._timers[0][0]) if self._timers else end_s
            for descriptor, events in self._epoll.poll(max(0.0, next_s - now_s)):
                # An earlier handler of this round may have closed it.
                if handler := self._handlers.get(descriptor):
                    handler(events)
