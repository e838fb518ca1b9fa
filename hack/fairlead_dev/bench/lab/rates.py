"""Rates from the counters of an interface. Pure functions."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

ETHERNET_HEADER_BYTES = 14


@dataclass(frozen=True, slots=True)
class InterfaceSample:
    """Counters at one moment."""

    time_s: float
    ip_bytes: int
    """Bytes since the interface came up, IP headers included, the link's not."""


def parse(text: str, *, link_header_bytes: int = ETHERNET_HEADER_BYTES) -> list[InterfaceSample]:
    """The samples in the sampler's output; a last line that is not whole is left out."""
    samples = []
    for line in text.splitlines():
        fields = line.split()
        if len(fields) == 3:
            samples.append(InterfaceSample(float(fields[0]), int(fields[1]) - link_header_bytes * int(fields[2])))
    return samples


def first_data_s(samples: Sequence[InterfaceSample], threshold_bytes: int) -> float | None:
    """When `threshold_bytes` more than at the first sample had come; None if they never did."""
    return next((sample.time_s for sample in samples if sample.ip_bytes - samples[0].ip_bytes >= threshold_bytes), None)


def windows(
    samples: Sequence[InterfaceSample], length_s: float, step_s: float, start_s: float, end_s: float
) -> Iterator[tuple[float, float]]:
    """Start in seconds and rate in bits per second of each window of that length between the two times.

    The ends lie between samples: the counter is taken as growing evenly from one to the next.
    """
    times = [sample.time_s for sample in samples]
    number = 0
    while (begin_s := start_s + number * step_s) + length_s <= end_s + 1e-9:
        first, last = (_at(samples, times, moment) for moment in (begin_s, begin_s + length_s))
        yield begin_s, (last - first) * 8 / length_s
        number += 1


def _at(samples: Sequence[InterfaceSample], times: Sequence[float], moment_s: float) -> float:
    after = min(max(bisect.bisect_left(times, moment_s), 1), len(samples) - 1)
    left, right = samples[after - 1], samples[after]
    part = (moment_s - left.time_s) / (right.time_s - left.time_s)
    return left.ip_bytes + min(max(part, 0.0), 1.0) * (right.ip_bytes - left.ip_bytes)


def excess_and_lack(rates_bps: Sequence[float], cap_bps: float) -> list[float]:
    """How far each rate is from the cap, as a share of it: positive above, negative below."""
    return [rate / cap_bps - 1 for rate in rates_bps]


def settled_s(
    samples: Sequence[InterfaceSample], changed_s: float, before_bps: float, after_bps: float, *, window_s: float, limit_s: float
) -> float | None:
    """Seconds from the change to the end of the first window from which on all windows are nearer to the new rate than to the old."""
    middle = (before_bps * after_bps) ** 0.5
    rising = after_bps > before_bps
    settled = None
    for begin_s, rate_bps in windows(samples, window_s, window_s / 10, changed_s - window_s, changed_s + limit_s):
        if (rate_bps > middle) != rising:
            settled = None
        elif settled is None:
            settled = begin_s + window_s - changed_s
    return None if settled is None else max(settled, 0.0)


def percentile(values: Sequence[float], share: float) -> float:
    """The value that `share` of the values do not exceed (nearest rank). `values` must not be empty."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
