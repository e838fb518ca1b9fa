"""The paper's classifiers in 5-fold cross-validation by recording.

The paper cuts one recording of each class into windows and holds out windows, so that a model may learn the recording. Here a recording
is on one side only, which is harder.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedGroupKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from fairlead_advisor.models.answer import CLASSES, HAS_BBR
from fairlead_advisor.train.data import DatasetRun
from fairlead_dev.bench.classifier.dtw import neighbours, vote
from fairlead_dev.bench.classifier.sampling import Samples, windows

WINDOWS_S = tuple(range(5, 65, 5))
NEIGHBOURS = (1, 3, 5, 10)
WARP = 10
FOLDS = 5

_BBR = np.array(HAS_BBR)


@dataclass(frozen=True, slots=True)
class BaselineResult:
    """One classifier at one window length: mean accuracy over the folds, of the six classes and of *any BBR*."""

    classifier: str
    probing: str
    window_s: int
    windows: int
    accuracy: float
    any_bbr_accuracy: float


def evaluate(runs: Sequence[DatasetRun], probing: str, seed: int = 1) -> Iterator[BaselineResult]:
    """All classifiers at all window lengths that five recordings of each class give enough windows for."""
    for seconds in WINDOWS_S:
        samples = windows(runs, seconds)
        recordings = {(int(truth), int(recording)) for truth, recording in zip(samples.truth, samples.recording, strict=True)}
        if min(sum(truth == number for truth, _ in recordings) for number in range(len(CLASSES))) < FOLDS:
            continue
        answers = _cross_validated(samples, seed)
        for name, folds in answers.items():
            right = [float(np.mean(said == true)) for said, true in folds]
            bbr = [float(np.mean(_BBR[said] == _BBR[true])) for said, true in folds]
            yield BaselineResult(name, probing, seconds, len(samples.truth), float(np.mean(right)), float(np.mean(bbr)))


def _cross_validated(samples: Samples, seed: int) -> dict[str, list[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]]]:
    answers: dict[str, list[tuple[Any, Any]]] = {}
    folds = StratifiedGroupKFold(FOLDS, shuffle=True, random_state=seed)
    for training, testing in folds.split(samples.queue_ms, samples.truth, samples.recording):
        known, asked, truth = samples.queue_ms[training], samples.queue_ms[testing], samples.truth[testing]
        nearest = neighbours(known, asked, WARP, max(NEIGHBOURS))
        for count in NEIGHBOURS:
            said = vote(nearest, samples.truth[training], count, len(CLASSES))
            answers.setdefault(f"{count}-NN DTW", []).append((said, truth))
        for name in LEARNERS:
            said = learnt_answers(name, known, samples.truth[training], asked, seed)
            answers.setdefault(name, []).append((said, truth))
    return answers


def learnt_answers(
    name: str, known: npt.NDArray[np.float64], truth: npt.NDArray[np.intp], asked: npt.NDArray[np.float64], seed: int
) -> npt.NDArray[np.intp]:
    """What the learner of that name, fitted on `known` windows, says of the `asked` ones."""
    with warnings.catch_warnings():
        # The bound on its epochs ends some fits; it is a setting of the rival's, not a fault.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return np.asarray(LEARNERS[name](seed).fit(known, truth).predict(asked), dtype=np.intp)


# What the paper leaves open is scikit-learn's default, but for the scale of the input: unscaled milliseconds saturate an RBF.
LEARNERS: dict[str, Callable[[int], Any]] = {
    "MLP 2x64": lambda seed: make_pipeline(StandardScaler(), MLPClassifier((64, 64), max_iter=300, random_state=seed)),
    # On one path a tenth of the windows is some thirty: they end the training long before anything is learnt.
    "MLP 2x64, stopped early": lambda seed: make_pipeline(
        StandardScaler(), MLPClassifier((64, 64), max_iter=300, early_stopping=True, n_iter_no_change=15, random_state=seed)
    ),
    "SVM RBF": lambda _seed: make_pipeline(StandardScaler(), SVC(C=1.0, kernel="rbf", gamma="scale")),
    "Gaussian NB": lambda _seed: GaussianNB(var_smoothing=1e-9),
}
