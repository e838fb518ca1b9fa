"""The product's model on the three test sets, and how its figures depend on window, sampling rate and amount of data."""

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairlead_advisor.features.series import Window, consecutive_windows
from fairlead_advisor.features.vector import extract
from fairlead_advisor.models.classifier import WindowClassifier
from fairlead_advisor.models.model import Model
from fairlead_advisor.train.data import Dataset, DatasetRun
from fairlead_advisor.train.fit import fit
from fairlead_advisor.train.report import score
from fairlead_advisor.train.run import TRAINING_CUTTINGS
from fairlead_advisor.train.validation import groups_of
from fairlead_advisor.train.windows import Cutting, tabulate

WINDOWS_S = (5.0, 10.0, 15.0, 20.0, 30.0)
RATES_HZ = (10.0, 15.0, 20.0, 30.0, 50.0)
SHARES = (0.25, 0.5, 0.75, 1.0)

_TIMED_WINDOWS = 300


@dataclass(frozen=True, slots=True)
class Point:
    """The figures of one set of windows at one setting."""

    split: str
    window_s: float
    rate_hz: float | None
    figures: dict[str, Any]


def measure(model: Model, dataset: Dataset, split: str, window_s: float, *, rate_hz: float | None = None, jobs: int = 1) -> Point | None:
    """The figures over windows that do not overlap; None if the runs are too short for one."""
    table = tabulate(dataset.of_split(split), (Cutting(window_s, window_s, rate_hz=rate_hz),), jobs)
    return Point(split, window_s, rate_hz, score(model, table)) if len(table) else None


def inference_ms(model: Model, runs: Sequence[DatasetRun]) -> list[float]:
    """Times (ms) of one window at a time, features included."""
    classifier, times_ms = WindowClassifier(model), []
    for window in _some_windows(runs):
        start = time.perf_counter()
        classifier.classify([window])
        times_ms.append((time.perf_counter() - start) * 1e3)
    return times_ms[len(times_ms) // 10 :]


def learning_curve(dataset: Dataset, seed: int, jobs: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """(number of training paths, figures on the unseen paths) as the share of the training paths grows."""
    runs = dataset.of_split("train")
    paths = np.random.default_rng(seed).permutation(sorted({run.path for run in runs})).tolist()
    test = tabulate(dataset.of_split("test_paths"), (Cutting(10.0, 10.0),), jobs)
    for share in SHARES:
        chosen = set(paths[: max(5, round(share * len(paths)))])
        part = [run for run in runs if run.path in chosen]
        groups, _ = groups_of(part)
        table = tabulate(part, TRAINING_CUTTINGS, jobs)
        fitted = fit(table, [groups[number] for number in table.run], seed, lambda _line: None)
        yield len(chosen), score(_Framework(fitted), test)  # type: ignore[arg-type]


class _Framework:
    """A fitted blend with the interface that scoring needs of a model."""

    def __init__(self, fitted: Any) -> None:
        self.metadata = fitted
        self.predict = fitted.predict


def _some_windows(runs: Sequence[DatasetRun]) -> Iterator[Window]:
    count = 0
    for run in runs:
        for window in consecutive_windows(run.trace, 10.0):
            yield window
            count += 1
            if count == _TIMED_WINDOWS:
                return


def median_of(times_ms: Sequence[float]) -> float:
    """The median, NaN without any time."""
    return statistics.median(times_ms) if times_ms else float("nan")


def features_alone_ms(runs: Sequence[DatasetRun]) -> float:
    """The median time (ms) of a window's features."""
    times_ms = []
    for window in _some_windows(runs):
        start = time.perf_counter()
        extract(window)
        times_ms.append((time.perf_counter() - start) * 1e3)
    return median_of(times_ms)
