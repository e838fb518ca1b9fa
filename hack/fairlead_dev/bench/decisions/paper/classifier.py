"""1-NN under dynamic time warping on ten samples of the queueing delay at 1 Hz, and the rule on its answer. Pure.

Sampling, classifier and rule are those of [Anvari 2021, sections 5.2, 5.4 and 5.5].
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fairlead_advisor.models.answer import CLASSES
from fairlead_advisor.train.data import DatasetRun
from fairlead_dev.bench.classifier.dtw import neighbours
from fairlead_dev.bench.classifier.sampling import windows
from fairlead_dev.bench.decisions.matrix import right_choice

WINDOW_SAMPLES = 10
WARP = 10
FEWEST_REPLIES = 3
"""Of the ten of a second; with fewer the sample is missing."""
MOST_MISSING_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class Training:
    """Windows of the queueing delay in ms, shape (n, 10), and their classes' numbers, shape (n,)."""

    queue_ms: npt.NDArray[np.float64]
    truth: npt.NDArray[np.intp]


def training_of(runs: Sequence[DatasetRun]) -> Training:
    """Every window of the runs that do not overlap, in the paper's sampling."""
    samples = windows(runs, WINDOW_SAMPLES)
    return Training(samples.queue_ms, samples.truth)


def save_training(file: Path, training: Training) -> None:
    """For the agents of the runs."""
    with file.open("wb") as opened:
        np.savez(opened, queue_ms=training.queue_ms, truth=training.truth)


def load_training(file: Path) -> Training:
    """What `save_training` wrote."""
    with np.load(file, allow_pickle=False) as arrays:
        return Training(arrays["queue_ms"], arrays["truth"])


def sample_ms(rtts_ms: Sequence[float]) -> float:
    """The mean of the replies to one second's requests; NaN if there are too few of them."""
    return math.fsum(rtts_ms) / len(rtts_ms) if len(rtts_ms) >= FEWEST_REPLIES else math.nan


def held(samples: Sequence[float], floor_ms: float) -> list[float] | None:
    """The queueing delay of a window, short gaps filled with the value before; None if too much of it is missing."""
    missing = [math.isnan(sample) for sample in samples]
    if sum(missing) > MOST_MISSING_SHARE * len(samples) or missing[0]:
        return None
    filled: list[float] = []
    for sample in samples:
        filled.append(filled[-1] if math.isnan(sample) else sample - floor_ms)
    return filled


def classify(training: Training, queue_ms: Sequence[float]) -> str:
    """The class of the nearest window; of equally near ones the first."""
    nearest = neighbours(training.queue_ms, np.array([queue_ms], dtype=np.float64), WARP, 1)
    return CLASSES[int(training.truth[nearest[0, 0]])]


def choose(background: str | None) -> str:
    """BBR if the class has BBR in it, else CUBIC; without an answer CUBIC."""
    return "cubic" if background is None else right_choice(background)
