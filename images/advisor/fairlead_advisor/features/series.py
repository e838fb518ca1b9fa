"""A window of echo requests, brought onto an even grid and scaled by what the probe itself can know."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fairlead_advisor.errors import TraceError
from fairlead_advisor.probe.trace import Trace

Floats: TypeAlias = npt.NDArray[np.float64]

# BBR's gain cycle is eight round trips, 80 ms on a path of 10 ms: 20 Hz cannot resolve it. 30 requests of 76 bytes a second are 0.09 % of
# 20 Mb/s, the slowest path that we are made for.
GRID_HZ = 30.0
MINIMUM_ANSWERED = 10

# Below this spread a window is the noise of hosts and clocks; dividing by less would blow it up into shapes.
SMALLEST_SPREAD_MS = 0.2


@dataclass(frozen=True, slots=True)
class Window:
    """Echo requests in the order of sending: when (s) and the round-trip time (ms, NaN for a lost one), float64 of shape (n,)."""

    send_times_s: Floats
    rtts_ms: Floats
    seconds: float


@dataclass(frozen=True, slots=True)
class Series:
    """A window on an even grid of `rate_hz`.

    `queue_ms` is the RTT above the window's own minimum `base_ms`; `level` is that queue over the spread between its 1st and 99th
    percentile, so that it is about 0 to 1 on every path; `spread_ms` is that spread, `lost` one flag per request as it was sent.
    """

    rate_hz: float
    base_ms: float
    median_ms: float
    spread_ms: float
    queue_ms: Floats
    level: Floats
    lost: npt.NDArray[np.bool_]

    @property
    def base_samples(self) -> float:
        """The base RTT in samples of the grid."""
        return self.base_ms / 1000 * self.rate_hz

    @property
    def seconds(self) -> float:
        """The length of the grid."""
        return len(self.queue_ms) / self.rate_hz


def last_window(trace: Trace, seconds: float) -> Window:
    """The last `seconds` of `trace`, which must not be empty."""
    times_s, rtts_ms = columns(trace)
    first = int(np.searchsorted(times_s, times_s[-1] - seconds, side="right"))
    return Window(times_s[first:], rtts_ms[first:], seconds)


def consecutive_windows(trace: Trace, seconds: float, hop_s: float | None = None) -> Iterator[Window]:
    """Whole windows of `trace` from its start, each `hop_s` after the one before (default: `seconds`, no overlap)."""
    times_s, rtts_ms = columns(trace)
    if not len(times_s):
        return
    period_s = float(np.median(np.diff(times_s))) if len(times_s) > 1 else 0.0
    # The last request stands for the period after it; the rest forgives one request that was missed at the end.
    end_s = times_s[-1] + 2.5 * period_s
    step_s = hop_s or seconds
    count = int((end_s - times_s[0] - seconds) // step_s) + 1 if end_s - times_s[0] >= seconds else 0
    for index in range(count):
        start_s = times_s[0] + index * step_s
        first, after = np.searchsorted(times_s, (start_s - period_s / 2, start_s + seconds - period_s / 2))
        yield Window(times_s[first:after], rtts_ms[first:after], seconds)


def columns(trace: Trace) -> tuple[Floats, Floats]:
    """The send times (s) and RTTs (ms, NaN for lost) of `trace` as arrays that share its memory."""
    return np.frombuffer(trace.send_times_s, dtype=np.float64), np.frombuffer(trace.rtts_ms, dtype=np.float64)


def quantiles(values: Floats, shares: tuple[float, ...]) -> list[float]:
    """Linearly interpolated quantiles, as numpy's, without its cost on short arrays."""
    ordered = np.sort(values)
    places = [share * (len(ordered) - 1) for share in shares]
    lower = [int(place) for place in places]
    upper = [min(index + 1, len(ordered) - 1) for index in lower]
    return [
        float(ordered[first] + (ordered[second] - ordered[first]) * (place - first))
        for place, first, second in zip(places, lower, upper, strict=True)
    ]


def median(values: Floats) -> float:
    """The median of a non-empty array."""
    return quantiles(values, (0.5,))[0]


def resample(window: Window, rate_hz: float = GRID_HZ) -> Series:
    """`window` on an even grid: each point takes the answered request nearest to it, so that every rate keeps the same noise.

    Raises TraceError if too few requests were answered.
    """
    answered = np.isfinite(window.rtts_ms)
    times_s, rtts_ms = window.send_times_s[answered], window.rtts_ms[answered]
    if len(times_s) < MINIMUM_ANSWERED:
        raise TraceError(
            f"only {len(times_s)} answered request(s) in a window of {window.seconds:g} s, at least {MINIMUM_ANSWERED} are needed"
        )
    grid_s = window.send_times_s[0] + np.arange(max(2, round(window.seconds * rate_hz))) / rate_hz
    after = np.clip(np.searchsorted(times_s, grid_s), 1, len(times_s) - 1)
    nearest = np.where(grid_s - times_s[after - 1] <= times_s[after] - grid_s, after - 1, after)
    values_ms = rtts_ms[nearest]
    base_ms = float(values_ms.min())
    queue_ms = values_ms - base_ms
    low_ms, median_ms, high_ms = quantiles(queue_ms, (0.01, 0.5, 0.99))
    spread_ms = high_ms - low_ms
    return Series(
        rate_hz=rate_hz,
        base_ms=max(base_ms, 1e-3),
        median_ms=max(base_ms + median_ms, 1e-3),
        spread_ms=spread_ms,
        queue_ms=queue_ms,
        level=(queue_ms - low_ms) / max(spread_ms, SMALLEST_SPREAD_MS),
        lost=~answered,
    )
