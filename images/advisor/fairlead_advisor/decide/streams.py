"""How many streams a path needs: n = max(1, a B R) for bandwidth B and RTT R [Huang 2018, eq. 4.8]."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from fairlead_advisor.decide.background import NOBODY, Background
from fairlead_advisor.decide.model import DEFAULT_STREAMS, History, PathMeasurement, TransportLimits

NO_HISTORY = History()


@dataclass(frozen=True, slots=True)
class Optimum:
    """A stream count that was found best on a path with `bandwidth_bps` and `rtt_s`."""

    streams: int
    bandwidth_bps: float
    rtt_s: float


def stream_count(coefficient: float, bandwidth_bps: float, rtt_s: float) -> int:
    """n = max(1, a B R) to the nearest integer, half up; `coefficient` a in 1/bit."""
    return max(1, math.floor(coefficient * bandwidth_bps * rtt_s + 0.5))


def fit_coefficient(optima: Iterable[Optimum]) -> float | None:
    """a as the mean of n/(B R) over what was found on one path [Huang 2018, section 6.2.2]; None without any. Valid for that path alone."""
    ratios = [optimum.streams / (optimum.bandwidth_bps * optimum.rtt_s) for optimum in optima if optimum.bandwidth_bps * optimum.rtt_s > 0]
    return math.fsum(ratios) / len(ratios) if ratios else None


def has_company(background: Background | None, history: History = NO_HISTORY) -> bool:
    """Whether others are likely on the path; not where the classifier is missing or the path is unlike those that it knows.

    Our own transfers are company too: beside what was handed on without them they count until the path is classified anew.
    """
    if background is None:
        return False
    recalled_beside_own = history.beside_own and background.measured_at is not None
    return recalled_beside_own or (not background.novel and background.probabilities[NOBODY] < 0.5)


def first_count(path: PathMeasurement, limits: TransportLimits, history: History, *, company: bool = False) -> tuple[int, str]:
    """The count to start with, within the limits, and what it rests on; `company`: others are on the path.

    Under a cap B is the cap: what is not to be had needs no streams. n streams beside others take about n shares: where others are to be
    spared no more than the path's owner allows, whatever was learnt alone there; not below a share that a policy has allocated.
    """
    bandwidth_bps = _bandwidth(limits, history)
    if limits.streams_minimum == limits.streams_maximum:
        return limits.streams_minimum, "the job sets the stream count"
    is_entitled = limits.allocated and limits.cap_bps is not None
    most = limits.fair_streams if company and not is_entitled else None
    if history.stream_coefficient is None or bandwidth_bps is None or path.rtt_s is None:
        if most is None or most == DEFAULT_STREAMS:
            return _within(limits, DEFAULT_STREAMS), ""
        return _within(limits, most), f"beside others it may have the part of {most} {'flow' if most == 1 else 'flows'}"
    wanted = stream_count(history.stream_coefficient, bandwidth_bps, path.rtt_s)
    if most is not None and wanted > most:
        return _within(limits, most), f"{wanted} would fit the path by what was learnt on it, but others are there"
    count = _within(limits, wanted)
    rest = "" if count == wanted else f", bounded to {limits.streams_minimum} to {limits.streams_maximum}"
    return count, f"{wanted} fit {bandwidth_bps / 1e6:.0f} Mb/s at this RTT by what was learnt on the path{rest}"


def _bandwidth(limits: TransportLimits, history: History) -> float | None:
    known = [bps for bps in (limits.cap_bps, history.capacity_bps) if bps is not None]
    return min(known, default=None)


def _within(limits: TransportLimits, count: int) -> int:
    return max(limits.streams_minimum, min(limits.streams_maximum, count))
