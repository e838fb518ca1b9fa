"""What the transports' bench concludes from samples and runs. Pure."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from fairlead_dev.bench.intervals import interval_95, rounded_interval
from fairlead_dev.bench.lab.rates import InterfaceSample, percentile, windows
from fairlead_dev.bench.rows import Row, rounded

GIVEN_WAY, TAKEN_BACK = 0.1, 0.8
"""Parts of the link at which a scavenger has given way, and at which it has the link again."""
GIVES_WAY_WINDOW_S = 2.0
"""Longer than a slow-down, which must not pass for giving way."""
TAKES_BACK_WINDOW_S = 1.0
_STEP_S = 0.1
_PING = re.compile(r"^\[(\d+\.\d+)\].* time=([\d.]+) ms", re.MULTILINE)


def order(cases: Sequence[str], repeats: int, seed: int) -> list[str]:
    """Every case `repeats` times, in an order by the seed in which no case is ahead of another by more than a repeat."""
    chance, found = random.Random(seed), list[str]()
    for _ in range(repeats):
        found += chance.sample(list(cases), len(cases))
    return found


@dataclass(frozen=True, slots=True)
class Yielding:
    """One run of a scavenger: alone, beside a CUBIC flow, and alone again. Shares are of the link's rate."""

    alone: float
    beside: float
    gives_way_s: float
    takes_back_s: float
    delay_ms: float
    """Median of what it adds to the round trip while alone."""
    cubic: float
    """The other flow's share."""


@dataclass(frozen=True, slots=True)
class Moments:
    """When what happened in a run, in seconds of one clock."""

    began: float
    cubic_began: float
    cubic_ended: float
    over: float


def share(samples: Sequence[InterfaceSample], begin_s: float, end_s: float, link_bps: float) -> float:
    """What the flow took of the link between two moments."""
    ((_, rate_bps),) = windows(samples, end_s - begin_s, end_s - begin_s, begin_s, end_s)
    return rate_bps / link_bps


def gives_way_s(samples: Sequence[InterfaceSample], moments: Moments, link_bps: float) -> float:
    """From the other flow's beginning until the scavenger has a tenth of the link or less; until its end if it never had."""
    later = windows(samples, GIVES_WAY_WINDOW_S, _STEP_S, moments.cubic_began, moments.cubic_ended)
    at = next((begin for begin, rate in later if rate <= GIVEN_WAY * link_bps), moments.cubic_ended)
    return at - moments.cubic_began


def takes_back_s(samples: Sequence[InterfaceSample], moments: Moments, link_bps: float) -> float:
    """From the other flow's end until the end of the first window, all of it later, in which the scavenger has the link again; until the
    run was over if it never had."""
    later = windows(samples, TAKES_BACK_WINDOW_S, _STEP_S, moments.cubic_ended, moments.over)
    at = next((begin + TAKES_BACK_WINDOW_S for begin, rate in later if rate >= TAKEN_BACK * link_bps), moments.over)
    return at - moments.cubic_ended


def round_trips(text: str) -> list[tuple[float, float]]:
    """Moment and milliseconds of each answer in the output of `ping -D`."""
    return [(float(moment), float(ms)) for moment, ms in _PING.findall(text)]


def added_ms(answers: Sequence[tuple[float, float]], begin_s: float, end_s: float, base_ms: float) -> float:
    """Median of what was added to the path's own round trip between two moments."""
    return median(ms - base_ms for moment, ms in answers if begin_s <= moment <= end_s)


def yielding(
    samples: Sequence[InterfaceSample],
    answers: Sequence[tuple[float, float]],
    moments: Moments,
    *,
    link_bps: float,
    base_ms: float,
    cubic_bps: float,
    settle_s: float,
) -> Yielding:
    """What one run shows; both flows are given `settle_s` to find their rates before they are compared."""
    return Yielding(
        alone=share(samples, moments.began, moments.cubic_began, link_bps),
        beside=share(samples, moments.cubic_began + settle_s, moments.cubic_ended, link_bps),
        gives_way_s=gives_way_s(samples, moments, link_bps),
        takes_back_s=takes_back_s(samples, moments, link_bps),
        delay_ms=added_ms(answers, moments.began, moments.cubic_began, base_ms),
        cubic=cubic_bps / link_bps,
    )


def row_of(
    name: str,
    runs: Sequence[float],
    unit: str,
    note: str,
    *,
    reference: Sequence[float] = (),
    more: Mapping[str, object] | None = None,
) -> Row:
    """The median of the runs with its interval; beside a reference, the ratio is the median of those of the pairs."""
    ratios = [run / other for run, other in zip(runs, reference, strict=True)] if reference else []
    judged = ratios or list(runs)
    bounds = interval_95(judged, median)
    return Row(
        name,
        round(median(runs), 4),
        unit,
        round(median(reference), 4) if reference else None,
        round(median(ratios), 4) if ratios else None,
        note=note,
        more={
            "runs": rounded(runs),
            **({"reference_runs": rounded(reference)} if reference else {}),
            "interval_95": rounded_interval(bounds),
            **(more or {}),
        },
    )


SCAVENGER_FIGURES: tuple[tuple[str, Callable[[Yielding], float]], ...] = (
    ("share", lambda run: run.alone),
    ("share", lambda run: run.beside),
    ("ms", lambda run: run.delay_ms),
    ("s", lambda run: run.gives_way_s),
    ("s", lambda run: run.takes_back_s),
)
SCAVENGER_ROWS = {
    "ledbat": ("ledbat_alone", "ledbat_beside_cubic", "ledbat_delay_ms", "scavenger_gives_way_s", "scavenger_takes_back_s"),
    "utp": ("utp_alone", "utp_beside_cubic", "utp_delay_ms", "utp_gives_way_s", "utp_takes_back_s"),
}
"""The rows of each flow that gives way, in the order of the figures."""


def scavenger_rows(flow: str, runs: Sequence[Yielding], suffix: str, note: str) -> list[Row]:
    """The rows of a flow on one path, named with the suffix."""
    cubic = {"cubic_share_runs": rounded(run.cubic for run in runs)}
    return [
        row_of(f"{name}{suffix}", [figure(run) for run in runs], unit, note, more=cubic if name.endswith("_beside_cubic") else None)
        for name, (unit, figure) in zip(SCAVENGER_ROWS[flow], SCAVENGER_FIGURES, strict=True)
    ]


def p99_error(rates_bps: Sequence[float], cap_bps: float) -> float:
    """The error of a cap that 99 % of the windows do not exceed."""
    return percentile([abs(rate / cap_bps - 1) for rate in rates_bps], 0.99)


def mean_load(loads: Sequence[float]) -> float:
    """The machine's load over the runs."""
    return round(fmean(loads), 1)
