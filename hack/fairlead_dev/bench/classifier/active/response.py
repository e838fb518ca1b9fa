"""What a path does when a burst is pushed into it: pure functions of the probe's samples and of the bursts' packets.

Trains tell the path's rate, which no passive look can: all packets of a train stand in the queue side by side and leave it one by one. The
rate turns the queue's delay into packets, and packets are what the clocks of congestion controls count: after a loss CUBIC needs
(0.3 W / 0.4)^(1/3) seconds to come back to its window of W packets (RFC 9438, section 4.2), and n flows that share W need less by n^(1/3).
Pushes make flows lose: CUBIC gives up 0.3 of its window a round trip later, BBR nothing, so that the queue falls by the share of CUBIC.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from fairlead_advisor.features.vector import NAMES

Floats = npt.NDArray[np.float64]

PACKET_BYTES = 1228
SEGMENT_BYTES = 1500
_CUBIC_SCALE = 0.3 / 0.4
_SMALLEST_Q_MS = 0.5
_BEFORE_S = 0.25
_ROUND_TRIPS = (1.0, 2.0, 4.0, 8.0)
_SECONDS = (0.3, 0.6, 1.2, 2.0)
_FEWEST_OF_A_TRAIN = 8
_INDEX = {name: number for number, name in enumerate(NAMES)}


@dataclass(frozen=True, slots=True)
class Sent:
    """One burst: `rate_bps` is None for a train. Times (s) are those of the probe's trace, RTTs in ms, NaN for a lost packet."""

    rate_bps: float | None
    send_times_s: Floats
    rtts_ms: Floats


@dataclass(frozen=True, slots=True)
class Probed:
    """The probe's requests during passive and active part, in order."""

    send_times_s: Floats
    rtts_ms: Floats


def path_rate_bps(trains: Sequence[Sent]) -> float:
    """The rate at which packets of trains left the queue, the median of the trains; NaN if too few came back."""
    rates = []
    for train in trains:
        back_s = (train.send_times_s + train.rtts_ms / 1000)[np.isfinite(train.rtts_ms)]
        if len(back_s) >= _FEWEST_OF_A_TRAIN:
            rates.append((len(back_s) - 1) * PACKET_BYTES * 8 / max(float(back_s[-1] - back_s[0]), 1e-5))
    return float(np.median(rates)) if rates else float("nan")


def in_packets(features: npt.NDArray[np.float32], seconds: float, rate_bps: float) -> dict[str, float]:
    """A passive window of `seconds` in the units of the congestion controls' own clocks; `features` is in the order of NAMES."""
    spread_ms = 10 ** float(features[_INDEX["log_spread_ms"]])
    base_ms = spread_ms / 10 ** float(features[_INDEX["log_spread_over_base"]])
    packets_per_ms = rate_bps / 8 / SEGMENT_BYTES / 1000
    window = max(2.0, packets_per_ms * (base_ms + spread_ms))
    return_s = (_CUBIC_SCALE * window) ** (1 / 3)
    gap_s = 10 ** float(features[_INDEX["fall_gap_log_s"]])
    longest_rise_s = max(0.2, seconds * float(features[_INDEX["rise_share"]]))
    rise_ms_per_s = 2 * float(features[_INDEX["rise_slope"]]) * spread_ms / longest_rise_s
    return {
        "log_rate": float(np.log10(rate_bps)),
        "log_window": float(np.log10(window)),
        "log_return_s": float(np.log10(return_s)),
        "log_gap_over_return": float(np.log10(gap_s / return_s)),
        "falls_per_return": float(features[_INDEX["falls_per_s"]]) * return_s,
        "rise_packets_per_rtt": float(np.clip(rise_ms_per_s * packets_per_ms * (base_ms + spread_ms / 2) / 1000, -20, 20)),
        "log_queue_packets": float(np.log10(max(packets_per_ms * spread_ms, 0.1))),
    }


def of_push(probed: Probed, push: Sent, base_ms: float) -> dict[str, float]:
    """How the queue stood before a push, how high it rose, and what was left of it after, as shares of the whole RTT before."""
    begin_s, end_s = float(push.send_times_s[0]), float(push.send_times_s[-1])
    before_ms = _median(probed, begin_s - max(_BEFORE_S, 2 * base_ms / 1000), begin_s, base_ms)
    pushed = push.rtts_ms[np.isfinite(push.rtts_ms)]
    top_ms = float(pushed.max()) if len(pushed) else before_ms
    round_s = (base_ms + max(0.0, top_ms - base_ms)) / 1000
    described = {
        "queue_before": (before_ms - base_ms) / max(base_ms, 1.0),
        "rise": (top_ms - before_ms) / max(before_ms, _SMALLEST_Q_MS),
        "lost": float(np.mean(~np.isfinite(push.rtts_ms))),
        "rise_over_pushed": (top_ms - before_ms) / max(1.0, 1000 * (end_s - begin_s)),
    }
    for first, last in pairwise(_ROUND_TRIPS):
        after_ms = _median(probed, end_s + first * round_s, end_s + max(last * round_s, first * round_s + 0.06), before_ms)
        described[f"after_{first:g}rtt"] = after_ms / before_ms - 1
    for first, last in pairwise(_SECONDS):
        described[f"after_{first:g}s"] = _median(probed, end_s + first, end_s + last, before_ms) / before_ms - 1
    inside = _between(probed, end_s + round_s, end_s + 2.0)
    described["lowest"] = (float(np.quantile(inside, 0.1)) if len(inside) else before_ms) / before_ms - 1
    described["shaken"] = float(inside.std() / before_ms) if len(inside) else 0.0
    return described


def describe(probed: Probed, bursts: Sequence[Sent]) -> dict[str, float]:
    """What the pushes showed, by name; those of the same strength are averaged."""
    trains, pushes = [one for one in bursts if one.rate_bps is None], [one for one in bursts if one.rate_bps is not None]
    answered = probed.rtts_ms[np.isfinite(probed.rtts_ms)]
    base_ms = float(answered.min()) if len(answered) else 1.0
    described = {"train_lost": float(np.mean([np.mean(~np.isfinite(one.rtts_ms)) for one in trains]))}
    strongest = max(one.rate_bps or 0.0 for one in pushes)
    for name, chosen in (
        ("full", [one for one in pushes if one.rate_bps == strongest]),
        ("part", [one for one in pushes if one.rate_bps != strongest]),
    ):
        each = [of_push(probed, one, base_ms) for one in chosen]
        described |= {f"{name}_{key}": float(np.mean([one[key] for one in each])) for key in each[0]}
    return described


def _between(probed: Probed, first_s: float, last_s: float) -> Floats:
    first, last = np.searchsorted(probed.send_times_s, (first_s, last_s))
    part = probed.rtts_ms[first:last]
    return part[np.isfinite(part)]


def _median(probed: Probed, first_s: float, last_s: float, otherwise: float) -> float:
    inside = _between(probed, first_s, last_s)
    return float(np.median(inside)) if len(inside) else otherwise
