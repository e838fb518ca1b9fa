"""Nearest neighbours under dynamic time warping [Anvari 2021, section 5.4]: local cost |a - b|, a band of `radius` samples [Sakoe 1978]."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

# Pairs that are warped at once: the cells of all of them are one array operation, and memory stays small.
_BLOCK = 200_000


def distances(first: Floats, second: Floats, radius: int) -> Floats:
    """The warped distance of each row of `first` (n, w) to the row of `second` (n, v) beside it, shape (n,)."""
    rows, columns = first.shape[1], second.shape[1]
    reach = max(radius, abs(rows - columns))
    previous = np.full((columns + 1, len(first)), np.inf)
    previous[0] = 0.0
    # Columns come first in memory, so that every cell is one contiguous vector over all pairs.
    left, right = np.ascontiguousarray(first.T), np.ascontiguousarray(second.T)
    for row in range(1, rows + 1):
        current = np.full((columns + 1, len(first)), np.inf)
        for column in range(max(1, row - reach), min(columns, row + reach) + 1):
            best = np.minimum(np.minimum(previous[column], previous[column - 1]), current[column - 1])
            current[column] = best + np.abs(left[row - 1] - right[column - 1])
        previous = current
    return np.asarray(previous[columns])


def neighbours(training: Floats, testing: Floats, radius: int, count: int) -> npt.NDArray[np.intp]:
    """The `count` nearest rows of `training` (m, w) for each of `testing` (n, w), shape (n, count).

    The nearest comes first, on a tie the lower number.
    """
    per_block = max(1, _BLOCK // len(training))
    chosen = []
    for start in range(0, len(testing), per_block):
        part = testing[start : start + per_block]
        apart = distances(np.repeat(part, len(training), axis=0), np.tile(training, (len(part), 1)), radius)
        chosen.append(np.argsort(apart.reshape(len(part), len(training)), axis=1, kind="stable")[:, :count])
    return np.concatenate(chosen)


def vote(nearest: npt.NDArray[np.intp], truth: npt.NDArray[np.intp], count: int, classes: int) -> npt.NDArray[np.intp]:
    """The most frequent class among the first `count` of `nearest` (n, k); of equally frequent ones that of the nearest of them."""
    found = truth[nearest[:, :count]]
    counts = np.stack([(found == number).sum(axis=1) for number in range(classes)], axis=1)
    best = counts.max(axis=1, keepdims=True)
    is_best = np.take_along_axis(counts == best, found, axis=1)
    return np.asarray(np.take_along_axis(found, is_best.argmax(axis=1)[:, None], axis=1)[:, 0])
