"""Chooses among the candidates on groups held out, calibrates what was chosen, and fits it on everything."""

import itertools
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from fairlead_advisor.assess.metrics import Scores, report
from fairlead_advisor.errors import DataError
from fairlead_advisor.models.answer import CLASSES
from fairlead_advisor.train.candidates import CANDIDATES, Candidates, blend
from fairlead_advisor.train.novelty import Novelty, fit_novelty
from fairlead_advisor.train.processes import spread
from fairlead_advisor.train.validation import FOLDS, folds
from fairlead_advisor.train.windows import Table

Floats = npt.NDArray[np.float64]

# Windows of this length (s) choose the model and calibrate it; the others are there so that it also answers for them.
REFERENCE_WINDOW_S = 10.0

_WEIGHT_STEPS = 4
_TARGET_ACCURACY = 0.97
_LOWEST_CONFIDENCE = 0.6
_HIGHEST_CONFIDENCE = 0.95
_NOVELTY_QUANTILE = 0.99
_WEIGHT_RANGE = (0.2, 5.0)


@dataclass(frozen=True, slots=True)
class Fitted:
    """A blend of fitted candidates with its calibration, its limits, and what the validation showed."""

    estimators: Mapping[str, Any]
    weights: Mapping[str, float]
    temperature: float
    novelty: Novelty
    minimum_confidence: float
    maximum_novelty: float
    validation: dict[str, object]

    def predict(self, features: npt.NDArray[np.float32]) -> tuple[Floats, Floats]:
        """Probabilities (n, 6) and novelty (n,) for features (n, f): what the exported model must reproduce."""
        parts = {name: _probabilities(estimator, features) for name, estimator in self.estimators.items()}
        return blend(parts, self.weights, self.temperature), self.novelty.score(features)


def fit(
    table: Table, groups: Sequence[str], seed: int, tell: Callable[[str], None], candidates: Candidates = CANDIDATES, *, jobs: int = 1
) -> Fitted:
    """Fits on all rows of `table`, whose `groups` (one a row) are never on both sides of a validation, in `jobs` processes.

    Raises DataError if a class is missing or there is no window of the reference length.
    """
    absent = [name for number, name in enumerate(CLASSES) if not (table.truth == number).any()]
    if absent:
        raise DataError(f"no usable window of the class(es) {', '.join(absent)}: record every class, also the idle path B0-C0")
    judged = np.flatnonzero(table.seconds == REFERENCE_WINDOW_S)
    if not len(judged):
        raise DataError(f"no usable window of {REFERENCE_WINDOW_S:g} s: record longer traces")
    held_out, novelty_held_out = _held_out(table, groups, seed, tell, candidates, jobs=jobs)
    truth = table.truth[judged]
    parts = {name: rows[judged] for name, rows in held_out.items()}
    weights, temperature = _choose(parts, truth)
    chosen = blend(parts, weights, temperature)
    maximum_novelty = float(np.quantile(novelty_held_out[judged], _NOVELTY_QUANTILE))
    minimum_confidence = _confidence_limit(Scores(chosen, truth, np.ones(len(truth), dtype=np.bool_)))
    any_bbr = Scores(chosen, truth, np.ones(len(truth), dtype=np.bool_)).any_bbr
    relied_on = (np.maximum(any_bbr, 1 - any_bbr) >= minimum_confidence) & (novelty_held_out[judged] <= maximum_novelty)
    validation: dict[str, object] = {name: report(Scores(rows, truth, np.ones(len(truth), dtype=np.bool_))) for name, rows in parts.items()}
    validation["chosen"] = report(Scores(chosen, truth, relied_on))
    tell(f"chosen: {', '.join(f'{name} {weight:g}' for name, weight in weights.items())}, temperature {temperature:.3f}")
    row_weights = balance(table, groups)
    estimators = {}
    for name in weights:
        tell(f"fitting {name} on all {len(table)} windows")
        estimators[name] = _fit_one(candidates[name](seed), table, row_weights)
    return Fitted(
        estimators=estimators,
        weights=weights,
        temperature=temperature,
        novelty=fit_novelty(table.features, table.truth),
        minimum_confidence=minimum_confidence,
        maximum_novelty=maximum_novelty,
        validation=validation,
    )


def balance(table: Table, groups: Sequence[str]) -> Floats:
    """Row weights of mean 1 that give every class of every group the same weight, however long it was recorded."""
    keys = np.unique(np.array([f"{group}\0{truth}" for group, truth in zip(groups, table.truth, strict=True)]), return_inverse=True)[1]
    weights = 1.0 / np.bincount(keys)[keys]
    return np.asarray(np.clip(weights / weights.mean(), *_WEIGHT_RANGE))


