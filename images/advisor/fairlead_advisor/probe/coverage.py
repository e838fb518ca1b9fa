"""Whether a trace holds enough of a path to classify a window of it."""

import itertools
import math
import statistics
from collections.abc import Sequence
from pathlib import Path

from fairlead_advisor.errors import TraceError
from fairlead_advisor.probe.schedule import MINIMUM_RATE_HZ
from fairlead_advisor.probe.trace import Trace

MINIMUM_SAMPLES = 10
MINIMUM_ANSWERED_RATIO = 0.5
LONGEST_GAP_S = 1.0
MINIMUM_WINDOW_S = 5.0

# A probe at exactly the lowest rate on a busy host comes out a little below it, and its last period has no closing request.
_TOLERANCE = 0.05


def require_coverage(path: Path, trace: Trace, window_s: float) -> None:
    """Raises TraceError, naming `path` and the remedy, unless the last `window_s` seconds of `trace` can be classified."""
    remedy = f"probe again, with --seconds {window_s:g} or more"
    if len(trace) < MINIMUM_SAMPLES:
        raise TraceError(f"{path}: only {len(trace)} row(s), at least {MINIMUM_SAMPLES} are needed: {remedy}")
    gaps_s = [later - earlier for earlier, later in itertools.pairwise(trace.send_times_s)]
    period_s = statistics.median(gaps_s)
    if period_s * MINIMUM_RATE_HZ > 1 + _TOLERANCE:
        raise TraceError(
            f"{path}: sampled at {1 / period_s:.3g} Hz, at least {MINIMUM_RATE_HZ:g} Hz are needed: "
            f"probe again with --rate {MINIMUM_RATE_HZ:g} or more"
        )
    covered_s = trace.send_times_s[-1] - trace.send_times_s[0] + period_s
    if covered_s < window_s * (1 - _TOLERANCE):
        raise TraceError(
            f"{path}: covers {covered_s:.3g} s, shorter than the window of {window_s:g} s: {remedy}, or classify with a shorter --window"
        )
    window_start_s = trace.send_times_s[-1] - window_s
    first = next(index for index, send_time_s in enumerate(trace.send_times_s) if send_time_s > window_start_s)
    # Line 1 is the header, so that row `index` is in line `index + 2`; the gap ends one row later.
    for index in range(first, len(gaps_s)):
        if gaps_s[index] > LONGEST_GAP_S:
            raise TraceError(
                f"{path}: line {index + 3}: no request for {gaps_s[index]:.3g} s before it, at most {LONGEST_GAP_S:g} s may pass: "
                "probe again without a pause"
            )
    window_rtts_ms = trace.rtts_ms[first:]
    answered = sum(not math.isnan(rtt_ms) for rtt_ms in window_rtts_ms)
    if answered < MINIMUM_ANSWERED_RATIO * len(window_rtts_ms):
        raise TraceError(
            f"{path}: only {answered} of the last {len(window_rtts_ms)} requests were answered, at least half are needed: "
            "check the path and its echo service, and probe again"
        )


def window_is_covered(send_times_s: Sequence[float], rtts_ms: Sequence[float]) -> bool:
    """Whether one window (send times in s; RTTs in ms, NaN for lost) could be classified by the same rules."""
    answered = sum(not math.isnan(rtt_ms) for rtt_ms in rtts_ms)
    gaps_s = [later - earlier for earlier, later in itertools.pairwise(send_times_s)]
    return (
        len(rtts_ms) >= MINIMUM_SAMPLES
        and answered >= max(MINIMUM_SAMPLES, MINIMUM_ANSWERED_RATIO * len(rtts_ms))
        and max(gaps_s) <= LONGEST_GAP_S
        and statistics.median(gaps_s) * MINIMUM_RATE_HZ <= 1 + _TOLERANCE
    )
