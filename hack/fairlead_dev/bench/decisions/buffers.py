"""Own share of a path as a function of its buffer, fitted to the rows of a matrix with its uncertainty. Pure.

Prints the fit of a committed matrix: python -m fairlead_dev.bench.decisions.buffers FILE.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlead_dev.bench.intervals import intervals_95

AT_BDP = (0.25, 1.0, 3.0)
_LEAST_SHARE = 0.001
CASES = (("B1-C0", "cubic"), ("B1-B1", "cubic"), ("B1-C1", "cubic"), ("B0-C1", "bbr"))
"""The wrong choice by the rule, which a deep buffer may make the right one."""


@dataclass(frozen=True, slots=True)
class SharePoint:
    """What one path showed: its buffer in BDP and the share that a transfer had there."""

    path_id: str
    buffer_bdp: float
    share: float


@dataclass(frozen=True, slots=True)
class ShareFit:
    """A logistic line over the logarithm of the buffer: the share at each of AT_BDP, with the middle 95 % over draws of the paths."""

    points: tuple[SharePoint, ...]
    shares: Mapping[float, float]
    intervals: Mapping[float, tuple[float, float] | None]

    @property
    def deep(self) -> int:
        """How many paths have more than one BDP."""
        return sum(point.buffer_bdp > 1 for point in self.points)


def points_of(rows: Sequence[Mapping[str, Any]], background: str, policy: str) -> tuple[SharePoint, ...]:
    """The paths of a matrix on which that choice was measured beside that background."""
    runs = {str(row["name"]): row for row in rows}
    found = []
    for path_id, path in runs["about"]["paths"].items():
        row = runs.get(f"run_{path_id}_{background}_{policy}")
        if row is not None:
            carried = row["value"] + math.fsum(row["background_mbps"])
            found.append(SharePoint(path_id, path["queue_ms"] / path["rtt_ms"], row["value"] / carried))
    return tuple(found)


def fit(points: Sequence[SharePoint]) -> ShareFit:
    """The line through the points. ValueError if all buffers are alike."""
    shares = _shares(points)
    if any(value is None for value in shares.values()):
        raise ValueError("all paths have the same buffer: a function of it cannot be fitted")
    bounds = intervals_95(points, _shares)
    return ShareFit(
        tuple(points),
        {bdp: float(shares[str(bdp)] or 0.0) for bdp in AT_BDP},
        {bdp: bounds.get(str(bdp)) for bdp in AT_BDP},
    )


def _shares(points: Sequence[SharePoint]) -> dict[str, float | None]:
    line = _line([math.log(point.buffer_bdp) for point in points], [_logit(point.share) for point in points])
    return {str(bdp): None if line is None else 1 / (1 + math.exp(-(line[0] * math.log(bdp) + line[1]))) for bdp in AT_BDP}


def _line(places: Sequence[float], values: Sequence[float]) -> tuple[float, float] | None:
    """Slope and intercept by least squares; None where all places are the same."""
    mean_place, mean_value = math.fsum(places) / len(places), math.fsum(values) / len(values)
    spread = math.fsum((place - mean_place) ** 2 for place in places)
    if spread < 1e-9:
        return None
    slope = math.fsum((place - mean_place) * (value - mean_value) for place, value in zip(places, values, strict=True)) / spread
    return slope, mean_value - slope * mean_place


def _logit(share: float) -> float:
    bounded = min(max(share, _LEAST_SHARE), 1 - _LEAST_SHARE)
    return math.log(bounded / (1 - bounded))


def cells(found: ShareFit) -> list[str]:
    """The shares as the page has them."""
    shown = []
    for bdp in AT_BDP:
        bounds = found.intervals[bdp]
        shown.append(f"{found.shares[bdp]:.2f}" + ("" if bounds is None else f" ({bounds[0]:.2f}-{bounds[1]:.2f})"))
    return shown


def main(file: Path) -> int:
    """Prints every case of a written matrix."""
    rows = json.loads(file.read_text(encoding="utf-8"))
    for background, policy in CASES:
        found = fit(points_of(rows, background, policy))
        print(f"{policy} beside {background}, {len(found.points)} paths, {found.deep} of more than 1 BDP: {', '.join(cells(found))}")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
