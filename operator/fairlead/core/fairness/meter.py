"""Rates from counters that are read at irregular times."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from operator import attrgetter

_BITS = 8
KEPT_SECONDS = 20.0
STALE_SECONDS = 15.0
_SHORTEST_SECONDS = 1.5
"""Two readings closer than this give no useful rate."""
_AT = attrgetter("at")


@dataclass(frozen=True, slots=True)
class CounterReading:
    """A counter at a moment, and for how long until then what it counts was held back on purpose."""

    at: float
    count: int
    quiet_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Meter:
    """The last readings of one counter, oldest first."""

    samples: tuple[CounterReading, ...] = ()

    def noted(self, at: float, count: int, quiet_seconds: float = 0.0) -> Meter:
        """With one more reading. A counter that fell has been started anew."""
        reading = CounterReading(at, count, quiet_seconds)
        if self.samples and (count < self.samples[-1].count or at <= self.samples[-1].at):
            return Meter((reading,)) if count < self.samples[-1].count else self
        kept = tuple(sample for sample in self.samples if sample.at >= at - KEPT_SECONDS)
        return Meter((*kept, reading))

    def rate_bps(self, now: float, window_seconds: float) -> float | None:
        """The mean rate over about the last `window_seconds`; None without a recent reading, or with one alone."""
        ends = self.window(now, window_seconds)
        return None if ends is None else (ends[1].count - ends[0].count) * _BITS / (ends[1].at - ends[0].at)

    def unhindered_bps(self, now: float, window_seconds: float) -> float | None:
        """As `rate_bps`, over the time alone in which nothing was held back on purpose; None if that was too short."""
        ends = self.window(now, window_seconds)
        if ends is None:
            return None
        seconds = (ends[1].at - ends[0].at) - (ends[1].quiet_seconds - ends[0].quiet_seconds)
        return None if seconds < _SHORTEST_SECONDS else (ends[1].count - ends[0].count) * _BITS / seconds

    def mean_bps(self, begin: float, end: float, until: float | None = None) -> float:
        """The mean rate between two moments, whenever the readings were, if the counter did not grow after `until`."""
        stop = end if until is None else min(end, until)
        return max(0.0, self._count_at(stop) - self._count_at(min(begin, stop))) * _BITS / (end - begin)

    def _count_at(self, at: float) -> float:
        """What the counter showed or would show, by the rate between the nearest readings."""
        if len(self.samples) < 2:
            return float(self.samples[0].count) if self.samples else 0.0
        later = min(max(bisect_left(self.samples, at, key=_AT), 1), len(self.samples) - 1)
        first, last = self.samples[later - 1], self.samples[later]
        return max(0.0, first.count + (last.count - first.count) * (at - first.at) / (last.at - first.at))

    def window(self, now: float, window_seconds: float) -> tuple[CounterReading, CounterReading] | None:
        """The two readings from which `rate_bps` follows."""
        if len(self.samples) < 2 or now - self.samples[-1].at > STALE_SECONDS:
            return None
        last = self.samples[-1]
        first = self.samples[max(bisect_right(self.samples, last.at - window_seconds, key=_AT) - 1, 0)]
        return None if last.at - first.at < _SHORTEST_SECONDS else (first, last)
