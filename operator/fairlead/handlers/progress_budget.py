"""How often progress is written: each job asks for it with every per cent, and ten thousand would keep the API server busy with it."""

from __future__ import annotations

from collections.abc import Callable

MOST_WRITES_A_SECOND = 25.0
"""Status writes that carry progress alone. Two hundred and fifty jobs are written every 10 s as if each were alone. Beyond that whoever has
waited too long is written all the same (`core.status.may_wait_for_others`), at the cost of the others."""
BURST_SECONDS = 1.0
"""So much of a second's writes may come at once."""


class ProgressBudget:
    """Tells whether another job's progress may be written. `monotonic` is a clock in seconds."""

    def __init__(self, monotonic: Callable[[], float], most_a_second: float = MOST_WRITES_A_SECOND) -> None:
        self._monotonic = monotonic
        self._pause_seconds = 1.0 / most_a_second
        self._free_at = 0.0
        """When the next write would be if all were a pause apart."""

    @property
    def is_left(self) -> bool:
        """Whether one more may be written now."""
        return self._free_at - BURST_SECONDS <= self._monotonic()

    def spend(self) -> None:
        """Counts a write."""
        self._free_at = max(self._free_at, self._monotonic()) + self._pause_seconds
