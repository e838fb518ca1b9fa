"""Keeps what belongs together on one side of a split: a path, or a run where there are too few paths."""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from fairlead_advisor.errors import DataError
from fairlead_advisor.train.data import DatasetRun

FOLDS = 10
_FEWEST_PATHS = 5


def groups_of(runs: Sequence[DatasetRun]) -> tuple[list[str], str]:
    """The group of each run, and what the groups are: `path`, or `run` if there are fewer than five paths."""
    if len({run.path for run in runs}) >= _FEWEST_PATHS:
        return [run.path for run in runs], "path"
    names = [run.recording for run in runs]
    if len(set(names)) < _FEWEST_PATHS:
        raise DataError(f"only {len(set(names))} run(s) to train on, at least {_FEWEST_PATHS} are needed: record more")
    return names, "run"


def folds(groups: Sequence[str], count: int, seed: int) -> Iterator[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]]:
    """Pairs of row numbers to train and to test on: every group is tested once, in `count` folds of shuffled whole groups."""
    names = sorted(set(groups))
    shuffled = np.random.default_rng(seed).permutation(len(names))
    fold_of = {names[name]: place % min(count, len(names)) for place, name in enumerate(shuffled)}
    rows = np.array([fold_of[group] for group in groups], dtype=np.intp)
    for fold in range(min(count, len(names))):
        yield np.flatnonzero(rows != fold), np.flatnonzero(rows == fold)
