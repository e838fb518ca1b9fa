"""Caricatures of background traffic: shapes a classifier can tell apart, not what real paths look like."""

import numpy as np

from fairlead_advisor.features.series import Floats, Window
from fairlead_advisor.models.answer import CLASSES
from fairlead_advisor.probe.trace import Trace
from tests.support.traces import trace_of


def caricature(class_name: str, *, seconds: float = 20.0, rate_hz: float = 20.0, base_ms: float = 40.0, seed: int = 0) -> Trace:
    chance = np.random.default_rng([CLASSES.index(class_name), seed])
    times_s = np.arange(round(seconds * rate_hz)) / rate_hz + chance.uniform(0, 0.2 / rate_hz, round(seconds * rate_hz))
    phase_s = chance.uniform(0, 10)
    queue = base_ms * shape(class_name, times_s + phase_s, base_ms / 1000)
    noise_ms = np.abs(chance.normal(0, 0.05, len(times_s)))
    lost = chance.random(len(times_s)) < 0.01
    return trace_of(
        (float(time_s), None if gone else float(rtt_ms))
        for time_s, rtt_ms, gone in zip(times_s, base_ms + queue + noise_ms, lost, strict=True)
    )


def shape(class_name: str, times_s: Floats, rtt_s: float) -> Floats:
    """The queue in base RTTs."""

    def saw(period_s: float) -> Floats:
        return np.asarray((times_s % period_s) / period_s)

    pulses = (times_s % (8 * rtt_s)) < rtt_s
    dip = (times_s % 10) < 0.25
    levels = {
        "B0-C0": 0 * times_s,
        "B0-C1": 0.6 + 0.4 * (2 * saw(4.0) - 1) ** 3,
        "C1-C1": 0.7 + 0.3 * saw(1.3),
        "B1-C0": 0.02 + 0.25 * pulses,
        "B1-B1": np.where(dip, 0, 1.0 + 0.1 * pulses),
        "B1-C1": np.where(dip, 0.3, 0.6 + 0.3 * saw(2.0) + 0.15 * pulses),
    }
    return np.asarray(levels[class_name])


def window(values_ms: Floats, rate_hz: float = 20.0) -> Window:
    return Window(np.arange(len(values_ms)) / rate_hz, np.asarray(values_ms, dtype=np.float64), len(values_ms) / rate_hz)
