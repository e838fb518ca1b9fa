"""Intervals by resampling paths."""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import fmean

import pytest

from fairlead_dev.bench.intervals import interval_95, rounded_interval


def test_the_interval_covers_the_true_mean_about_as_often_as_it_says() -> None:
    chance = random.Random(7)
    covered = 0
    for _ in range(200):
        bounds = interval_95([chance.gauss(10, 3) for _ in range(30)], fmean, draws=300)
        assert bounds is not None
        covered += bounds[0] <= 10 <= bounds[1]
    assert 180 <= covered <= 198


def test_what_one_path_repeats_makes_no_interval_narrower() -> None:
    def of_all(drawn: Sequence[Sequence[float]]) -> float:
        return fmean(value for values in drawn for value in values)

    paths = [0.2, 0.5, 0.9, 1.0]
    once = interval_95([[value] for value in paths], of_all)
    assert once == pytest.approx(interval_95([[value] * 50 for value in paths], of_all))
    assert once is not None and once[0] < 0.5 < once[1]


def test_the_worst_of_some_paths_is_no_better_than_the_worst_of_all() -> None:
    assert interval_95([0.5, 0.8, 0.9, 1.0], min, draws=500) == (0.5, pytest.approx(0.9, abs=0.11))


def test_one_path_or_a_figure_that_most_draws_lack_has_no_interval() -> None:
    assert interval_95([1.0], fmean) is None
    assert interval_95([1.0, 2.0, 3.0], lambda drawn: 1.0 if drawn == [1.0, 1.0, 1.0] else None) is None


def test_bounds_are_written_with_four_digits() -> None:
    assert rounded_interval((0.123456, 1 / 3)) == [0.1235, 0.3333]
    assert rounded_interval(None) is None
