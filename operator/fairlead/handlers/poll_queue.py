"""The jobs that are due to be polled, of which so many have their turn in a second, one namespace after the other."""

from __future__ import annotations

import heapq
import itertools
from collections import OrderedDict

BURST_SECONDS = 0.2
"""So much of a second's polls may begin at once: timers are late now and then, and few jobs need not be kept apart."""


class PollQueue:
    """Holds each job once, with a rank: of one tenant's jobs that with the least has the first turn. All times are of one clock."""

    def __init__(self, most_a_second: float) -> None:
        self._pause_seconds = 1.0 / most_a_second
        self._free_at = 0.0
        """Where all turns had been a pause apart, when the next one would be."""
        self._lines: OrderedDict[str, list[tuple[float, int, str]]] = OrderedDict()
        """By tenant, the next one first; each a heap of ranks and UIDs, with entries that were replaced since."""
        self._places: dict[str, int] = {}
        """By UID, the number of the entry that holds."""
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self._places)

    def add(self, uid: str, tenant: str, rank: float) -> None:
        """Takes a job, or gives one that waits another rank."""
        number = self._places[uid] = next(self._numbers)
        heapq.heappush(self._lines.setdefault(tenant, []), (rank, number, uid))

    def drop(self, uid: str) -> None:
        """Takes a job out, if it waits."""
        self._places.pop(uid, None)

    def wait_seconds(self, now: float) -> float | None:
        """How long until the next turn: zero if it may begin now, None while nobody waits."""
        return max(0.0, self._free_at - BURST_SECONDS - now) if self._places else None

    def take(self, now: float) -> str | None:
        """The job whose turn it is, None while none may begin."""
        if self.wait_seconds(now) != 0.0:
            return None
        while self._lines:
            tenant, line = self._lines.popitem(last=False)
            uid = self._first(line)
            if line:
                self._lines[tenant] = line
            if uid is not None:
                self._free_at = max(self._free_at, now) + self._pause_seconds
                return uid
        return None

    def _first(self, line: list[tuple[float, int, str]]) -> str | None:
        while line:
            _, number, uid = heapq.heappop(line)
            if self._places.get(uid) == number:
                del self._places[uid]
                return uid
        return None