@dataclass(frozen=True, slots=True)
class _Part:
    """A candidate that is fitted on some rows and asked about others."""

    fold: int
    candidate: str
    training: npt.NDArray[np.intp]
    testing: npt.NDArray[np.intp]

    def __str__(self) -> str:
        return f"validation {self.fold}: {self.candidate} on {len(self.training)} windows, tested on {len(self.testing)}"


def _held_out(
    table: Table, groups: Sequence[str], seed: int, tell: Callable[[str], None], candidates: Candidates, *, jobs: int
) -> tuple[dict[str, Floats], Floats]:
    """Every row's probabilities by each candidate, and its novelty, from fits that never saw its group."""
    probabilities = {name: np.zeros((len(table), len(CLASSES))) for name in candidates}
    novelty = np.zeros(len(table))
    splits = list(folds(groups, FOLDS, seed))
    for training, _ in splits:
        absent = sorted(set(range(len(CLASSES))) - set(table.truth[training].tolist()))
        if absent:
            names = ", ".join(CLASSES[number] for number in absent)
            raise DataError(f"the class(es) {names} were recorded on too few paths to hold any out: record every class on several paths")
    parts = [_Part(number, name, *split) for number, split in enumerate(splits, start=1) for name in candidates]
    tasks = [(part, candidates[part.candidate], table, groups, seed) for part in parts]
    for part, found in zip(parts, spread(_answer_held_out, tasks, jobs), strict=True):
        tell(str(part))
        probabilities[part.candidate][part.testing] = found
    for training, testing in splits:
        known = table.where(training)
        novelty[testing] = fit_novelty(known.features, known.truth).score(table.features[testing])
    return probabilities, novelty


def _answer_held_out(task: tuple[_Part, Callable[[int], Any], Table, Sequence[str], int]) -> Floats:
    part, candidate, table, groups, seed = task
    known = table.where(part.training)
    fitted = _fit_one(candidate(seed), known, balance(known, [groups[row] for row in part.training]))
    return _probabilities(fitted, table.features[part.testing])


def _fit_one(estimator: Any, table: Table, row_weights: Floats) -> Any:
    last = f"{estimator.steps[-1][0]}__sample_weight" if hasattr(estimator, "steps") else "sample_weight"
    # One thread: the sums of a fit then have one order, and a model is the same bit for bit on machines of any number of cores.
    with threadpool_limits(1), warnings.catch_warnings():
        # The network's number of epochs is chosen to stop early, so that it does not learn paths by heart.
        warnings.simplefilter("ignore", ConvergenceWarning)
        estimator.fit(table.features, table.truth, **{last: row_weights})
    return estimator


def _probabilities(estimator: Any, features: npt.NDArray[np.float32]) -> Floats:
    return np.asarray(estimator.predict_proba(features), dtype=np.float64)


def _choose(parts: Mapping[str, Floats], truth: npt.NDArray[np.intp]) -> tuple[dict[str, float], float]:
    """The weights, in quarters, and the temperature with the least log loss."""
    names = list(parts)
    best: tuple[float, dict[str, float], float] | None = None
    for steps in itertools.product(range(_WEIGHT_STEPS + 1), repeat=len(names)):
        if sum(steps) != _WEIGHT_STEPS:
            continue
        weights = {name: step / _WEIGHT_STEPS for name, step in zip(names, steps, strict=True) if step}
        found = minimize_scalar(lambda log: _loss(parts, weights, float(np.exp(log)), truth), bounds=(-1.5, 1.5), method="bounded")  # noqa: B023
        if best is None or found.fun < best[0]:
            best = (float(found.fun), weights, float(np.exp(found.x)))
    assert best is not None
    return best[1], best[2]


def _loss(parts: Mapping[str, Floats], weights: Mapping[str, float], temperature: float, truth: npt.NDArray[np.intp]) -> float:
    right = blend(parts, weights, temperature)[np.arange(len(truth)), truth]
    return float(-np.mean(np.log(np.maximum(right, 1e-12))))


def _confidence_limit(scores: Scores) -> float:
    """The lowest confidence from which on *any BBR* was answered well enough on held-out groups."""
    confidence = np.maximum(scores.any_bbr, 1 - scores.any_bbr)
    for limit in np.arange(_LOWEST_CONFIDENCE, _HIGHEST_CONFIDENCE + 1e-9, 0.01):
        sure = confidence >= limit
        if sure.any() and scores.any_bbr_right[sure].mean() >= _TARGET_ACCURACY:
            return float(round(limit, 2))
    return _HIGHEST_CONFIDENCE
