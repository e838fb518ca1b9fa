"""What the paper's active profile adds to the product's features: passive and active recordings of one path beside each other."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairlead_advisor.assess.metrics import Scores, confusion, macro_f1
from fairlead_advisor.features.series import GRID_HZ, Window, consecutive_windows
from fairlead_advisor.features.vector import extract
from fairlead_advisor.models.answer import CLASSES
from fairlead_advisor.train.candidates import boosting
from fairlead_advisor.train.data import DatasetRun
from fairlead_advisor.train.windows import thin
from fairlead_dev.bench.classifier.baselines import FOLDS

PROFILE_S = 20.0
"""CUBIC 5 s, BBR 5 s, CUBIC 5 s, none 5 s, from the start of a recording on [Anvari 2021, section 5.2]."""
PHASE_S = 5.0
LONGEST_S = 80.0
"""Of each recording: passive ones are longer, and more windows alone would be an advantage."""

Floats = npt.NDArray[np.float32]
Describe = Callable[[Window, float], Floats]


@dataclass(frozen=True, slots=True)
class Way:
    """Windows of `seconds`, each `hop_s` after the one before, and what is computed of a window that begins so far into its recording."""

    seconds: float
    hop_s: float
    describe: Describe


@dataclass(frozen=True, slots=True)
class ProfileResult:
    """One way of looking: means over folds and seeds, and the standard deviation over the folds."""

    name: str
    windows: int
    macro_f1: float
    macro_f1_spread: float
    any_bbr: float
    any_bbr_spread: float


def plain(window: Window, _start_s: float) -> Floats:
    """The product's features."""
    return extract(thin(window, GRID_HZ))


def with_phase(window: Window, start_s: float) -> Floats:
    """And where in the profile the window begins."""
    return np.append(plain(window, start_s), np.float32(start_s % PROFILE_S)).astype(np.float32)


def by_phase(window: Window, start_s: float) -> Floats:
    """And those of every phase by itself; only for windows that begin where the profile does."""
    edges = np.arange(0, window.seconds, PHASE_S) + window.send_times_s[0]
    parts = []
    for edge_s in edges:
        inside = (window.send_times_s >= edge_s) & (window.send_times_s < edge_s + PHASE_S)
        parts.append(plain(Window(window.send_times_s[inside], window.rtts_ms[inside], PHASE_S), edge_s))
    return np.concatenate([plain(window, start_s), *parts])


def compare(passive: Sequence[DatasetRun], active: Sequence[DatasetRun], seeds: Sequence[int]) -> Iterator[ProfileResult]:
    """The ways of looking, each in FOLDS folds by recording, trained on overlapping windows and tested on others."""
    yield _validated("passive, 10 s", passive, Way(10.0, PHASE_S, plain), seeds)
    yield _validated("active, 10 s", active, Way(10.0, PHASE_S, plain), seeds)
    yield _validated("active, 10 s, phase known", active, Way(10.0, PHASE_S, with_phase), seeds)
    yield _validated("passive, 20 s", passive, Way(20.0, PHASE_S, plain), seeds)
    yield _validated("active, 20 s", active, Way(20.0, PHASE_S, plain), seeds)
    yield _validated("active, 20 s, by phase", active, Way(PROFILE_S, PROFILE_S, by_phase), seeds)


def _validated(name: str, runs: Sequence[DatasetRun], way: Way, seeds: Sequence[int]) -> ProfileResult:
    rows, truth, recording, tested = [], [], [], []
    for number, run in enumerate(runs):
        for index, window in enumerate(consecutive_windows(run.trace, way.seconds, way.hop_s)):
            start_s = index * way.hop_s
            if start_s + way.seconds > LONGEST_S:
                break
            rows.append(way.describe(window, start_s))
            truth.append(CLASSES.index(run.class_name))
            recording.append(number)
            tested.append(start_s % way.seconds == 0)
    features, classes, whole = np.stack(rows), np.array(truth, dtype=np.intp), np.array(tested)
    fold_of_row = _folds(runs)[np.array(recording)]
    f1, bbr = np.zeros((len(seeds), FOLDS)), np.zeros((len(seeds), FOLDS))
    for place, seed in enumerate(seeds):
        for fold in range(FOLDS):
            training, testing = fold_of_row != fold, (fold_of_row == fold) & whole
            fitted = boosting(seed).fit(features[training], classes[training])
            answers = np.asarray(fitted.predict_proba(features[testing]), dtype=np.float64)
            scores = Scores(answers, classes[testing], np.ones(int(testing.sum()), dtype=np.bool_))
            f1[place, fold], bbr[place, fold] = macro_f1(confusion(scores)), scores.any_bbr_right.mean()
    spread = [float(figure.mean(axis=0).std(ddof=1)) for figure in (f1, bbr)]
    return ProfileResult(name, int(whole.sum()), float(f1.mean()), spread[0], float(bbr.mean()), spread[1])


def _folds(runs: Sequence[DatasetRun]) -> npt.NDArray[np.intp]:
    """The fold of each run: recordings of one seed together, so that every fold has every class."""
    seen: dict[str, int] = {}
    folds = []
    for run in runs:
        folds.append(seen.get(run.class_name, 0) % FOLDS)
        seen[run.class_name] = seen.get(run.class_name, 0) + 1
    return np.array(folds, dtype=np.intp)
