"""The API server's time, which dates every object.

What the operator decides by age compares its own time with times of objects. Its machine's clock may be wrong, and may jump in mid-run.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

TOLERANCE_SECONDS = 2.0
"""How far the two may be apart: API servers behind one address are no closer, and answers tell whole seconds."""

logger = logging.getLogger(__name__)


def boot_seconds() -> float:
    """A clock that never jumps and goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class ServerClock:
    """Goes by `steady`, a clock that never jumps, from what `wall` shows at first, and is set right by the `Date` of answers."""

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = boot_seconds) -> None:
        self.steady = steady
        self._offset_seconds = wall() - steady()

    def time(self) -> float:
        """Seconds since the epoch."""
        return self.steady() + self._offset_seconds

    def now(self) -> datetime:
        """The same with a time zone."""
        return datetime.fromtimestamp(self.time(), UTC)

    def note(self, date: str | None, sent_at: float) -> None:
        """Takes in the header `Date` of an answer that was just received, to a request that was sent at `sent_at` by `steady`."""
        try:
            server = parsedate_to_datetime(date or "").timestamp()
        except ValueError:
            return
        # It was written in between, and within the second that it names.
        least, most = server - self.steady(), server + 1.0 - sent_at
        right = min(max(self._offset_seconds, least), most)
        if abs(right - self._offset_seconds) <= TOLERANCE_SECONDS:
            return
        logger.warning("the clock here is %.0f s ahead of the API server's, whose time is used", self._offset_seconds - right)
        self._offset_seconds = right
