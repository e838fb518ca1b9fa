"""How often progress is written: each job asks for it with every per cent, and ten thousand would keep the API server busy with it."""

from __future__ import annotations

import math
from collections.abc import Callable

from fairlead.core.observed import ProgressWrites

MOST_WRITES_A_SECOND = 25.0
"""Status writes that carry progress alone. Two hundred and fifty jobs are written every 10 s as if each were alone."""
BURST_SECONDS = 1.0
"""So much of a second's writes may come at once."""
SCARCE_SECONDS = 10.0
"""For so long after there were too few of them, they are for those that have waited for long."""


class ProgressBudget:
    """Tells whose progress may be written. `monotonic` is a clock in seconds."""

    def __init__(self, monotonic: Callable[[], float], most_a_second: float = MOST_WRITES_A_SECOND) -> None:
        self._monotonic = monotonic
        self._pause_seconds = 1.0 / most_a_second
        self._free_at = 0.0
        """When the next write would be if all were a pause apart."""
        self._scarce_until = -math.inf

    def allowed(self) -> ProgressWrites:
        """Whose progress may be written now."""
        now = self._monotonic()
        if self._free_at - BURST_SECONDS > now:
            self._scarce_until = now + SCARCE_SECONDS
            return ProgressWrites.NONE
        return ProgressWrites.OVERDUE if now < self._scarce_until else ProgressWrites.ALL

    def spend(self) -> None:
        """Counts a write."""
        self._free_at = max(self._free_at, self._monotonic()) + self._pause_seconds
