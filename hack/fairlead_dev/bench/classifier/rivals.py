"""The paper's classifiers on the product's own splits: trained on many paths as the product is, and 1-NN on the path that it works on."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from fairlead_advisor.assess.metrics import Scores, confusion, macro_f1
from fairlead_advisor.models.answer import CLASSES
from fairlead_advisor.train.data import TRAIN, Dataset, DatasetRun
from fairlead_dev.bench.classifier.baselines import LEARNERS, WARP, learnt_answers
from fairlead_dev.bench.classifier.dtw import neighbours, vote
from fairlead_dev.bench.classifier.sampling import Samples, windows
from fairlead_dev.bench.intervals import interval_95

WINDOW_S = 10
SPLITS = ("test_seeds", "test_paths", "test_kinds")
NEAREST, NEAREST_OWN, NEAREST_BOTH = "1-NN DTW", "1-NN DTW, its path alone", "1-NN DTW, its path and all others"
_HALVES = 2

Classes = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Answers:
    """What a classifier said of windows: the true and the answered class and the path of each, shape (n,)."""

    truth: Classes
    said: Classes
    path: npt.NDArray[np.str_]

    @property
    def by_path(self) -> list[tuple[Classes, Classes]]:
        """(truth, said) of every path."""
        return [(self.truth[self.path == name], self.said[self.path == name]) for name in sorted(set(self.path.tolist()))]


@dataclass(frozen=True, slots=True)
class RivalResult:
    """A classifier on one split, with the middle 95 % over draws of its paths."""

    classifier: str
    split: str
    windows: int
    paths: int
    accuracy: float
    macro_f1: float
    any_bbr: float
    macro_f1_95: tuple[float, float] | None
    any_bbr_95: tuple[float, float] | None
    any_bbr_by_path: dict[str, float]


FIGURES: Mapping[str, Callable[[Scores], float | None]] = {
    "macro_f1": lambda scores: macro_f1(confusion(scores)),
    "any_bbr": lambda scores: float(scores.any_bbr_right.mean()),
}


def evaluate(dataset: Dataset, seed: int = 1) -> Iterator[RivalResult]:
    """Every rival on every split, windows of ten samples; nothing without runs to train on."""
    if not dataset.of_split(TRAIN):
        return
    for split in SPLITS:
        if not dataset.of_split(split):
            continue
        for name, answers in pooled(dataset, split, seed).items():
            yield result_of(name, split, answers)
        own, same = on_own_path(dataset, split)
        if len(own.truth):
            yield result_of(NEAREST_OWN, split, own)
            yield result_of(NEAREST_BOTH, split, same)


def pooled(dataset: Dataset, split: str, seed: int) -> dict[str, Answers]:
    """The paper's classifiers trained on all training runs, as the product is."""
    samples, is_test, path = _split(dataset, split)
    known, truth, asked = samples.queue_ms[~is_test], samples.truth[~is_test], samples.queue_ms[is_test]
    said = {NEAREST: _nearest(known, truth, asked)}
    said |= {name: learnt_answers(name, known, truth, asked, seed) for name in LEARNERS}
    return {name: Answers(samples.truth[is_test], answer, path[is_test]) for name, answer in said.items()}


