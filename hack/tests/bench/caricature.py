"""Traces that a classifier can tell apart by class: a queue of its own level and period for each, not what real paths look like."""

from array import array
from math import nan

import numpy as np

from fairlead_advisor.models.answer import CLASSES
from fairlead_advisor.probe.trace import Trace


def caricature(class_name: str, *, seconds: float, rate_hz: float, base_ms: float, seed: int) -> Trace:
    kind = CLASSES.index(class_name)
    chance = np.random.default_rng([kind, seed])
    count = round(seconds * rate_hz)
    times_s = np.arange(count) / rate_hz
    phase_s = chance.uniform(0, 10)
    queue = 0.2 * kind * (1 + 0.8 * np.sin(2 * np.pi * (times_s + phase_s) / (1 + kind)))
    rtts_ms = base_ms * (1 + queue) + np.abs(chance.normal(0, 0.05, count))
    return Trace(array("d", times_s), array("d", np.where(chance.random(count) < 0.01, nan, rtts_ms)))
