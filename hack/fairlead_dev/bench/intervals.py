"""Intervals of figures by resampling whole paths: what another draw of paths of the same kind might have given. Pure."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

DRAWS = 2000
LEVEL = 0.95
_FEWEST = 2
"""One path says nothing of how paths differ."""

Group = TypeVar("Group")


def interval_95(
    groups: Sequence[Group], figure: Callable[[Sequence[Group]], float | None], *, draws: int = DRAWS, seed: int = 1
) -> tuple[float, float] | None:
    """Where the middle 95 % of `figure` lie over as many groups drawn with replacement; the same seed gives the same bounds.

    A group is all that one path has given: windows or runs of a path are alike, and no further evidence of other paths. None with fewer
    than two groups, or where most draws have no figure.
    """
    return intervals_95(groups, lambda drawn: {"": figure(drawn)}, draws=draws, seed=seed).get("")


def intervals_95(
    groups: Sequence[Group], figures: Callable[[Sequence[Group]], Mapping[str, float | None]], *, draws: int = DRAWS, seed: int = 1
) -> dict[str, tuple[float, float] | None]:
    """The same of several figures by their names, from the same draws; empty with fewer than two groups."""
    if len(groups) < _FEWEST:
        return {}
    chance = random.Random(seed)
    drawn = [figures(chance.choices(groups, k=len(groups))) for _ in range(draws)]
    return {name: _middle([value for one in drawn if (value := one[name]) is not None], draws) for name in drawn[0]}


def _middle(values: list[float], draws: int) -> tuple[float, float] | None:
    if len(values) * 2 < draws:
        return None
    values.sort()
    outside = (1 - LEVEL) / 2
    return values[round(outside * (len(values) - 1))], values[round((1 - outside) * (len(values) - 1))]


def rounded_interval(bounds: tuple[float, float] | None, digits: int = 4) -> list[float] | None:
    """The bounds as a row of a written file has them."""
    return None if bounds is None else [round(bound, digits) for bound in bounds]