def on_own_path(dataset: Dataset, split: str) -> tuple[Answers, Answers]:
    """1-NN trained on the path that it is asked about, and on the same windows the 1-NN that is trained on all other paths too.

    A known path's training runs are its own. Of an unseen path one half of the recordings of every class is learnt for the other half.
    Paths that lack a class to learn from are left out of both.
    """
    samples, is_test, path = _split(dataset, split)
    half = _halves(samples, is_test, path)
    rows: list[Classes] = []
    said: list[Classes] = []
    said_pooled: list[Classes] = []
    for name in sorted(set(path[is_test].tolist())):
        here = path == name
        for number in range(_HALVES):
            asked = here & is_test & (half == number)
            own = here & ~is_test
            learnt = own if own.any() else here & is_test & (half != number)
            if not asked.any() or len(set(samples.truth[learnt].tolist())) < len(set(samples.truth[here & is_test].tolist())):
                continue
            rows.append(np.flatnonzero(asked))
            for wanted, answers in ((learnt, said), (learnt | ~is_test, said_pooled)):
                answers.append(_nearest(samples.queue_ms[wanted], samples.truth[wanted], samples.queue_ms[asked]))
    index = np.concatenate([*rows, np.empty(0, dtype=np.intp)]).astype(np.intp)
    found = [np.concatenate([*answers, np.empty(0, dtype=np.intp)]).astype(np.intp) for answers in (said, said_pooled)]
    own_answers, pooled_answers = (Answers(samples.truth[index], answer, path[index]) for answer in found)
    return own_answers, pooled_answers


def result_of(name: str, split: str, answers: Answers) -> RivalResult:
    """The figures of some answers, with their intervals over paths."""
    whole = _scores([(answers.truth, answers.said)])
    by_path = answers.by_path
    values = {figure: of(whole) for figure, of in FIGURES.items()}
    bounds = {figure: interval_95(by_path, partial(_figure, of)) for figure, of in FIGURES.items()}
    return RivalResult(
        classifier=name,
        split=split,
        windows=len(answers.truth),
        paths=len(by_path),
        accuracy=float((answers.truth == answers.said).mean()),
        macro_f1=float(values["macro_f1"] or 0.0),
        any_bbr=float(values["any_bbr"] or 0.0),
        macro_f1_95=bounds["macro_f1"],
        any_bbr_95=bounds["any_bbr"],
        any_bbr_by_path={
            name: round(float(_scores([part]).any_bbr_right.mean()), 4)
            for name, part in zip(sorted(set(answers.path.tolist())), by_path, strict=True)
        },
    )


def _split(dataset: Dataset, split: str) -> tuple[Samples, npt.NDArray[np.bool_], npt.NDArray[np.str_]]:
    """Windows of the training runs and of a split, which of them are the split's, and their paths.

    Each path's floor is the least of all its recordings, those of the split too: the paper's classifiers know their path.
    """
    runs: list[DatasetRun] = [*dataset.of_split(TRAIN), *dataset.of_split(split)]
    samples = windows(runs, WINDOW_S)
    of_test = np.array([run.split == split for run in runs], dtype=np.bool_)
    paths = np.array([run.path for run in runs], dtype=np.str_)
    return samples, of_test[samples.recording], paths[samples.recording]


def _halves(samples: Samples, is_test: npt.NDArray[np.bool_], path: npt.NDArray[np.str_]) -> Classes:
    """The half, 0 or 1, that each window's recording belongs to: recordings of a path and class take turns."""
    half: dict[int, int] = {}
    counts: dict[tuple[str, int], int] = {}
    for row in np.flatnonzero(is_test).tolist():
        recording, kind = int(samples.recording[row]), (str(path[row]), int(samples.truth[row]))
        if recording not in half:
            half[recording] = counts.get(kind, 0) % _HALVES
            counts[kind] = counts.get(kind, 0) + 1
    return np.array([half.get(int(recording), 0) for recording in samples.recording], dtype=np.intp)


def _nearest(known: npt.NDArray[np.float64], truth: Classes, asked: npt.NDArray[np.float64]) -> Classes:
    return vote(neighbours(known, asked, WARP, 1), truth, 1, len(CLASSES))


def _figure(of: Callable[[Scores], float | None], parts: Sequence[tuple[Classes, Classes]]) -> float | None:
    return of(_scores(parts))


def _scores(parts: Sequence[tuple[Classes, Classes]]) -> Scores:
    truth, said = (np.concatenate(column) for column in zip(*parts, strict=True))
    certain: Any = np.eye(len(CLASSES))
    return Scores(certain[said], truth, np.ones(len(truth), dtype=np.bool_))
