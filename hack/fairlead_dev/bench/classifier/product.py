"""The product's model on the three test sets, and how its figures depend on window, sampling rate and amount of data."""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from fairlead_advisor.assess.metrics import Scores, any_bbr_at_coverage, calibration_error, confusion, macro_f1, report, scores_of_answers
from fairlead_advisor.features.series import Window, consecutive_windows
from fairlead_advisor.features.vector import extract
from fairlead_advisor.models.answer import CLASSES
from fairlead_advisor.models.classifier import WindowClassifier, answers_of
from fairlead_advisor.models.model import Model
from fairlead_advisor.train.data import Dataset, DatasetRun
from fairlead_advisor.train.fit import fit
from fairlead_advisor.train.report import score, scores_of
from fairlead_advisor.train.run import TRAINING_CUTTINGS
from fairlead_advisor.train.validation import groups_of
from fairlead_advisor.train.windows import Cutting, tabulate
from fairlead_dev.bench.intervals import interval_95

WINDOWS_S = (5.0, 10.0, 15.0, 20.0, 30.0)
RATES_HZ = (10.0, 15.0, 20.0, 30.0, 50.0)
SHARES = (0.25, 0.5, 0.75, 1.0)
FAST_BPS = 100e6
SHORT_RTT_MS = 5.0
_FAIR_QUEUES = ("fq-codel",)
_FIRST_EMULATOR = "fairlead-wan"
_NONE = CLASSES.index("B0-C0")

_TIMED_WINDOWS = 300

Figures = Mapping[str, Callable[[Scores], float | None]]
"""Figures of merit by their names."""


@dataclass(frozen=True, slots=True)
class Point:
    """The figures of one set of windows at one setting; `intervals` has the middle 95 % of some of them over draws of the paths."""

    split: str
    window_s: float
    rate_hz: float | None
    figures: dict[str, Any]
    intervals: Mapping[str, tuple[float, float] | None] = field(default_factory=dict)
    paths: int = 0
    windows: int = 0


def measure(
    model: Model, runs: Sequence[DatasetRun], split: str, window_s: float, *, rate_hz: float | None = None, jobs: int = 1
) -> Point | None:
    """The figures over windows of `runs` that do not overlap; None if there are no runs, or none is long enough for one."""
    if not runs:
        return None
    table = tabulate(runs, (Cutting(window_s, window_s, rate_hz=rate_hz),), jobs)
    if not len(table):
        return None
    scores = scores_of(model, table)
    by_path = scores_by_path(scores, np.array([runs[number].path for number in table.run], dtype=np.str_))
    return Point(split, window_s, rate_hz, report(scores), intervals(by_path), len(by_path), len(table))


def is_fast(run: DatasetRun) -> bool:
    """Whether its path carries more than 100 Mb/s; one's own traces do not say."""
    return float(run.about.get("rate_bps") or 0.0) > FAST_BPS


def is_short(run: DatasetRun) -> bool:
    """Whether its path's RTT is as short as on a campus, where probes are rare beside the flows' cycles; one's own traces do not say."""
    rtt_ms = run.about.get("rtt_ms")
    return rtt_ms is not None and float(rtt_ms) < SHORT_RTT_MS


def has_fair_queue(run: DatasetRun) -> bool:
    """Whether the bottleneck itself gives each flow its share; sets from before there was such a queue do not say, and have none."""
    return run.about.get("queue") in _FAIR_QUEUES


def has_another_emulator(run: DatasetRun) -> bool:
    """Whether another emulator than `fairlead-wan` made its bottleneck; sets from before there was one do not say, and have none."""
    return bool(run.about.get("emulator", _FIRST_EMULATOR) != _FIRST_EMULATOR)


def measure_fair_queue(model: Model, runs: Sequence[DatasetRun], window_s: float, jobs: int = 1) -> Point | None:
    """What is answered behind queues that share by themselves; None without any window."""
    if not runs:
        return None
    table = tabulate(runs, (Cutting(window_s, window_s),), jobs)
    if not len(table):
        return None
    answers = answers_of(model, table.features)
    scores = scores_of_answers(answers, table.truth)
    told = replace(scores, relied_on=scores.relied_on & np.array([answer.shares_queue for answer in answers]))
    path = np.array([runs[number].path for number in table.run], dtype=np.str_)
    figures: dict[str, Any] = {}
    bounds: dict[str, tuple[float, float] | None] = {}
    for of, named in ((scores, FAIR_QUEUE), (told, _SAYS_SO)):
        figures |= {name: figure(of) for name, figure in named.items()}
        bounds |= intervals(scores_by_path(of, path), named)
    return Point("fair_queue", window_s, None, figures, bounds, len(set(path.tolist())), len(table))


def scores_by_path(scores: Scores, path: npt.NDArray[np.str_]) -> list[Scores]:
    """The scores of every path; `path` names that of each window."""
    return [_where(scores, path == name) for name in sorted(set(path.tolist()))]


def intervals(by_path: Sequence[Scores], figures: Figures | None = None) -> dict[str, tuple[float, float] | None]:
    """The middle 95 % of each figure, by default of those that a goal rests on, over draws of paths."""
    return {name: interval_95(by_path, partial(_figure, of), draws=_DRAWS) for name, of in (figures or RESAMPLED).items()}


def _figure(of: Callable[[Scores], float | None], parts: Sequence[Scores]) -> float | None:
    return of(_joined(parts))


def _where(scores: Scores, rows: npt.NDArray[np.bool_]) -> Scores:
    return Scores(scores.probabilities[rows], scores.truth[rows], scores.relied_on[rows])


def _joined(parts: Sequence[Scores]) -> Scores:
    return Scores(
        np.concatenate([part.probabilities for part in parts]),
        np.concatenate([part.truth for part in parts]),
        np.concatenate([part.relied_on for part in parts]),
    )


def _share(of: npt.NDArray[np.bool_]) -> float | None:
    return float(of.mean()) if len(of) else None


RESAMPLED: Figures = {
    "macro_f1": lambda scores: macro_f1(confusion(scores)),
    "any_bbr_accuracy": lambda scores: float(scores.any_bbr_right.mean()),
    "any_bbr_accuracy_at_80_percent": lambda scores: any_bbr_at_coverage(scores, 0.8),
    "expected_calibration_error": lambda scores: calibration_error(
        scores.probabilities.max(axis=1), np.asarray(scores.predicted == scores.truth)
    ),
    "coverage": lambda scores: float(scores.relied_on.mean()),
}
FAIR_QUEUE: Figures = {
    "abstains": lambda scores: _share(~scores.relied_on),
    "answers_none": lambda scores: _share(scores.relied_on & (scores.predicted == _NONE)),
    "none_to_traffic": lambda scores: _share((scores.relied_on & (scores.predicted != _NONE))[scores.truth == _NONE]),
}
"""Shares of all windows, the last of those without traffic. What it abstains on it has not answered."""
_SAYS_SO: Figures = {"abstains_or_says_so": lambda scores: _share(~scores.relied_on)}
"""Of scores that count an answer as relied on only where the probe shared a queue."""
_DRAWS = 1000


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
        fitted = fit(table, [groups[number] for number in table.run], seed, lambda _line: None, jobs=jobs)
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
