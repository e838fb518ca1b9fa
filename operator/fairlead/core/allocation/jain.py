"""Jain's index of fairness."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fairlead.core.allocation.waterfill import Floats, Indices, totals


def jain_index(values: npt.ArrayLike) -> float | None:
    """(Σx)² / (n·Σx²) [Jain 1984]: 1 if all are equal, 1/n if one has everything; None for no values or only zeros."""
    array = np.asarray(values, dtype=np.float64)
    largest = array.max(initial=0.0)
    if largest <= 0.0:
        return None
    scaled = array / largest
    return float(scaled.sum() ** 2 / (len(scaled) * np.square(scaled).sum()))


def grouped_jain_index(group: Indices, values: Floats, groups: int) -> list[float | None]:
    """Jain's index of each group's values."""
    largest = np.zeros(groups)
    np.maximum.at(largest, group, values)
    scaled = values / np.where(largest > 0.0, largest, 1.0)[group]
    total, squares = totals(group, scaled, groups), totals(group, np.square(scaled), groups)
    count = np.bincount(group, minlength=groups)
    index = np.divide(np.square(total), count * squares, out=np.zeros(groups), where=largest > 0.0)
    return [value if present else None for value, present in zip(index.tolist(), (largest > 0.0).tolist(), strict=True)]
