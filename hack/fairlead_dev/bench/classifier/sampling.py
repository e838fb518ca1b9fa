"""The paper's input: one round-trip time a second, cut into windows of `w` samples, from recordings at tens of hertz."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairlead_advisor.features.series import columns
from fairlead_advisor.models.answer import CLASSES
from fairlead_advisor.probe.trace import Trace
from fairlead_advisor.train.data import DatasetRun

# The paper sends ten requests within 9 ms of every second and takes their mean. They meet one and the same queue, so that here the mean of
# what was sent within this time of the second is taken for it.
_BURST_S = 0.025
_LONGEST_HOLD = 0.2


@dataclass(frozen=True, slots=True)
class Samples:
    """Windows of the queueing delay in ms, shape (n, w), with class numbers and recordings, shape (n,)."""

    queue_ms: npt.NDArray[np.float64]
    truth: npt.NDArray[np.intp]
    recording: npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class SampledRecording:
    """What the paper's sampling leaves of a recording: the mean RTT (ms) at each whole second, NaN where nothing was answered."""

    path: str
    class_name: str
    rtts_ms: npt.NDArray[np.float64]


def at_one_hertz(trace: Trace) -> npt.NDArray[np.float64]:
    """The mean RTT (ms) at each whole second of a recording, NaN where nothing was answered."""
    times_s, rtts_ms = columns(trace)
    seconds = np.arange(int(times_s[-1] - times_s[0] + 0.5)) + times_s[0]
    means = np.full(len(seconds), np.nan)
    for number, second_s in enumerate(seconds):
        first, after = np.searchsorted(times_s, (second_s - 1e-9, second_s + _BURST_S))
        answered = rtts_ms[first:after][np.isfinite(rtts_ms[first:after])]
        if len(answered):
            means[number] = answered.mean()
    return means


def windows(runs: Sequence[DatasetRun], seconds: int) -> Samples:
    """All windows of `seconds` samples of these runs, as `cut` has them."""
    return cut([SampledRecording(run.path, run.class_name, at_one_hertz(run.trace)) for run in runs], seconds)


def cut(recordings: Sequence[SampledRecording], seconds: int) -> Samples:
    """All windows of `seconds` samples that do not overlap; gaps hold the last value, a window with over 20 % of them is left out.

    Each path's floor, the least of all its recordings here, is taken off: the paper's classifiers know the one path that they work on.
    """
    floor_ms: dict[str, float] = {}
    for one in recordings:
        floor_ms[one.path] = min(floor_ms.get(one.path, np.inf), float(np.nanmin(one.rtts_ms)))
    rows, truth, recording = [], [], []
    for number, one in enumerate(recordings):
        for start in range(0, len(one.rtts_ms) - seconds + 1, seconds):
            part = one.rtts_ms[start : start + seconds]
            missing = ~np.isfinite(part)
            if missing.mean() > _LONGEST_HOLD or missing[0]:
                continue
            last = np.maximum.accumulate(np.where(missing, 0, np.arange(seconds)))
            rows.append(part[last] - floor_ms[one.path])
            truth.append(CLASSES.index(one.class_name))
            recording.append(number)
    return Samples(np.array(rows).reshape(-1, seconds), np.array(truth, dtype=np.intp), np.array(recording, dtype=np.intp))
