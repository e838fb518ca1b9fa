"""Quantiles and lateness, without effects."""

from __future__ import annotations

import math
from collections.abc import Sequence

_QUANTILES = {"min": 0.0, "p05": 0.05, "p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}


def quantiles(values: Sequence[float]) -> dict[str, float] | None:
    """The nearest-rank quantiles that a manifest keeps; None without values."""
    if not values:
        return None
    ascending = sorted(values)
    return {name: round(ascending[max(0, math.ceil(share * len(ascending)) - 1)], 4) for name, share in _QUANTILES.items()}
