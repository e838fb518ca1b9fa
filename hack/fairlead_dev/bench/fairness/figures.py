"""Shares from counters: pure functions. Rates are bits per second, times seconds of one clock."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairlead.core.allocation import jain_index
from fairlead_dev.bench.lab.rates import InterfaceSample, windows

WINDOW_S, STEP_S = 1.0, 0.1
WITHIN = 0.1

Series = Mapping[str, Sequence[InterfaceSample]]


def parse_counters(text: str) -> dict[str, list[InterfaceSample]]:
    """The samples of each counter in what `bed/counters.py` printed; a last line that is not whole is left out."""
    found: dict[str, list[InterfaceSample]] = {}
    for line in text.splitlines(keepends=True):
        fields = line.split()
        if not line.endswith("\n") or len(fields) % 3 != 1:
            continue
        for name, count, _ in zip(fields[1::3], fields[2::3], fields[3::3], strict=True):
            found.setdefault(name, []).append(InterfaceSample(float(fields[0]), int(count)))
    return found


def mean_rate_bps(samples: Sequence[InterfaceSample], begin_s: float, end_s: float) -> float:
    """The mean rate between two times, 0 without samples on both sides of the span's begin."""
    found = [rate for _, rate in windows(samples, end_s - begin_s, 1.0, begin_s, end_s)] if len(samples) > 1 else []
    return found[0] if found else 0.0


def normalised_jain(rates_bps: Mapping[str, float], due_bps: Mapping[str, float]) -> float:
    """Jain's index of what each had over what it is due [Jain 1984], with the fair throughput as the unit.

    What a greedy job is due is the level of its narrowest link times its weight there, so this is goodput by weight, comparable over links.
    """
    index = jain_index([rates_bps[name] / due for name, due in due_bps.items()])
    return 0.0 if index is None else index


def excess(samples: Sequence[InterfaceSample], cap_bps: float, begin_s: float, end_s: float) -> float:
    """How much the highest second between two times was above the cap, as a share of it; negative if it never reached it."""
    rates = [rate for _, rate in windows(samples, WINDOW_S, STEP_S / 2, begin_s, end_s)]
    return max(rates, default=0.0) / cap_bps - 1


def convergence_s(series: Series, due_bps: Mapping[str, float], begin_s: float, end_s: float) -> float | None:
    """Seconds until everybody's rate is near to what it is due, over every second from then on until `end_s`; None if that never was.

    `due_bps` names whom to look at.
    """
    slowest = 0.0
    for name, due in due_bps.items():
        settled: float | None = None
        for window_s, rate in windows(series.get(name, ()), WINDOW_S, STEP_S, begin_s, end_s) if series.get(name) else ():
            if abs(rate - due) > WITHIN * due:
                settled = None
            elif settled is None:
                settled = window_s + WINDOW_S - begin_s
        if settled is None:
            return None
        slowest = max(slowest, settled)
    return slowest


@dataclass(frozen=True, slots=True)
class Write:
    """A cap that was decided. `before_bps` is the one that it replaced; 0 is a job that is not there."""

    at_s: float
    job: str
    before_bps: float
    after_bps: float


def cap_errors(series: Series, writes: Sequence[Write], begin_s: float, end_s: float) -> dict[str, float]:
    """Each job's mean rate against its cap, as a share of it, over the longest time between two times without a new cap of it."""
    errors: dict[str, float] = {}
    for name in {write.job for write in writes}:
        own = sorted((write for write in writes if write.job == name), key=lambda write: write.at_s)
        spans = [
            (max(write.at_s + SETTLED_S, begin_s), min(later, end_s), write.after_bps)
            for write, later in zip(own, [*(each.at_s for each in own[1:]), math.inf], strict=True)
            if write.after_bps > 0.0
        ]
        first_s, last_s, cap_bps = max(spans, key=lambda span: span[1] - span[0])
        if last_s - first_s >= LEAST_S and name in series:
            errors[name] = mean_rate_bps(series[name], first_s, last_s) / cap_bps - 1
    return errors


SETTLED_S = 2.0
"""From a cap's decision until it counts."""
LEAST_S = 5.0
"""Less time under one cap is too short to measure it."""
