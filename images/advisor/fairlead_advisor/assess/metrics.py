"""Figures of merit from probabilities and true classes: pure functions of arrays."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairlead_advisor.models.answer import CLASSES, HAS_BBR, WindowAnswer

_BINS = 10
_BBR = np.array(HAS_BBR)


@dataclass(frozen=True, slots=True)
class Scores:
    """`truth` and the answers of one set of windows.

    probabilities: shape (n, 6). truth: class numbers, shape (n,). relied_on: where the classifier did not abstain, shape (n,).
    """

    probabilities: npt.NDArray[np.float64]
    truth: npt.NDArray[np.intp]
    relied_on: npt.NDArray[np.bool_]

    @property
    def predicted(self) -> npt.NDArray[np.intp]:
        """The most probable class of each window."""
        return np.asarray(self.probabilities.argmax(axis=1))

    @property
    def any_bbr(self) -> npt.NDArray[np.float64]:
        """The probability of any BBR flow in each window."""
        return np.asarray(self.probabilities[:, _BBR].sum(axis=1))

    @property
    def any_bbr_right(self) -> npt.NDArray[np.bool_]:
        """Where *is there any BBR?* is answered rightly."""
        return (self.any_bbr > 0.5) == _BBR[self.truth]  # type: ignore[no-any-return]


def scores_of_answers(answers: Sequence[WindowAnswer], truth: npt.NDArray[np.intp]) -> Scores:
    """`answers` to windows whose class numbers are `truth`, shape (n,)."""
    return Scores(
        probabilities=np.array([[answer.probabilities[name] for name in CLASSES] for answer in answers], dtype=np.float64),
        truth=truth,
        relied_on=np.array([answer.abstention is None for answer in answers], dtype=np.bool_),
    )


def report(scores: Scores) -> dict[str, object]:
    """The figures as JSON: what has no value (no window of a class, none relied on) is null."""
    right = scores.predicted == scores.truth
    confused = confusion(scores)
    return {
        "accuracy": _mean(right),
        "macro_f1": macro_f1(confused),
        "any_bbr_accuracy": _mean(scores.any_bbr_right),
        "coverage": _mean(scores.relied_on),
        "accuracy_when_confident": _mean(right[scores.relied_on]),
        "any_bbr_accuracy_when_confident": _mean(scores.any_bbr_right[scores.relied_on]),
        "any_bbr_accuracy_at_80_percent": any_bbr_at_coverage(scores, 0.8),
        "expected_calibration_error": calibration_error(scores.probabilities.max(axis=1), right),
        "any_bbr_calibration_error": calibration_error(np.maximum(scores.any_bbr, 1 - scores.any_bbr), scores.any_bbr_right),
        "per_class": {name: _of_class(confused, number) for number, name in enumerate(CLASSES)},
        "confusion": confused.tolist(),
    }


def confusion(scores: Scores) -> npt.NDArray[np.int64]:
    """Counts of windows, shape (6, 6): a row a true class, a column a predicted one."""
    counts = np.zeros((len(CLASSES), len(CLASSES)), dtype=np.int64)
    np.add.at(counts, (scores.truth, scores.predicted), 1)
    return counts


def macro_f1(confused: npt.NDArray[np.int64]) -> float | None:
    """The mean F1 over the classes that occur in the truth; None without any window."""
    values = [f1 for number in range(len(CLASSES)) if (f1 := _of_class(confused, number)["f1"]) is not None]
    return float(np.mean(values)) if values else None


def any_bbr_at_coverage(scores: Scores, coverage: float) -> float | None:
    """Accuracy of *any BBR* on the `coverage` of windows with the surest answers, whatever the model's own limits are."""
    count = round(coverage * len(scores.truth))
    surest = np.argsort(-np.abs(scores.any_bbr - 0.5), kind="stable")[:count]
    return _mean(scores.any_bbr_right[surest])


def calibration_error(confidence: npt.NDArray[np.float64], right: npt.NDArray[np.bool_]) -> float | None:
    """Expected calibration error over ten bins of equal width [Guo 2017, eq. 3]."""
    if not len(right):
        return None
    bins = np.minimum((confidence * _BINS).astype(np.intp), _BINS - 1)
    counts = np.bincount(bins, minlength=_BINS)
    gaps = np.abs(np.bincount(bins, confidence, _BINS) - np.bincount(bins, right, _BINS))
    return float(gaps.sum() / counts.sum())


def _of_class(confused: npt.NDArray[np.int64], number: int) -> dict[str, float | int | None]:
    hits, support, said = int(confused[number, number]), int(confused[number].sum()), int(confused[:, number].sum())
    return {
        "precision": hits / said if said else None,
        "recall": hits / support if support else None,
        "f1": 2 * hits / (support + said) if support else None,
        "support": support,
    }


def _mean(flags: npt.NDArray[np.bool_]) -> float | None:
    return float(flags.mean()) if len(flags) else None
