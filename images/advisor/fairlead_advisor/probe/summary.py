"""Statistics of a trace."""

import itertools
import math
import statistics
from dataclasses import dataclass

from fairlead_advisor.probe.trace import Trace


@dataclass(frozen=True, slots=True)
class Summary:
    """Statistics of a trace; the RTT figures are None when nothing was answered, the ratio when nothing was asked.

    `jitter_ms` is the mean absolute difference between consecutive answered requests.
    """

    samples: int
    answered: int
    loss_ratio: float | None
    rtt_median_ms: float | None
    rtt_minimum_ms: float | None
    rtt_mean_ms: float | None
    rtt_p95_ms: float | None
    jitter_ms: float | None


def summarize(trace: Trace) -> Summary:
    """The summary of `trace`."""
    rtts_ms = trace.answered_rtts_ms()
    samples = len(trace)
    loss_ratio = (samples - len(rtts_ms)) / samples if samples else None
    if not rtts_ms:
        return Summary(samples, 0, loss_ratio, None, None, None, None, None)
    differences_ms = [abs(later - earlier) for earlier, later in itertools.pairwise(rtts_ms)]
    return Summary(
        samples=samples,
        answered=len(rtts_ms),
        loss_ratio=loss_ratio,
        rtt_median_ms=statistics.median(rtts_ms),
        rtt_minimum_ms=min(rtts_ms),
        rtt_mean_ms=math.fsum(rtts_ms) / len(rtts_ms),
        rtt_p95_ms=_nearest_rank(sorted(rtts_ms), 0.95),
        jitter_ms=math.fsum(differences_ms) / len(differences_ms) if differences_ms else None,
    )


def _nearest_rank(ascending: list[float], quantile: float) -> float:
    return ascending[max(0, math.ceil(quantile * len(ascending)) - 1)]
