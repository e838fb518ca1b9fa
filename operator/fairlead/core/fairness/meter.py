"""Rates from counters that are read at irregular times."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from operator import attrgetter

_BITS = 8
KEPT_SECONDS = 20.0
"""Readings that are older are forgotten, but for the last ones."""
STALE_SECONDS = 15.0
"""A counter that is read all the time and was not for so long tells no rate any more."""
_KEPT_READINGS = 3
"""How many readings are kept however old they are, beside the newest: what is read once in minutes has a rate between them too."""
_SHORTEST_SECONDS = 1.5
"""Two readings closer than this give no useful rate."""
_AT = attrgetter("at")


@dataclass(frozen=True, slots=True)
class CounterReading:
    """A counter at a moment, and for how long until then what it counts was held back on purpose."""

    at: float
    count: int
    quiet_seconds: float = 0.0


_NO_READING = CounterReading(0.0, 0)


@dataclass(frozen=True, slots=True)
class Meter:
    """The last readings of one counter, oldest first."""

    samples: tuple[CounterReading, ...] = ()

    def noted(self, at: float, count: int, quiet_seconds: float = 0.0) -> Meter:
        """With one more reading. A counter that fell has been started anew."""
        reading = CounterReading(at, count, quiet_seconds)
        if self.samples and (count < self.samples[-1].count or at <= self.samples[-1].at):
            return Meter((reading,)) if count < self.samples[-1].count else self
        first = min(bisect_left(self.samples, at - KEPT_SECONDS, key=_AT), max(0, len(self.samples) - _KEPT_READINGS))
        return Meter((*self.samples[first:], reading))

    def rate_bps(self, window_seconds: float) -> float | None:
        """The mean rate over about the last `window_seconds` before the last reading; None with one reading alone."""
        ends = self.window(window_seconds)
        return None if ends is None else (ends[1].count - ends[0].count) * _BITS / (ends[1].at - ends[0].at)

    def unhindered_bps(self, window_seconds: float) -> float | None:
        """As `rate_bps`, over the time alone in which nothing was held back on purpose; None if that was too short."""
        ends = self.window(window_seconds)
        if ends is None:
            return None
        seconds = (ends[1].at - ends[0].at) - (ends[1].quiet_seconds - ends[0].quiet_seconds)
        return None if seconds < _SHORTEST_SECONDS else (ends[1].count - ends[0].count) * _BITS / seconds

    def mean_bps(self, begin: float, end: float, until: float | None = None, unread_bps: float | None = None) -> float:
        """The mean rate between two moments, whenever the readings were, if the counter did not grow after `until`.

        `unread_bps` is the rate since the last reading, and all the time where there are not two; None for as between the nearest ones.
        """
        stop = end if until is None else min(end, until)
        grown = self._count_at(stop, unread_bps) - self._count_at(min(begin, stop), unread_bps)
        return max(0.0, grown) * _BITS / (end - begin)

    def _count_at(self, at: float, unread_bps: float | None) -> float:
        """What the counter showed or would show."""
        last = self.samples[-1] if self.samples else _NO_READING
        is_unread = len(self.samples) < 2 or at > last.at
        if is_unread and unread_bps is not None:
            return last.count + unread_bps / _BITS * (at - last.at)
        if len(self.samples) < 2:
            return float(last.count)
        later = min(max(bisect_left(self.samples, at, key=_AT), 1), len(self.samples) - 1)
        first, last = self.samples[later - 1], self.samples[later]
        return max(0.0, first.count + (last.count - first.count) * (at - first.at) / (last.at - first.at))

    def is_stale(self, now: float) -> bool:
        """Whether a counter that is read all the time was not read for too long."""
        return not self.samples or now - self.samples[-1].at > STALE_SECONDS

    def window(self, window_seconds: float) -> tuple[CounterReading, CounterReading] | None:
        """The two readings from which `rate_bps` follows."""
        if len(self.samples) < 2:
            return None
        last = self.samples[-1]
        first = self.samples[max(bisect_right(self.samples, last.at - window_seconds, key=_AT) - 1, 0)]
        return None if last.at - first.at < _SHORTEST_SECONDS else (first, last)
